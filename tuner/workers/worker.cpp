// SPDX-License-Identifier: Apache-2.0
// The worker program:
//   worker build <store> <code generator> [<CUDA directory> ...]     compiles beside timings
//   worker build_alone <store> <code generator> [...]                compiles, nothing is timed
//   worker run <store>                                               verifies and times
//   worker run <store> <target> <index> <directory>                  the same on a device
//   worker station ...                                               a member of a farm: station.h
// `worker unconfined build ...`, and so on, starts the worker without limits (processes/sandbox.h).
// The store is a directory of kernels (artifact_store.h), which builders may write. The code
// generator is the directory of the compiler for processors, or empty; the CUDA directories are
// those of NvrtcOptions; a device's driver writes to its directory. A worker answers one frame with
// one frame until its parent closes the connection.

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <optional>
#include <thread>

#include "base/text.h"
#include "codegen/backend.h"
#include "codegen/compile.h"
#include "runtime/artifact.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"
#include "tuner/measure/calibration.h"
#include "tuner/measure/executor.h"
#include "tuner/measure/sampling.h"
#include "tuner/measure/verdict.h"
#include "tuner/measure/verify.h"
#include "tuner/processes/frame.h"
#include "tuner/processes/process.h"
#include "tuner/processes/sandbox.h"
#include "tuner/workers/artifact_store.h"
#include "tuner/workers/driver.h"
#include "tuner/workers/jobs.h"
#include "tuner/workers/station.h"

