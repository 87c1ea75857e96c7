// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/worker_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "codegen/backend.h"
#include "tuner/processes/sandbox.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

// Time limit for building a batch, as a multiple of the limit for measuring a candidate. A batch
// takes a quarter of a second, so a builder that reaches this limit hangs.
constexpr double timeouts_per_build = 6;

// Largest numbers of builders. Each of them gets at least two candidates of a round
// (batch_size_for()).
constexpr int most_builders = 4, most_builders_for_cuda = 12;

// Time that a job waits for the device, in addition to two time limits of a candidate. Another
// tuner gives the device back after one job.
constexpr double device_patience_s = 60;

// Most repetitions of a job whose worker was lost. A candidate may be the cause of the loss. Jobs
// without a candidate are repeated more often, so that a run survives the loss of workers at any
// moment.
constexpr int repetitions_of_candidates = 1, repetitions_of_others = 3;

constexpr int64_t trials_per_peak = 32;
constexpr int peak_windows = 5;

size_t builders_on(int cores, const Target& target) {
  return static_cast<size_t>(std::clamp(
      cores, 1,
      target.architecture == Architecture::Cuda ? most_builders_for_cuda : most_builders));
}

/// Returns the number of builders: one for each core that the runner leaves free, or for each core
/// if it leaves none. A runner for a device needs one core.
size_t builders_for(const Target& target, int threads) {
  const int all = (target.is_gpu() ? host_target() : target).machine.cores;
  const int busy = target.is_gpu() ? 1 : threads;
  return builders_on(all > busy ? all - busy : all, target);
}

int64_t to_ns(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

/// The fault of a candidate whose job got no reply: the job timed out or was cancelled, or the
/// worker died or sent bytes that do not decode. Requires: the outcome is no Reply.
MeasureReply fault_of(const Outcome& outcome) {
  if (std::holds_alternative<TimedOut>(outcome))
    return {db::TrialStatus::Timeout, "no answer before the deadline"};
  if (std::holds_alternative<Cancelled>(outcome))
    return blameless_loss("interrupted before it answered");
  if (const auto* garbled = std::get_if<Garbled>(&outcome)) return blameless_loss(garbled->message);
  const Fault fault = classify(std::get<Died>(outcome));
  if (fault.kind == FaultKind::Ended) return blameless_loss(fault.detail);
  return {status_of(fault.kind), fault.detail};
}

/// Returns the outcome of a schedule whose builder ended with this fault. The status is Lost if the
/// builder was lost, and otherwise CompileError, as when the schedule made the compiler crash.
BuildOutcome outcome_of(const MeasureReply& fault) {
  BuildOutcome outcome;
  outcome.reason = "the builder: " + fault.reason;
  const bool is_lost = fault.status == db::TrialStatus::Lost;
  outcome.status = is_lost ? db::TrialStatus::Lost : db::TrialStatus::CompileError;
  outcome.blameless = fault.blameless;
  outcome.installation = !is_lost;
  return outcome;
}

/// True for jobs that measure or compare candidates.
bool has_candidate(const Job& job) {
  return std::holds_alternative<MeasureJob>(job) || std::holds_alternative<CompareJob>(job);
}

/// True if a job is repeated with a new worker after this fault: if the worker was lost, or if a
/// job without any kernel ended it by something else than a time-out. The end of the worker is not
/// the fault of such a job.
bool is_repeated(const Job& job, const MeasureReply& fault) {
  if (fault.status == db::TrialStatus::Lost) return true;
  return !has_candidate(job) && !std::holds_alternative<PrepareJob>(job) &&
         fault.status != db::TrialStatus::Timeout;
}

/// A private directory and the store in it.
struct OwnedStore {
  Scratch scratch;
  ArtifactStore store;
};

Result<std::shared_ptr<const ArtifactStore>> make_store() {
  TW_TRY(Scratch scratch, Scratch::make(temporary_places()));
  ArtifactStore store(scratch.path());
  const auto owned =
      std::make_shared<const OwnedStore>(OwnedStore{std::move(scratch), std::move(store)});
  return std::shared_ptr<const ArtifactStore>(owned, &owned->store);
}

ProcessOptions worker_program(const Environment& environment,
                              const std::vector<std::string>& arguments) {
  ProcessOptions options;
  options.argv = environment.worker;
  if (!environment.sandbox) options.argv.emplace_back(unconfined_role);
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  return options;
}

/// The command line of a builder that leaves kernels in the store.
ProcessOptions builder_program(const ArtifactStore& artifacts, const Environment& environment,
                               Building building) {
  std::vector<std::string> arguments = {building == Building::Alone ? "build_alone" : "build",
                                        artifacts.directory(), environment.code_generator};
  arguments.insert(arguments.end(), environment.cuda_directories.begin(),
                   environment.cuda_directories.end());
  return worker_program(environment, arguments);
}

Result<std::unique_ptr<RunnerProcess>> start_runner(const PoolContext& context,
                                                    const Environment& environment) {
  std::vector<std::string> arguments = {"run", context.artifacts->directory()};
  if (!context.target.is_gpu())
    return RunnerProcess::start(context, worker_program(environment, arguments), {}, {});
  // The driver writes to a directory apart from the kernels, which only builders may write.
  TW_TRY(Scratch driver_scratch, Scratch::make(temporary_places()));
  for (const std::string& argument :
       {context.target.to_string(), std::to_string(environment.device), driver_scratch.path()})
    arguments.push_back(argument);
  TW_TRY(DeviceLock lock,
         DeviceLock::open(places_of_all, device_lock_name(codegen::backend_of(context.target),
                                                          environment.device)));
  return RunnerProcess::start(context, worker_program(environment, arguments), std::move(lock),
                              std::move(driver_scratch));
}

}  // namespace

