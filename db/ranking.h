// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: which trial of a group is the best, as a function of the set of trials alone, so
// that every order of merging gives the same answer. docs/database_format.md, "Best", states the
// rule.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "db/record.h"

namespace tw::db {

/// What the rule needs of one trial of a group.
struct RankedTrial {
  int64_t trial = 0;  ///< row; no part of the rule
  std::string hash;
  std::string schedule_hash;
  TrialStatus status = TrialStatus::Ok;
  double latency_ns = 0;
  double flops = 0;
  double peak_gflops = 0;
};

struct Ranked {
  size_t index = 0;       ///< into the candidates
  double latency_ns = 0;  ///< at the group's peak
  double efficiency = 0;  ///< 0 where unknown
};

std::optional<Ranked> best_of(std::span<const RankedTrial> group);

}  // namespace tw::db
