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

/// Loaded models and, on a GPU, the exclusive use of the device.
struct PlacedModels {
  DeviceTurn turn;
  std::vector<runtime::Model> models;
};
/// Loads the models. Files that the caller moves here are freed one after the other as their models
/// are loaded, since networks may be large. Errors as runtime::Model::load(). On a GPU also the
/// errors of opening the device, and TryLater if another program holds the device for a minute.
Result<PlacedModels> load_all(std::vector<runtime::ModelFile> files, const ModelContext& context);

/// Options of a race that ends no later than the budget.
RaceOptions race_options(const ModelContext& context);

/// Calls the model once, and returns its outputs. Inputs are random numbers that follow from
/// `seed`.
Result<std::vector<dsl::Array>> random_outputs(const runtime::Model& model, uint64_t seed,
                                               runtime::ThreadPool& pool);

/// Times the best plans of the run as whole networks, and stores the model of the fastest in
/// run.model. Then limits each step that is faster on one thread to one thread, and runs bands side
/// by side if that is faster. After an interrupt or the end of the budget the remaining decisions
/// are not made. If the cheapest plan has kernels that were never run, nothing is done. Requires:
/// run.model is the model of the cheapest plan.
Status choose_by_runs(ModelRun& run, ModelContext& context);

}  // namespace tw::tuner
