// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures how fast the tuner works: the number of candidates per second, and the share of the time
// in which it builds, verifies or measures. Not thread-safe.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/suite.h"
#include "tuner/tune.h"

namespace tw::bench {

struct Throughput {
  std::string name, workload, ended;
  int threads = 1;
  tuner::Progress progress;
};

/// Sums over several workloads.
struct Total {
  std::map<std::string, int64_t> trials;  ///< numbers of trials by status
  int64_t candidates = 0;                 ///< number of all candidates, including those that failed
  double elapsed_s = 0, working_s = 0;

  double per_second() const;
  double working_share() const;
};
Total total_of(const std::vector<Throughput>& results);

/// Runs tune() and returns its figures. The database is empty and temporary, so that no earlier
/// records help.
Result<Throughput> measure_throughput(const Item& item, const Target& target,
                                      const tuner::TuneOptions& options,
                                      const tuner::Environment& environment,
                                      const tuner::OnProgress& on_progress);

nlohmann::json as_json(const std::vector<Throughput>& results);
std::string as_table(const std::vector<Throughput>& results);

}  // namespace tw::bench