namespace tw::tuner {
namespace {

using Answer = std::function<std::string(const Job&)>;

// Gives builders a tenth of the scheduling weight of a process of usual priority.
constexpr int builder_niceness = 10;

int serve(const Answer& answer) {
  while (true) {
    auto request = read_frame(worker_fd);
    if (!request || !*request) return 0;
    auto job = decode_job(**request);
    if (!job) exit_with(FaultKind::Ended, job.error().message);
    if (const Status sent = write_frame(worker_fd, answer(*job)); !sent) return 0;
  }
}

// ---- building -------------------------------------------------------------------------------

/// The outcome of a schedule that could not be built. If a signal from outside ended a tool, or if
/// the compiler, the linker or the disk is at fault, the outcome is blameless: it says nothing
/// about the schedule.
BuildOutcome rejected(db::TrialStatus status, const Error& error) {
  BuildOutcome outcome{"", status, error.message};
  outcome.installation = error.code == ErrorCode::Environment;
  outcome.blameless = outcome.installation || error.code == ErrorCode::TryLater;
  if (error.code == ErrorCode::TryLater) outcome.status = db::TrialStatus::Lost;
  return outcome;
}

Result<codegen::KernelSpec> spec_of(const KernelSource& kernel, const Target& target, bool packs) {
  TW_TRY(const dsl::Workload workload, dsl::parse_workload(kernel.workload));
  TW_TRY(const schedules::Schedule schedule,
         schedules::parse_schedule(workload.compute, kernel.schedule));
  codegen::KernelSpec spec;
  TW_TRY(spec.program, schedule.program(schedules::limits_of(target)));
  spec.workload = kernel.workload;
  spec.schedule = kernel.schedule;
  spec.packs = packs || keeps_arrays(workload);
  spec.flops = static_cast<int64_t>(dsl::count_flops(workload.compute));
  return spec;
}

BuildOutcome stored(const Result<runtime::Artifact>& artifact, const ArtifactStore& artifacts) {
  if (!artifact) return rejected(db::TrialStatus::CompileError, artifact.error());
  const auto name = artifacts.put(*artifact);
  if (!name) return rejected(db::TrialStatus::CompileError, name.error());
  return {*name, db::TrialStatus::Ok, "", false, codegen::code_hash(*artifact)};
}

/// The store in which a builder leaves kernels, and the options by which it finds compilers.
struct Workshop {
  ArtifactStore artifacts;
  codegen::CompileOptions options;
};

/// Builds all kernels of the job together. If a kernel cannot be built, its outcome has the reason.
Result<BuildReply> build_all(const BuildJob& job, const Workshop& workshop) {
  TW_TRY(const Target target, parse_target(job.target));
  BuildReply reply;
  reply.outcomes.resize(job.kernels.size());
  std::vector<codegen::KernelSpec> specs;
  std::vector<size_t> places;
  for (size_t i = 0; i < job.kernels.size(); ++i) {
    auto spec = spec_of(job.kernels[i], target, job.packs);
    if (!spec) {
      reply.outcomes[i] = rejected(db::TrialStatus::Illegal, spec.error());
      continue;
    }
    specs.push_back(std::move(*spec));
    places.push_back(i);
  }
  reply.toolchain = codegen::toolchain(target, workshop.options).value_or("");
  const auto artifacts = codegen::compile(specs, target, workshop.options);
  for (size_t k = 0; k < specs.size(); ++k)
    reply.outcomes[places[k]] = artifacts
                                    ? stored((*artifacts)[k], workshop.artifacts)
                                    : rejected(db::TrialStatus::CompileError, artifacts.error());
  return reply;
}

Result<BuildReply> build_default(BuildJob job, const Workshop& workshop) {
  KernelSource& kernel = job.kernels.front();
  TW_TRY(const dsl::Workload workload, dsl::parse_workload(kernel.workload));
  TW_TRY(const Target target, parse_target(job.otherwise));
  const auto space = schedules::Space::derive(workload.compute, target);
  job.target = job.otherwise;
  kernel.schedule = space.schedule(space.default_point()).to_string();
  job.kernels.resize(1);
  return build_all(job, workshop);
}

/// If the compiler for the job's target is not installed, builds the first kernel for the job's
/// other target (BuildJob::otherwise).
void build_otherwise(const BuildJob& job, const Workshop& workshop, BuildReply& reply) {
  BuildOutcome& first = reply.outcomes.front();
  if (job.otherwise.empty() || !first.installation) return;
  const auto other = build_default(job, workshop);
  if (other && !other->outcomes[0].artifact.empty()) {
    first = other->outcomes[0];
    first.otherwise = true;
  } else {
    first.reason += "; nor for the device: ";
    first.reason += other ? other->outcomes[0].reason : other.error().message;
  }
}

BuildReply build(const BuildJob& job, const Workshop& workshop) {
  auto reply = build_all(job, workshop);
  if (reply) {
    build_otherwise(job, workshop, *reply);
    return std::move(*reply);
  }
  return {std::vector<BuildOutcome>(job.kernels.size(),
                                    rejected(db::TrialStatus::Illegal, reply.error()))};
}

// ---- running --------------------------------------------------------------------------------

// Bytes of references that a runner keeps. Those of all layers of ResNet-50 have 250 MB.
constexpr int64_t most_prepared_bytes = int64_t{512} << 20;

int64_t bytes_of(const Reference& reference) {
  int64_t bytes = 0;
  for (const Fill* fill : {&reference.integers, &reference.normal})
    for (const dsl::Arrays* arrays : {&fill->inputs, &fill->outputs})
      for (const auto& [name, array] : *arrays) bytes += static_cast<int64_t>(array.data.size());
  return bytes;
}

/// Returns a reply with this status and reason. A lack of memory does not blame the candidate,
/// because another process may hold the memory.
MeasureReply failed(db::TrialStatus status, const std::string& reason) {
  MeasureReply reply{status, reason};
  reply.blameless = status == db::TrialStatus::Resource;
  return reply;
}

/// Checks that the kernel has the arrays of the compute. Fails with Invalid if it has others, as a
/// kernel of another workload does.
Status check_arguments(const runtime::KernelInfo& kernel, const dsl::Compute& compute) {
  size_t outputs = 0;
  for (const runtime::ArgumentInfo& argument : kernel.arguments) {
    const bool is_known = argument.is_output ? compute.is_output(argument.name)
                                             : compute.find_input(argument.name) != nullptr;
    if (!is_known || compute.shape_of(argument.name) != argument.shape ||
        compute.type_of(argument.name) != argument.dtype)
      return fail(ErrorCode::Invalid,
                  fmt::format("[worker] the kernel is of another workload: its {} '{}' is {}[{}]",
                              argument.is_output ? "output" : "input", argument.name,
                              to_string(argument.dtype), fmt::join(argument.shape, ", ")));
    outputs += argument.is_output ? 1 : 0;
  }
  if (outputs == compute.outputs.size()) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("[worker] the kernel is of another workload: it has {} outputs, not {}",
                          outputs, compute.outputs.size()));
}

/// Answers the jobs of a runner, and remembers between them what was prepared.
class RunnerWorker {
 public:
  /// Measures on the processor if there is no `target`, otherwise on the device with this index in
  /// the target's list of devices.
  RunnerWorker(ArtifactStore artifacts, const std::optional<Target>& target, int index)
      : artifacts_(std::move(artifacts)),
        executor_(target ? accelerator(*target, index, clock_) : processor(threads_, clock_)) {}

