// SPDX-License-Identifier: Apache-2.0
#include "db/ranking.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "dsl/least_flops.h"

namespace tw::db {
namespace {

// A peak below this share of the group's peak (group_peak()) is not believed: something disturbed
// its measurement.
constexpr double lowest_peak = 2.0 / 3.0;
// The largest multiple of its peak that a trial may claim. It is above 1 because `flops` counts the
// operations of the direct algorithm. Winograd F(6,3), the algorithm in use with the fewest
// operations, needs a fifth of them.
constexpr double plausible_efficiency = 6;
// The largest bandwidth that is believed, as a multiple of the bandwidth in the description of the
// machine. A trial may exceed the described bandwidth for two reasons. The description has the
// clock and the rates under load, but a short kernel may run at the highest clock. And the
// compulsory traffic may count elements that a strided kernel does not read.
constexpr double plausible_bandwidth = 2;
constexpr double outlier_deviations = 3, least_outlier = 0.25;
constexpr double deviations_per_mad = 1.4826;  // of a normal distribution
// With fewer sessions there is no majority.
constexpr size_t fewest_voters = 3;
// fewest_accusers is the number of sessions that have to prove a schedule wrong to ban it. A crash
// may be the fault of the machine, and a record may be forged, so a second session has to see it
// too. fewest_witnesses is the number of correct trials that protect a schedule from a single such
// session. A schedule with only one correct trial is not protected. Otherwise a run might get an
// answer that the run itself has proved wrong. The winner of a run has two trials, because the
// comparison at the end of the run measures it again.
constexpr size_t fewest_accusers = 2, fewest_witnesses = 2;
// A schedule that a single host timed may have to be confirmed before it is used. This is so if it
// is more than `wide_margin` times as fast as all schedules that other hosts measured, in at least
// `fewest_rivals` sessions. If these sessions are of one host, a second trial confirms the
// schedule. If they are of several hosts, a trial on another host is needed, because a host that
// measures wrongly would measure wrongly again.
constexpr double wide_margin = 2;
constexpr size_t fewest_rivals = 2;

struct Estimate {
  double latency_ns;
  const RankedTrial* trial;
  bool operator<(const Estimate& other) const {
    return std::tie(latency_ns, trial->hash) < std::tie(other.latency_ns, other.trial->hash);
  }
};

// Timing of one schedule by each session, by name.
using Sessions = std::map<std::string_view, Estimate>;
using Timings = std::map<std::string_view, Sessions>;  // by hash of schedule

template <typename T>
T nth(std::vector<T> values, size_t index) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Returns the upper one of the two middle values. So a doubtful second measurement does not make a
// schedule faster.
template <typename T>
T upper_median(const std::vector<T>& values) {
  return nth(values, values.size() / 2);
}
template <typename T>
T lower_median(const std::vector<T>& values) {
  return nth(values, (values.size() - 1) / 2);
}

bool is_believed(const Judgement& judgement) { return judgement.doubt == Doubt::None; }

/// Judges a trial by its own members and the peak of its group alone. Only trials with a latency
/// and this status count as timed.
Judgement judge_alone(const RankedTrial& trial, TrialStatus status, double group_peak) {
  const bool is_worse =
      status == TrialStatus::Ok && trial.status == TrialStatus::Unstable && trial.latency_ns > 0;
  if (is_worse) return {Doubt::Disturbed};
  if (trial.status != status || !(trial.latency_ns > 0)) return {Doubt::NotTimed};
  const double bandwidth = trial.peak_gb_per_s * trial.latency_ns;
  if (trial.peak_gb_per_s > 0 && trial.bytes > plausible_bandwidth * bandwidth)
    return {Doubt::BeyondBandwidth, trial.bytes / bandwidth};
  if (group_peak <= 0) return {Doubt::None, 0, trial.latency_ns};
  if (trial.peak_gflops <= 0) return {Doubt::PeakUnknown};
  if (trial.peak_gflops < lowest_peak * group_peak)
    return {Doubt::PeakDisturbed, trial.peak_gflops / group_peak};
  const double operations = trial.peak_gflops * trial.latency_ns;
  const double needed = trial.flops * trial.needed_share;
  if (needed > plausible_efficiency * operations) return {Doubt::BeyondPeak, needed / operations};
  return {Doubt::None, 0, trial.latency_ns * trial.peak_gflops / group_peak};
}

/// True if the status implies that the result of the schedule was correct, even if there is no
/// latency.
bool was_correct(TrialStatus status) {
  return status == TrialStatus::Ok || status == TrialStatus::Unstable ||
         status == TrialStatus::Hopeless || status == TrialStatus::TooFast;
}

Timings timings_of(std::span<const RankedTrial> group, std::span<const Judgement> judgements) {
  std::map<std::pair<std::string_view, std::string_view>, std::vector<Estimate>> all;
  for (size_t i = 0; i < group.size(); ++i)
    if (is_believed(judgements[i]))
      all[{group[i].schedule_hash, group[i].session}].push_back(
          {judgements[i].latency_ns, &group[i]});
  Timings timings;
  for (const auto& [key, estimates] : all)
    timings[key.first].emplace(key.second, upper_median(estimates));
  return timings;
}

/// Returns the estimate that counts for a schedule: the upper median of the estimates of its
/// sessions.
Estimate estimate_of(const Sessions& sessions) {
  std::vector<Estimate> estimates;
  for (const auto& [session, estimate] : sessions) estimates.push_back(estimate);
  return upper_median(estimates);
}

/// The sessions that timed one schedule with one toolchain. Only these are compared, because
/// another version of the compiler generates other code for the schedule.
struct Voters {
  std::vector<double> latencies = {};
  double low = 0, high = 0;  ///< the two middle latencies; equal if their number is odd

