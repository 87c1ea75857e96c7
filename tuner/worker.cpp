// SPDX-License-Identifier: Apache-2.0
// The worker program: `worker build <directory>` compiles, `worker run` verifies and times, and
// `worker run <target> <directory>` does so on a device, whose driver writes to the directory. Each
// answers one frame with one frame until its parent closes the connection.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <optional>
#include <thread>

#include "base/text.h"
#include "codegen/compile.h"
#include "codegen/gpu_compile.h"
#include "runtime/artifact.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tuner/calibration.h"
#include "tuner/farm.h"
#include "tuner/frame.h"
#include "tuner/machine.h"
#include "tuner/sampling.h"
#include "tuner/sandbox.h"
#include "tuner/tune.h"
#include "tuner/verdict.h"
#include "tuner/verify.h"

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
    if (!job) {
      std::fprintf(stderr, "%s\n", job.error().message.c_str());
      return 1;
    }
    if (const Status sent = write_frame(worker_fd, answer(*job)); !sent) return 0;
  }
}

// ---- building -------------------------------------------------------------------------------

BuildOutcome rejected(std::string_view status, const Error& error) {
  return {"", std::string(status), error.message, error.code == ErrorCode::Environment};
}

Result<codegen::KernelSpec> spec_of(const BuildJob& job, const dsl::Workload& workload,
                                    const Target& target, const std::string& text) {
  TW_TRY(const schedules::Schedule schedule, schedules::parse_schedule(workload.compute, text));
  codegen::KernelSpec spec;
  TW_TRY(spec.program, schedule.program(schedules::limits_of(target)));
  spec.workload = job.workload;
  spec.schedule = text;
  spec.packs = job.packs || keeps_arrays(workload);
  spec.flops = static_cast<int64_t>(dsl::count_flops(workload.compute));
  return spec;
}

BuildOutcome written(const Result<runtime::Artifact>& artifact, const std::string& path) {
  if (!artifact) return rejected("compile_error", artifact.error());
  if (const Status status = runtime::write_artifact(path, *artifact); !status)
    return rejected("compile_error", status.error());
  return {path, "ok", "", false, codegen::code_hash(*artifact)};
}

/// Builds all schedules of the job in one batch; a schedule that fails has its reason.
Result<BuildReply> build_all(const BuildJob& job) {
  TW_TRY(const dsl::Workload workload, dsl::parse_workload(job.workload));
  TW_TRY(const Target target, parse_target(job.target));
  BuildReply reply;
  reply.outcomes.resize(job.schedules.size());
  std::vector<codegen::KernelSpec> specs;
  std::vector<size_t> places;
  for (size_t i = 0; i < job.schedules.size(); ++i) {
    auto spec = spec_of(job, workload, target, job.schedules[i]);
    if (!spec) {
      reply.outcomes[i] = rejected("illegal", spec.error());
      continue;
    }
    specs.push_back(std::move(*spec));
    places.push_back(i);
  }
  codegen::CompileOptions options;
  if (!job.code_generator.empty()) options.cpu.plugin_directories = {job.code_generator};
  options.nvrtc.directories = job.cuda_directories;
  reply.toolchain = target.is_gpu() ? codegen::gpu_toolchain(target, options.nvrtc).value_or("")
                                    : codegen::cpu_toolchain(options.cpu).value_or("");
  const auto artifacts = codegen::compile(specs, target, options);
  for (size_t k = 0; k < specs.size(); ++k)
    reply.outcomes[places[k]] =
        artifacts
            ? written((*artifacts)[k], fmt::format("{}/{}.twart", job.directory,
                                                   job.first + static_cast<int64_t>(places[k])))
            : rejected("compile_error", artifacts.error());
  return reply;
}

Result<BuildReply> build_default(BuildJob job) {
  TW_TRY(const dsl::Workload workload, dsl::parse_workload(job.workload));
  TW_TRY(const Target target, parse_target(job.otherwise));
  const auto space = schedules::Space::derive(workload.compute, target);
  job.target = job.otherwise;
  job.schedules = {space.schedule(space.default_point()).to_string()};
  return build_all(job);
}

/// Builds the first schedule for the other target if the compiler for the job's is not installed.
void build_otherwise(const BuildJob& job, BuildReply& reply) {
  BuildOutcome& first = reply.outcomes.front();
  if (job.otherwise.empty() || !first.installation) return;
  const auto other = build_default(job);
  if (other && !other->outcomes[0].path.empty()) {
    first = other->outcomes[0];
    first.otherwise = true;
  } else {
    first.reason += "; nor for the device: ";
    first.reason += other ? other->outcomes[0].reason : other.error().message;
  }
}

BuildReply build(const BuildJob& job) {
  auto reply = build_all(job);
  if (reply) {
    build_otherwise(job, *reply);
    return std::move(*reply);
  }
  return {std::vector<BuildOutcome>(job.schedules.size(), rejected("illegal", reply.error()))};
}