Result<Workers> start_workers(const Target& target, int threads, const Environment& environment,
                              double timeout_s, Building building) {
  TW_TRY(const std::shared_ptr<const ArtifactStore> artifacts, make_store());
  const auto busy = std::make_shared<BusyTime>();
  const PoolContext context{target,
                            threads,
                            timeout_s,
                            environment.clock,
                            Cancellation(environment.interrupts, environment.clock),
                            busy,
                            artifacts};
  TW_TRY(std::unique_ptr<Runner> runner, start_runner(context, environment));
  return Workers{
      artifacts,
      std::make_unique<BuilderPool>(context, builder_program(*artifacts, environment, building),
                                    builders_for(target, threads)),
      std::move(runner), busy, context.cancellation};
}

Result<Workers> start_builders_for(const Target& target, const Target& processor,
                                   const Environment& environment, double timeout_s) {
  TW_TRY(const std::shared_ptr<const ArtifactStore> artifacts, make_store());
  const auto busy = std::make_shared<BusyTime>();
  PoolContext context{target,
                      0,
                      timeout_s,
                      environment.clock,
                      Cancellation(environment.interrupts, environment.clock),
                      busy,
                      artifacts};
  context.processor = processor.to_string();
  return Workers{artifacts,
                 std::make_unique<BuilderPool>(
                     context, builder_program(*artifacts, environment, Building::Alone),
                     builders_on(host_target().machine.cores, target)),
                 nullptr, busy, context.cancellation};
}

Result<Builders> start_builders(const Target& target, const Environment& environment,
                                double timeout_s) {
  TW_TRY(const std::shared_ptr<const ArtifactStore> artifacts, make_store());
  const PoolContext context{target,
                            0,
                            timeout_s,
                            environment.clock,
                            Cancellation(environment.interrupts, environment.clock),
                            std::make_shared<BusyTime>(),
                            artifacts};
  Builders builders{artifacts, {}};
  for (size_t i = 0; i < builders_for(target, 0); ++i)
    builders.each.push_back(std::make_unique<BuilderPool>(
        context, builder_program(*artifacts, environment, Building::Alone), 1));
  return builders;
}

// ---- builders -------------------------------------------------------------------------------

BuilderPool::BuilderPool(PoolContext context, ProcessOptions program, size_t builders)
    : context_(std::move(context)), program_(std::move(program)), members_(builders) {}

