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

void TrialCounts::add_lost(const std::string& reason) {
  ++by_status_[std::string(db::to_string(db::TrialStatus::Lost))];
  add_failure("lost: " + reason);
}

void TrialCounts::add_failure(const std::string& reason) {
  static const std::regex numbers("(0x[0-9a-f]+|[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?)");
  const auto [first, is_new] =
      first_reasons_.try_emplace(std::regex_replace(reason, numbers, "#"), reason);
  ++failures_[first->second];
}

bool TrialCounts::prove_nothing() const {
  return !by_status_.empty() && std::ranges::all_of(by_status_, [](const auto& counted) {
    const auto status = db::parse_trial_status(counted.first);
    return status && db::proves_nothing(*status);
  });
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
