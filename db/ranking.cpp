// SPDX-License-Identifier: Apache-2.0
#include "db/ranking.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace tw::db {
namespace {

// A peak below this part of the group's median was measured beside a disturbed calibration.
constexpr double lowest_peak = 2.0 / 3.0;
// `flops` counts the direct algorithm; Winograd F(6,3), the leanest in use, needs a fifth of it.
constexpr double plausible_efficiency = 6;

struct Estimate {
  double latency_ns;
  const RankedTrial* candidate;
  bool operator<(const Estimate& other) const {
    return std::tie(latency_ns, candidate->hash) <
           std::tie(other.latency_ns, other.candidate->hash);
  }
};

template <typename T>
T nth(std::vector<T> values, size_t index) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// The upper one of the middle two: a doubtful second measurement does not make a schedule faster.
Estimate upper_median(const std::vector<Estimate>& estimates) {
  return nth(estimates, estimates.size() / 2);
}

double median_peak(std::span<const RankedTrial> group, TrialStatus status) {
  std::vector<double> peaks;
  for (const RankedTrial& trial : group)
    if (trial.status == status && trial.peak_gflops > 0) peaks.push_back(trial.peak_gflops);
  // The lower one of the middle two: one foreign trial with a high peak does not outvote the only
  // other.
  return peaks.empty() ? 0 : nth(peaks, (peaks.size() - 1) / 2);
}

bool plausible(const RankedTrial& trial, double group_peak) {
  if (!(trial.latency_ns > 0)) return false;
  if (group_peak <= 0) return true;
  return trial.peak_gflops >= lowest_peak * group_peak &&
         trial.flops <= plausible_efficiency * trial.peak_gflops * trial.latency_ns;
}

/// The best of the trials with that status.
std::optional<Ranked> best_of(std::span<const RankedTrial> group, TrialStatus status) {
  const double group_peak = median_peak(group, status);
  std::set<std::string_view> refuted;
  for (const RankedTrial& trial : group)
    if (proves_wrong(trial.status)) refuted.insert(trial.schedule_hash);

  std::map<std::string_view, std::vector<Estimate>> by_schedule;
  for (const RankedTrial& trial : group) {
    if (trial.status != status || refuted.contains(trial.schedule_hash)) continue;
    if (!plausible(trial, group_peak)) continue;
    const double scale = group_peak > 0 ? trial.peak_gflops / group_peak : 1;
    by_schedule[trial.schedule_hash].push_back({trial.latency_ns * scale, &trial});
  }

  std::optional<Estimate> best;
  for (const auto& [schedule, estimates] : by_schedule) {
    const Estimate estimate = upper_median(estimates);
    if (!best || estimate < *best) best = estimate;
  }
  if (!best) return std::nullopt;
  const double efficiency =
      group_peak > 0 ? best->candidate->flops / best->latency_ns / group_peak : 0;
  return Ranked{static_cast<size_t>(best->candidate - group.data()), best->latency_ns, efficiency};
}

}  // namespace

std::optional<Ranked> best_of(std::span<const RankedTrial> group) {
  auto best = best_of(group, TrialStatus::Ok);
  return best ? best : best_of(group, TrialStatus::Unstable);
}

}  // namespace tw::db