Status BuilderPool::begin(const BuildRequest& request) {
  Begun begun{.needed = request.needed, .started_ns = context_.clock()};
  if (request.is_reference) begun.reference = request.kernels;
  if (begun.reference && references_.contains(*begun.reference)) {
    begun_.push_back(std::move(begun));
    return {};
  }
  const std::string target = context_.target.to_string();
  const std::vector<size_t> members = least_busy();
  size_t next = 0;
  for (size_t i = 0; i < members.size() && next < request.kernels.size(); ++i) {
    const size_t left = request.kernels.size() - next, idle = members.size() - i;
    const size_t count = (left + idle - 1) / idle;
    const auto first = request.kernels.begin() + static_cast<ptrdiff_t>(next);
    const BuildJob job{.target = request.is_reference ? context_.processor : target,
                       .kernels = {first, first + static_cast<ptrdiff_t>(count)},
                       .packs = request.packs,
                       .otherwise = request.is_reference && context_.target.is_gpu() ? target : ""};
    if (const Status status = hand_over(members_[members[i]], job); !status) {
      give_up(begun);
      return status;
    }
    begun.members.push_back(members[i]);
    next += count;
  }
  begun_.push_back(std::move(begun));
  return {};
}

/// Returns the indices of the members, sorted by the number of their unfinished kernels, smallest
/// first.
std::vector<size_t> BuilderPool::least_busy() const {
  std::vector<size_t> kernels, order(members_.size());
  for (const Member& member : members_) {
    size_t& count = kernels.emplace_back(0);
    for (const BuildJob& job : member.jobs) count += job.kernels.size();
  }
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t member) { return kernels[member]; });
  return order;
}

Status BuilderPool::hand_over(Member& member, const BuildJob& job) {
  member.jobs.push_back(job);
  Status status = send_waiting(member);
  if (!status) member.jobs.pop_back();
  return status;
}

/// Starts the member's process unless it runs. A new process has no jobs.
Status BuilderPool::start(Member& member) {
  if (member.process && member.process->running()) return {};
  member.sent = 0;
  if (member.process) return member.process->restart();
  TW_TRY(member.process, Process::start(program_, context_.clock));
  return {};
}

/// Sends the jobs that the process does not have, in their order.
Status BuilderPool::send_waiting(Member& member) {
  TW_RETURN_IF_ERROR(start(member));
  for (; member.sent < member.jobs.size(); ++member.sent)
    TW_RETURN_IF_ERROR(member.process->send(encode(Job(member.jobs[member.sent]))));
  return {};
}

/// Ends the process. Its unfinished jobs are sent to the next process.
void BuilderPool::stop(Member& member) {
  member.process->kill();
  member.sent = 0;
}

/// Takes the shares of a request back from the members, because another share of the request could
/// not be handed over.
void BuilderPool::give_up(const Begun& begun) {
  for (const size_t i : begun.members) {
    members_[i].jobs.pop_back();
    stop(members_[i]);
  }
}

std::vector<BuildOutcome> BuilderPool::finish() {
  TW_CHECK(!begun_.empty(), "nothing was begun");
  const Begun begun = std::move(begun_.front());
  begun_.pop_front();
  if (!begun.reference) return finish_members(begun);
  const auto known = references_.find(*begun.reference);
  if (begun.members.empty() && known != references_.end()) return known->second;
  std::vector<BuildOutcome> outcomes = finish_members(begun);
  const auto is_built = [](const BuildOutcome& outcome) { return !outcome.artifact.empty(); };
  if (std::ranges::all_of(outcomes, is_built))
    references_.insert_or_assign(*begun.reference, outcomes);
  return outcomes;
}

std::vector<BuildOutcome> BuilderPool::finish_members(const Begun& begun) {
  std::vector<BuildOutcome> outcomes;
  for (const size_t i : begun.members) {
    std::vector<BuildOutcome> built = finish(members_[i], begun);
    std::move(built.begin(), built.end(), std::back_inserter(outcomes));
  }
  return outcomes;
}

