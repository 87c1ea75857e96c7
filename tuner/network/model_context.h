// SPDX-License-Identifier: Apache-2.0
#pragma once
// Holds the arguments and the state of one call of tune_model(), and computes the parts into which
// the call divides its budget. Private to tune_model(). Belongs to one thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "db/store.h"
#include "tuner/network/network.h"
#include "tuner/network/tune_model.h"
#include "tuner/workers/build_kernels.h"
#include "tuner/workers/environment.h"

namespace tw::tuner {

struct ModelContext {
  const NetworkSource& source;
  const Target& target;
  const ModelOptions& options;
  db::Store& store;
  const Environment& environment;
  double share_s = 0;  ///< budget of each variant
  /// Time on the clock of the environment at which the whole budget ends.
  int64_t ends_ns = 0;
  BuiltKernels kernels = {};  ///< kernels that were built so far

  bool measures() const { return options.tuning.effort != Effort::None; }
  /// True if whole networks may be timed. Their times decide between plans and choose the threads
  /// of steps.
  bool times_networks() const { return measures() || options.refresh; }
  int threads() const { return options.tuning.threads; }
  double left_s() const { return static_cast<double>(ends_ns - environment.clock()) / 1e9; }
  /// Seconds for one race, in which whole networks are timed (race.h).
  double race_s() const { return std::min(0.05 * share_s, 10.0); }
  /// Number of races. The first compares the best plans. With several threads, a second one times
  /// each step on one thread, on all threads, and side by side with other steps, and chooses the
  /// fastest way. A third one then compares the whole network with and without these choices.
  int races() const { return threads() > 1 ? 3 : 1; }
  /// Seconds that are reserved for building the best plans.
  double building_s() const { return std::min(0.15 * share_s, 5.0); }
  /// Seconds for tuning a network again without one of its fusions. This time is short, because
  /// most kernels were already tuned for the network with the fusion.
  double fusion_s() const { return 0.1 * share_s; }
};

/// Builds the model of run.tuned.plans[plan]. Adds the time that this takes to run.building_s, and
/// the built kernels to context.kernels. For each true element of `side_by_side`, the chains of the
/// band with this index run side by side (ModelSpec::side_by_side). Fails with the errors of
/// build_model().
Result<BuiltModel> build_plan(ModelRun& run, size_t plan, ModelContext& context,
                              const Environment& environment,
                              const std::vector<bool>& side_by_side = {});

}  // namespace tw::tuner
