// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the rule that selects the best trial of a group. The result depends on the set of
// trials alone, so that every order of merging gives the same answer. docs/database_format.md,
// "Best", states the rule. The rule reads trials from a TrialSource: it visits timings from the
// fastest upwards and stops when no other can be faster, so that a database with indexes reads few
// trials of a large group.

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
  int64_t trial = 0;  ///< number of the row; the rule ignores it
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
/// The properties of a sealed record, without a row.
RankedTrial ranked_trial(const Record& record);

struct Ranked {
  size_t index = 0;       ///< index into the group
  double latency_ns = 0;  ///< at the group's peak
  double efficiency = 0;  ///< 0 where unknown
};

/// Summary of the timings of a group by one session. Only trials that count as timed are included:
/// those with the status of the source (Ok, for example) and a latency.
struct TimingSession {
  std::string name;
  std::string host;        ///< empty if the session may have several hosts
  double peak_gflops = 0;  ///< the lower median of the peaks of the session's trials; 0: unknown
  double least_cost = 0;   ///< the least Timing::cost of the session's trials
  /// The ratio of the session's latencies to those of the majority of sessions: the median over the
  /// schedules on which the session is compared, 1 if there are none. If it is nullopt, the rule
  /// computes it from these schedules.
  std::optional<double> ratio = {};
};

/// A trial that counts as timed.
struct Timing {
  std::string_view schedule_hash, session;
  /// Latency in ns times peak in GFLOP/s; where the peak is unknown, the latency.
  double cost = 0;
};

/// The trials of a group, as the rule reads them. Trials with status() and a latency count as
/// timed.
class TrialSource {
 public:
  virtual ~TrialSource() = default;
  virtual TrialStatus status() const = 0;
  virtual Result<std::vector<TimingSession>> sessions() = 0;
  /// The trials of a schedule, with any status.
  virtual Result<std::vector<RankedTrial>> trials_of(const std::string& schedule_hash) = 0;
  /// The schedules of which this session and at least two other sessions have trials.
  virtual Result<std::vector<std::string>> shared_by(const std::string& session) = 0;
  /// Visits the timings with at least this cost and at least this peak, in order of cost, until
  /// `visit` returns false.
  virtual Status by_cost(double least_cost, double least_peak,
                         const std::function<Result<bool>(const Timing&)>& visit) = 0;
};

/// Summarizes the trials of a group with status Ok and a latency by session, with ratios, sorted by
/// the name of the session.
std::vector<TimingSession> timing_sessions(std::span<const RankedTrial> group);

/// The best trial of a group. best_trial_of() returns nullopt if no trial with the status of the
/// source is believed.
struct BestTrial {
  RankedTrial trial;
  double latency_ns = 0;  ///< at the group's peak
  double efficiency = 0;  ///< 0 where unknown
};
Result<std::optional<BestTrial>> best_trial_of(TrialSource& group);
/// As above, for the trials with status Ok of a group that is in memory.
Result<std::optional<BestTrial>> best_trial_of(std::span<const RankedTrial> group);

/// The peak of a group: the lower median of the peaks of its sessions.
double group_peak(const std::vector<TimingSession>& sessions);
/// The peak, for a group with this peak, below which the peak of a trial counts as disturbed
/// (Doubt::PeakDisturbed).
double least_undisturbed_peak(double group_peak);

/// For one schedule, the ratio to the majority of each session that is compared on it, by session.
using SessionRatios = std::map<std::string, double, std::less<>>;
/// The ratios on these schedules of a group, by schedule.
Result<std::map<std::string, SessionRatios>> ratios_on(TrialSource& group,
                                                       const std::set<std::string>& schedules);
/// TimingSession::ratio of a session that has these ratios on its schedules.
double ratio_of(const std::vector<double>& ratios);

/// The trials of a schedule and the judgement of each.
struct JudgedSchedule {
  std::vector<RankedTrial> trials;
  std::vector<Judgement> judgements;
};
/// Judges the trials of these schedules of a group.
Result<std::vector<JudgedSchedule>> judge_schedules(TrialSource& group,
                                                    std::span<const std::string> schedule_hashes);

/// Judges each trial of a group.
std::vector<Judgement> judge(std::span<const RankedTrial> group);

/// The best of the believed trials; nullopt if there are none. `judgements` are the result of
/// judge(group).
std::optional<Ranked> best_of(std::span<const RankedTrial> group,
                              std::span<const Judgement> judgements);
std::optional<Ranked> best_of(std::span<const RankedTrial> group);

/// For each trial, the latency in ns that counts for its schedule, scaled to the peak of the best
/// trial; 0 for a trial that is not believed, and for all trials if none is believed.
std::vector<double> counted_latencies(std::span<const RankedTrial> group,
                                      std::span<const Judgement> judgements);

/// Timing of a schedule by one session: the median of the session's believed trials of the
/// schedule, or the slower of the two middle trials.
struct SessionTiming {
  double latency_ns = 0;  ///< at the group's peak
  std::string_view session, host;
  int64_t trials = 0;
};
/// The believed sessions that timed a schedule, fastest first.
std::vector<SessionTiming> sessions_of(std::span<const RankedTrial> group,
                                       std::span<const Judgement> judgements,
                                       std::string_view schedule_hash);

}  // namespace tw::db