// ---- running --------------------------------------------------------------------------------

// Bytes of references that a runner keeps: those of all layers of ResNet-50 are 250 MB.
constexpr int64_t most_prepared_bytes = int64_t{512} << 20;

int64_t bytes_of(const Reference& reference) {
  int64_t bytes = 0;
  for (const Fill* fill : {&reference.integers, &reference.normal})
    for (const dsl::Arrays* arrays : {&fill->inputs, &fill->outputs})
      for (const auto& [name, array] : *arrays) bytes += static_cast<int64_t>(array.data.size());
  return bytes;
}

/// What a runner remembers between jobs.
class Runner {
 public:
  /// Measures on the processor, or on the device of that index of the target.
  Runner(const std::optional<Target>& target, int index)
      : machine_(target ? accelerator(*target, index, clock_) : processor(threads_, clock_)) {}

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
    Task task;
  };
  /// The reference is a kernel of the processor where there can be one, whatever the others are
  /// for.
  Result<Prepared> prepared(const PrepareJob& job) {
    TW_TRY(dsl::Workload workload, dsl::parse_workload(job.workload));
    const std::unique_ptr<Machine> host = processor(threads_, clock_);
    TW_TRY(const PlainCall plain,
           (job.on_device ? *machine_ : *host).plain_call(job.reference, workload));
    TW_TRY(Reference reference, make_reference(workload, plain, job.seed, clock_));
    return Prepared{job, {std::move(workload), std::move(reference)}};
  }

  PrepareReply prepare(const PrepareJob& job) {
    threads_.count = static_cast<int>(job.threads);
    rival_ = {};  // it borrows the task of the previous job
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
      bytes += bytes_of(p.task.reference);
      return &p != &prepared_.front() && bytes > most_prepared_bytes;
    });
    if (erased > 0) machine_->forget_inputs();
    const Reference& reference = prepared_.front().task.reference;
    return {"", reference.error, reference.plain_ns};
  }

  Sampling sampling() const {
    Sampling options;
    // A kernel that takes longer than a batch is timed call by call: seven calls give as good an
    // estimate as seven pairs, as a disturbance lasts longer than a call.
    options.min_batch_ns = 500'000;
    options.min_samples = 7;
    options.max_samples = 24;
    options.max_total_ns = 60'000'000;
    return machine_->fitted(options);
  }

  MeasureReply measure(const MeasureJob& job) {
    if (prepared_.empty()) return {"crash", "[worker] measure before prepare"};
    const auto subject = machine_->load(job.path, prepared_.front().task);
    if (!subject) {
      // A lack of memory says nothing about the schedule.
      const bool lacks = subject.error().code == ErrorCode::Environment;
      return {lacks ? "resource" : "compile_error", subject.error().message};
    }
    const Verdict verdict = (*subject)->verify();
    MeasureReply reply;
    reply.status = db::to_string(verdict.status);
    reply.reason = verdict.reason;
    reply.verified_error = verdict.error;
    if (verdict.status != db::TrialStatus::Ok || job.verify_only) return reply;
    const auto timer = (*subject)->timer();
    if (!timer) return {"resource", timer.error().message};
    const auto samples = timed(*timer, job);
    if (!samples) return {"resource", samples.error().message};
    if (const Verdict after = (*subject)->left_behind(); after.status != db::TrialStatus::Ok)
      return {std::string(db::to_string(after.status)), "after it was timed: " + after.reason};
    reply.samples_ns = samples->raw_ns;
    reply.latency_ns = samples->estimate.latency_ns;
    reply.low_ns = samples->estimate.low_ns;
    reply.high_ns = samples->estimate.high_ns;
    reply.noise = samples->estimate.relative_interval();
    reply.incumbent_pace = samples->incumbent_pace;
    reply.peak_gflops = machine_->fastest_gflops();
    if (samples->state == SampleState::TooFast) reply.status = "too_fast";
    if (samples->state == SampleState::Dropped) {
      reply.status = "hopeless";
      reply.reason = "stopped early, clearly slower than the best so far";
    }
    if (samples->state == SampleState::Disturbed) {
      reply.status = "unstable";
      reply.reason = "not timed, as the machine was disturbed: " + samples->disturbance;
    }
    return reply;
  }

  Result<Samples> timed(const Timer& timer, const MeasureJob& job) {
    Sampling options = sampling();
    options.patience_ns = static_cast<int64_t>(job.patience_s * 1e9);
    if (job.incumbent.empty()) {
      const auto pause = [&] {
        std::this_thread::sleep_for(std::chrono::duration<double>(job.pause_s));
      };
      return sample_spread(timer, static_cast<int>(job.stretches), pause, options, clock_,
                           machine_->watch());
    }
    if (rival_.path != job.incumbent) {
      rival_ = {};
      TW_TRY(auto subject, machine_->load(job.incumbent, prepared_.front().task));
      TW_TRY(Timer rival_timer, subject->timer());
      rival_ = {job.incumbent, std::move(subject), std::move(rival_timer)};
    }
    return sample_beside({job.incumbent_ns, rival_.timer}, timer, options, clock_,
                         machine_->watch());
  }

  CompareReply compare(const CompareJob& job) {
    const auto compared = [&]() -> Result<Comparison> {
      if (prepared_.empty()) return fail(ErrorCode::Internal, "[worker] compare before prepare");
      const Task& task = prepared_.front().task;
      TW_TRY(const auto a, machine_->load(job.a, task));
      TW_TRY(const auto b, machine_->load(job.b, task));
      TW_TRY(const Timer timer_a, a->timer());
      TW_TRY(const Timer timer_b, b->timer());
      return compare_abba(timer_a, timer_b, static_cast<int>(job.rounds),
                          machine_->fitted(Sampling{}), machine_->watch());
    }();
    if (!compared) return {.error = compared.error().message};
    return {"",
            compared->ratio,
            compared->low,
            compared->high,
            compared->noise_floor,
            static_cast<int64_t>(compared->winner)};
  }

  PeakReply peak(const PeakJob& job) {
    threads_.count = static_cast<int>(job.threads);
    const auto gflops = machine_->f32_peak_gflops();
    if (!gflops) return {gflops.error().message, 0};
    return {"", *gflops};
  }

  DescribeReply describe() {
    const auto facts = machine_->facts();
    if (!facts) return {.error = facts.error().message};
    return {"", facts->name, facts->multiprocessors, facts->l2_bytes, facts->memory_bytes};
  }

  CalibrateReply calibrate(const CalibrateJob& job) const {
    const auto measured = [&]() -> Result<tw::Machine> {
      TW_TRY(Target target, parse_target(job.target));
      TW_TRY(target.machine, parse_machine(job.machine));
      return calibrate_processor(target, clock_, job.budget_ns);
    }();
    if (!measured) return {.error = measured.error().message};
    return {.machine = to_string(*measured)};
  }

  Threads threads_;
  Clock clock_ = monotonic_clock();
  std::unique_ptr<Machine> machine_;
  std::list<Prepared> prepared_;  ///< most recently used first; the front is measured
  /// The incumbent of the current workload, which stays loaded beside its candidates.
  struct Rival {
    std::string path = {};
    std::unique_ptr<Subject> subject = {};
    Timer timer = {};
  };
  Rival rival_;
};

