// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes an A/A test of the comparison by which tune() decides between the fastest kernels
// (tuner::compare_abba()). A twin is a second copy of a kernel. A kernel that is compared with its
// twin must give a tie. A copy that waits for 3 % of the kernel's time after each call must lose.
// Each copy has arrays of its own.

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
  /// Number of comparisons of equal copies in which one copy was found to be faster.
  int64_t equal_apart = 0;
  /// Number of comparisons in which the slowed copy was found to be slower.
  int64_t slowed_found = 0;
};

/// Runs the mode --twins and returns the exit code. For each number of threads, the mode makes
/// --comparisons comparisons of equal copies, and as many comparisons with a slowed copy,
/// distributed over the workloads. Kernels come from the database. Fails with NoCandidate if the
/// database has none for a workload.
Result<int> run_twins(const Call& call);

nlohmann::json as_json(const std::vector<TwinRow>& rows);
std::string as_table(const std::vector<TwinRow>& rows);

}  // namespace tw::bench