/// Returns the outcomes of a member's oldest job. If the builder died, for instance because memory
/// ran out, or timed out, a new process builds the kernels one by one, so that only the kernel at
/// fault is blamed. Each kernel then gets its part of the job's time limit, so that a compiler that
/// always hangs costs the limit twice and not once for each kernel. Waiting jobs are sent to the
/// new process, unless the run was stopped.
std::vector<BuildOutcome> BuilderPool::finish(Member& member, const Begun& begun) {
  const auto is_stopped = [&] { return context_.cancellation.token(begun.needed).is_stopped(); };
  // If the process could not be started before, starting it is tried again. If this fails, the job
  // is lost.
  if (member.sent == 0 && !is_stopped()) (void)send_waiting(member);
  const BuildJob job = std::move(member.jobs.front());
  member.jobs.pop_front();
  if (member.sent == 0)
    return std::vector<BuildOutcome>(job.kernels.size(),
                                     outcome_of(blameless_loss("it could not be started")));
  --member.sent;
  const double limit_s = timeouts_per_build * context_.timeout_s;
  Attempt first = attempt(member, job, begun, limit_s);
  if (first.repeats) {
    stop(member);  // it may have begun with the next job
    const double each_s = limit_s / static_cast<double>(job.kernels.size());
    for (size_t i = 0; i < first.outcomes.size(); ++i)
      if (first.outcomes[i].artifact.empty())
        first.outcomes[i] = build_alone(member, job, job.kernels[i], begun, each_s);
  }
  if (!member.process->running()) member.sent = 0;
  if (!is_stopped()) (void)send_waiting(member);
  return std::move(first.outcomes);
}

BuilderPool::Attempt BuilderPool::attempt(Member& member, const BuildJob& job, const Begun& begun,
                                          double limit_s) {
  const size_t count = job.kernels.size();
  const int64_t started_ns = std::max(begun.started_ns, member.idle_since_ns);
  const auto was_busy_until = [&](int64_t ended_ns) {
    context_.busy->add(started_ns, ended_ns);
    member.idle_since_ns = ended_ns;
  };
  // All kernels of the job are lost with the builder.
  const auto lost = [&](const MeasureReply& fault, bool repeats) {
    was_busy_until(context_.clock());
    return Attempt{std::vector<BuildOutcome>(count, outcome_of(fault)), repeats};
  };
  const Outcome outcome =
      member.process->receive(context_.cancellation.deadline(limit_s, begun.needed));
  const Reply* reply = std::get_if<Reply>(&outcome);
  if (!reply) {
    const MeasureReply fault = fault_of(outcome);
    // A single kernel at which the builder crashed or hung is at fault itself.
    const bool is_doubtful = count > 1 || fault.status == db::TrialStatus::Lost;
    return lost(fault, is_doubtful && !std::holds_alternative<Cancelled>(outcome));
  }
  BuildReply built;
  const Status decoded = decode(reply->bytes, built);
  if (!decoded || built.outcomes.size() != count)
    return lost(blameless_loss(decoded ? "an answer to something else" : decoded.error().message),
                true);
  if (job.target == context_.target.to_string() && !built.toolchain.empty())
    toolchain_ = built.toolchain;
  was_busy_until(std::min(context_.clock(), started_ns + to_ns(built.seconds)));
  for (BuildOutcome& one : built.outcomes) one.build_s = built.seconds / static_cast<double>(count);
  const bool repeats = std::ranges::any_of(
      built.outcomes, [](const BuildOutcome& one) { return one.status == db::TrialStatus::Lost; });
  return {std::move(built.outcomes), repeats};
}

BuildOutcome BuilderPool::build_alone(Member& member, BuildJob job, const KernelSource& kernel,
                                      const Begun& begun, double limit_s) {
  job.kernels = {kernel};
  Status status = start(member);
  if (status) status = member.process->send(encode(Job(job)));
  if (!status) return outcome_of(blameless_loss(status.error().message));
  Attempt again = attempt(member, job, begun, limit_s);
  if (again.repeats) stop(member);  // a wrong answer may be followed by more
  return std::move(again.outcomes[0]);
}

// ---- the runner -----------------------------------------------------------------------------

RunnerProcess::RunnerProcess(PoolContext context, Process process,
                             std::optional<DeviceLock> device_lock,
                             std::optional<Scratch> driver_scratch)
    : context_(std::move(context)),
      process_(std::move(process)),
      device_lock_(std::move(device_lock)),
      driver_scratch_(std::move(driver_scratch)) {}

Result<std::unique_ptr<RunnerProcess>> RunnerProcess::start(PoolContext context,
                                                            ProcessOptions program,
                                                            std::optional<DeviceLock> device_lock,
                                                            std::optional<Scratch> driver_scratch) {
  TW_TRY(Process process, Process::start(std::move(program), context.clock));
  return std::unique_ptr<RunnerProcess>(new RunnerProcess(
      std::move(context), std::move(process), std::move(device_lock), std::move(driver_scratch)));
}

