// SPDX-License-Identifier: Apache-2.0
#include "tuner/trial_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <utility>
#include <vector>

namespace tw::tuner {

void TrialCounts::add(const db::Record& trial) {
  const std::string status(db::to_string(trial.status));
  ++total_;
  ++by_status_[status];
  if (!db::is_timed(trial) && trial.status != db::TrialStatus::Duplicate)
    add_failure(status + ": " + trial.reason);
}

void TrialCounts::add_failure(const std::string& reason) {
  static const std::regex numbers("(0x[0-9a-f]+|[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?)");
  const auto [first, is_new] =
      first_reasons_.try_emplace(std::regex_replace(reason, numbers, "#"), reason);
  ++failures_[first->second];
}

bool TrialCounts::are_all_unstable() const {
  const auto disturbed = by_status_.find(std::string(db::to_string(db::TrialStatus::Unstable)));
  return disturbed != by_status_.end() && disturbed->second == total_;
}

std::string TrialCounts::most_frequent_failures() const {
  std::vector<std::pair<int64_t, std::string>> reasons;
  for (const auto& [reason, count] : failures_) reasons.emplace_back(-count, reason);
  std::sort(reasons.begin(), reasons.end());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, reasons.size()); ++i)
    text += fmt::format("{}{} x {}", i ? "; " : "", -reasons[i].first, reasons[i].second);
  return text;
}

}  // namespace tw::tuner
