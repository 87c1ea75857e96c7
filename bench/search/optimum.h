// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures how good the schedule is that the program chooses before anything is measured
// (tuner::predicted_schedule()). Its predicted time is compared with the least predicted time of
// many random samples of the same space. Both times are of the same cost model, so nothing is built
// or run. Not thread-safe.
//
//   TW_TRY(const Optimum optimum, measure_optimum(item, target, {.samples = 20'000}, clock));
//   optimum.ratio();   // 0.98: the choice is 2 % faster than the best sample

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/stop.h"
#include "base/target.h"
#include "bench/suite.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

struct OptimumOptions {
  int64_t samples = 20'000;  ///< number of legal samples
  int kernel_threads = 1;    ///< number of threads that the kernels run on
  int workers = 1;           ///< number of threads that predict the times of samples
  uint64_t seed = 1;         ///< of the samples; the choice does not depend on it
  StopToken stop = {};
};

/// The choice and the samples of one workload.
struct Optimum {
  std::string name, workload;
  double chosen_ns = 0;  ///< predicted time of the schedule that the program chooses
  double best_ns = 0;    ///< least predicted time of the samples; infinity if no sample is legal
  int64_t samples = 0;   ///< number of legal samples
  int64_t drawn = 0;     ///< number of samples that were drawn, legal or not
  double choosing_s = 0;
  /// Configurations (Space::to_string()) of the choice and of the best sample.
  std::string chosen, best;

  /// Returns the predicted time of the choice divided by that of the best sample.
  double ratio() const { return chosen_ns / best_ns; }
};

/// Chooses a schedule for the workload, and draws samples of its space until `options.samples` of
/// them are legal. A schedule whose registers are expected to spill on a GPU counts as illegal, as
/// it does when a schedule is chosen. Samples are judged in batches of 1,000. Within a batch,
/// samples with the same program count once. Draws at most 100 times as many samples as are asked
/// for. Fails with the errors of predicted_schedule().
Result<Optimum> measure_optimum(const Item& item, const Target& target,
                                const OptimumOptions& options, const tuner::Clock& clock);

/// A choice is called behind if its ratio is above this limit.
inline constexpr double most_behind = 1.03;

nlohmann::json as_json(const std::vector<Optimum>& rows);
std::string as_table(const std::vector<Optimum>& rows);

}  // namespace tw::bench
