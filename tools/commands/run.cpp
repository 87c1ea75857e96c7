// SPDX-License-Identifier: Apache-2.0
// tilewright run: runs the best kernel on random data, checks the result against the definition of
// the workload, and times the kernel.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include "base/random.h"
#include "base/text.h"
#include "codegen/abi.h"
#include "codegen/backend.h"
#include "dsl/random_inputs.h"
#include "runtime/devices/device_kernel.h"
#include "runtime/kernel.h"
#include "tools/model_files.h"
#include "tools/outputs.h"
#include "tools/places.h"
#include "tools/reports/report.h"
#include "tools/reports/roofline.h"
#include "tools/selection.h"
#include "tools/verbs.h"
#include "tuner/measure/device_runs.h"
#include "tuner/measure/peak.h"
#include "tuner/measure/reference.h"
#include "tuner/measure/sampling.h"
#include "tuner/measure/verify.h"
#include "tuner/trial_record.h"
#include "tuner/workers/device.h"
#include "tuner/workers/device_lock.h"

namespace tw::tools {
namespace {

// Limits of the check, in which the interpreter computes elements of each output: at most 64
// elements, or fewer if they would take more than about two seconds, but at least two.
constexpr tuner::SampleLimits checking{.most = 64, .least = 2, .evaluations = 16'000'000};

// Timings are made in several stretches with pauses between them. So together they last longer than
// half a second, the typical time for which another program disturbs the machine.
constexpr int stretches = 3;
constexpr auto pause_between_stretches = std::chrono::milliseconds(250);

struct RunFlags {
  SelectionFlags selection;
  int64_t seed = 1;
  Format format = Format::Table;
  ModelRunFlags model;  ///< used if the operand is the file of a network
};

struct Checked {
  int elements = 0;
  double error = 0;    ///< largest error, relative to the largest element of the output
  double allowed = 0;  ///< largest error that is allowed, relative in the same way
};

Result<Checked> check_outputs(const dsl::Workload& workload, const dsl::Arrays& inputs,
                              const dsl::Arrays& outputs, Random& random) {
  Checked checked;
  TW_TRY(const auto compared, tuner::compare_samples(workload, inputs, outputs, random, checking));
  for (const auto& [name, output] : compared) {
    if (!output.agrees())
      return fail(ErrorCode::Invalid,
                  fmt::format("[run] {} is {} where the definition gives {}: this kernel is wrong; "
                              "please report the record",
                              name, output.worst, output.expected));
    checked.elements += output.elements;
    checked.error = std::max(checked.error, output.error);
    checked.allowed = std::max(checked.allowed, output.allowed);
  }
  return checked;
}

struct Timed {
  tuner::Estimate estimate;
  std::string disturbed;  ///< what disturbed the whole timing; empty: it was not disturbed
};

/// A kernel that is loaded on the processor or on a device, with functions that call and time it.
struct Callable {
  /// Calls the kernel on these inputs and returns its outputs. All arrays are row-major, whatever
  /// layouts the kernel uses.
  std::function<Result<dsl::Arrays>(const dsl::Arrays&)> call;
  /// Measures the time of a call on these inputs in the same way as the tuner.
  std::function<Result<Timed>(const dsl::Arrays&)> time;
  /// The threads or the device on which the kernel runs, as a fact to print.
  Facts::value_type place;
};

/// Calls a kernel once on row-major arrays, as a user's program does. `call` gets the arrays of all
/// inputs, followed by those of all outputs.
Result<dsl::Arrays> call_on_arrays(
    const std::function<Status(std::span<const runtime::Buffer>)>& call,
    const dsl::Compute& compute, const dsl::Arrays& inputs) {
  dsl::Arrays outputs;
  std::vector<runtime::Buffer> buffers;
  for (const dsl::Input& input : compute.inputs) {
    const dsl::Array& array = inputs.at(input.name);
    buffers.push_back({const_cast<std::byte*>(array.data.data()), array.type, array.shape, {}});
  }
  for (const std::string& name : compute.outputs) {
    TW_TRY(dsl::Array array, dsl::Array::make(compute.type_of(name), compute.shape_of(name)));
    dsl::Array& kept = outputs[name] = std::move(array);
    buffers.push_back({kept.data.data(), kept.type, kept.shape, {}});
  }
  TW_RETURN_IF_ERROR(call(buffers));
  return outputs;
}

/// Loads the kernel on this processor. The time of an expression's kernel includes the layout
/// conversions that a call on the user's arrays makes (tuner::Conversions). Arrays for which the
/// user asked for a layout are passed in that layout and need no conversion.
Result<Callable> on_processor(runtime::Artifact artifact, const Selection& s,
                              const tuner::Clock& clock) {
  TW_TRY(const runtime::Kernel kernel, runtime::Kernel::load(std::move(artifact)));
  runtime::PoolOptions options;
  options.threads = s.threads;
  const auto pool = std::make_shared<runtime::ThreadPool>(options);
  Callable callable;
  callable.call = [kernel, pool, &s](const dsl::Arrays& inputs) {
    return call_on_arrays([&](auto arrays) { return kernel.call(arrays, *pool); },
                          s.workload.compute, inputs);
  };
  callable.time = [kernel, pool, &s, &clock](const dsl::Arrays& inputs) -> Result<Timed> {
    TW_TRY(tuner::KernelBuffers buffers,
           tuner::KernelBuffers::make(kernel, s.workload, inputs, {.align = tuner::Align::Begin},
                                      nullptr));
    TW_RETURN_IF_ERROR(buffers.prepare(kernel, tuner::Poison::First, *pool, s.threads));
    const std::vector<void*> pointers = buffers.pointers();
    TW_TRY(tuner::Conversions conversions,
           tuner::Conversions::of(kernel, s.workload, inputs, buffers));
    Status status;
    const tuner::Run once = [&] {
      if (status) status = conversions.call(kernel, pointers, *pool, s.threads);
    };
    TW_TRY(const tuner::Roles roles, tuner::roles_of(kernel, s.workload, buffers));
    tuner::CacheSweep sweep(s.target.machine, clock);
    const tuner::Run enter = [&] { sweep.enter(s.workload.state, roles, *pool, s.threads); };
    const bool is_hot = s.workload.state == dsl::CacheState::Hot;
    const tuner::Timer timed =
        is_hot ? tuner::timed_by(clock, once) : tuner::timed_singly(clock, enter, once);
    // After a call that failed, the times make the sampling end soon.
    const tuner::Timer timer = [&](int64_t calls) {
      constexpr int64_t second_ns = 1'000'000'000;
      return status ? timed(calls) : calls * second_ns;
    };
    const tuner::Sampling sampling = is_hot ? tuner::Sampling() : tuner::for_single_calls({});
    tuner::Gauge gauge(*pool, s.threads, clock);
    const auto watch = tuner::watch_processor(gauge, clock);
    const tuner::Samples samples = tuner::sample_spread(
        timer, stretches, [] { std::this_thread::sleep_for(pause_between_stretches); }, sampling,
        clock, *watch);
    if (!status) return tl::unexpected(status.error());
    if (samples.state != tuner::SampleState::Disturbed) return Timed{samples.estimate, ""};
    tuner::NoWatch none;
    const tuner::Estimate disturbed = tuner::sample(timer, sampling, clock, none).estimate;
    if (!status) return tl::unexpected(status.error());
    return Timed{disturbed, samples.disturbance};
  };
  callable.place = {"threads", std::to_string(s.threads)};
  return callable;
}

/// Times a call on arrays in the device's memory. Before that, waits until no other process of this
/// program measures on the device.
Result<Timed> time_on_device(const runtime::DeviceKernel& kernel, const Selection& s,
                             const dsl::Arrays& inputs, const tuner::Clock& clock) {
  TW_TRY(const tuner::DeviceTurn turn, tuner::turn_on(*kernel.device(), clock));
  tuner::DeviceArrays kept;
  TW_TRY(const tuner::DeviceBuffers buffers,
         tuner::DeviceBuffers::make(kernel.device(), kernel, s.workload, inputs, kept));
  std::optional<Error> problem;
  const tuner::Timer timer = tuner::timed_on(kernel.device(), buffers.launches(),
                                             [&](const Error& error) { problem = error; });
  tuner::NoWatch watch;
  const tuner::Samples samples = tuner::sample(timer, tuner::fit_to_device({}), clock, watch);
  if (problem) return tl::unexpected(std::move(*problem));
  return Timed{samples.estimate, ""};
}

Result<Callable> on_device(runtime::Artifact artifact, const Selection& s,
                           const tuner::Clock& clock) {
  const runtime::DeviceOptions options{.index = s.device};
  TW_TRY(const auto device, codegen::backend_of(s.target).open(options));
  TW_TRY(const runtime::DeviceKernel kernel,
         runtime::DeviceKernel::load(std::move(artifact), device));
  Callable callable;
  callable.call = [kernel, &s](const dsl::Arrays& inputs) -> Result<dsl::Arrays> {
    // Kernels for devices cannot convert arrays to the layouts that the user asked for; call_once()
    // does.
    if (!s.workload.layouts.empty())
      return tuner::call_once(kernel.device(), kernel, s.workload, inputs);
    return call_on_arrays([&](auto arrays) { return kernel.call(arrays); }, s.workload.compute,
                          inputs);
  };
  callable.time = [kernel, &s, &clock](const dsl::Arrays& inputs) {
    return time_on_device(kernel, s, inputs, clock);
  };
  callable.place = {"device", tuner::device_text(tuner::with_facts(s.target, device->facts()))};
  return callable;
}

/// Returns the artifact of the selected kernel from the cache of compiled kernels. If the cache
/// does not have it, compiles and verifies the kernel and stores the artifact in the cache.
Result<runtime::Artifact> artifact_of(const RunFlags& flags, const Surroundings& here,
                                      Selection& s) {
  const PlaceFlags& place = flags.selection.place;
  runtime::KernelInfo wanted;
  wanted.workload = s.workload.key();
  TW_TRY(wanted.schedule, schedule_of(s, here));
  wanted.target = s.target.to_string();
  wanted.codegen_abi = s.record ? s.record->codegen_abi : codegen::codegen_abi;
  auto cached = runtime::read_artifact(cached_artifact(place, here, wanted), runtime::Trust::Own,
                                       s.target.is_gpu() ? s.target : host_target());
  if (cached && cached->info.workload == wanted.workload &&
      cached->info.schedule == wanted.schedule)
    return cached;
  TW_TRY(runtime::Artifact artifact,
         tuner::build_schedule(s.workload, wanted.schedule, s.target, s.threads, true,
                               tuning_environment(place, here, s.device)));
  if (const auto stored = store_in_cache(place, here, artifact); !stored)
    note(stored.error().message);
  return artifact;
}

Status print_as_json(const Selection& s, const Checked& checked, const Timed& timed,
                     const Roofline& line) {
  return print_json("run", {{"workload", s.workload.key()},
                            {"layouts", s.workload.asked()},
                            {"record", s.record ? s.record->hash : ""},
                            {"measured_on", s.record ? s.record->device : ""},
                            {"measured_here", s.record && s.other_device.empty()},
                            {"likeness", s.record ? db::to_string(s.other_device.likeness) : ""},
                            {"layer", s.layer},
                            {"schedule_from", schedule_source(s)},
                            {"target", s.target.to_string()},
                            {"threads", s.threads},
                            {"checked_elements", checked.elements},
                            {"largest_error", checked.error},
                            {"allowed_error", checked.allowed},
                            {"latency_ns", timed.estimate.latency_ns},
                            {"latency_low_ns", timed.estimate.low_ns},
                            {"latency_high_ns", timed.estimate.high_ns},
                            {"disturbed", timed.disturbed},
                            {"gflops", line.gflops()},
                            {"peak_gflops", line.peak_gflops},
                            {"memory", memory_json(line)},
                            {"algorithm", algorithm_json(line)}});
}

/// Returns the roofline of the kernel. The peak and the bandwidth of a processor are measured now;
/// those of a GPU are unknown.
Roofline line_of(const Selection& s, const std::string& schedule, double latency_ns,
                 const tuner::Clock& clock) {
  if (s.target.is_gpu()) return roofline(s.workload, s.target, s.threads, latency_ns, 0);
  const auto peak = tuner::measure_f32_peak(s.threads, clock);
  if (!peak) note(peak.error().message);
  Roofline line = roofline(s.workload, s.target, s.threads, latency_ns,
                           peak ? tuner::peak_for(s.workload, s.target, peak->gflops) : 0);
  line = with_algorithm(std::move(line), s.workload.compute, schedule);
  return with_bandwidth(std::move(line), s.target, s.threads, clock);
}

Status check_runs_here(const Selection& s) {
  if (s.runs_here) return {};
  if (s.target.is_gpu())
    return fail(ErrorCode::Environment, fmt::format("[run] kernels for {} cannot run here: {}",
                                                    s.target.to_string(), s.missing));
  return fail(ErrorCode::Unsupported,
              fmt::format("[run] kernels for {} cannot run here, as this machine lacks {}: use "
                          "`compile`",
                          s.target.to_string(), s.missing));
}

Result<int> run_model_file(const RunFlags& flags, const Surroundings& here) {
  ModelRunFlags model = flags.model;
  model.path = flags.selection.hash;
  model.target = flags.selection.target.target;
  model.seed = flags.seed;
  model.format = flags.format;
  return run_model(model, here);
}

/// Fails with Usage if a flag is given that applies to networks only.
Status check_no_model_flags(const ModelRunFlags& flags) {
  if (flags.inputs.empty() && flags.outputs.empty() && flags.variant < 0 && !flags.profile &&
      flags.trace.empty())
    return {};
  return fail(ErrorCode::Usage,
              "[run] --input, --output, --variant, --profile and --trace are about a network: name "
              "its file, as in `run net.twart --input x.npy`");
}

Result<int> run_command(const RunFlags& flags, const Surroundings& here) {
  TW_TRY(const bool is_network, names_network(flags.selection, NetworkUse::Call, here));
  if (is_network) return run_model_file(flags, here);
  TW_RETURN_IF_ERROR(check_no_model_flags(flags.model));
  TW_TRY(Selection s, select(flags.selection, here));
  if (s.workload.is_empty()) {
    note(fmt::format("{} is empty: there is nothing to run", s.workload.text()));
    if (flags.format == Format::Json) TW_RETURN_IF_ERROR(print_as_json(s, {}, {}, {}));
    return 0;
  }
  TW_RETURN_IF_ERROR(check_runs_here(s));
  TW_TRY(runtime::Artifact artifact, artifact_of(flags, here, s));
  if (!s.record) note("the schedule is " + show_source(s));
  const std::string schedule = artifact.info.schedule;
  TW_TRY(const Callable kernel, s.target.is_gpu()
                                    ? on_device(std::move(artifact), s, here.environment.clock)
                                    : on_processor(std::move(artifact), s, here.environment.clock));
  const auto seed = static_cast<uint64_t>(flags.seed);
  Random random(seed);
  TW_TRY(const dsl::Arrays inputs, dsl::random_inputs(s.workload.compute, seed));
  TW_TRY(const dsl::Arrays outputs, kernel.call(inputs));
  TW_TRY(const Checked checked, check_outputs(s.workload, inputs, outputs, random));
  TW_TRY(const Timed timed, kernel.time(inputs));
  const tuner::Estimate& time = timed.estimate;
  const Roofline line = line_of(s, schedule, time.latency_ns, here.environment.clock);
  if (flags.format == Format::Json) {
    TW_RETURN_IF_ERROR(print_as_json(s, checked, timed, line));
    return 0;
  }
  Facts facts = {
      {"workload", s.workload.text()},
      {"checked",
       fmt::format("{}, largest error {:.1e} of the largest element, at most {:.1e} "
                   "allowed",
                   counted(checked.elements, "element"), checked.error, checked.allowed)},
      {"schedule", show_source(s)}};
  if (!s.other_device.empty()) facts.emplace_back("measured on", show_other_device(s.other_device));
  if (!s.layer.empty()) facts.emplace_back("layer", s.layer);
  facts.emplace_back("latency", fmt::format("{} [{}, {}]", time_text(time.latency_ns),
                                            time_text(time.low_ns), time_text(time.high_ns)));
  const Facts fast = speeds(line);
  facts.insert(facts.end(), fast.begin(), fast.end());
  facts.push_back(kernel.place);
  if (!timed.disturbed.empty()) facts.emplace_back("disturbed", timed.disturbed);
  TW_RETURN_IF_ERROR(print(as_text(facts)));
  return 0;
}

}  // namespace

Verb run_verb() {
  auto f = std::make_shared<RunFlags>();
  std::vector<Flag> own = {
      {"seed", Whole{&f->seed, 0, INT64_MAX}, "of the random data"},
      {"input", Texts{&f->model.inputs},
       "of a network: FILE.npy, or NAME=FILE.npy; others are random"},
      {"output", Texts{&f->model.outputs},
       "of a network: where a result goes, FILE.npy or NAME=FILE.npy"},
      {"variant", Whole{&f->model.variant, 0, INT64_MAX},
       "of a network: the number of the input shapes to run on, as `show` lists them"},
      {"profile", Switch{&f->model.profile}, "of a network: time each step"},
      {"trace", Path{&f->model.trace}, "of a network: write one call for chrome://tracing"},
      table_or_json_flag(f->format)};
  return {.name = "run",
          .summary = "run the best known kernel on random data, check and time it; or a network",
          .flags = concatenated({flags_of(f->selection), own}),
          .operands = {hash_operand(f->selection)},
          .run = [f](const Surroundings& here) { return run_command(*f, here); }};
}

}  // namespace tw::tools
