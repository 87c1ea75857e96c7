// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: which trial of a group is the best, as a function of the set of trials alone, so
// that every order of merging gives the same answer. docs/database_format.md, "Best", states the
// rule.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "db/record.h"
#include "db/trust.h"

namespace tw::db {

/// The properties of one trial of a group that the rule uses.
struct RankedTrial {
  int64_t trial = 0;  ///< row; no part of the rule
  std::string hash;
  std::string schedule_hash;
  TrialStatus status = TrialStatus::Ok;
  double latency_ns = 0;
  double flops = 0;
  double peak_gflops = 0;
  std::string session = {};
  std::string host = {};
  double bytes = 0;          ///< compulsory traffic; 0: unknown
  double peak_gb_per_s = 0;  ///< 0: unknown
  std::string toolchain = {};
};

struct Ranked {
  size_t index = 0;       ///< into the candidates
  double latency_ns = 0;  ///< at the group's peak
  double efficiency = 0;  ///< 0 where unknown
};

/// Judges each trial of a group.
std::vector<Judgement> judge(std::span<const RankedTrial> group);

/// The best of the trials that are believed. `judgements` are those of judge(group).
std::optional<Ranked> best_of(std::span<const RankedTrial> group,
                              std::span<const Judgement> judgements);
std::optional<Ranked> best_of(std::span<const RankedTrial> group);

/// The latency in ns that counts for the schedule of each trial, on the clock of the best trial; 0
/// for a trial that is not believed, and for all trials where none is believed.
std::vector<double> counted_latencies(std::span<const RankedTrial> group,
                                      std::span<const Judgement> judgements);

/// Timing of a schedule by one session: the median of the session's believed trials of the
/// schedule, the slower one of the middle two.
struct SessionTiming {
  double latency_ns = 0;  ///< at the group's peak
  std::string_view session, host;
  int64_t trials = 0;
};
/// The sessions that timed a schedule and are believed, fastest first.
std::vector<SessionTiming> sessions_of(std::span<const RankedTrial> group,
                                       std::span<const Judgement> judgements,
                                       std::string_view schedule_hash);

}  // namespace tw::db
