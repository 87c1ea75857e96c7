// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures what a commit into a group of trials takes, and the start of a run that goes on with the
// group, by the number of trials that the group has. Trials are synthetic: their schedules are of
// the workload's search space, and sessions of 512 trials each time some schedules of others again.
// Not thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

struct GrowthOptions {
  std::string database;  ///< a file or a server; groups that are there are used again
  std::vector<int64_t> trials = {10, 1'000, 100'000};  ///< of each group
  int64_t rounds = 10;
  uint64_t seed = 1;
};

struct GroupCosts {
  int64_t trials = 0;    ///< of the group, before the commits
  double commit_ms = 0;  ///< of one record, the median of the rounds
  double start_ms = 0;   ///< of tuner::warm_start(), the fastest round
};

Result<std::vector<GroupCosts>> measure_growth(const GrowthOptions& options,
                                               const tuner::Clock& clock);

}  // namespace tw::bench
