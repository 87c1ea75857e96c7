// SPDX-License-Identifier: Apache-2.0
#include "db/ranking.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace tw::db {
namespace {

// A peak below this part of the group's median was measured beside a disturbed calibration.
constexpr double lowest_peak = 2.0 / 3.0;
// `flops` counts the direct algorithm; Winograd F(6,3), the leanest in use, needs a fifth of it.
constexpr double plausible_efficiency = 6;
// The description of a machine has its clock and its rates under load; a short kernel may run at
// the highest clock, and reads may be counted that a strided kernel leaves out.
constexpr double plausible_bandwidth = 2;
constexpr double outlier_deviations = 3, least_outlier = 0.25;
constexpr double deviations_per_mad = 1.4826;  // of a normal distribution
// With fewer sessions there is no majority.
constexpr size_t fewest_voters = 3;
// A crash may be the fault of the machine, and a record may be forged, so a second session has to
// see it too. The finals of a run measure its winner twice. A schedule that was timed once, and
// failed once in a session that measures others, is not used: a claim that a run finds wrong is not
// its answer.
constexpr size_t fewest_accusers = 2, fewest_witnesses = 2;
// A schedule that one host timed and that is more than `wide_margin` times as fast as all that at
// least `fewest_rivals` sessions of other hosts measured must be confirmed before use. If these
// sessions are of one host, a second trial confirms it; if they are of several hosts, only another
// host does, as a host that measures wrongly does so again.
constexpr double wide_margin = 2;
constexpr size_t fewest_rivals = 2;

struct Estimate {
  double latency_ns;
  const RankedTrial* trial;
  bool operator<(const Estimate& other) const {
    return std::tie(latency_ns, trial->hash) < std::tie(other.latency_ns, other.trial->hash);
  }
};

using Sessions = std::map<std::string_view, Estimate>;  // what each session measured of a schedule
using Timings = std::map<std::string_view, Sessions>;   // by schedule

template <typename T>
T nth(std::vector<T> values, size_t index) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// The upper one of the middle two: a doubtful second measurement does not make a schedule faster.
template <typename T>
T upper_median(const std::vector<T>& values) {
  return nth(values, values.size() / 2);
}
template <typename T>
T lower_median(const std::vector<T>& values) {
  return nth(values, (values.size() - 1) / 2);
}

bool is_believed(const Judgement& judgement) { return judgement.doubt == Doubt::None; }

/// The median of the sessions' peaks: however many trials a session has, it has one vote. The lower
/// one of the middle two, so that one foreign session with a high peak does not outvote the only
/// other.
double median_peak(std::span<const RankedTrial> group, TrialStatus status) {
  std::map<std::string_view, std::vector<double>> by_session;
  for (const RankedTrial& trial : group)
    if (trial.status == status && trial.peak_gflops > 0)
      by_session[trial.session].push_back(trial.peak_gflops);
  std::vector<double> peaks;
  for (const auto& [session, of_session] : by_session) peaks.push_back(lower_median(of_session));
  return peaks.empty() ? 0 : lower_median(peaks);
}

/// The doubt that a trial raises by itself.
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
  if (trial.flops > plausible_efficiency * operations)
    return {Doubt::BeyondPeak, trial.flops / operations};
  return {Doubt::None, 0, trial.latency_ns * trial.peak_gflops / group_peak};
}

/// The trial verified the result of its schedule, whether or not it could time it.
bool was_correct(TrialStatus status) {
  return status == TrialStatus::Ok || status == TrialStatus::Unstable ||
         status == TrialStatus::Hopeless || status == TrialStatus::TooFast;
}

/// Sessions that speak against a schedule, and trials that speak for it.
struct Evidence {
  std::set<std::string_view> accusers;  ///< sessions that prove it wrong
  size_t witnesses = 0;                 ///< trials of other sessions that found it right
};

std::map<std::string_view, Evidence> evidence_of(std::span<const RankedTrial> group) {
  std::map<std::string_view, Evidence> all;  // of the schedules that somebody accuses
  for (const RankedTrial& trial : group)
    if (proves_wrong(trial.status)) all[trial.schedule_hash].accusers.insert(trial.session);
  for (const RankedTrial& trial : group) {
    const auto found = all.find(trial.schedule_hash);
    if (found != all.end() && was_correct(trial.status))
      found->second.witnesses += !found->second.accusers.contains(trial.session);
  }
  return all;
}

