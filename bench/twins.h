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
  /// A comparison each, with a copy and with a slowed one: as tuner::Comparison::ratio.
  std::vector<double> equal_ratios, slowed_ratios;
  int64_t equal_apart = 0;   ///< copies of which one was called faster
  int64_t slowed_found = 0;  ///< slowed copies that lost
};

/// Runs the mode: --comparisons of each kind, shared among the workloads, whose kernels come from
/// the database. NoCandidate where it has none.
Result<int> run_twins(const Call& call);

nlohmann::json as_json(const std::vector<TwinRow>& rows);
std::string as_table(const std::vector<TwinRow>& rows);

}  // namespace tw::bench