Result<double> RunnerProcess::prepare(const std::string& workload, const ReferenceKernel& reference,
                                      Needed needed) {
  if (workload == workload_ && reference == reference_) return reference_ns_;
  workload_ = workload;
  reference_ = reference;
  Status status = process_.running() ? Status() : process_.restart();
  if (status) status = load_reference(needed);
  if (status) return reference_ns_;
  workload_.clear();
  if (context_.cancellation.is_requested()) return interrupted_at_start();
  return tl::unexpected<Error>(status.error());
}

Status RunnerProcess::load_reference(Needed needed) {
  if (workload_.empty()) return {};
  const PrepareJob job{workload_, reference_.artifact, context_.threads, reference_.on_device};
  // The time limit is long, because the reference is not tuned and runs on several fills.
  TW_TRY(const Answer<PrepareReply> answer,
         ask<PrepareReply>(Job(job), 30 + 10 * context_.timeout_s, needed));
  if (!answer) {
    const MeasureReply& fault = answer.error();
    if (fault.blameless)
      return fail(
          ErrorCode::TryLater,
          fmt::format("[tune] the worker was lost while it readied the reference kernel: {}; "
                      "try again",
                      fault.reason));
    // If the workload is too large or too slow for this machine, this is no fault of the program.
    const bool is_too_much = fault.status == db::TrialStatus::Resource ||
                             fault.status == db::TrialStatus::Lost ||
                             fault.status == db::TrialStatus::Timeout;
    return is_too_much
               ? fail(ErrorCode::Environment,
                      fmt::format("[tune] the workload is too much for this machine, its untuned "
                                  "kernel gave {}: {}; choose a smaller one, or raise --timeout or "
                                  "memory",
                                  db::to_string(fault.status), fault.reason))
               : fail(ErrorCode::Internal,
                      fmt::format("[tune] the reference kernel fails: {}", fault.reason));
  }
  if (!answer->error.empty()) return fail(ErrorCode::Internal, answer->error);
  reference_ns_ = answer->reference_ns;
  return {};
}

Result<DeviceTurn> RunnerProcess::wait_for_device(Needed needed) {
  if (!device_lock_) return DeviceTurn();
  auto turn = device_lock_->take(
      context_.clock,
      context_.cancellation.deadline(device_patience_s + 2 * context_.timeout_s, needed));
  if (!turn && turn.error().code == ErrorCode::Interrupted) return interrupted_at_start();
  return turn;
}

template <typename Reply>
Result<RunnerProcess::Answer<Reply>> RunnerProcess::ask(const Job& job, double timeout_s,
                                                        Needed needed) {
  TW_TRY(Answer<Reply> answer, ask_once<Reply>(job, timeout_s, needed));
  const int most = has_candidate(job) ? repetitions_of_candidates : repetitions_of_others;
  for (int i = 0; i < most && !answer && is_repeated(job, answer.error()); ++i) {
    // ensure_running() would also prepare the reference in the new worker, which this job does
    // itself.
    TW_RETURN_IF_ERROR(std::holds_alternative<PrepareJob>(job) ? process_.restart()
                                                               : ensure_running());
    TW_TRY(answer, ask_once<Reply>(job, timeout_s, needed));
  }
  return answer;
}

template <typename Reply>
Result<RunnerProcess::Answer<Reply>> RunnerProcess::ask_once(const Job& job, double timeout_s,
                                                             Needed needed) {
  // A reference that is prepared on the processor needs no turn of the device.
  DeviceTurn turn;
  if (const auto* prepares = std::get_if<PrepareJob>(&job); !prepares || prepares->on_device) {
    TW_TRY(turn, wait_for_device(needed));
  }
  const int64_t started_ns = context_.clock();
  TW_RETURN_IF_ERROR(process_.send(encode(job)));
  const Outcome outcome = process_.receive(context_.cancellation.deadline(timeout_s, needed));
  context_.busy->add(started_ns, context_.clock());
  if (std::holds_alternative<Cancelled>(outcome))
    return fail(ErrorCode::Interrupted, "[tune] interrupted while a kernel was measured");
  const auto* bytes = std::get_if<tuner::Reply>(&outcome);
  if (bytes == nullptr) return Answer<Reply>(tl::unexpect, fault_of(outcome));
  Reply reply;
  const Status decoded = decode(bytes->bytes, reply);
  if (decoded) return Answer<Reply>(std::move(reply));
  process_.kill();
  return Answer<Reply>(tl::unexpect, blameless_loss(decoded.error().message));
}

