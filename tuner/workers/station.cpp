// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/station.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

// The most bytes of kernels that a station stores, which are some ten thousand kernels. At this
// limit it starts new workers with an empty store.
constexpr int64_t most_kept_bytes = int64_t{512} << 20;

// Time that a job waits for the device, in addition to two time limits of a candidate. Another
// station on the same processor gives it back after one job.
constexpr double turn_patience_s = 60;

Status keep_kernels(const std::vector<std::string>& kernels, const ArtifactStore& artifacts,
                    int64_t& bytes) {
  for (const std::string& kernel : kernels) {
    TW_TRY([[maybe_unused]] const std::string name, artifacts.put(kernel));
    bytes += static_cast<int64_t>(kernel.size());
  }
  return {};
}

}  // namespace

Station::Station(Target own, Environment environment)
    : own_(std::move(own)), environment_(std::move(environment)) {}

FarmReply Station::answer(const FarmJob& job) {
  auto reply = perform(job);
  if (!reply) reply = FarmReply{.error = reply.error()};
  reply->host = environment_.host;
  return std::move(*reply);
}

Result<Target> Station::target_of(const std::string& text) {
  if (text.empty()) return own_;
  TW_TRY(Target target, parse_target(text));
  if (target.architecture != own_.architecture)
    return fail(ErrorCode::Environment,
                fmt::format("[farm] a member measures on {}, not on {}", own_.to_string(), text));
  if (target.is_gpu()) return target;  // its runner asks the driver for the rest
  const std::vector<std::string> missing = missing_features(target, host_target());
  if (!missing.empty())
    return fail(ErrorCode::Environment,
                fmt::format("[farm] kernels for {} need {}, which a member's processor lacks", text,
                            join(missing, ", ")));
  return on_this_machine(std::move(target));
}

Station::Key Station::key_of(const FarmJob& job) {
  return {job.target, job.processor, job.threads, job.timeout_s};
}

Result<FarmReply> Station::perform(const FarmJob& job) {
  if (std::holds_alternative<BuildJob>(job.job)) return build(job);
  TW_TRY(std::string reply, measure(job));
  return FarmReply{.reply = std::move(reply)};
}

// ---- building -------------------------------------------------------------------------------

/// Starts builders for the targets of a job, unless they run already. The kernels are for machines
/// that need not be like this one.
Status Station::start_building(const FarmJob& job) {
  if (building_ && building_->key == key_of(job) && building_->bytes < most_kept_bytes) return {};
  building_.reset();
  TW_TRY(const Target target, parse_target(job.target));
  TW_TRY(const Target processor, parse_target(job.processor));
  TW_TRY(Workers workers, start_builders_for(target, processor, environment_, job.timeout_s));
  building_ = Started{key_of(job), std::move(workers)};
  return {};
}

Result<FarmReply> Station::build(const FarmJob& job) {
  TW_RETURN_IF_ERROR(start_building(job));
  const auto& asked = std::get<BuildJob>(job.job);
  Builder& builder = *building_->workers.builder;
  TW_RETURN_IF_ERROR(builder.begin({.kernels = asked.kernels,
                                    .packs = asked.packs,
                                    .needed = Needed::ForResult,
                                    .is_reference = job.is_reference}));
  BuildReply built{.outcomes = builder.finish()};
  built.toolchain = builder.toolchain();
  FarmReply reply;
  for (const BuildOutcome& outcome : built.outcomes) {
    if (outcome.artifact.empty()) continue;
    TW_TRY(std::string bytes, building_->workers.artifacts->get(outcome.artifact));
    building_->bytes += static_cast<int64_t>(bytes.size());
    reply.kernels.push_back(std::move(bytes));
  }
  reply.reply = encode(built);
  return reply;
}

// ---- measuring ------------------------------------------------------------------------------

Status Station::start_measuring(const FarmJob& job) {
  if (measuring_ && measuring_->key == key_of(job) && measuring_->bytes < most_kept_bytes)
    return {};
  measuring_.reset();
  TW_TRY(const Target target, target_of(job.target));
  TW_TRY(Workers workers,
         start_workers(target, static_cast<int>(job.threads), environment_, job.timeout_s));
  measuring_ = Started{key_of(job), std::move(workers)};
  return {};
}