  bool are_enough() const { return latencies.size() >= fewest_voters; }
  /// Returns the ratio of a latency to the nearer one of `low` and `high`; 1 if the latency is
  /// between them.
  double against_middle(double latency_ns) const {
    return latency_ns < low ? latency_ns / low : latency_ns > high ? latency_ns / high : 1;
  }
};

/// Returns the voters of each toolchain.
std::map<std::string_view, Voters> voters_among(const Sessions& sessions) {
  std::map<std::string_view, Voters> all;
  for (const auto& [session, estimate] : sessions)
    all[estimate.trial->toolchain].latencies.push_back(estimate.latency_ns);
  for (auto& [toolchain, voters] : all) {
    voters.low = lower_median(voters.latencies);
    voters.high = upper_median(voters.latencies);
  }
  return all;
}

/// Returns d, such as 0.25. A session is no outlier if its latency is at most 1 + d times the
/// median and at least the median divided by 1 + d.
double outlier_distance(const std::vector<double>& latencies) {
  const double median = upper_median(latencies);
  std::vector<double> distances;
  for (const double latency : latencies) distances.push_back(std::fabs(latency - median));
  const double deviation = deviations_per_mad * upper_median(distances);
  return std::max(least_outlier, outlier_deviations * deviation / median);
}

/// Returns for each session its timing of a schedule: the upper median of latency_of(i) over the
/// session's believed trials i.
template <typename LatencyOf>
Sessions sessions_by(const JudgedSchedule& schedule, const LatencyOf& latency_of) {
  std::map<std::string_view, std::vector<Estimate>> all;
  for (size_t i = 0; i < schedule.trials.size(); ++i)
    if (is_believed(schedule.judgements[i]))
      all[schedule.trials[i].session].push_back({latency_of(i), &schedule.trials[i]});
  Sessions sessions;
  for (const auto& [session, estimates] : all)
    sessions.emplace_hint(sessions.end(), session,
                          estimates.size() == 1 ? estimates[0] : upper_median(estimates));
  return sessions;
}

/// Returns for each session its timing of a schedule, scaled to the peak of the group.
Sessions sessions_of(const JudgedSchedule& schedule) {
  return sessions_by(schedule, [&](size_t i) { return schedule.judgements[i].latency_ns; });
}

/// Returns Timing::cost of a trial.
double timing_cost(const RankedTrial& trial) {
  return trial.peak_gflops > 0 ? trial.latency_ns * trial.peak_gflops : trial.latency_ns;
}

bool has_believed(const JudgedSchedule& schedule) {
  return std::ranges::any_of(schedule.judgements, is_believed);
}

}  // namespace

// Each session has one vote, however many trials it has. If there are two middle peaks, the lower
// one is used. Otherwise, of only two sessions, a session on a foreign machine with a high peak
// would determine the peak.
double group_peak(const std::vector<TimingSession>& sessions) {
  std::vector<double> peaks;
  for (const TimingSession& session : sessions)
    if (session.peak_gflops > 0) peaks.push_back(session.peak_gflops);
  return peaks.empty() ? 0 : lower_median(peaks);
}

double least_undisturbed_peak(double group_peak) { return lowest_peak * group_peak; }

double ratio_of(const std::vector<double>& ratios) {
  return ratios.empty() ? 1 : upper_median(ratios);
}

namespace {

/// The evidence of trials for and against the correctness of a schedule.
struct Evidence {
  std::set<std::string_view> accusers;  ///< sessions that prove the schedule wrong
  size_t witnesses = 0;  ///< number of trials of other sessions with a correct result
};

Evidence evidence_of(const std::vector<RankedTrial>& schedule) {
  Evidence evidence;
  for (const RankedTrial& trial : schedule)
    if (proves_wrong(trial.status)) evidence.accusers.insert(trial.session);
  for (const RankedTrial& trial : schedule)
    evidence.witnesses += was_correct(trial.status) && !evidence.accusers.contains(trial.session);
  return evidence;
}

/// Applies the rule of the best trial to single schedules of a group. Reads the trials of other
/// schedules from the source if the rule needs them, and caches the results.
class Rule {
 public:
  static Result<Rule> of(TrialSource& source) {
    TW_TRY(std::vector<TimingSession> sessions, source.sessions());
    return Rule(source, std::move(sessions));
  }