/// Limits under which drivers work. Sets the variables by which drivers learn where their files go,
/// before any driver is loaded and any thread runs.
Limits driver_limits(const Target& target, const std::string& directory) {
  ::setenv("POCL_CACHE_DIR", directory.c_str(), 1);
  ::setenv("CUDA_CACHE_PATH", directory.c_str(), 1);
  return {.address_space_bytes = 0,
          .open_files = 1024,
          // PoCL compiles in the process, but starts a linker.
          .may_start_programs = target.architecture == Architecture::OpenCl,
          .runs_drivers = true,
          .scratch_dir = directory};
}

int complain(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return static_cast<int>(error.code);
}

}  // namespace

int worker_main(const std::vector<std::string>& arguments) {
  const auto started_to = [&](std::string_view role, size_t count) {
    return arguments.size() == count && arguments[0] == role;
  };
  const bool builds = started_to("build", 2), on_device = started_to("run", 4);
  if (!builds && !on_device && !started_to("run", 1))
    return complain({ErrorCode::Usage, "[worker] started by `tune`; it is of no use by itself"});
  std::optional<Target> device;
  int index = 0;
  if (on_device) {
    auto target = parse_target(arguments[1]);
    if (!target) return complain(target.error());
    device = std::move(*target);
    index = static_cast<int>(parse_int(arguments[2]).value_or(0));
  }
  if (const Status entered = enter_worker(); !entered) return complain(entered.error());
  if (const Status handlers = report_faults(); !handlers) return complain(handlers.error());
  Limits limits;
  if (builds) {
    limits.may_start_programs = true;
    limits.scratch_dir = arguments[1];
  }
  if (device) limits = driver_limits(*device, arguments[3]);
  if (const auto restricted = restrict_self(limits); !restricted)
    return complain(restricted.error());
  // With fewer cores than workers, timing has priority over building.
  if (builds) (void)!::nice(builder_niceness);
  if (builds)
    return serve([clock = monotonic_clock()](const Job& job) {
      const auto* build_job = std::get_if<BuildJob>(&job);
      if (!build_job) return encode(BuildReply{});
      const int64_t started_ns = clock();
      BuildReply reply = build(*build_job);
      reply.seconds = static_cast<double>(clock() - started_ns) * 1e-9;
      return encode(reply);
    });
  Runner runner(device, index);
  return serve([&](const Job& job) { return runner.answer(job); });
}

}  // namespace tw::tuner