/// Takes the turn (exclusive use) of the device on which a job measures. If the device is the
/// processor, the station takes the turn, so that two stations on one machine do not disturb each
/// other's measurements. For a GPU the result is empty, because the runner itself waits for its
/// turn.
Result<DeviceTurn> Station::turn(const FarmJob& job) {
  if (own_.is_gpu()) return DeviceTurn();
  if (!lock_) {
    TW_TRY(lock_, DeviceLock::open(places_of_all, "processor"));
  }
  const double seconds = turn_patience_s + 2 * job.timeout_s;
  return lock_->take(environment_.clock,
                     {environment_.clock() + static_cast<int64_t>(seconds * 1e9)});
}

Result<std::string> Station::measure(const FarmJob& job) {
  TW_RETURN_IF_ERROR(start_measuring(job));
  TW_RETURN_IF_ERROR(keep_kernels(job.kernels, *measuring_->workers.artifacts, measuring_->bytes));
  TW_TRY([[maybe_unused]] const DeviceTurn ours, turn(job));
  Runner& runner = *measuring_->workers.runner;
  double reference_ns = 0;
  if (!job.prepared.workload.empty()) {
    TW_TRY(reference_ns,
           runner.prepare(job.prepared.workload, {job.prepared.reference, job.prepared.on_device},
                          Needed::ForResult));
  }
  if (std::holds_alternative<PrepareJob>(job.job))
    return encode(PrepareReply{.reference_ns = reference_ns});
  return run(runner, job);
}

Result<std::string> Station::run(Runner& runner, const FarmJob& job) {
  if (const auto* j = std::get_if<MeasureJob>(&job.job)) {
    TW_TRY(const MeasureReply reply, runner.measure(*j));
    return encode(reply);
  }
  if (const auto* j = std::get_if<CompareJob>(&job.job)) {
    TW_TRY(const CompareReply reply, runner.compare(*j));
    return encode(reply);
  }
  if (std::holds_alternative<PeakJob>(job.job)) {
    TW_TRY(const double gflops, runner.peak_gflops());
    return encode(PeakReply{"", gflops});
  }
  if (const auto* j = std::get_if<CalibrateJob>(&job.job)) {
    TW_TRY(const Machine machine, runner.calibrate(static_cast<double>(j->budget_ns) * 1e-9));
    return encode(CalibrateReply{.machine = to_string(machine)});
  }
  TW_TRY(const Target target, runner.machine());
  return encode(describe(target, environment_.program_version));
}

// ---- the program ----------------------------------------------------------------------------

namespace {

int complain_of(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return static_cast<int>(error.code);
}

Result<Station> station_of(const std::vector<std::string>& arguments, Confined confined) {
  if (arguments.size() < 3)
    return fail(ErrorCode::Usage, "[farm] a station is started by `tilewright worker --join`");
  TW_TRY(Target own, parse_target(arguments[0]));
  if (!own.is_gpu()) own = on_this_machine(std::move(own));
  Environment environment = default_environment();
  environment.device = static_cast<int>(parse_int(arguments[1]).value_or(0));
  environment.code_generator = arguments[2];
  environment.sandbox = confined == Confined::Yes;
  environment.cuda_directories.insert(environment.cuda_directories.end(), arguments.begin() + 3,
                                      arguments.end());
  return Station(std::move(own), std::move(environment));
}

/// Returns the error to send back for a job that could not be decoded. Invalid becomes TryLater,
/// because the message was damaged on its way and the sender may send it again. Other errors, such
/// as another protocol version, stay as they are.
Error unread(const Error& error) {
  return error.code == ErrorCode::Invalid ? Error{ErrorCode::TryLater, error.message} : error;
}

}  // namespace

int station_main(const std::vector<std::string>& arguments, Confined confined) {
  auto station = station_of(arguments, confined);
  if (!station) return complain_of(station.error());
  if (const Status entered = enter_worker(); !entered) return complain_of(entered.error());
  while (true) {
    const auto request = read_frame(worker_fd);
    if (!request || !*request) return 0;
    const auto job = decode_farm_job(**request);
    const FarmReply reply = job ? station->answer(*job) : FarmReply{.error = unread(job.error())};
    if (const Status sent = write_frame(worker_fd, encode(reply)); !sent) {
      // If the kernels of a reply are together larger than a message, only their job fails.
      if (!write_frame(worker_fd, encode(FarmReply{.error = sent.error()}))) return 0;
    }
  }
}

}  // namespace tw::tuner
