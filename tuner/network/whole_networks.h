// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the decisions that need runs of whole networks: the plan, the number of threads of each
// step, and the steps that run side by side. Private to tune_model(). Not thread-safe.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "dsl/array.h"
#include "runtime/model.h"
#include "runtime/model_file.h"
#include "runtime/thread_pool.h"
#include "tuner/network/model_context.h"
#include "tuner/network/race.h"
#include "tuner/workers/device_lock.h"

namespace tw::tuner {

/// Loaded models. On a GPU, `turn` is the exclusive use of the device, which lasts as long as this
/// object.
struct PlacedModels {
  DeviceTurn turn;
  std::vector<runtime::Model> models;
};
/// Loads the models. Networks may be large, so each file is freed as soon as its model is loaded,
/// if the caller moves `files` here. Fails with the errors of runtime::Model::load(). On a GPU,
/// also fails with the errors of opening the device, and with TryLater if another program holds the
/// device for a minute.
Result<PlacedModels> load_all(std::vector<runtime::ModelFile> files, const ModelContext& context);

/// Returns the options of a race that ends no later than the whole budget and takes at most
/// context.race_s().
RaceOptions race_options(const ModelContext& context);

/// Calls the model once, and returns its outputs. The inputs are random numbers that depend only on
/// `seed`.
Result<std::vector<dsl::Array>> random_outputs(const runtime::Model& model, uint64_t seed,
                                               runtime::ThreadPool& pool);

/// Times the best plans of the run as whole networks, and stores the model of the fastest in
/// run.model. Then limits each step that is faster on one thread to one thread, and runs bands side
/// by side if that is faster. If the user interrupts or the budget ends, the remaining decisions
/// are left out. If the cheapest plan has kernels that were never run, nothing is done. Fails with
/// the errors of build_plan(), load_all(), race() and step_threads(), except Interrupted. Requires:
/// run.model is the model of the cheapest plan.
Status choose_by_runs(ModelRun& run, ModelContext& context);

}  // namespace tw::tuner