  std::string answer(const Job& job) {
    if (const auto* j = std::get_if<PrepareJob>(&job)) return encode(prepare(*j));
    if (const auto* j = std::get_if<MeasureJob>(&job)) return encode(measure(*j));
    if (const auto* j = std::get_if<CompareJob>(&job)) return encode(compare(*j));
    if (const auto* j = std::get_if<PeakJob>(&job)) return encode(peak(*j));
    if (std::holds_alternative<DescribeJob>(job)) return encode(describe());
    if (const auto* j = std::get_if<CalibrateJob>(&job)) return encode(calibrate(*j));
    return encode(PeakReply{"[worker] this worker does not build", 0});
  }

 private:
  struct Prepared {
    PrepareJob job;
    ReferencedWorkload workload;
  };
  /// Prepares the worker for a workload. The reference is a kernel of the processor if one could be
  /// built, even if the candidates run on a device.
  Result<Prepared> prepared(const PrepareJob& job) {
    TW_TRY(dsl::Workload workload, dsl::parse_workload(job.workload));
    const std::unique_ptr<Executor> host = processor(threads_, clock_);
    Executor& executor = job.on_device ? *executor_ : *host;
    TW_TRY(runtime::Artifact artifact, artifacts_.load(job.reference, executor.target()));
    TW_TRY(const PlainCall plain, executor.plain_call(std::move(artifact), workload));
    TW_TRY(Reference reference, make_reference(workload, plain, clock_));
    return Prepared{job, {std::move(workload), std::move(reference)}};
  }

  PrepareReply prepare(const PrepareJob& job) {
    threads_.count = static_cast<int>(job.threads);
    incumbent_ = {};  // it borrows the workload of the previous job
    const auto known = std::find_if(prepared_.begin(), prepared_.end(),
                                    [&](const Prepared& p) { return p.job == job; });
    if (known == prepared_.end()) {
      auto made = prepared(job);
      if (!made) return {made.error().message};
      prepared_.push_front(std::move(*made));
    } else {
      prepared_.splice(prepared_.begin(), prepared_, known);
    }
    int64_t bytes = 0;
    const auto erased = std::erase_if(prepared_, [&](const Prepared& p) {
      bytes += bytes_of(p.workload.reference);
      return &p != &prepared_.front() && bytes > most_prepared_bytes;
    });
    if (erased > 0) executor_->forget_inputs();
    const Reference& reference = prepared_.front().workload.reference;
    return {"", reference.error, reference.plain_ns};
  }

  Sampling sampling() const {
    Sampling options;
    // A kernel whose call takes longer than a batch is timed call by call, and seven calls suffice.
    // Seven pairs of calls would give no better estimate, since a disturbance lasts longer than a
    // call.
    options.min_batch_ns = 500'000;
    options.min_samples = 7;
    options.max_samples = 24;
    options.max_total_ns = 60'000'000;
    return executor_->fitted(in_state(options));
  }

  /// Options that fit the timers of the workload that is prepared.
  Sampling in_state(const Sampling& options) const {
    const bool is_hot =
        prepared_.empty() || prepared_.front().workload.workload.state == dsl::CacheState::Hot;
    return is_hot ? options : for_single_calls(options);
  }

  Result<std::unique_ptr<LoadedKernel>> loaded(const std::string& artifact) {
    TW_TRY(runtime::Artifact kernel, artifacts_.load(artifact, executor_->target()));
    const ReferencedWorkload& workload = prepared_.front().workload;
    TW_RETURN_IF_ERROR(check_arguments(kernel.info, workload.workload.compute));
    return executor_->load(std::move(kernel), workload);
  }

  MeasureReply measure(const MeasureJob& job) {
    if (prepared_.empty()) return blameless_loss("[worker] measure before prepare");
    const auto kernel = loaded(job.artifact);
    if (!kernel) {
      const bool lacks = kernel.error().code == ErrorCode::Environment;
      return failed(lacks ? db::TrialStatus::Resource : db::TrialStatus::CompileError,
                    kernel.error().message);
    }
    const Verdict verdict = (*kernel)->verify();
    MeasureReply reply = failed(verdict.status, verdict.reason);
    reply.verified_error = verdict.error;
    if (verdict.status != db::TrialStatus::Ok || job.verify_only) return reply;
    const auto timer = (*kernel)->timer();
    if (!timer) return failed(db::TrialStatus::Resource, timer.error().message);
    // If the incumbent cannot be loaded, the kernel is not to blame, and is timed alone.
    const Status beside = job.incumbent.empty() ? Status() : load_incumbent(job.incumbent);
    if (!beside) {
      reply.incumbent_fault = beside.error().message;
      reply.faulty_incumbent = job.incumbent;
    }
    const Samples samples = timed(*timer, job, !job.incumbent.empty() && beside);
    if (const Verdict after = (*kernel)->check_after_timing(); after.status != db::TrialStatus::Ok)
      return failed(after.status, "after it was timed: " + after.reason);
    fill_in(samples, reply);
    return reply;
  }

