// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures how fast the tuner scores points, i.e. computes the predicted time of each point, and
// how long the cost model takes to learn. No kernel is built or run. Not thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "bench/suite.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

struct ScoringOptions {
  int64_t points = 2000;  ///< number of points per workload
  int threads = 1;        ///< number of threads that score
  uint64_t seed = 1;
};

struct Scoring {
  std::string name, workload;
  /// Number of points: half of them uniformly random, half mutations of earlier points.
  int64_t points = 0;
  /// Number of distinct schedules of these points that are legal and worth building.
  int64_t legal = 0;
  double elapsed_s = 0;
  /// Microseconds that one thread needs: schedule_us and lower_us for each point; features_us and
  /// predict_us for each legal point.
  double schedule_us = 0, lower_us = 0, features_us = 0, predict_us = 0;

  double per_second() const;
  double legal_per_second() const;
};

struct ScoringReport {
  ScoringOptions options;
  std::vector<Scoring> rows;
  int64_t samples = 0;  ///< samples of the cost model
  double learn_s = 0;   ///< time of CostModel::add() of the samples and of CostModel::for_group()

  double per_second() const;  ///< points of all rows per second
  double legal_per_second() const;
};

/// Measures how fast points of the items' workloads are scored. The cost model is trained on
/// made-up throughputs, which do not change the time of a prediction.
Result<ScoringReport> measure_scoring(const std::vector<Item>& items, const Target& target,
                                      const ScoringOptions& options, const tuner::Clock& clock);

nlohmann::json as_json(const ScoringReport& report);
std::string as_table(const ScoringReport& report);

}  // namespace tw::bench
