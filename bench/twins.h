// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether the comparison that decides between kernels can be trusted. A kernel against another copy
// of itself must be a tie; against a copy that waits for 3 % of its time after each call, it must
// win. By the code that tune() decides finals with (tuner::compare_abba), on data of its own for
// each copy.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Of one workload.
struct TwinRow {
  std::string name, workload;
  int threads = 1;
  double latency_ns = 0;
  int64_t equal = 0, equal_apart = 0;  ///< comparisons of copies; of these, with a winner
  int64_t slowed = 0, found = 0;       ///< comparisons with a slowed copy; of these, it lost
  std::vector<double> equal_ratios, slowed_ratios;  ///< as tuner::Comparison::ratio
};

/// Runs the mode: --comparisons of each kind, shared among the workloads, whose kernels come from
/// the database. NoCandidate where it has none.
Result<int> run_twins(const Call& call);

nlohmann::json as_json(const std::vector<TwinRow>& rows);
std::string as_table(const std::vector<TwinRow>& rows);

}  // namespace tw::bench
