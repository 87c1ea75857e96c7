// SPDX-License-Identifier: Apache-2.0
// The worker program: `worker build <directory>` compiles, `worker run` verifies and times. Each
// answers one frame with one frame until its parent closes the connection.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <list>

#include "codegen/compile.h"
#include "runtime/artifact.h"
#include "schedules/schedule.h"
#include "tuner/contention.h"
#include "tuner/farm.h"
#include "tuner/frame.h"
#include "tuner/peak.h"
#include "tuner/sampling.h"
#include "tuner/sandbox.h"
#include "tuner/tune.h"
#include "tuner/verify.h"

namespace tw::tuner {
namespace {

using Answer = std::function<std::string(const Job&)>;

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
  return {path, "ok"};
}

/// What compiles, all in one go.
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
  const auto artifacts = codegen::compile(specs, target, options);
  for (size_t k = 0; k < specs.size(); ++k)
    reply.outcomes[places[k]] =
        artifacts
            ? written((*artifacts)[k], fmt::format("{}/{}.twart", job.directory,
                                                   job.first + static_cast<int64_t>(places[k])))
            : rejected("compile_error", artifacts.error());
  return reply;
}

BuildReply build(const BuildJob& job) {
  auto reply = build_all(job);
  if (reply) return std::move(*reply);
  return {std::vector<BuildOutcome>(job.schedules.size(), rejected("illegal", reply.error()))};
}

// ---- running --------------------------------------------------------------------------------

