// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/farm.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "tuner/workers/notes.h"
#include "tuner/workers/worker_pool.h"

namespace tw::tuner {
namespace {

// Resources of members. Every measurement holds the resource "device" of its member, so a member
// measures one kernel at a time.
constexpr const char* device_token = "device";
constexpr const char* build_token = "build";
constexpr std::string_view device_prefix = "device:", version_prefix = "version:";

// Seconds that a job may take in addition to its own limit. `start_s` is for starting the workers
// of the member, and `turn_s` for waiting until the device is free.
constexpr double start_s = 30, turn_s = 60;
// The same limits as in worker_pool.cpp.
constexpr double least_prepare_s = 30, timeouts_per_prepare = 10, timeouts_per_farm_build = 6;
constexpr int64_t kernels_per_peak = 32;

// Seconds that a reply may take beyond the limit of its job, because the job may wait for jobs of
// other runs on the same device. If a reply takes longer, the farm is lost.
constexpr double queue_patience_s = 600;

double prepare_s(double timeout_s) { return least_prepare_s + timeouts_per_prepare * timeout_s; }

std::string labels_of(const std::vector<FarmMember>& members) {
  std::set<std::string> labels;
  for (const FarmMember& member : members)
    for (const std::string& resource : member.resources)
      if (resource != device_token && resource != build_token &&
          !resource.starts_with(device_prefix) && !resource.starts_with(version_prefix))
        labels.insert(resource);
  return labels.empty() ? "no labels" : join({labels.begin(), labels.end()}, ", ");
}

/// Returns the members whose program has the version of this program. The others are left out with
/// a note. Fails with Environment if only members of other versions are there.
Result<std::vector<FarmMember>> members_of_version(const std::vector<FarmMember>& members,
                                                   Notes* notes) {
  std::vector<FarmMember> same;
  std::string other;
  for (const FarmMember& member : members) {
    if (member.has(version_resource())) {
      same.push_back(member);
      continue;
    }
    const auto named = std::ranges::find_if(member.resources, [](const std::string& resource) {
      return resource.starts_with(version_prefix);
    });
    other =
        fmt::format("{} speaks version {}, and this program {}: install the same program on both",
                    member.address,
                    named == member.resources.end() ? "1" : named->substr(version_prefix.size()),
                    farm_version());
    note(notes, NoteKind::OtherVersion, other);
  }
  if (same.empty() && !other.empty())
    return fail(ErrorCode::Environment, "[farm] no member is of this version: " + other);
  return same;
}

/// Returns the resource of the device that all measuring members with the label have. Fails with
/// TryLater if there is no such member, and with Usage if these members have different devices.
Result<std::string> chosen_device(const std::vector<FarmMember>& members,
                                  const std::string& label) {
  std::set<std::string> devices;
  for (const FarmMember& member : members) {
    if (!member.has(device_token) || (!label.empty() && !member.has(label))) continue;
    for (const std::string& resource : member.resources)
      if (resource.starts_with(device_prefix)) devices.insert(resource);
  }
  if (devices.size() == 1) return *devices.begin();
  if (devices.empty())
    return fail(ErrorCode::TryLater,
                fmt::format("[farm] none of {} members measures{}; they have {}: start one with "
                            "`tilewright worker --join ADDRESS{}`",
                            members.size(), label.empty() ? "" : " with the label " + label,
                            labels_of(members), label.empty() ? "" : " --labels " + label));
  return fail(
      ErrorCode::Usage,
      fmt::format("[farm] members measure on {} different devices{}, and a run on one kind: "
                  "choose by --label; they have {}",
                  devices.size(), label.empty() ? "" : " with the label " + label,
                  labels_of(members)));
}

/// Returns the fault of a job whose reply does not decode.
FarmFault garbled(const std::string& member, const Error& why) {
  return {fmt::format("a member at {}: {}", member, why.message), true};
}

/// Returns the code of the error that reports this fault.
ErrorCode code_of(const FarmFault& fault) {
  return fault.is_garbled ? ErrorCode::TryLater : ErrorCode::Environment;
}

Result<FarmDescription> asked_description(FarmLink& link, const FarmOptions& options,
                                          const std::string& device, const Environment& environment,
                                          double timeout_s) {
  FarmJob job{.target = options.target, .timeout_s = timeout_s, .job = DescribeJob{}};
  const FarmTicket ticket{.resources = {device_token, device},
                          .limit_s = start_s + turn_s + 3 * timeout_s};
  TW_TRY(const uint64_t number, link.send(ticket, job));
  const Cancellation cancellation(environment.interrupts, environment.clock);
  TW_TRY(const auto reply,
         link.wait(number, cancellation.deadline(ticket.limit_s + queue_patience_s, Needed::No)));
  if (!reply) return fail(code_of(reply.error()), "[farm] " + reply.error().reason);
  if (reply->error) return tl::unexpected<Error>(*reply->error);
  auto description = decode_farm_description(reply->reply);
  if (!description)
    return fail(ErrorCode::TryLater, garbled(reply->member, description.error()).reason);
  return description;
}

}  // namespace

Result<Farm> open_farm(const FarmOptions& options, const Environment& environment,
                       double timeout_s) {
  Farm farm;
  TW_TRY(farm.link, FarmLink::open(options.client, environment));
  TW_TRY(const std::vector<FarmMember> members,
         members_of_version(farm.link->members(), environment.notes));
  TW_TRY(farm.device, chosen_device(members, options.label));
  TW_TRY(const FarmDescription description,
         asked_description(*farm.link, options, farm.device, environment, timeout_s));
  TW_TRY(farm.target, described_target(description));
  TW_TRY(farm.processor, parse_target(description.processor));
  const auto with = [&](const std::string& resource) {
    return static_cast<size_t>(std::ranges::count_if(
        members, [&](const FarmMember& member) { return member.has(resource); }));
  };
  farm.devices = with(farm.device);
  farm.builders = with(build_token);
  return farm;
}

Result<Workers> start_workers(const Farm& farm, int threads, const Environment& environment,
                              double timeout_s) {
  // A builder of this machine starts with its first job. So no builder starts here if members
  // build.
  TW_TRY(Workers here, start_builders_for(farm.target, farm.processor, environment, timeout_s));
  const auto busy = std::make_shared<BusyTime>();
  const FarmRun run{farm, threads,       timeout_s, environment.clock, *here.cancellation,
                    busy, here.artifacts};
  const std::shared_ptr<Builder> builder =
      farm.builders > 0 ? std::make_shared<FarmBuilder>(run) : here.builder;
  return Workers{here.artifacts, builder, std::make_shared<FarmRunner>(run), busy,
                 here.cancellation};
}

FarmJob FarmRun::job_of(Job job) const {
  return {.target = farm.target.to_string(),
          .processor = farm.processor.to_string(),
          .threads = threads,
          .timeout_s = timeout_s,
          .job = std::move(job)};
}

Result<tl::expected<FarmReply, FarmFault>> FarmRun::wait(uint64_t number, double limit_s,
                                                         int64_t started_ns, Needed needed) const {
  auto reply = farm.link->wait(number, cancellation.deadline(limit_s + queue_patience_s, needed));
  busy->add(started_ns, clock());
  return reply;
}

// ---- the builder ----------------------------------------------------------------------------

double FarmBuilder::limit_s(size_t kernels) const {
  // If a builder of the member dies, the member builds the kernels once more, one by one.
  return start_s + timeouts_per_farm_build * run_.timeout_s * static_cast<double>(kernels + 1);
}

Status FarmBuilder::begin(const BuildRequest& request) {
  Begun begun{.needed = request.needed, .started_ns = run_.clock()};
  const size_t members = std::min(run_.farm.builders, request.kernels.size());
  for (size_t member = 0, next = 0; member < members; ++member) {
    const size_t count = (request.kernels.size() - next) / (members - member);
    const auto first = request.kernels.begin() + static_cast<ptrdiff_t>(next);
    FarmJob job = run_.job_of(BuildJob{.target = "",  // not read: the FarmJob has the target
                                       .kernels = {first, first + static_cast<ptrdiff_t>(count)},
                                       .packs = request.packs});
    job.is_reference = request.is_reference;
    TW_TRY(Share share, hand_over(std::move(job)));
    begun.shares.push_back(std::move(share));
    next += count;
  }
  begun_.push_back(std::move(begun));
  return {};
}

std::vector<BuildOutcome> FarmBuilder::finish() {
  TW_CHECK(!begun_.empty(), "nothing was begun");
  const Begun begun = std::move(begun_.front());
  begun_.pop_front();
  std::vector<BuildOutcome> outcomes;
  for (const Share& share : begun.shares) {
    std::vector<BuildOutcome> built = finish(share, begun);
    std::ranges::move(built, std::back_inserter(outcomes));
  }
  return outcomes;
}

Result<FarmBuilder::Share> FarmBuilder::hand_over(FarmJob job) const {
  const size_t count = std::get<BuildJob>(job.job).kernels.size();
  // The farm may have builders of other versions, for runs of those versions.
  TW_TRY(const uint64_t number,
         run_.farm.link->send({.kind = build_token,
                               .resources = {build_token, version_resource()},
                               .limit_s = limit_s(count)},
                              job));
  return Share{number, count, std::move(job)};
}

/// Returns the outcomes of a share. If the share was lost with its member, another member builds it
/// once more. If the share is lost again, its kernels have the status Lost, for which they are not
/// blamed.
std::vector<BuildOutcome> FarmBuilder::finish(const Share& share, const Begun& begun) {
  auto outcomes = outcomes_of(share, begun);
  const bool is_stopped = run_.cancellation.token(begun.needed).is_stopped();
  if (!outcomes && !run_.farm.link->lost() && !is_stopped) {
    const auto again = hand_over(share.job);
    if (again) outcomes = outcomes_of(*again, begun);
  }
  if (outcomes) return std::move(*outcomes);
  BuildOutcome lost{"", db::TrialStatus::Lost, "the builder: " + outcomes.error().message};
  lost.blameless = true;
  return std::vector<BuildOutcome>(share.kernels, lost);
}

Result<std::vector<BuildOutcome>> FarmBuilder::outcomes_of(const Share& share, const Begun& begun) {
  TW_TRY(const auto reply,
         run_.wait(share.number, limit_s(share.kernels), begun.started_ns, begun.needed));
  if (!reply) return fail(ErrorCode::TryLater, reply.error().reason);
  return built(*reply, share.kernels);
}

/// Stores the kernels of a reply, and returns the outcomes. An outcome names its kernel by the hash
/// of the kernel's bytes. If the reply lacks these bytes, the kernel is not found when it is to be
/// measured.
Result<std::vector<BuildOutcome>> FarmBuilder::built(const FarmReply& reply, size_t kernels) {
  if (reply.error) return tl::unexpected<Error>(*reply.error);
  BuildReply built;
  TW_RETURN_IF_ERROR(decode(reply.reply, built));
  if (built.outcomes.size() != kernels)
    return fail(ErrorCode::Invalid, "an answer to something else");
  for (const std::string& kernel : reply.kernels) TW_RETURN_IF_ERROR(run_.artifacts->put(kernel));
  if (!built.toolchain.empty()) toolchain_ = built.toolchain;
  return std::move(built.outcomes);
}

// ---- the runner -----------------------------------------------------------------------------

Result<FarmRunner::Sent> FarmRunner::send(Job job, double seconds,
                                          const std::vector<std::string>& kernels) {
  FarmJob whole = run_.job_of(std::move(job));
  whole.prepared = prepared_;
  std::set<std::string> names(kernels.begin(), kernels.end());
  names.insert(prepared_.reference);
  names.erase("");
  for (const std::string& name : names) {
    TW_TRY(std::string bytes, run_.artifacts->get(name));
    whole.kernels.push_back(std::move(bytes));
  }
  // Any of these jobs may be the first job of a member, which starts the member's workers and
  // prepares the reference.
  const double limit_s =
      start_s + turn_s + 2 * run_.timeout_s + prepare_s(run_.timeout_s) + seconds;
  const int64_t started_ns = run_.clock();
  TW_TRY(const uint64_t number,
         run_.farm.link->send({.resources = {device_token, run_.farm.device}, .limit_s = limit_s},
                              whole));
  return Sent{number, limit_s, started_ns};
}

Result<tl::expected<FarmReply, FarmFault>> FarmRunner::receive(const Sent& sent, Needed needed) {
  TW_TRY(auto reply, run_.wait(sent.number, sent.limit_s, sent.started_ns, needed));
  if (reply && reply->error) return tl::unexpected<Error>(*reply->error);
  return reply;
}

template <typename Answer>
Result<tl::expected<Answer, FarmFault>> FarmRunner::ask_twice(
    const Job& job, double seconds, const std::vector<std::string>& kernels, Needed needed) {
  TW_TRY(auto answer, ask_once<Answer>(job, seconds, kernels, needed));
  if (answer || !answer.error().is_garbled) return answer;
  return ask_once<Answer>(job, seconds, kernels, needed);
}

template <typename Answer>
Result<Answer> FarmRunner::ask(const Job& job, double seconds,
                               const std::vector<std::string>& kernels, Needed needed) {
  TW_TRY(auto answer, ask_twice<Answer>(job, seconds, kernels, needed));
  if (answer) return std::move(*answer);
  return fail(code_of(answer.error()), "[farm] " + answer.error().reason);
}

template <typename Answer>
Result<tl::expected<Answer, FarmFault>> FarmRunner::ask_once(
    const Job& job, double seconds, const std::vector<std::string>& kernels, Needed needed) {
  TW_TRY(const Sent sent, send(job, seconds, kernels));
  TW_TRY(const auto reply, receive(sent, needed));
  if (!reply) return tl::unexpected(reply.error());
  Answer answer;
  if (const Status decoded = decode(reply->reply, answer); !decoded)
    return tl::unexpected(garbled(reply->member, decoded.error()));
  return answer;
}

Result<double> FarmRunner::prepare(const std::string& workload, const ReferenceKernel& reference,
                                   Needed needed) {
  const PrepareJob job{workload, reference.artifact, run_.threads, reference.on_device};
  if (job == prepared_) return reference_ns_;
  TW_RETURN_IF_ERROR(begin({}));
  prepared_ = job;
  const auto reply = ask<PrepareReply>(job, 0, {}, needed);
  if (!reply) prepared_ = {};
  if (!reply && run_.cancellation.is_requested()) return interrupted_at_start();
  TW_RETURN_IF_ERROR(reply);
  return reference_ns_ = reply->reference_ns;
}

Status FarmRunner::begin(const std::vector<MeasureJob>& jobs) {
  for (const auto& [artifact, sent] : std::exchange(begun_, {}))
    run_.farm.link->cancel(sent.number);
  for (const MeasureJob& job : jobs) {
    TW_TRY(const Sent sent, send_measurement(job));
    begun_.emplace(job.artifact, sent);
  }
  return {};
}

Result<FarmRunner::Sent> FarmRunner::send_measurement(const MeasureJob& job) {
  return send(job, run_.timeout_s, {job.artifact, job.incumbent});
}

Result<MeasureReply> FarmRunner::measure(const MeasureJob& job) {
  ++measured_;
  Sent sent;
  if (const auto begun = begun_.extract(job.artifact)) {
    sent = begun.mapped();
  } else {
    TW_TRY(sent, send_measurement(job));
  }
  TW_TRY(MeasureReply reply, measured(sent));
  if (!reply.blameless) return reply;
  TW_TRY(sent, send_measurement(job));
  return measured(sent);
}

/// Returns the reply to a measurement. If a reply does not decode, the kernel is not blamed,
/// because the member runs the kernel in a sandbox. Any other fault of the job, such as the loss of
/// several members, gives the status Lost, and the kernel may be the cause.
Result<MeasureReply> FarmRunner::measured(const Sent& sent) {
  TW_TRY(const auto reply, receive(sent, Needed::ForResult));
  if (!reply)
    return reply.error().is_garbled ? blameless_loss(reply.error().reason)
                                    : MeasureReply{db::TrialStatus::Lost, reply.error().reason};
  MeasureReply measured;
  if (const Status decoded = decode(reply->reply, measured); !decoded)
    return blameless_loss(garbled(reply->member, decoded.error()).reason);
  measured.host = reply->host;
  peak_gflops_ = std::max(peak_gflops_, measured.peak_gflops);
  return measured;
}

/// If the comparison is lost, the reply has an error, as for a comparison that fails on this
/// machine. The run then leaves the comparison out.
Result<CompareReply> FarmRunner::compare(const CompareJob& job) {
  TW_TRY(const auto answer,
         ask_twice<CompareReply>(job, 2 * run_.timeout_s, {job.a, job.b}, Needed::ForResult));
  if (!answer) return CompareReply{.error = answer.error().reason};
  return *answer;
}

Result<Machine> FarmRunner::calibrate(double budget_s) {
  const Target& target = run_.farm.target;
  const CalibrateJob job{target.to_string(), to_string(target.machine),
                         static_cast<int64_t>(budget_s * 1e9)};
  TW_TRY(const CalibrateReply reply,
         ask<CalibrateReply>(job, budget_s + run_.timeout_s, {}, Needed::ForResult));
  return parse_machine(reply.machine);
}

Result<double> FarmRunner::peak_gflops() {
  if (measured_ < peak_due_) return peak_gflops_;
  TW_TRY(const PeakReply reply,
         ask<PeakReply>(PeakJob{run_.threads}, 5 * run_.timeout_s, {}, Needed::ForResult));
  peak_due_ = measured_ + kernels_per_peak;
  return peak_gflops_ = reply.gflops;
}

}  // namespace tw::tuner
