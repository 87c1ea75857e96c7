// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times whole models by turns. A plan is first chosen by the sum of the times of its kernels, each
// timed alone. But kernels also affect each other through the caches, and only a run of the whole
// network shows this.
//
// The models are called in this process, without a worker's limits: a worker would hold a second
// copy of all weights, and its memory limit is for a single kernel. The caller first writes the
// model of the cheapest plan to its file, so that this result is kept if a kernel crashes the
// process. Belongs to one thread.

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "dsl/array.h"
#include "runtime/model.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

struct RaceOptions {
  int threads = 1;
  /// Time for all models together, excluding the first call of each, which is not timed.
  double budget_s = 5;
  int most_rounds = 200;
  StopToken stop = {};  ///< asked between calls
};

/// A function that makes one call of a model and waits until it is done.
using ModelCall = std::function<Status()>;

/// Returns a function that calls the model on these buffers, for timings that repeat the call. If
/// the model runs on a GPU, repeated_call() copies the buffers to the GPU, so that the calls copy
/// nothing. The pool must outlive the returned function. If the model runs on the processor, the
/// buffers must outlive it too.
Result<ModelCall> repeated_call(const runtime::Model& model,
                                const std::vector<runtime::Buffer>& buffers,
                                runtime::ThreadPool& pool);

/// Returns for each model the median time of a call in ns. Inputs are those of random_arrays().
/// Each round calls every model once; every second round calls them in reverse order. At least one
/// round is run. Fails with Interrupted if options.stop stopped the race before the first round.
/// Requires: the models compute the same network.
Result<std::vector<double>> race(std::span<const runtime::Model> models, const Clock& clock,
                                 const RaceOptions& options);

/// Arrays for the inputs and outputs of a variant of a model.
struct ModelArrays {
  std::vector<dsl::Array> arrays;
  std::vector<runtime::Buffer> buffers();
};
/// Returns arrays with random inputs for a variant of a model. Float inputs are from N(0, 1).
/// Integer inputs are from 0 to 4, so that they are valid indices of tables with five rows or more.
Result<ModelArrays> random_arrays(const runtime::Model& model, uint64_t seed, size_t variant = 0);

}  // namespace tw::tuner
