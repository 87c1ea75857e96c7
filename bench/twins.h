// SPDX-License-Identifier: Apache-2.0
#pragma once
// An A/A test of the comparison by which tune() decides between the best kernels
// (tuner::compare_abba). A kernel that is compared with its twin, a second copy of itself, must
// give a tie. A copy that waits for 3 % of its time after each call must lose. Each copy has arrays
// of its own.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Results for one workload.
struct TwinRow {
  std::string name, workload;
  int threads = 1;
  double latency_ns = 0;
  /// The ratios (tuner::Comparison::ratio) of all comparisons of two equal copies, and those of all
  /// comparisons with a slowed copy.
  std::vector<double> equal_ratios, slowed_ratios;
  int64_t equal_apart = 0;  ///< number of pairs of equal copies of which one was found to be faster
  int64_t slowed_found = 0;  ///< number of slowed copies that were found to be slower
};

/// Runs the mode --twins. It makes --comparisons comparisons of equal copies and as many with a
/// slowed copy, distributed over the workloads. Kernels come from the database; NoCandidate if it
/// has none for a workload.
Result<int> run_twins(const Call& call);

nlohmann::json as_json(const std::vector<TwinRow>& rows);
std::string as_table(const std::vector<TwinRow>& rows);

}  // namespace tw::bench