Status RunnerProcess::ensure_running() {
  if (process_.running()) return {};
  TW_RETURN_IF_ERROR(process_.restart());
  return load_reference(Needed::ForResult);
}

Result<MeasureReply> RunnerProcess::measure(const MeasureJob& job) {
  TW_RETURN_IF_ERROR(ensure_running());
  ++measured_;
  TW_TRY(const Answer<MeasureReply> answer,
         ask<MeasureReply>(Job(job), context_.timeout_s, Needed::ForResult));
  if (!answer) return answer.error();
  peak_gflops_ = std::max(peak_gflops_, answer->peak_gflops);
  return *answer;
}

Result<CompareReply> RunnerProcess::compare(const CompareJob& job) {
  TW_RETURN_IF_ERROR(ensure_running());
  TW_TRY(const Answer<CompareReply> answer,
         ask<CompareReply>(Job(job), 2 * context_.timeout_s, Needed::ForResult));
  if (!answer) return CompareReply{.error = answer.error().reason};
  return *answer;
}

Result<Target> RunnerProcess::machine() {
  if (!context_.target.is_gpu()) return context_.target;
  TW_RETURN_IF_ERROR(ensure_running());
  TW_TRY(const Answer<DescribeReply> answer,
         ask<DescribeReply>(Job(DescribeJob{}), 30 + context_.timeout_s, Needed::ForResult));
  if (!answer)
    return fail(ErrorCode::Environment,
                fmt::format("[device] the driver fails: {}: {}",
                            db::to_string(answer.error().status), answer.error().reason));
  const DescribeReply& reply = *answer;
  if (!reply.error.empty()) return fail(ErrorCode::Environment, reply.error);
  runtime::DeviceFacts facts;
  facts.name = reply.name;
  facts.multiprocessors = static_cast<int>(reply.multiprocessors);
  facts.l2_bytes = reply.l2_bytes;
  facts.memory_bytes = reply.memory_bytes;
  return with_facts(context_.target, facts);
}

Result<Machine> RunnerProcess::calibrate(double budget_s) {
  TW_RETURN_IF_ERROR(ensure_running());
  const CalibrateJob job{context_.target.to_string(), to_string(context_.target.machine),
                         to_ns(budget_s)};
  TW_TRY(const Answer<CalibrateReply> answer,
         ask<CalibrateReply>(Job(job), budget_s + context_.timeout_s, Needed::ForResult));
  if (!answer)
    return fail(ErrorCode::Environment,
                fmt::format("[calibration] the machine was not measured: {}: {}",
                            db::to_string(answer.error().status), answer.error().reason));
  if (!answer->error.empty()) return fail(ErrorCode::TryLater, answer->error);
  return parse_machine(answer->machine);
}

Result<double> RunnerProcess::peak_gflops() {
  if (measured_ < peak_due_) return peak_gflops_;
  // The peak is the fastest of several windows of 10 ms. On a busy machine a single window may lose
  // its core to another process. The peak would then be so low that every trial looked impossibly
  // fast.
  double fastest = 0;
  for (int window = 0; window < peak_windows; ++window) {
    TW_TRY(const double gflops, measure_peak());
    fastest = std::max(fastest, gflops);
  }
  peak_due_ = measured_ + trials_per_peak;
  return peak_gflops_ = fastest;
}

Result<double> RunnerProcess::measure_peak() {
  TW_RETURN_IF_ERROR(ensure_running());
  TW_TRY(const Answer<PeakReply> answer,
         ask<PeakReply>(Job(PeakJob{context_.threads}), context_.timeout_s, Needed::ForResult));
  if (!answer)
    return fail(ErrorCode::TryLater,
                fmt::format("[tune] the machine's peak was not measured: {}: {}; try again",
                            db::to_string(answer.error().status), answer.error().reason));
  if (!answer->error.empty()) return fail(ErrorCode::Environment, answer->error);
  return answer->gflops;
}

}  // namespace tw::tuner