  double peak() const { return peak_; }

  /// Judges the trials of a schedule by the whole rule.
  Result<JudgedSchedule> judged(const std::string& schedule) {
    TW_TRY(const JudgedSchedule* const voted, voted_on(schedule));
    JudgedSchedule result = *voted;
    TW_RETURN_IF_ERROR(doubt_unconfirmed(result));
    if (has_believed(result))
      for (size_t i = 0; i < result.trials.size(); ++i)
        if (proves_wrong(result.trials[i].status)) result.judgements[i].doubt = Doubt::Contradicted;
    return result;
  }

  Result<const SessionRatios*> ratios_on(const std::string& schedule) {
    if (const auto known = ratios_on_.find(schedule); known != ratios_on_.end())
      return &known->second;
    TW_TRY(const JudgedSchedule* const judged, timed(schedule));
    // The ratios are computed from costs, not from scaled latencies. In exact arithmetic both give
    // the same ratios. But the ratios of costs do not change in the last bit when the peak of the
    // group changes. This matters because the ratios are stored.
    const Sessions sessions =
        sessions_by(*judged, [&](size_t i) { return timing_cost(judged->trials[i]); });
    const std::map<std::string_view, Voters> voters = voters_among(sessions);
    SessionRatios ratios;
    for (const auto& [session, estimate] : sessions) {
      const Voters& own = voters.at(estimate.trial->toolchain);
      if (own.are_enough()) ratios.emplace(session, own.against_middle(estimate.latency_ns));
    }
    return &ratios_on_.emplace(schedule, std::move(ratios)).first->second;
  }

  /// Returns the sessions with their ratios. Ratios that the source does not know are computed.
  Result<std::vector<TimingSession>> sessions_with_ratios() {
    std::vector<TimingSession> sessions = sessions_;
    for (TimingSession& session : sessions) {
      TW_TRY(session.ratio, ratio_to_majority(session.name));
    }
    return sessions;
  }

  /// Visits the timings of trials with an undisturbed peak and a cost of at least `least_cost`. The
  /// smallest latency, scaled to the peak of the group, comes first.
  Status by_latency(double least_cost,
                    const std::function<Result<bool>(const Timing&, double latency_ns)>& visit) {
    return source_.by_cost(least_cost, lowest_peak * peak_, [&](const Timing& timing) {
      return visit(timing, timing.cost / scale_);
    });
  }

 private:
  Rule(TrialSource& source, std::vector<TimingSession> sessions)
      : source_(source),
        sessions_(std::move(sessions)),
        peak_(group_peak(sessions_)),
        scale_(peak_ > 0 ? peak_ : 1) {
    for (const TimingSession& session : sessions_)
      if (session.ratio) ratios_.emplace(session.name, *session.ratio);
  }

