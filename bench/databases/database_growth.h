// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures how two times grow with the number of trials of a workload, which form a group: the time
// of a commit that adds a trial to the group, and the time that a tuning run of this workload needs
// to start. Trials are synthetic, with schedules from the workload's search space. Each session has
// 512 trials, and several sessions measure some of the same schedules. Not thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

struct GrowthOptions {
  /// Path of a file or address of a server; groups that earlier runs made are used again.
  std::string database;
  std::vector<int64_t> trials = {10, 1'000, 100'000};  ///< number of trials of each group
  int64_t rounds = 10;
  uint64_t seed = 1;
};

struct GroupCosts {
  int64_t trials = 0;    ///< number of trials of the group before the commits
  double commit_ms = 0;  ///< time of a commit of one record, the median of the rounds
  double start_ms = 0;   ///< time of tuner::warm_start(), the fastest round
};

Result<std::vector<GroupCosts>> measure_growth(const GrowthOptions& options,
                                               const tuner::Clock& clock);

}  // namespace tw::bench
