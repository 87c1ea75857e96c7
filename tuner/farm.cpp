// SPDX-License-Identifier: Apache-2.0
#include "tuner/farm.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <utility>

#include "tuner/device.h"
#include "tuner/sandbox.h"

namespace tw::tuner {

/// Two interrupts end any wait. One ends those for what nobody needs any more; what the result
/// still needs has until the grace is over. Workers are waited for by a clock that says, once it is
/// so, that the deadline has passed.
struct Farm::Patience {
  // The user is to have an answer within two seconds, some of which the parent itself takes.
  static constexpr int64_t grace_ns = 1'300'000'000;
  const std::atomic<int>* interrupts = nullptr;
  bool gives_up_at_once = false;
  std::optional<int64_t> interrupted_ns = {};

  bool over(int64_t now_ns) {
    const int count = interrupts ? interrupts->load() : 0;
    if (count == 0) return false;
    if (!interrupted_ns) interrupted_ns = now_ns;
    return count > 1 || gives_up_at_once || now_ns - *interrupted_ns >= grace_ns;
  }
};

namespace {

// A batch takes a quarter of a second; one that takes as long as six candidates may take to be
// measured has gone astray.
constexpr double timeouts_per_build = 6;

// More would have less than two candidates of a batch each.
constexpr int most_builders = 4;

// Another tuner's turn is one job of its own.
constexpr double device_patience_s = 60;

constexpr int64_t trials_per_peak = 32;
constexpr int peak_windows = 5;

/// A device is fed by one thread of the runner's.
size_t builders_for(const Target& target, int threads) {
  const int all = (target.is_gpu() ? host_target() : target).machine.cores;
  const int busy = target.is_gpu() ? 1 : threads;
  const int cores = all > busy ? all - busy : all;
  return static_cast<size_t>(std::clamp(cores, 1, most_builders));
}

int64_t to_ns(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

/// What the end of a worker without a reply says about the candidate.
MeasureReply fault_of(const Outcome& outcome) {
  if (std::holds_alternative<TimedOut>(outcome))
    return {"timeout", "no answer before the deadline"};
  if (const auto* garbled = std::get_if<Garbled>(&outcome)) return {"crash", garbled->message};
  const Fault fault = classify(std::get<Died>(outcome));
  const std::string status(status_name(fault.kind));
  return {status == "mutated_input" ? "mutates_input" : status, fault.detail};
}

}  // namespace

tl::unexpected<Error> interrupted_at_start() {
  return fail(ErrorCode::Interrupted, "[tune] interrupted before any candidate was measured");
}

Farm::~Farm() = default;

Result<Farm> Farm::start(const Target& target, int threads, uint64_t seed,
                         const Environment& environment, double timeout_s) {
  Farm farm;
  farm.target_ = target;
  farm.threads_ = threads;
  farm.seed_ = seed;
  farm.timeout_s_ = timeout_s;
  farm.code_generator_ = environment.code_generator;
  farm.cuda_directories_ = environment.cuda_directories;
  farm.patience_ = std::make_shared<Patience>();
  farm.patience_->interrupts = environment.interrupts;
  farm.clock_ = environment.clock;
  farm.waiting_clock_ = [clock = environment.clock, patience = farm.patience_] {
    const int64_t now_ns = clock();
    return patience->over(now_ns) ? std::numeric_limits<int64_t>::max() / 2 : now_ns;
  };
  TW_TRY(Scratch scratch, Scratch::make(temporary_places()));
  farm.scratch_ = std::move(scratch);
  const auto worker = [&](const std::string& kind) {
    ProcessOptions options;
    options.argv = environment.worker;
    options.argv.push_back(kind);
    return options;
  };
  farm.builder_program_ = worker("build");
  farm.builder_program_.argv.push_back(farm.scratch_->path());
  farm.builders_.resize(builders_for(target, threads));
  ProcessOptions runner_program = worker("run");
  if (target.is_gpu()) {
    // Apart from the artifacts, which only builders may write.
    TW_TRY(farm.driver_scratch_, Scratch::make(temporary_places()));
    runner_program.argv.push_back(target.to_string());
    runner_program.argv.push_back(std::to_string(environment.device));
    runner_program.argv.push_back(farm.driver_scratch_->path());
    TW_TRY(
        farm.device_lock_,
        DeviceLock::open(places_of_all, device_lock_name(target.architecture, environment.device)));
  }
  TW_TRY(Process runner, Process::start(std::move(runner_program), farm.waiting_clock_));
  farm.runner_ = std::move(runner);
  return farm;
}

void Farm::busy(int64_t from_ns, int64_t to_ns) {
  from_ns = std::max(from_ns, busy_until_ns_);
  if (to_ns <= from_ns) return;
  working_s_ += static_cast<double>(to_ns - from_ns) * 1e-9;
  busy_until_ns_ = to_ns;
}

Status Farm::begin_build(const std::string& workload, const std::vector<std::string>& schedules,
                         const BuildUse& use) {
  building_needed_ = use.needed;
  build_started_ns_ = clock_();
  size_t next = 0;
  for (size_t i = 0; i < builders_.size() && next < schedules.size(); ++i) {
    Builder& builder = builders_[i];
    TW_CHECK(builder.building == 0, "one batch at a time");
    const size_t left = schedules.size() - next, idle = builders_.size() - i;
    const size_t count = (left + idle - 1) / idle;
    const auto first = schedules.begin() + static_cast<ptrdiff_t>(next);
    const BuildJob job{.workload = workload,
                       .target = (use.reference ? host_target() : target_).to_string(),
                       .code_generator = code_generator_,
                       .directory = scratch_->path(),
                       .schedules = {first, first + static_cast<ptrdiff_t>(count)},
                       .first = next_artifact_,
                       .packs = use.packs,
                       .cuda_directories = cuda_directories_,
                       .otherwise = use.reference && target_.is_gpu() ? target_.to_string() : ""};
    if (const Status status = hand_over(builder, job); !status) {
      give_up_building();
      return status;
    }
    next += count;
    next_artifact_ += static_cast<int64_t>(count);
  }
  return {};
}

Status Farm::hand_over(Builder& builder, const BuildJob& job) {
  if (!builder.process) {
    TW_TRY(builder.process, Process::start(builder_program_, waiting_clock_));
  }
  if (!builder.process->running()) TW_RETURN_IF_ERROR(builder.process->restart());
  TW_RETURN_IF_ERROR(builder.process->send(encode(Job(job))));
  builder.building = job.schedules.size();
  builder.job = job;
  return {};
}

void Farm::give_up_building() {
  for (Builder& builder : builders_)
    if (std::exchange(builder.building, 0) > 0) builder.process->kill();
}

int64_t Farm::build_deadline_ns() const {
  return clock_() + to_ns(timeouts_per_build * timeout_s_);
}

std::vector<BuildOutcome> Farm::finish_build() {
  const bool preparing = patience_->gives_up_at_once;
  patience_->gives_up_at_once = preparing || !building_needed_;
  const int64_t deadline_ns = build_deadline_ns();
  std::vector<BuildOutcome> outcomes;
  for (Builder& builder : builders_) {
    if (builder.building == 0) continue;
    std::vector<BuildOutcome> built = finish(builder, deadline_ns);
    std::move(built.begin(), built.end(), std::back_inserter(outcomes));
  }
  patience_->gives_up_at_once = preparing;
  return outcomes;
}

Result<std::string> Farm::build(const std::string& workload, const std::string& schedule,
                                const BuildUse& use) {
  TW_TRY(const BuildOutcome built, build_one(workload, schedule, use));
  return built.path;
}

Result<BuildOutcome> Farm::build_one(const std::string& workload, const std::string& schedule,
                                     const BuildUse& use) {
  TW_RETURN_IF_ERROR(begin_build(workload, {schedule}, use));
  const BuildOutcome built = finish_build()[0];
  if (!built.path.empty()) return built;
  return fail(built.status == "illegal" ? ErrorCode::Invalid : ErrorCode::Environment,
              fmt::format("{}: {}", built.status, built.reason));
}

std::vector<BuildOutcome> Farm::finish(Builder& builder, int64_t deadline_ns) {
  const size_t count = std::exchange(builder.building, 0);
  // What a builder had is lost with it.
  const auto lost = [&](const std::string& why) {
    busy(build_started_ns_, clock_());
    return std::vector<BuildOutcome>(count, {"", "compile_error", "the builder: " + why, true});
  };
  const Outcome outcome = builder.process->receive(deadline_ns);
  const Reply* reply = std::get_if<Reply>(&outcome);
  if (std::holds_alternative<Died>(outcome) && count > 1) return build_alone(builder);
  if (!reply) return lost(fault_of(outcome).reason);
  BuildReply built;
  if (!decode(reply->bytes, built) || built.outcomes.size() != count) {
    builder.process->kill();
    return lost("an answer to something else");
  }
  if (builder.job.target == target_.to_string() && !built.toolchain.empty())
    toolchain_ = built.toolchain;
  busy(build_started_ns_, std::min(clock_(), build_started_ns_ + to_ns(built.seconds)));
  return std::move(built.outcomes);
}

/// Of schedules that a builder died of, as when memory runs out: one by one, so that the culprit
/// alone carries the blame.
std::vector<BuildOutcome> Farm::build_alone(Builder& builder) {
  const BuildJob all = builder.job;
  std::vector<BuildOutcome> outcomes;
  for (size_t i = 0; i < all.schedules.size(); ++i) {
    BuildJob one = all;
    one.schedules = {all.schedules[i]};
    one.first = all.first + static_cast<int64_t>(i);
    if (const Status status = hand_over(builder, one); !status)
      outcomes.push_back({"", "compile_error", "the builder: " + status.error().message, true});
    else
      outcomes.push_back(finish(builder, build_deadline_ns())[0]);
  }
  return outcomes;
}

Result<ReferenceKernel> Farm::build_reference(const std::string& workload,
                                              const std::string& schedule) {
  TW_TRY(const BuildOutcome built,
         build_one(workload, schedule, {.packs = true, .reference = true}));
  return ReferenceKernel(built.path, built.otherwise);
}

Result<double> Farm::prepare(const std::string& workload, const ReferenceKernel& reference,
                             bool needed) {
  if (workload == workload_ && reference == reference_) return reference_ns_;
  workload_ = workload;
  reference_ = reference;
  patience_->gives_up_at_once = !needed;
  Status status = runner_->running() ? load_reference() : restart_runner();
  patience_->gives_up_at_once = false;
  if (status) return reference_ns_;
  workload_.clear();
  if (patience_->interrupted_ns) return interrupted_at_start();
  return tl::unexpected<Error>(status.error());
}

Status Farm::load_reference() {
  if (workload_.empty()) return {};
  MeasureReply fault;
  // The reference runs untuned, on several fills: give it room.
  TW_TRY(
      const std::string bytes,
      ask_runner(Job(PrepareJob{workload_, reference_.path, threads_, seed_, reference_.on_device}),
                 30 + 10 * timeout_s_, fault));
  // Too large or too slow for this machine is no mistake of ours.
  if (fault.status == "resource" || fault.status == "timeout")
    return fail(ErrorCode::Environment,
                fmt::format("[tune] the workload is too much for this machine, its untuned kernel "
                            "gave {}: {}; choose a smaller one, or raise --timeout or memory",
                            fault.status, fault.reason));
  if (bytes.empty())
    return fail(ErrorCode::Internal,
                fmt::format("[tune] the reference kernel fails: {}", fault.reason));
  PrepareReply reply;
  TW_RETURN_IF_ERROR(decode(bytes, reply));
  if (!reply.error.empty()) return fail(ErrorCode::Internal, reply.error);
  reference_ns_ = reply.reference_ns;
  return {};
}

Result<DeviceTurn> Farm::wait_for_device() {
  if (!device_lock_) return DeviceTurn();
  auto turn =
      device_lock_->take(waiting_clock_, clock_() + to_ns(device_patience_s + 2 * timeout_s_));
  // An interrupt ends the wait, and is the reason then; the other tuner is not.
  if (!turn && patience_->interrupted_ns) return interrupted_at_start();
  return turn;
}

Result<std::string> Farm::ask_runner(const Job& job, double timeout_s, MeasureReply& fault) {
  // Most references are prepared on the processor.
  DeviceTurn turn;
  if (const auto* prepares = std::get_if<PrepareJob>(&job); !prepares || prepares->on_device) {
    TW_TRY(turn, wait_for_device());
  }
  const int64_t started = clock_();
  TW_RETURN_IF_ERROR(runner_->send(encode(job)));
  const Outcome outcome = runner_->receive(started + to_ns(timeout_s));
  busy(started, clock_());
  if (const Reply* reply = std::get_if<Reply>(&outcome)) return reply->bytes;
  fault = fault_of(outcome);
  return std::string();
}

Status Farm::restart_runner() {
  TW_RETURN_IF_ERROR(runner_->restart());
  return load_reference();
}

Result<MeasureReply> Farm::measure(const MeasureJob& job) {
  if (!runner_->running()) TW_RETURN_IF_ERROR(restart_runner());
  ++measured_;
  MeasureReply reply;
  TW_TRY(const std::string bytes, ask_runner(Job(job), timeout_s_, reply));
  if (!bytes.empty())
    if (const Status status = decode(bytes, reply); !status)
      reply = {"crash", status.error().message};
  peak_gflops_ = std::max(peak_gflops_, reply.peak_gflops);
  return reply;
}

Result<CompareReply> Farm::compare(const std::string& a, const std::string& b, int rounds) {
  if (!runner_->running()) TW_RETURN_IF_ERROR(restart_runner());
  MeasureReply fault;
  TW_TRY(const std::string bytes, ask_runner(Job(CompareJob{a, b, rounds}), 2 * timeout_s_, fault));
  CompareReply reply;
  if (bytes.empty()) {
    reply.error = fault.reason;
    return reply;
  }
  TW_RETURN_IF_ERROR(decode(bytes, reply));
  return reply;
}

Result<Target> Farm::machine() {
  if (!target_.is_gpu()) return target_;
  if (!runner_->running()) TW_RETURN_IF_ERROR(restart_runner());
  MeasureReply fault;
  TW_TRY(const std::string bytes, ask_runner(Job(DescribeJob{}), 30 + timeout_s_, fault));
  if (bytes.empty())
    return fail(ErrorCode::Environment,
                fmt::format("[device] the driver fails: {}: {}", fault.status, fault.reason));
  DescribeReply reply;
  TW_RETURN_IF_ERROR(decode(bytes, reply));
  if (!reply.error.empty()) return fail(ErrorCode::Environment, reply.error);
  runtime::DeviceFacts facts;
  facts.name = reply.name;
  facts.multiprocessors = static_cast<int>(reply.multiprocessors);
  facts.l2_bytes = reply.l2_bytes;
  facts.memory_bytes = reply.memory_bytes;
  return with_facts(target_, facts);
}

Result<tw::Machine> Farm::calibrate(double budget_s) {
  if (!runner_->running()) TW_RETURN_IF_ERROR(restart_runner());
  MeasureReply fault;
  const Job job = CalibrateJob{target_.to_string(), to_string(target_.machine), to_ns(budget_s)};
  TW_TRY(const std::string bytes, ask_runner(job, budget_s + timeout_s_, fault));
  if (bytes.empty())
    return fail(ErrorCode::Environment,
                fmt::format("[calibration] the machine was not measured: {}: {}", fault.status,
                            fault.reason));
  CalibrateReply reply;
  TW_RETURN_IF_ERROR(decode(bytes, reply));
  if (!reply.error.empty()) return fail(ErrorCode::TryLater, reply.error);
  return parse_machine(reply.machine);
}

Result<double> Farm::peak_gflops() {
  if (measured_ < peak_due_) return peak_gflops_;
  // The fastest of several windows of 10 ms: on a busy machine one of them alone may lose its core,
  // and against so low a peak every trial would look impossible.
  double fastest = 0;
  for (int window = 0; window < peak_windows; ++window) {
    TW_TRY(const double gflops, measure_peak());
    fastest = std::max(fastest, gflops);
  }
  peak_due_ = measured_ + trials_per_peak;
  return peak_gflops_ = fastest;
}

Result<double> Farm::measure_peak() {
  if (!runner_->running()) TW_RETURN_IF_ERROR(restart_runner());
  MeasureReply fault;
  TW_TRY(const std::string bytes, ask_runner(Job(PeakJob{threads_}), timeout_s_, fault));
  PeakReply reply;
  if (bytes.empty()) return fail(ErrorCode::Internal, "[tune] the machine's peak: " + fault.reason);
  TW_RETURN_IF_ERROR(decode(bytes, reply));
  if (!reply.error.empty()) return fail(ErrorCode::Internal, reply.error);
  return reply.gflops;
}

}  // namespace tw::tuner