/// One voice does not ban a schedule: a trial that proves it wrong counts against the timings of
/// its own session, and against those of all once two sessions have one. Where a single trial found
/// the schedule right, one session is enough that has timed others of the group.
void doubt_refuted(std::span<const RankedTrial> group, std::vector<Judgement>& judgements) {
  const std::map<std::string_view, Evidence> all = evidence_of(group);
  if (all.empty()) return;
  std::set<std::string_view> timing;  // sessions
  for (size_t i = 0; i < group.size(); ++i)
    if (is_believed(judgements[i])) timing.insert(group[i].session);
  for (size_t i = 0; i < group.size(); ++i) {
    const auto found = all.find(group[i].schedule_hash);
    if (!is_believed(judgements[i]) || found == all.end()) continue;
    const auto& [accusers, witnesses] = found->second;
    if (accusers.size() >= fewest_accusers || accusers.contains(group[i].session) ||
        (witnesses < fewest_witnesses && timing.contains(*accusers.begin())))
      judgements[i].doubt = Doubt::Refuted;
  }
}

/// Marks the trials that prove a schedule wrong where the schedule is believed all the same.
void doubt_contradicted(std::span<const RankedTrial> group, std::vector<Judgement>& judgements) {
  std::set<std::string_view> believed;
  for (size_t i = 0; i < group.size(); ++i)
    if (is_believed(judgements[i])) believed.insert(group[i].schedule_hash);
  for (size_t i = 0; i < group.size(); ++i)
    if (proves_wrong(group[i].status) && believed.contains(group[i].schedule_hash))
      judgements[i].doubt = Doubt::Contradicted;
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

/// The latencies of the sessions that vote on a session's timing. Another version of the compiler
/// makes other code of the same schedule, so only those with the same toolchain do.
std::vector<double> votes_on(const Estimate& timing, const Sessions& sessions) {
  std::vector<double> latencies;
  for (const auto& [session, estimate] : sessions)
    if (estimate.trial->toolchain == timing.trial->toolchain)
      latencies.push_back(estimate.latency_ns);
  return latencies;
}

/// The ratio of the latency to the nearer one of the middle two latencies; 1 if it lies between
/// these.
double against_middle(double latency_ns, const std::vector<double>& latencies) {
  const double low = lower_median(latencies), high = upper_median(latencies);
  return latency_ns < low ? latency_ns / low : latency_ns > high ? latency_ns / high : 1;
}

/// A session that is much faster or slower than the majority on the schedules which they share has
/// another clock or another machine: its other schedules are not to be compared either.
void doubt_outvoted_sessions(std::span<const RankedTrial> group,
                             std::vector<Judgement>& judgements) {
  std::map<std::string_view, std::vector<double>> ratios;
  for (const auto& [schedule, sessions] : timings_of(group, judgements)) {
    for (const auto& [session, estimate] : sessions) {
      const std::vector<double> votes = votes_on(estimate, sessions);
      if (votes.size() >= fewest_voters)
        ratios[session].push_back(against_middle(estimate.latency_ns, votes));
    }
  }
  for (size_t i = 0; i < group.size(); ++i) {
    const auto found = ratios.find(group[i].session);
    if (!is_believed(judgements[i]) || found == ratios.end()) continue;
    const double ratio = upper_median(found->second);
    if (ratio > session_agreement || ratio * session_agreement < 1)
      judgements[i] = {Doubt::SessionOutvoted, ratio, judgements[i].latency_ns};
  }
}

/// The relative distance from the median beyond which a session's timing of a schedule is an
/// outlier.
double outlier_distance(const std::vector<double>& latencies) {
  const double median = upper_median(latencies);
  std::vector<double> distances;
  for (const double latency : latencies) distances.push_back(std::fabs(latency - median));
  const double deviation = deviations_per_mad * upper_median(distances);
  return std::max(least_outlier, outlier_deviations * deviation / median);
}

void doubt_outliers(std::span<const RankedTrial> group, std::vector<Judgement>& judgements) {
  std::map<std::pair<std::string_view, std::string_view>, double> outliers;
  for (const auto& [schedule, sessions] : timings_of(group, judgements)) {
    for (const auto& [session, estimate] : sessions) {
      const std::vector<double> votes = votes_on(estimate, sessions);
      if (votes.size() < fewest_voters) continue;
      const double most = 1 + outlier_distance(votes);
      const double ratio = against_middle(estimate.latency_ns, votes);
      if (ratio > most || ratio * most < 1) outliers[{schedule, session}] = ratio;
    }
  }
  for (size_t i = 0; i < group.size(); ++i) {
    const auto found = outliers.find({group[i].schedule_hash, group[i].session});
    if (is_believed(judgements[i]) && found != outliers.end())
      judgements[i] = {Doubt::Outlier, found->second, judgements[i].latency_ns};
  }
}

/// Measurements of a group by all hosts except one: the fastest timing, the sessions and the hosts.
struct Rivals {
  double fastest_ns = 0;
  std::set<std::string_view> sessions, hosts;
};

Rivals rivals_of(std::string_view host, const Timings& timings) {
  Rivals rivals;
  for (const auto& [schedule, sessions] : timings)
    for (const auto& [session, estimate] : sessions) {
      if (estimate.trial->host == host) continue;
      if (rivals.sessions.empty() || estimate.latency_ns < rivals.fastest_ns)
        rivals.fastest_ns = estimate.latency_ns;
      rivals.sessions.insert(session);
      rivals.hosts.insert(estimate.trial->host);
    }
  return rivals;
}

/// A schedule that one host alone timed, far faster than all that others measured, waits for a
/// second trial (the finals of a run are one) or for a second host.
void doubt_unconfirmed(std::span<const RankedTrial> group, std::vector<Judgement>& judgements) {
  const Timings timings = timings_of(group, judgements);
  std::map<std::string_view, Rivals> by_host;
  std::map<std::string_view, double> unconfirmed;
  std::map<std::string_view, int> trials;
  for (size_t i = 0; i < group.size(); ++i)
    trials[group[i].schedule_hash] += is_believed(judgements[i]);
  for (const auto& [schedule, sessions] : timings) {
    const std::string_view host = sessions.begin()->second.trial->host;
    std::vector<Estimate> estimates;
    for (const auto& [session, estimate] : sessions) estimates.push_back(estimate);
    if (std::ranges::any_of(estimates, [&](const Estimate& e) { return e.trial->host != host; }))
      continue;
    if (!by_host.contains(host)) by_host[host] = rivals_of(host, timings);
    const Rivals& rivals = by_host[host];
    const bool is_confirmed = trials[schedule] > 1 && rivals.hosts.size() < fewest_rivals;
    const double latency_ns = upper_median(estimates).latency_ns;
    if (!is_confirmed && rivals.sessions.size() >= fewest_rivals &&
        latency_ns * wide_margin < rivals.fastest_ns)
      unconfirmed[schedule] = latency_ns / rivals.fastest_ns;
  }
  for (size_t i = 0; i < group.size(); ++i) {
    const auto found = unconfirmed.find(group[i].schedule_hash);
    if (is_believed(judgements[i]) && found != unconfirmed.end())
      judgements[i] = {Doubt::Unconfirmed, found->second, judgements[i].latency_ns};
  }
}

/// Judges each trial of a group. Only trials with this status count as timed.
std::vector<Judgement> judge(std::span<const RankedTrial> group, TrialStatus status) {
  const double group_peak = median_peak(group, status);
  std::vector<Judgement> judgements;
  for (const RankedTrial& trial : group)
    judgements.push_back(judge_alone(trial, status, group_peak));
  doubt_refuted(group, judgements);
  doubt_outvoted_sessions(group, judgements);
  doubt_outliers(group, judgements);
  doubt_unconfirmed(group, judgements);
  doubt_contradicted(group, judgements);
  return judgements;
}

}  // namespace