  void fill_in(const Samples& samples, MeasureReply& reply) const {
    reply.samples_ns = samples.raw_ns;
    reply.latency_ns = samples.estimate.latency_ns;
    reply.low_ns = samples.estimate.low_ns;
    reply.high_ns = samples.estimate.high_ns;
    reply.noise = samples.estimate.relative_interval();
    reply.incumbent_pace = samples.incumbent_pace;
    reply.peak_gflops = executor_->fastest_gflops();
    if (samples.state == SampleState::TooFast) reply.status = db::TrialStatus::TooFast;
    if (samples.state == SampleState::Dropped) {
      reply.status = db::TrialStatus::Hopeless;
      reply.reason = "stopped early, clearly slower than the best so far";
    }
    if (samples.state == SampleState::Disturbed) {
      reply.status = db::TrialStatus::Unstable;
      reply.reason = "timed only while the machine was disturbed: " + samples.disturbance;
    }
  }

  Samples timed(const Timer& timer, const MeasureJob& job, bool beside_incumbent) {
    Sampling options = sampling();
    options.patience_ns = static_cast<int64_t>(job.patience_s * 1e9);
    if (beside_incumbent)
      return sample_beside({job.incumbent_ns, incumbent_.timer}, timer, options, clock_,
                           executor_->watch());
    const auto pause = [&] {
      std::this_thread::sleep_for(std::chrono::duration<double>(job.pause_s));
    };
    return sample_spread(timer, static_cast<int>(job.stretches), pause, options, clock_,
                         executor_->watch());
  }

  /// Loads the incumbent, unless it is loaded already.
  Status load_incumbent(const std::string& artifact) {
    if (incumbent_.artifact == artifact) return {};
    incumbent_ = {};
    TW_TRY(auto kernel, loaded(artifact));
    TW_TRY(Timer timer, kernel->timer());
    incumbent_ = {artifact, std::move(kernel), std::move(timer)};
    return {};
  }

  CompareReply compare(const CompareJob& job) {
    const auto compared = [&]() -> Result<Comparison> {
      if (prepared_.empty()) return fail(ErrorCode::Internal, "[worker] compare before prepare");
      TW_TRY(const auto a, loaded(job.a));
      TW_TRY(const auto b, loaded(job.b));
      TW_TRY(const Timer timer_a, a->timer());
      TW_TRY(const Timer timer_b, b->timer());
      return compare_abba(timer_a, timer_b, static_cast<int>(job.rounds),
                          executor_->fitted(in_state({})), executor_->watch());
    }();
    if (!compared) return {.error = compared.error().message};
    if (compared->state != SampleState::Settled)
      return {.error = compared->state == SampleState::TooFast
                           ? "not compared, because the kernels are too fast for the timer"
                           : "not compared, because all rounds were disturbed"};
    return {"",
            compared->ratio,
            compared->low,
            compared->high,
            compared->noise_floor,
            compared->winner};
  }

  PeakReply peak(const PeakJob& job) {
    threads_.count = static_cast<int>(job.threads);
    const auto gflops = executor_->f32_peak_gflops();
    if (!gflops) return {gflops.error().message, 0};
    return {"", *gflops};
  }

  DescribeReply describe() {
    const auto facts = executor_->facts();
    if (!facts) return {.error = facts.error().message};
    return {"", facts->name, facts->multiprocessors, facts->l2_bytes, facts->memory_bytes};
  }

  CalibrateReply calibrate(const CalibrateJob& job) const {
    const auto measured = [&]() -> Result<Machine> {
      TW_TRY(Target target, parse_target(job.target));
      TW_TRY(target.machine, parse_machine(job.machine));
      return calibrate_processor(target, clock_, job.budget_ns);
    }();
    if (!measured) return {.error = measured.error().message};
    return {.machine = to_string(*measured)};
  }

