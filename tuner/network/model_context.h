// SPDX-License-Identifier: Apache-2.0
#pragma once
// The context of a call of tune_model(), and the shares of its budget. Private to tune_model().
// Belongs to one thread.

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
  double share_s = 0;         ///< budget of each variant
  int64_t ends_ns = 0;        ///< end of the whole budget on the clock of the environment
  BuiltKernels kernels = {};  ///< kernels that were built so far

  bool measures() const { return options.tuning.effort != Effort::None; }
  /// True if whole networks are timed, in order to choose plans and the threads of steps.
  bool times_networks() const { return measures() || options.refresh; }
  int threads() const { return options.tuning.threads; }
  double left_s() const { return static_cast<double>(ends_ns - environment.clock()) / 1e9; }
  /// Time for one race, in which whole networks are timed (race.h).
  double race_s() const { return std::min(0.05 * share_s, 10.0); }
  /// Number of races. The first compares the best plans. With several threads, a second one times
  /// the steps on one thread, on all threads and side by side, and a third one compares the network
  /// before and after that choice.
  int races() const { return threads() > 1 ? 3 : 1; }
  /// Time that is reserved for building the best plans.
  double building_s() const { return std::min(0.15 * share_s, 5.0); }
  /// Time for tuning a network without one of its fusions. It is short because most of the kernels
  /// are shared with the network that has the fusion.
  double fusion_s() const { return 0.1 * share_s; }
};

/// Builds a plan of the run, and adds the time to run.building_s. Errors as build_model().
Result<BuiltModel> build_plan(ModelRun& run, size_t plan, ModelContext& context,
                              const Environment& environment,
                              const std::vector<bool>& side_by_side = {});

}  // namespace tw::tuner
