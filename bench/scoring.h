// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures how fast the tuner scores points, which means that it computes the predicted time of
// each, and how long the cost model takes to learn. No kernel is built or run. Not thread-safe.

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
  int64_t points = 2000;  ///< points per workload
  int threads = 1;        ///< threads that score
  uint64_t seed = 1;
};

struct Scoring {
  std::string name, workload;
  int64_t points = 0;  ///< half uniformly random, half mutations of earlier points
  int64_t legal = 0;   ///< number of distinct legal schedules among them that are worth building
  double elapsed_s = 0;
  /// Microseconds that one thread needs: schedule_us and lower_us for each point, features_us and
  /// predict_us for each legal point.
  double schedule_us = 0, lower_us = 0, features_us = 0, predict_us = 0;

  double per_second() const;
  double legal_per_second() const;
};

struct ScoringReport {
  ScoringOptions options;
  std::vector<Scoring> rows;
  int64_t samples = 0;  ///< samples of the cost model
  double learn_s = 0;   ///< CostModel::add() of the samples and CostModel::for_group()

  double per_second() const;  ///< points of all rows per second
  double legal_per_second() const;
};

/// Measures the scoring of points of the items. The cost model is trained on made-up throughputs,
/// which do not change the time of a prediction.
Result<ScoringReport> measure_scoring(const std::vector<Item>& items, const Target& target,
                                      const ScoringOptions& options, const tuner::Clock& clock);

nlohmann::json as_json(const ScoringReport& report);
std::string as_table(const ScoringReport& report);

}  // namespace tw::bench
