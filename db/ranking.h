// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: which trial of a group is the best, as a function of the set of trials alone, so
// that every order of merging gives the same answer. docs/database_format.md, "Best", states the
// rule. The rule asks a source for the trials that it needs: to find the best one it follows the
// timings from the fastest one upwards and stops where no other can be faster, so that a database
// with indexes reads few trials of a large group.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
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
/// Those of a sealed record, without a row.
RankedTrial ranked_trial(const Record& record);

struct Ranked {
  size_t index = 0;       ///< into the candidates
  double latency_ns = 0;  ///< at the group's peak
  double efficiency = 0;  ///< 0 where unknown
};

/// The timings of a group by one session. Only trials that count as timed enter: of one status, and
/// with a latency.
struct TimingSession {
  std::string name;
  std::string host;        ///< empty: it may have several
  double peak_gflops = 0;  ///< the lower median of its trials' peaks; 0: unknown
  double least_cost = 0;   ///< of its trials (Timing::cost)
  /// The ratio of its latencies to those of the majority: the median over the schedules on which it
  /// is compared, 1 where there are none. Absent: the rule derives it from these schedules.
  std::optional<double> ratio = {};
};

/// A trial that counts as timed.
struct Timing {
  std::string_view schedule_hash, session;
  /// Latency in ns times peak in GFLOP/s; where the peak is unknown, the latency.
  double cost = 0;
};

/// A group of trials, for one status that counts as timed.
class TrialSource {
 public:
  virtual ~TrialSource() = default;
  virtual TrialStatus status() const = 0;
  virtual Result<std::vector<TimingSession>> sessions() = 0;
  /// The trials of a schedule, of any status.
  virtual Result<std::vector<RankedTrial>> trials_of(const std::string& schedule_hash) = 0;
  /// The schedules of which a session and at least two others have trials.
  virtual Result<std::vector<std::string>> shared_by(const std::string& session) = 0;
  /// Visits the timings with at least this cost and this peak by cost, until `visit` says false.
  virtual Status by_cost(double least_cost, double least_peak,
                         const std::function<Result<bool>(const Timing&)>& visit) = 0;
};

/// The timings of a group by each session with its ratio, sorted by name: of the trials with status
/// Ok and a latency.
std::vector<TimingSession> timing_sessions(std::span<const RankedTrial> group);

/// The best trial of the group, and its row; nullopt where no trial with the status of the source
/// is believed.
struct BestTrial {
  RankedTrial trial;
  double latency_ns = 0;  ///< at the group's peak
  double efficiency = 0;  ///< 0 where unknown
};
Result<std::optional<BestTrial>> best_trial_of(TrialSource& group);
/// The same for the trials with status Ok of a group that is in memory.
Result<std::optional<BestTrial>> best_trial_of(std::span<const RankedTrial> group);

/// The peak of a group: the lower median of its sessions' peaks.
double group_peak(const std::vector<TimingSession>& sessions);
/// The lowest peak of a trial that was not measured beside a disturbed calibration, by the peak of
/// the group.
double least_undisturbed_peak(double group_peak);

/// The ratio of each session to the majority on a schedule, of the sessions that are compared
/// there.
using SessionRatios = std::map<std::string, double, std::less<>>;
/// The ratios on some schedules of a group, by schedule.
Result<std::map<std::string, SessionRatios>> ratios_on(TrialSource& group,
                                                       const std::set<std::string>& schedules);
/// TimingSession::ratio of a session with these ratios.
double ratio_of(const std::vector<double>& ratios);

/// The trials of a schedule and the judgement of each.
struct JudgedSchedule {
  std::vector<RankedTrial> trials;
  std::vector<Judgement> judgements;
};
/// Judges the trials of some schedules of a group.
Result<std::vector<JudgedSchedule>> judge_schedules(TrialSource& group,
                                                    std::span<const std::string> schedule_hashes);

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