  /// Returns the trials of a schedule, judged without comparing sessions: by judge_alone() and by
  /// the trials that prove the schedule wrong.
  Result<const JudgedSchedule*> timed(const std::string& schedule) {
    if (const auto known = timed_.find(schedule); known != timed_.end()) return &known->second;
    JudgedSchedule result;
    TW_TRY(result.trials, source_.trials_of(schedule));
    for (const RankedTrial& trial : result.trials)
      result.judgements.push_back(judge_alone(trial, source_.status(), peak_));
    TW_RETURN_IF_ERROR(doubt_refuted(result));
    return &timed_.emplace(schedule, std::move(result)).first->second;
  }

  /// Doubts the timings of a schedule that sessions have proved wrong. If at least two sessions
  /// have, the timings of all sessions are doubted. If only one session has, its own timings are
  /// doubted. The timings of all other sessions are then doubted too if two conditions hold: at
  /// most one trial of the other sessions had a correct result, and the accusing session has a
  /// timing in the group that raises no doubt by itself.
  Status doubt_refuted(JudgedSchedule& schedule) {
    const Evidence evidence = evidence_of(schedule.trials);
    if (evidence.accusers.empty()) return {};
    bool is_banned = evidence.accusers.size() >= fewest_accusers;
    if (!is_banned && evidence.witnesses < fewest_witnesses) {
      TW_TRY(is_banned, has_timed(std::string(*evidence.accusers.begin())));
    }
    for (size_t i = 0; i < schedule.trials.size(); ++i)
      if (is_believed(schedule.judgements[i]) &&
          (is_banned || evidence.accusers.contains(schedule.trials[i].session)))
        schedule.judgements[i].doubt = Doubt::Refuted;
    return {};
  }

  /// True if the session has a timing in the group about which judge_alone() has no doubt.
  Result<bool> has_timed(const std::string& name) {
    const auto session = std::ranges::find(sessions_, name, &TimingSession::name);
    if (session == sessions_.end() || session->least_cost == 0) return false;
    bool found = false;
    TW_RETURN_IF_ERROR(source_.by_cost(
        session->least_cost, lowest_peak * peak_, [&](const Timing& timing) -> Result<bool> {
          if (timing.session != name) return true;
          TW_TRY(const std::vector<RankedTrial> trials,
                 source_.trials_of(std::string(timing.schedule_hash)));
          found = std::ranges::any_of(trials, [&](const RankedTrial& trial) {
            return trial.session == name &&
                   is_believed(judge_alone(trial, source_.status(), peak_));
          });
          return !found;
        }));
    return found;
  }

  /// Returns the trials of a schedule, judged as by timed() and then by comparing sessions: trials
  /// of sessions that differ from the majority are doubted.
  Result<const JudgedSchedule*> voted_on(const std::string& schedule) {
    if (const auto known = voted_.find(schedule); known != voted_.end()) return &known->second;
    TW_TRY(const JudgedSchedule* const before, timed(schedule));
    JudgedSchedule result = *before;
    TW_RETURN_IF_ERROR(doubt_outvoted_sessions(result));
    doubt_outliers(result);
    return &voted_.emplace(schedule, std::move(result)).first->second;
  }

  /// Doubts all timings of sessions that are much faster or slower than the majority on shared
  /// schedules. Such a session has another clock or another machine, so its timings of other
  /// schedules cannot be compared either.
  Status doubt_outvoted_sessions(JudgedSchedule& schedule) {
    for (size_t i = 0; i < schedule.trials.size(); ++i) {
      if (!is_believed(schedule.judgements[i])) continue;
      TW_TRY(const double ratio, ratio_to_majority(schedule.trials[i].session));
      if (ratio > session_agreement || ratio * session_agreement < 1)
        schedule.judgements[i] = {Doubt::SessionOutvoted, ratio, schedule.judgements[i].latency_ns};
    }
    return {};
  }

  Result<double> ratio_to_majority(const std::string& session) {
    if (const auto known = ratios_.find(session); known != ratios_.end()) return known->second;
    TW_TRY(const std::vector<std::string> shared, source_.shared_by(session));
    std::vector<double> ratios;
    for (const std::string& schedule : shared) {
      TW_TRY(const SessionRatios* const on_schedule, ratios_on(schedule));
      if (const auto own = on_schedule->find(session); own != on_schedule->end())
        ratios.push_back(own->second);
    }
    return ratios_.emplace(session, ratio_of(ratios)).first->second;
  }

