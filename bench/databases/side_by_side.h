// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures simultaneous tuning runs of one workload that share a database server: how much sooner
// several runs find a kernel as fast as the best one of a single run; how many schedules are
// measured by more than one run; and how both change if some runs are killed. Each run is a process
// with simulated workers (recorded_machine.h). Not thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tuner/search/replay.h"
#include "tuner/workers/environment.h"

namespace tw::bench {

struct SideBySideOptions {
  std::string database;  ///< address of an empty server; it is empty again at the end
  std::string folder;    ///< folder for the files of the runs
  int runs = 8;          ///< number of simultaneous runs
  int killed = 2;        ///< number of runs that are killed in the third measurement of each case
  int64_t trials = 512;  ///< number of trials of a run that is measured alone
  double trial_s = 1;    ///< seconds that each trial takes
  uint64_t seed = 1;     ///< the same seed for all runs, as users rarely choose one
};

/// The figures of one measurement: `runs` runs that began at the same time, of which `killed` were
/// killed.
struct Together {
  int runs = 0, killed = 0;
  int64_t trials = 0;
  double best_ns = 0;
  /// Seconds until a trial was as fast as the best trial of the single run; 0: never.
  double reached_s = 0;
  int64_t reached_trials = 0;  ///< number of trials of all runs that were stored by then
  double ended_s = 0;          ///< seconds until the last trial
  int64_t repeated = 0;        ///< number of schedules that several runs measured
  /// Number of runs that ended with an error, not counting killed runs.
  int64_t failed = 0;
};

struct SideBySideCase {
  std::string workload;
  Together one, all, interrupted;
};

/// Measures one case for each of the first three recordings. A case has three measurements: one run
/// alone, several runs at once, and several runs of which some are killed. Fails with Usage if
/// `options.database` has records or is not a server.
Result<std::vector<SideBySideCase>> measure_side_by_side(
    std::span<const tuner::Recording> recordings, const SideBySideOptions& options,
    const tuner::Environment& environment);

nlohmann::json as_json(const std::vector<SideBySideCase>& cases, const SideBySideOptions& options);
std::string as_table(const std::vector<SideBySideCase>& cases);

}  // namespace tw::bench
