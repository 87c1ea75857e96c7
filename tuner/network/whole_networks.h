// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decisions that need runs of whole networks: which plan, how many threads for each step, and which
// steps run side by side. Private to tune_model(). Not thread-safe.

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

/// Models that are loaded; on a GPU with the turn on it.
struct PlacedModels {
  DeviceTurn turn;
  std::vector<runtime::Model> models;
};
/// Errors as runtime::Model::load(); on a GPU also those of opening it, and TryLater where another
/// program has had it for a minute.
Result<PlacedModels> load_all(const std::vector<runtime::ModelFile>& files,
                              const ModelContext& context);

/// Options of a race that ends with the budget at the latest.
RaceOptions race_options(const ModelContext& context);

/// The outputs of a model on random inputs.
Result<std::vector<dsl::Array>> random_outputs(const runtime::Model& model, uint64_t seed,
                                               runtime::ThreadPool& pool);

/// Times the best plans of the run as wholes and keeps the fastest in run.model; then limits steps
/// that are faster on one thread to one, and runs bands side by side that are faster so. An
/// interrupt and the end of the budget leave the rest of these decisions out. Requires: the
/// cheapest plan is in run.model.
Status choose_by_runs(ModelRun& run, ModelContext& context);

}  // namespace tw::tuner
