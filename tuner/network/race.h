// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole models timed by turns. Plans are chosen by the sum of the times of their kernels, each
// timed by itself; how kernels affect each other through the caches shows only when the network
// runs as a whole.
//
// The models are called in this process and not behind a worker's limits: a worker would hold a
// second copy of all weights, and its limits of memory are those of one kernel. The caller writes
// the model of the cheapest plan first, so that a kernel that crashes takes no result with it.
// Belongs to one thread.

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
  double budget_s = 5;  ///< time for all models together, the first call of each not counted
  int most_rounds = 200;
  StopToken stop = {};  ///< asked between calls
};

/// One call, until it is done.
using ModelCall = std::function<Status()>;

/// The call of a model that timings repeat. On a device, the arrays are copied to its memory once,
/// as for kernels that are timed by themselves. The pool and, on the processor, the arrays behind
/// `buffers` must outlive the call.
Result<ModelCall> repeated_call(const runtime::Model& model,
                                const std::vector<runtime::Buffer>& buffers,
                                runtime::ThreadPool& pool);

/// Median time of a call of each model in ns, on inputs from N(0, 1): each round calls every model
/// once, and every other round in the opposite order. The models compute the same network. At least
/// one round; Interrupted where options.stop stopped it before that.
Result<std::vector<double>> race(std::span<const runtime::Model> models, const Clock& clock,
                                 const RaceOptions& options);

/// Arrays for the inputs and outputs of a variant of a model. Inputs are N(0, 1), or integers from
/// 0 to 4, which index any table that has so many rows.
struct ModelArrays {
  std::vector<dsl::Array> arrays;
  std::vector<runtime::Buffer> buffers();
};
Result<ModelArrays> random_arrays(const runtime::Model& model, uint64_t seed, size_t variant = 0);

}  // namespace tw::tuner
