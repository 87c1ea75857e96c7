// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/whole_networks.h"

#include <algorithm>
#include <utility>

#include "codegen/backend.h"
#include "tuner/network/step_threads.h"

namespace tw::tuner {
namespace {

/// Times the best plans as whole networks, by turns, and keeps the fastest. A plan is left out if
/// one of its kernels was never run by a worker, within its limits, or if there is no time to build
/// the plan.
Status race_plans(ModelRun& run, ModelContext& context) {
  std::vector<runtime::ModelFile> files(1, run.model);
  std::vector<size_t> plans = {0}, bands = {run.bands};
  for (size_t plan = 1; plan < run.tuned.plans.size(); ++plan) {
    if (context.left_s() < context.race_s()) break;
    TW_TRY(BuiltModel built, build_plan(run, plan, context, context.environment));
    run.unverified.push_back(built.unverified);
    if (built.unverified > 0) continue;
    files.push_back(std::move(built.file));
    plans.push_back(plan);
    bands.push_back(built.bands);
  }
  TW_TRY(const PlacedModels placed, load_all(files, context));
  TW_TRY(run.measured_ns, race(placed.models, context.environment.clock, race_options(context)));
  const auto fastest =
      static_cast<size_t>(std::ranges::min_element(run.measured_ns) - run.measured_ns.begin());
  run.written = plans[fastest];
  run.measured = fastest;
  run.bands = bands[fastest];
  if (fastest > 0) run.model = std::move(files[fastest]);
  return {};
}

/// Returns the model of the plan that is written, in which the bands with a true element run side
/// by side. Requires: an element for each band.
Result<runtime::ModelFile> file_with_bands(ModelRun& run, ModelContext& context,
                                           const std::vector<bool>& side_by_side) {
  if (std::ranges::find(side_by_side, true) == side_by_side.end()) return run.model;
  TW_TRY(BuiltModel built,
         build_plan(run, run.written, context, context.environment, side_by_side));
  return std::move(built.file);
}

void limit_steps(runtime::ModelFile& model, const std::vector<int>& limits) {
  std::vector<runtime::ModelStep>& steps = model.variants.front().steps;
  for (size_t step = 0; step < steps.size(); ++step)
    if (limits[step] > 0) steps[step].threads = limits[step];
}

/// Times three versions of the network: unchanged; with the thread limits of steps; and with these
/// limits and the bands that are faster side by side. Keeps the fastest.
Status choose_threads(ModelRun& run, ModelContext& context) {
  if (context.threads() == 1 || context.left_s() <= 0) return {};
  const Clock& clock = context.environment.clock;
  const std::vector<bool> all_bands(run.bands, true);
  TW_TRY(runtime::ModelFile banded, file_with_bands(run, context, all_bands));
  TW_TRY(const runtime::Model model, runtime::Model::load(banded));
  TW_TRY(const ThreadUse use, step_threads(model, clock, race_options(context)));
  std::vector<runtime::ModelFile> files(2, run.model);
  if (use.side_by_side != all_bands) {
    TW_TRY(banded, file_with_bands(run, context, use.side_by_side));
  }
  files.push_back(std::move(banded));
  for (size_t file = 1; file < files.size(); ++file) limit_steps(files[file], use.limits);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  if (files.size() == 1) return {};
  TW_TRY(const PlacedModels placed, load_all(files, context));
  TW_TRY(const std::vector<double> times, race(placed.models, clock, race_options(context)));
  const auto fastest = std::ranges::min_element(times) - times.begin();
  if (fastest == 0) return {};
  run.model = std::move(files[static_cast<size_t>(fastest)]);
  run.measured_ns[run.measured] = times[static_cast<size_t>(fastest)];
  return {};
}

}  // namespace

Result<PlacedModels> load_all(std::vector<runtime::ModelFile> files, const ModelContext& context) {
  PlacedModels placed;
  runtime::ModelOptions options;
  if (context.target.is_gpu()) {
    TW_TRY(options.device,
           codegen::backend_of(context.target).open({.index = context.environment.device}));
    TW_TRY(placed.turn, turn_on(*options.device, context.environment.clock));
  }
  for (runtime::ModelFile& file : files) {
    TW_TRY(runtime::Model model, runtime::Model::load(std::move(file), options));
    placed.models.push_back(std::move(model));
  }
  return placed;
}

RaceOptions race_options(const ModelContext& context) {
  RaceOptions options;
  options.threads = context.threads();
  options.budget_s = std::clamp(context.left_s(), 0.0, context.race_s());
  options.stop = context.environment.stop();
  return options;
}

Result<std::vector<dsl::Array>> random_outputs(const runtime::Model& model, uint64_t seed,
                                               runtime::ThreadPool& pool) {
  TW_TRY(ModelArrays arrays, random_arrays(model, seed));
  TW_RETURN_IF_ERROR(model.call(arrays.buffers(), pool));
  std::vector<dsl::Array> outputs;
  for (size_t i = 0; i < arrays.arrays.size(); ++i)
    if (model.arguments()[i].is_output) outputs.push_back(std::move(arrays.arrays[i]));
  return outputs;
}

Status choose_by_runs(ModelRun& run, ModelContext& context) {
  if (run.unverified.front() > 0 || context.left_s() <= 0) return {};
  Status measured = race_plans(run, context);
  if (measured) measured = choose_threads(run, context);
  return measured || measured.error().code != ErrorCode::Interrupted ? measured : Status();
}

}  // namespace tw::tuner
