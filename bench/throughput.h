// SPDX-License-Identifier: Apache-2.0
#pragma once
// How fast the tuner works: candidates a second, and the share of the time in which it builds,
// verifies or measures. Not thread-safe.

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

/// Of several together.
struct Total {
  std::map<std::string, int64_t> trials;  ///< by status
  int64_t candidates = 0;                 ///< whatever became of them
  double elapsed_s = 0, working_s = 0;

  double per_second() const;
  double working_share() const;
};
Total total_of(const std::vector<Throughput>& results);

/// tune() with a database of its own that is gone afterwards, so that nothing is known before.
Result<Throughput> measure_throughput(const Item& item, const Target& target,
                                      const tuner::TuneOptions& options,
                                      const tuner::Environment& environment,
                                      const tuner::OnProgress& on_progress);

nlohmann::json as_json(const std::vector<Throughput>& results);
std::string as_table(const std::vector<Throughput>& results);

}  // namespace tw::bench