  void doubt_outliers(JudgedSchedule& schedule) {
    const Sessions sessions = sessions_of(schedule);
    std::map<std::string_view, double> most, outliers;  // by toolchain; by session
    const std::map<std::string_view, Voters> voters = voters_among(sessions);
    for (const auto& [toolchain, of] : voters)
      if (of.are_enough()) most[toolchain] = 1 + outlier_distance(of.latencies);
    for (const auto& [session, estimate] : sessions) {
      const std::string_view toolchain = estimate.trial->toolchain;
      if (!most.contains(toolchain)) continue;
      const double ratio = voters.at(toolchain).against_middle(estimate.latency_ns);
      if (ratio > most[toolchain] || ratio * most[toolchain] < 1) outliers[session] = ratio;
    }
    for (size_t i = 0; i < schedule.trials.size(); ++i) {
      const auto found = outliers.find(schedule.trials[i].session);
      if (is_believed(schedule.judgements[i]) && found != outliers.end())
        schedule.judgements[i] = {Doubt::Outlier, found->second, schedule.judgements[i].latency_ns};
    }
  }

  /// Doubts a schedule that only one host timed and that is far faster than all schedules that
  /// other hosts measured. A second trial confirms the schedule if there is only one other host. If
  /// there are several other hosts, only a trial of another host confirms it.
  Status doubt_unconfirmed(JudgedSchedule& schedule) {
    const Sessions sessions = sessions_of(schedule);
    if (sessions.empty()) return {};
    const std::string host = sessions.begin()->second.trial->host;
    for (const auto& [session, estimate] : sessions)
      if (estimate.trial->host != host) return {};
    const double latency_ns = estimate_of(sessions).latency_ns;
    TW_TRY(const double fastest_ns, fastest_of_others(host));
    if (!(latency_ns * wide_margin < fastest_ns)) return {};
    TW_TRY(const Rivals rivals, rivals_of(host));
    const bool is_confirmed = std::ranges::count_if(schedule.judgements, is_believed) > 1 &&
                              rivals.hosts.size() < fewest_rivals;
    if (is_confirmed || rivals.sessions.size() < fewest_rivals) return {};
    for (Judgement& judgement : schedule.judgements)
      if (is_believed(judgement))
        judgement = {Doubt::Unconfirmed, latency_ns / fastest_ns, judgement.latency_ns};
    return {};
  }

  /// Returns the sessions that may have timings on other hosts than `host`.
  std::vector<const TimingSession*> others_than(std::string_view host) const {
    std::vector<const TimingSession*> others;
    for (const TimingSession& session : sessions_)
      if (session.least_cost > 0 && (session.host.empty() || session.host != host))
        others.push_back(&session);
    return others;
  }

  /// Returns the smallest believed latency that a session on another host measured for any
  /// schedule; 0 if there is none.
  Result<double> fastest_of_others(const std::string& host) {
    if (const auto known = fastest_.find(host); known != fastest_.end()) return known->second;
    std::set<std::string_view> names;
    double least = 0, fastest = 0;
    for (const TimingSession* other : others_than(host)) {
      names.insert(other->name);
      if (least == 0 || other->least_cost < least) least = other->least_cost;
    }
    std::set<std::string> seen;
    const auto visit = [&](const Timing& timing, double ns) -> Result<bool> {
      if (fastest > 0 && ns >= fastest) return false;
      if (!names.contains(timing.session)) return true;
      if (!seen.emplace(timing.schedule_hash).second) return true;
      TW_TRY(const JudgedSchedule* const judged, voted_on(std::string(timing.schedule_hash)));
      for (const auto& [session, estimate] : sessions_of(*judged))
        if (estimate.trial->host != host && (fastest == 0 || estimate.latency_ns < fastest))
          fastest = estimate.latency_ns;
      return true;
    };
    if (!names.empty()) TW_RETURN_IF_ERROR(by_latency(least, visit));
    return fastest_.emplace(host, fastest).first->second;
  }