std::vector<Judgement> judge(std::span<const RankedTrial> group) {
  std::vector<Judgement> judgements = judge(group, TrialStatus::Ok);
  if (std::any_of(judgements.begin(), judgements.end(), is_believed)) return judgements;
  const std::vector<Judgement> disturbed = judge(group, TrialStatus::Unstable);
  for (size_t i = 0; i < group.size(); ++i)
    if (disturbed[i].doubt != Doubt::NotTimed) judgements[i] = disturbed[i];
  return judgements;
}

namespace {

std::vector<RankedTrial> trials_of(std::span<const Record> group) {
  std::vector<RankedTrial> trials;
  for (const Record& r : group)
    trials.push_back({.hash = r.hash,
                      .schedule_hash = r.schedule_hash,
                      .status = r.status,
                      .latency_ns = r.latency_ns,
                      .flops = r.flops,
                      .peak_gflops = r.peak_gflops,
                      .session = r.session,
                      .host = r.host,
                      .bytes = r.bytes,
                      .peak_gb_per_s = r.peak_gb_per_s,
                      .toolchain = r.toolchain});
  return trials;
}

/// The estimate that counts for a schedule: the upper median of its sessions.
Estimate estimate_of(const Sessions& sessions) {
  std::vector<Estimate> estimates;
  for (const auto& [session, estimate] : sessions) estimates.push_back(estimate);
  return upper_median(estimates);
}

}  // namespace

std::vector<Judgement> judge_records(std::span<const Record> group) {
  return judge(trials_of(group));
}

Ranking rank_records(std::span<const Record> group) {
  const std::vector<RankedTrial> trials = trials_of(group);
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
  const double peak = median_peak(group, best->trial->status);
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
