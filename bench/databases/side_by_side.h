// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs of one workload that share a server: how much sooner several of them find what one finds,
// whether they measure a schedule twice, and what happens where some of them are killed. Each run
// is a process with workers of a recording (recorded_machine.h). Not thread-safe.

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
  std::string folder;    ///< for files of the runs
  int runs = 8;          ///< at once
  int killed = 2;        ///< of these, in the third measurement of a case
  int64_t trials = 512;  ///< of one run by itself
  double trial_s = 1;    ///< seconds that a trial waits
  uint64_t seed = 1;     ///< of all runs, as of people who name none
};

/// The trials of runs that began together.
struct Together {
  int runs = 0, killed = 0;
  int64_t trials = 0;
  double best_ns = 0;
  double reached_s = 0;        ///< until a trial was as fast as the best of one run; 0: none was
  int64_t reached_trials = 0;  ///< stored by then
  double ended_s = 0;          ///< until the last trial
  int64_t repeated = 0;        ///< schedules that several runs measured
  int64_t failed = 0;          ///< runs that ended with an error, without those that were killed
};

struct SideBySideCase {
  std::string workload;
  Together one, all, interrupted;
};

/// Measures the first three recordings. Usage where the database has records, or is no server.
Result<std::vector<SideBySideCase>> measure_side_by_side(
    std::span<const tuner::Recording> recordings, const SideBySideOptions& options,
    const tuner::Environment& environment);

nlohmann::json as_json(const std::vector<SideBySideCase>& cases, const SideBySideOptions& options);
std::string as_table(const std::vector<SideBySideCase>& cases);

}  // namespace tw::bench