  /// Sessions on other hosts that have a believed timing, and these hosts. rivals_of() stops when
  /// it has found fewest_rivals of each, because the rule needs no more.
  struct Rivals {
    std::set<std::string> sessions, hosts;
  };
  Result<Rivals> rivals_of(const std::string& host) {
    Rivals rivals;
    for (const TimingSession* other : others_than(host)) {
      if (rivals.sessions.size() >= fewest_rivals && rivals.hosts.size() >= fewest_rivals) break;
      const auto visit = [&](const Timing& timing, double) -> Result<bool> {
        if (timing.session != other->name) return true;
        TW_TRY(const JudgedSchedule* const judged, voted_on(std::string(timing.schedule_hash)));
        const Sessions sessions = sessions_of(*judged);
        const auto own = sessions.find(other->name);
        if (own == sessions.end() || own->second.trial->host == host) return true;
        rivals.sessions.insert(other->name);
        rivals.hosts.insert(own->second.trial->host);
        return other->host.empty() && rivals.hosts.size() < fewest_rivals;
      };
      TW_RETURN_IF_ERROR(by_latency(other->least_cost, visit));
    }
    return rivals;
  }

  TrialSource& source_;
  std::vector<TimingSession> sessions_;
  double peak_, scale_;
  std::map<std::string, JudgedSchedule> timed_, voted_;  ///< by schedule
  std::map<std::string, double> ratios_;                 ///< by session
  std::map<std::string, SessionRatios> ratios_on_;       ///< by schedule
  std::map<std::string, double> fastest_;                ///< by host
};

// ---- a group in memory ----

class TrialsInMemory final : public TrialSource {
 public:
  TrialsInMemory(std::span<const RankedTrial> group, TrialStatus status)
      : group_(group), status_(status) {
    for (size_t i = 0; i < group.size(); ++i) {
      by_schedule_[group[i].schedule_hash].push_back(i);
      if (is_timing(group[i])) timings_.push_back(i);
    }
    std::ranges::stable_sort(timings_, {}, [&](size_t i) { return timing_cost(group_[i]); });
  }

  /// Indexes of the trials, in the order of trials_of().
  const std::map<std::string, std::vector<size_t>>& by_schedule() const { return by_schedule_; }

  TrialStatus status() const override { return status_; }

  Result<std::vector<TimingSession>> sessions() override {
    std::map<std::string, TimingSession> sessions;
    std::map<std::string, std::vector<double>> peaks;
    for (const size_t i : timings_) {
      const RankedTrial& trial = group_[i];
      const auto [known, is_new] = sessions.try_emplace(
          trial.session, TimingSession{trial.session, trial.host, 0, timing_cost(trial)});
      if (!is_new && known->second.host != trial.host) known->second.host.clear();
      if (trial.peak_gflops > 0) peaks[trial.session].push_back(trial.peak_gflops);
    }
    std::vector<TimingSession> result;
    for (auto& [name, session] : sessions) {
      if (peaks.contains(name)) session.peak_gflops = lower_median(peaks[name]);
      result.push_back(std::move(session));
    }
    return result;
  }

  Result<std::vector<RankedTrial>> trials_of(const std::string& schedule_hash) override {
    std::vector<RankedTrial> trials;
    for (const size_t i : by_schedule_[schedule_hash]) trials.push_back(group_[i]);
    return trials;
  }

  Result<std::vector<std::string>> shared_by(const std::string& session) override {
    if (!has_shared_) find_shared();
    return shared_[session];
  }

  Status by_cost(double least_cost, double least_peak,
                 const std::function<Result<bool>(const Timing&)>& visit) override {
    const auto first = std::ranges::lower_bound(timings_, least_cost, {},
                                                [&](size_t i) { return timing_cost(group_[i]); });
    for (auto i = first; i != timings_.end(); ++i) {
      const RankedTrial& trial = group_[*i];
      if (trial.peak_gflops < least_peak) continue;
      TW_TRY(const bool goes_on, visit({trial.schedule_hash, trial.session, timing_cost(trial)}));
      if (!goes_on) break;
    }
    return {};
  }

