// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the rule that selects the best trial of a group (the comparable trials of one
// workload). The result depends only on the set of trials, so every order of merging databases
// gives the same answer. docs/database_format.md, "Best", states the rule.
//
// The rule reads trials from a TrialSource. It visits the timings of a group from the fastest to
// the slowest and stops when no later timing can win. So a database with indexes reads only few
// trials of a large group. A session is one run that measured trials. The peak of a group is the
// multiply-add rate in GFLOP/s to which latencies are scaled: latency * peak of the trial / peak of
// the group.

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
  /// The share of `flops` that no kernel can skip (dsl/least_flops.h), from 0 to 1. The rule uses
  /// it only if asks_for_share() is true for the trial.
  double needed_share = 1;
};
/// Returns the RankedTrial of a record whose hashes are set; its member `trial` is 0.
RankedTrial ranked_trial(const Record& record);

/// True if the judgement of the trial depends on its member `needed_share`. This is so if the trial
/// would be faster than its peak allows, supposing that every operation were needed.
bool asks_for_share(const RankedTrial& trial);

struct Ranked {
  size_t index = 0;       ///< index into the group
  double latency_ns = 0;  ///< latency scaled to the peak of the group
  double efficiency = 0;  ///< 0 if unknown
};

/// Summary of one session's timings in a group. It covers only trials that count as timed: they
/// have a latency, and their status is TrialSource::status(), such as Ok.
struct TimingSession {
  std::string name;
  std::string host;        ///< empty if the session may have several hosts
  double peak_gflops = 0;  ///< the lower median of the peaks of the session's trials; 0: unknown
  double least_cost = 0;   ///< the least Timing::cost of the session's trials
  /// The latencies of the session relative to those of the majority of sessions, as ratio_of()
  /// computes them. For example, 1.1: the session is slower by a tenth. 1 if the session is
  /// compared on no schedule. nullopt: the rule has to compute the ratio.
  std::optional<double> ratio = {};
};

/// A trial that counts as timed.
struct Timing {
  std::string_view schedule_hash, session;
  /// Latency in ns times the peak in GFLOP/s that was measured with the trial; the latency alone if
  /// the peak is unknown. A trial with a smaller cost also has a smaller latency after all
  /// latencies are scaled to one common peak.
  double cost = 0;
};

/// The trials of a group, as the rule reads them. A trial counts as timed if it has a latency and
/// the status that status() returns.
class TrialSource {
 public:
  virtual ~TrialSource() = default;
  virtual TrialStatus status() const = 0;
  virtual Result<std::vector<TimingSession>> sessions() = 0;
  /// Returns all trials of a schedule, whatever their status.
  virtual Result<std::vector<RankedTrial>> trials_of(const std::string& schedule_hash) = 0;
  /// Returns the hashes of schedules. `session` and at least two other sessions have trials of each
  /// of them.
  virtual Result<std::vector<std::string>> shared_by(const std::string& session) = 0;
  /// Visits the trials that count as timed, the smallest cost first, until `visit` returns false or
  /// an error. Leaves out trials with a cost below `least_cost` or a peak below `least_peak`.
  virtual Status by_cost(double least_cost, double least_peak,
                         const std::function<Result<bool>(const Timing&)>& visit) = 0;
};

/// Returns a summary for each session that has trials of the group with status Ok and a latency.
/// All ratios are set. The summaries are sorted by the name of the session.
std::vector<TimingSession> timing_sessions(std::span<const RankedTrial> group);

/// The best trial of a group. best_trial_of() returns nullopt if no trial with the status of the
/// source is believed.
struct BestTrial {
  RankedTrial trial;
  double latency_ns = 0;  ///< latency scaled to the peak of the group
  double efficiency = 0;  ///< 0 if unknown
};
Result<std::optional<BestTrial>> best_trial_of(TrialSource& group);
/// Does the same as best_trial_of() above, for a group in memory. Trials with status Ok count as
/// timed.
Result<std::optional<BestTrial>> best_trial_of(std::span<const RankedTrial> group);

/// Returns the peak of a group: the lower median of the peaks of its sessions; 0 if all are
/// unknown.
double group_peak(const std::vector<TimingSession>& sessions);
/// Returns the smallest peak of a trial that does not count as disturbed (Doubt::PeakDisturbed),
/// for a group with the given peak.
double least_undisturbed_peak(double group_peak);

/// The ratios of sessions on one schedule, by name of session. Sessions are compared if at least
/// three of them have believed timings of the schedule with one toolchain. The ratio of a session
/// is its latency divided by the median latency of these sessions, itself included. If the number
/// of sessions is even, the latency is divided by the nearer of the two middle latencies; between
/// these two, the ratio is 1.
using SessionRatios = std::map<std::string, double, std::less<>>;
/// Returns the ratios of sessions on each of the given schedules of a group, by schedule.
Result<std::map<std::string, SessionRatios>> ratios_on(TrialSource& group,
                                                       const std::set<std::string>& schedules);
/// Returns TimingSession::ratio of a session, given its ratios on single schedules: their upper
/// median, or 1 if there are none.
double ratio_of(const std::vector<double>& ratios);

/// All trials of a schedule, and the judgement of each trial at the same index.
struct JudgedSchedule {
  std::vector<RankedTrial> trials;
  std::vector<Judgement> judgements;
};
/// Judges the trials of the given schedules of a group by the whole rule. The result has the order
/// of `schedule_hashes`.
Result<std::vector<JudgedSchedule>> judge_schedules(TrialSource& group,
                                                    std::span<const std::string> schedule_hashes);

/// Judges each trial of a group. If no trial with status Ok is believed, trials with status
/// Unstable and a latency are judged as timed.
std::vector<Judgement> judge(std::span<const RankedTrial> group);

/// Returns the best of the believed trials; nullopt if no trial is believed. Requires: `judgements`
/// is the result of judge(group).
std::optional<Ranked> best_of(std::span<const RankedTrial> group,
                              std::span<const Judgement> judgements);
std::optional<Ranked> best_of(std::span<const RankedTrial> group);

/// Returns for each trial of a group the latency in ns that the rule uses for the trial's schedule.
/// The latency is scaled to the peak that was measured with the best trial. So all trials of the
/// best schedule have the measured latency of the best trial. 0 for a trial that is not believed.
std::vector<double> counted_latencies(std::span<const RankedTrial> group,
                                      std::span<const Judgement> judgements);

/// The latency of a schedule by one session: the median of the session's believed trials of this
/// schedule. Of an even number of trials, it is the slower of the two middle trials.
struct SessionTiming {
  double latency_ns = 0;  ///< latency scaled to the peak of the group
  std::string_view session, host;
  int64_t trials = 0;  ///< number of these trials
};
/// Returns the sessions that have believed trials of a schedule, the fastest first.
std::vector<SessionTiming> sessions_of(std::span<const RankedTrial> group,
                                       std::span<const Judgement> judgements,
                                       std::string_view schedule_hash);

}  // namespace tw::db