  ArtifactStore artifacts_;
  Threads threads_;
  Clock clock_ = monotonic_clock();
  std::unique_ptr<Executor> executor_;
  std::list<Prepared> prepared_;  ///< most recently used first; the front is measured
  /// The incumbent of the current workload, which stays loaded beside its candidates.
  struct LoadedIncumbent {
    std::string artifact = {};
    std::unique_ptr<LoadedKernel> kernel = {};
    Timer timer = {};
  };
  LoadedIncumbent incumbent_;
};

int complain(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return static_cast<int>(error.code);
}

/// Role of a worker, as given by its command line.
struct Role {
  bool builds = false;
  bool beside_timing = false;  ///< for a builder: true if kernels are timed while it builds
  std::string store;
  codegen::CompileOptions options = {};  ///< for a builder: says where it finds compilers
  std::optional<Target> device = {};     ///< for a runner on a device
  int device_index = 0;
  std::string driver_directory = {};
};

Result<Role> role_of(const std::vector<std::string>& arguments) {
  const size_t count = arguments.size();
  const bool alone = count >= 3 && arguments[0] == "build_alone";
  if (alone || (count >= 3 && arguments[0] == "build")) {
    Role role{.builds = true, .beside_timing = !alone, .store = arguments[1]};
    if (!arguments[2].empty()) role.options.cpu.plugin_directories = {arguments[2]};
    role.options.nvrtc.directories = {arguments.begin() + 3, arguments.end()};
    return role;
  }
  if ((count != 2 && count != 5) || arguments[0] != "run")
    return fail(ErrorCode::Usage, "[worker] started by `tune`; it is of no use by itself");
  Role role{.store = arguments[1]};
  if (count == 5) {
    TW_TRY(role.device, parse_target(arguments[2]));
    role.device_index = static_cast<int>(parse_int(arguments[3]).value_or(0));
    role.driver_directory = arguments[4];
  }
  return role;
}

/// Returns the limits of a builder, or of a runner for the processor.
ProcessLimits limits_of_role(const Role& role) {
  ProcessLimits limits;
  if (role.builds) {
    limits.may_start_programs = true;
    limits.scratch_dir = role.store;
  }
  return limits;
}

/// Returns when the first request arrives, or the connection ends.
void wait_for_request() {
  pollfd request = {worker_fd, POLLIN, 0};
  while (::poll(&request, 1, -1) < 0 && errno == EINTR) {
  }
}

/// Limits this process as its role requires, and starts the driver of its device. The driver starts
/// only when the first request arrives, because the parent holds the lock of the device from then
/// on (device_lock.h).
Result<std::shared_ptr<runtime::Device>> prepare_process(const Role& role, Confined confined) {
  std::shared_ptr<runtime::Device> none;
  if (role.device) {
    wait_for_request();
    TW_TRY(StartedDriver driver, start_driver(codegen::backend_of(*role.device), role.device_index,
                                              role.driver_directory, confined));
    return std::move(driver.device);
  }
  if (confined == Confined::Yes) TW_RETURN_IF_ERROR(restrict_self(limits_of_role(role)));
  return none;
}

int serve_as_builder(const Role& role) {
  // With fewer cores than workers, timing has priority over building.
  if (role.beside_timing) (void)!::nice(builder_niceness);
  const Workshop workshop{ArtifactStore(role.store), role.options};
  return serve([&, clock = monotonic_clock()](const Job& job) {
    const auto* build_job = std::get_if<BuildJob>(&job);
    if (!build_job) return encode(BuildReply{});
    const int64_t started_ns = clock();
    BuildReply reply = build(*build_job, workshop);
    reply.seconds = static_cast<double>(clock() - started_ns) * 1e-9;
    return encode(reply);
  });
}

int serve_as_runner(const Role& role) {
  RunnerWorker worker(ArtifactStore(role.store), role.device, role.device_index);
  return serve([&](const Job& job) { return worker.answer(job); });
}

}  // namespace

int worker_main(const std::vector<std::string>& arguments) {
  const bool is_free = !arguments.empty() && arguments.front() == unconfined_role;
  const std::vector<std::string> rest(arguments.begin() + (is_free ? 1 : 0), arguments.end());
  const Confined confined = is_free ? Confined::No : Confined::Yes;
  if (!rest.empty() && rest[0] == "station")
    return station_main({rest.begin() + 1, rest.end()}, confined);
  const auto role = role_of(rest);
  if (!role) return complain(role.error());
  if (const Status entered = enter_worker(); !entered) return complain(entered.error());
  if (const Status handlers = report_faults(); !handlers)
    exit_with(FaultKind::Ended, handlers.error().message);
  const auto device = prepare_process(*role, confined);
  if (!device) exit_with(FaultKind::Ended, device.error().message);
  return role->builds ? serve_as_builder(*role) : serve_as_runner(*role);
}

}  // namespace tw::tuner