 private:
  bool is_timing(const RankedTrial& trial) const {
    return trial.status == status_ && trial.latency_ns > 0;
  }
  void find_shared() {
    has_shared_ = true;
    for (const auto& [schedule, trials] : by_schedule_) {
      std::set<std::string_view> sessions;
      for (const size_t i : trials) sessions.insert(group_[i].session);
      if (sessions.size() < fewest_voters) continue;
      for (const std::string_view session : sessions)
        shared_[std::string(session)].push_back(schedule);
    }
  }

  std::span<const RankedTrial> group_;
  TrialStatus status_;
  std::map<std::string, std::vector<size_t>> by_schedule_;
  std::vector<size_t> timings_;  ///< by cost
  bool has_shared_ = false;
  std::map<std::string, std::vector<std::string>> shared_;  ///< by session
};

/// Judges each trial of a group. Only trials with this status count as timed.
Result<std::vector<Judgement>> judge_as(std::span<const RankedTrial> group, TrialStatus status) {
  TrialsInMemory trials(group, status);
  TW_TRY(Rule rule, Rule::of(trials));
  std::vector<Judgement> judgements(group.size());
  for (const auto& [schedule, indexes] : trials.by_schedule()) {
    TW_TRY(const JudgedSchedule judged, rule.judged(schedule));
    for (size_t i = 0; i < indexes.size(); ++i) judgements[indexes[i]] = judged.judgements[i];
  }
  return judgements;
}

/// Judges a group with Ok as the status of timed trials. If no trial is believed then, judges the
/// Unstable trials as timed.
Result<std::vector<Judgement>> judge_group(std::span<const RankedTrial> group) {
  TW_TRY(std::vector<Judgement> judgements, judge_as(group, TrialStatus::Ok));
  if (std::ranges::any_of(judgements, is_believed)) return judgements;
  TW_TRY(const std::vector<Judgement> disturbed, judge_as(group, TrialStatus::Unstable));
  for (size_t i = 0; i < group.size(); ++i)
    if (disturbed[i].doubt != Doubt::NotTimed) judgements[i] = disturbed[i];
  return judgements;
}

}  // namespace

Result<std::optional<BestTrial>> best_trial_of(TrialSource& group) {
  TW_TRY(Rule rule, Rule::of(group));
  std::optional<BestTrial> best;
  std::set<std::string> seen;
  const auto visit = [&](const Timing& timing, double latency_ns) -> Result<bool> {
    // The latency of a schedule is never smaller than that of its fastest trial. So no schedule
    // that is first visited here can win.
    if (best && latency_ns > best->latency_ns) return false;
    const std::string schedule(timing.schedule_hash);
    if (!seen.insert(schedule).second) return true;
    TW_TRY(const JudgedSchedule judged, rule.judged(schedule));
    const Sessions sessions = sessions_of(judged);
    if (sessions.empty()) return true;
    const Estimate estimate = estimate_of(sessions);
    if (best && std::tie(best->latency_ns, best->trial.hash) <
                    std::tie(estimate.latency_ns, estimate.trial->hash))
      return true;
    best = {*estimate.trial, estimate.latency_ns,
            rule.peak() > 0 ? estimate.trial->flops / estimate.latency_ns / rule.peak() : 0};
    return true;
  };
  TW_RETURN_IF_ERROR(rule.by_latency(0, visit));
  return best;
}

Result<std::optional<BestTrial>> best_trial_of(std::span<const RankedTrial> group) {
  TrialsInMemory trials(group, TrialStatus::Ok);
  return best_trial_of(trials);
}

Result<std::map<std::string, SessionRatios>> ratios_on(TrialSource& group,
                                                       const std::set<std::string>& schedules) {
  TW_TRY(Rule rule, Rule::of(group));
  std::map<std::string, SessionRatios> all;
  for (const std::string& schedule : schedules) {
    TW_TRY(const SessionRatios* const ratios, rule.ratios_on(schedule));
    all.emplace(schedule, *ratios);
  }
  return all;
}

Result<std::vector<JudgedSchedule>> judge_schedules(TrialSource& group,
                                                    std::span<const std::string> schedule_hashes) {
  TW_TRY(Rule rule, Rule::of(group));
  std::vector<JudgedSchedule> all;
  for (const std::string& schedule : schedule_hashes) {
    TW_TRY(JudgedSchedule judged, rule.judged(schedule));
    all.push_back(std::move(judged));
  }
  return all;
}

std::vector<TimingSession> timing_sessions(std::span<const RankedTrial> group) {
  TrialsInMemory trials(group, TrialStatus::Ok);
  return Rule::of(trials).value().sessions_with_ratios().value();
}

std::vector<Judgement> judge(std::span<const RankedTrial> group) {
  return judge_group(group).value();  // a group in memory has nothing that could fail
}

bool asks_for_share(const RankedTrial& trial) {
  return trial.flops > plausible_efficiency * trial.peak_gflops * trial.latency_ns;
}

RankedTrial ranked_trial(const Record& record) {
  RankedTrial trial = {.hash = record.hash,
                       .schedule_hash = record.schedule_hash,
                       .status = record.status,
                       .latency_ns = record.latency_ns,
                       .flops = record.flops,
                       .peak_gflops = record.peak_gflops,
                       .session = record.session,
                       .host = record.host,
                       .bytes = record.bytes,
                       .peak_gb_per_s = record.peak_gb_per_s,
                       .toolchain = record.toolchain};
  if (asks_for_share(trial)) trial.needed_share = dsl::needed_share(record.workload);
  return trial;
}

namespace {

std::vector<RankedTrial> ranked_trials(std::span<const Record> group) {
  std::vector<RankedTrial> trials;
  for (const Record& record : group) trials.push_back(ranked_trial(record));
  return trials;
}

}  // namespace

std::vector<Judgement> judge_records(std::span<const Record> group) {
  return judge(ranked_trials(group));
}

Ranking rank_records(std::span<const Record> group) {
  const std::vector<RankedTrial> trials = ranked_trials(group);
  Ranking ranking;
  ranking.judgements = judge(trials);
  ranking.counted_ns = counted_latencies(trials, ranking.judgements);
  if (const auto best = best_of(trials, ranking.judgements)) ranking.best = best->index;
  return ranking;
}

std::optional<Ranked> best_of(std::span<const RankedTrial> group,
                              std::span<const Judgement> judgements) {
  std::optional<Estimate> best;
  for (const auto& [schedule, sessions] : timings_of(group, judgements)) {
    const Estimate estimate = estimate_of(sessions);
    if (!best || estimate < *best) best = estimate;
  }
  if (!best) return std::nullopt;
  TrialsInMemory trials(group, best->trial->status);
  const double peak = group_peak(trials.sessions().value());
  return Ranked{static_cast<size_t>(best->trial - group.data()), best->latency_ns,
                peak > 0 ? best->trial->flops / best->latency_ns / peak : 0};
}

std::optional<Ranked> best_of(std::span<const RankedTrial> group) {
  return best_of(group, judge(group));
}

std::vector<double> counted_latencies(std::span<const RankedTrial> group,
                                      std::span<const Judgement> judgements) {
  std::vector<double> counted(group.size(), 0);
  const auto best = best_of(group, judgements);
  if (!best) return counted;
  const double best_ns = group[best->index].latency_ns;
  std::map<std::string_view, double> by_schedule;
  for (const auto& [schedule, sessions] : timings_of(group, judgements)) {
    const double ns = estimate_of(sessions).latency_ns;
    by_schedule[schedule] = ns == best->latency_ns ? best_ns : ns * (best_ns / best->latency_ns);
  }
  for (size_t i = 0; i < group.size(); ++i)
    if (is_believed(judgements[i])) counted[i] = by_schedule.at(group[i].schedule_hash);
  return counted;
}

std::vector<SessionTiming> sessions_of(std::span<const RankedTrial> group,
                                       std::span<const Judgement> judgements,
                                       std::string_view schedule_hash) {
  std::vector<SessionTiming> timings;
  const Timings all = timings_of(group, judgements);
  const auto sessions = all.find(schedule_hash);
  if (sessions == all.end()) return timings;
  for (const auto& [session, estimate] : sessions->second) {
    int64_t trials = 0;
    for (size_t i = 0; i < group.size(); ++i)
      trials += is_believed(judgements[i]) && group[i].schedule_hash == schedule_hash &&
                group[i].session == session;
    timings.push_back({estimate.latency_ns, session, estimate.trial->host, trials});
  }
  std::stable_sort(timings.begin(), timings.end(),
                   [](const auto& a, const auto& b) { return a.latency_ns < b.latency_ns; });
  return timings;
}

}  // namespace tw::db