// References that a runner keeps: those of all layers of ResNet-50 are 250 MB.
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
  std::string answer(const Job& job) {
    if (const auto* j = std::get_if<PrepareJob>(&job)) return encode(prepare(*j));
    if (const auto* j = std::get_if<MeasureJob>(&job)) return encode(measure(*j));
    if (const auto* j = std::get_if<CompareJob>(&job)) return encode(compare(*j));
    if (const auto* j = std::get_if<PeakJob>(&job)) return encode(peak(*j));
    return encode(PeakReply{"[worker] this worker does not build", 0});
  }

 private:
  runtime::ThreadPool& pool() {
    if (!pool_) {
      runtime::PoolOptions options;
      options.threads = threads_;
      pool_ = std::make_unique<runtime::ThreadPool>(options);
    }
    return *pool_;
  }

  Result<runtime::Kernel> load(const std::string& path) {
    TW_TRY(runtime::Artifact artifact, runtime::read_artifact(path));
    return runtime::Kernel::load(std::move(artifact));
  }

  /// A workload that kernels can be measured of.
  struct Prepared {
    PrepareJob job;
    dsl::Workload workload;
    Reference reference;
  };
  Result<Prepared> prepared(const PrepareJob& job) {
    TW_TRY(dsl::Workload workload, dsl::parse_workload(job.workload));
    TW_TRY(const runtime::Kernel plain, load(job.reference));
    TW_TRY(Reference reference, make_reference(workload, plain, job.seed, pool(), clock_));
    return Prepared{job, std::move(workload), std::move(reference)};
  }

  PrepareReply prepare(const PrepareJob& job) {
    threads_ = static_cast<int>(job.threads);
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
    std::erase_if(prepared_, [&](const Prepared& p) {
      bytes += bytes_of(p.reference);
      return &p != &prepared_.front() && bytes > most_prepared_bytes;
    });
    workload_ = &prepared_.front().workload;
    reference_ = &prepared_.front().reference;
    return {"", reference_->error, reference_->plain_ns};
  }

  /// Timed on the normal fill, with warm buffers.
  struct Timed {
    runtime::Kernel kernel;
    KernelBuffers buffers;
    std::vector<void*> pointers;
    Conversions conversions;  ///< that are part of a call
  };
  Result<Timed> ready_to_time(runtime::Kernel kernel) {
    TW_TRY(KernelBuffers buffers,
           KernelBuffers::make(kernel, *workload_, reference_->normal.inputs,
                               {.align = Align::Begin, .alignment = 64, .huge_pages = true}));
    std::vector<void*> pointers = buffers.pointers();
    TW_TRY(Conversions conversions,
           Conversions::of(kernel, *workload_, reference_->normal.inputs, buffers));
    return Timed{std::move(kernel), std::move(buffers), std::move(pointers),
                 std::move(conversions)};
  }
  Run run_of(Timed& timed) {
    return [&timed, this] {
      (void)timed.conversions.call(timed.kernel, timed.pointers, *pool_, threads_);
    };
  }

  /// Samples again when something else had the processor meanwhile; the quieter of two counts.
  Samples undisturbed(const std::function<Samples()>& take) const {
    const CounterSources sources{.whole_process = threads_ > 1};
    std::optional<Samples> best;
    const auto measure = [&] {
      Samples samples = take();
      if (!best || samples.estimate.latency_ns < best->estimate.latency_ns)
        best = std::move(samples);
      return best->state != SampleState::Dropped;
    };
    (void)measure_undisturbed([&] { return read_counters(sources); }, clock_, measure, 2);
    return std::move(*best);
  }

  static Sampling sampling() {
    Sampling options;
    options.min_batch_ns = 1'000'000;
    options.min_samples = 7;
    options.max_samples = 24;
    options.max_total_ns = 60'000'000;
    return options;
  }

  MeasureReply measure(const MeasureJob& job) {
    if (!reference_) return {"crash", "[worker] measure before prepare"};
    auto kernel = load(job.path);
    if (!kernel) return {"compile_error", kernel.error().message};
    const Verdict verdict = verify(*kernel, *workload_, *reference_, pool(), threads_);
    MeasureReply reply;
    reply.status = db::to_string(verdict.status);
    reply.reason = verdict.reason;
    reply.verified_error = verdict.error;
    if (verdict.status != db::TrialStatus::Ok || job.verify_only) return reply;
    auto timed = ready_to_time(std::move(*kernel));
    if (!timed) return {"resource", timed.error().message};
    const Run run = run_of(*timed);
    const Samples samples = undisturbed([&] {
      return job.incumbent_ns > 0 ? sample_until(run, job.incumbent_ns, sampling(), clock_)
                                  : sample(run, sampling(), clock_);
    });
    // What thousands of runs left behind: a fault that is rare, or late, shows here.
    const auto outputs = timed->buffers.outputs(timed->kernel);
    if (!outputs) return {"oob", outputs.error().message};
    if (const Verdict after = tuner::compare(*outputs, *reference_);
        after.status != db::TrialStatus::Ok)
      return {std::string(db::to_string(after.status)), "after it was timed, it " + after.reason};
    reply.samples_ns = samples.raw_ns;
    reply.latency_ns = samples.estimate.latency_ns;
    reply.low_ns = samples.estimate.low_ns;
    reply.high_ns = samples.estimate.high_ns;
    reply.noise = samples.estimate.relative_interval();
    if (samples.state == SampleState::TooFast) reply.status = "too_fast";
    if (samples.state == SampleState::Dropped) {
      reply.status = "hopeless";
      reply.reason = "stopped early, clearly slower than the best so far";
    }
    return reply;
  }

  CompareReply compare(const CompareJob& job) {
    CompareReply reply;
    const auto compared = [&]() -> Result<Comparison> {
      TW_TRY(runtime::Kernel kernel_a, load(job.a));
      TW_TRY(runtime::Kernel kernel_b, load(job.b));
      TW_TRY(Timed a, ready_to_time(std::move(kernel_a)));
      TW_TRY(Timed b, ready_to_time(std::move(kernel_b)));
      return compare_abba(run_of(a), run_of(b), static_cast<int>(job.rounds), Sampling{}, clock_);
    }();
    if (!compared) {
      reply.error = compared.error().message;
      return reply;
    }
    reply = {"",
             compared->ratio,
             compared->low,
             compared->high,
             compared->noise_floor,
             static_cast<int64_t>(compared->winner)};
    return reply;
  }

  PeakReply peak(const PeakJob& job) {
    const auto measured = measure_f32_peak(static_cast<int>(job.threads), clock_);
    if (!measured) return {measured.error().message, 0};
    return {"", measured->gflops};
  }

  int threads_ = 1;
  Clock clock_ = monotonic_clock();
  std::unique_ptr<runtime::ThreadPool> pool_;
  std::list<Prepared> prepared_;  ///< the latest first
  const dsl::Workload* workload_ = nullptr;
  const Reference* reference_ = nullptr;  ///< none: nothing is prepared
};

int complain(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return static_cast<int>(error.code);
}

}  // namespace

int worker_main(const std::vector<std::string>& arguments) {
  const bool builds = arguments.size() == 2 && arguments[0] == "build";
  const bool runs = arguments.size() == 1 && arguments[0] == "run";
  if (!builds && !runs)
    return complain({ErrorCode::Usage, "[worker] started by `tune`; it is of no use by itself"});
  if (const Status entered = enter_worker(); !entered) return complain(entered.error());
  if (const Status handlers = report_faults(); !handlers) return complain(handlers.error());
  Limits limits;
  if (builds) {
    limits.may_start_programs = true;
    limits.scratch_dir = arguments[1];
  }
  if (const auto restricted = restrict_self(limits); !restricted)
    return complain(restricted.error());
  if (builds)
    return serve([clock = monotonic_clock()](const Job& job) {
      const auto* build_job = std::get_if<BuildJob>(&job);
      if (!build_job) return encode(BuildReply{});
      const int64_t started_ns = clock();
      BuildReply reply = build(*build_job);
      reply.seconds = static_cast<double>(clock() - started_ns) * 1e-9;
      return encode(reply);
    });
  Runner runner;
  return serve([&](const Job& job) { return runner.answer(job); });
}

}  // namespace tw::tuner
