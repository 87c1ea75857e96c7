// SPDX-License-Identifier: Apache-2.0
#pragma once
// An A/A test of the comparison that decides between kernels. A kernel against its twin, another
// copy of itself, must be a tie; against a copy that waits for 3 % of its time after each call, it
// must win. The test uses the code with which tune() decides finals (tuner::compare_abba); each
// copy has data of its own.

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
  /// One tuner::Comparison::ratio for each comparison with a copy, and with a slowed copy.
  std::vector<double> equal_ratios, slowed_ratios;
  int64_t equal_apart = 0;   ///< pairs of equal copies of which one was called faster
  int64_t slowed_found = 0;  ///< slowed copies that lost
};

/// Runs the mode: --comparisons of each kind, distributed over the workloads, whose kernels come
/// from the database. Fails with NoCandidate if it has none.
Result<int> run_twins(const Call& call);

nlohmann::json as_json(const std::vector<TwinRow>& rows);
std::string as_table(const std::vector<TwinRow>& rows);

}  // namespace tw::bench
