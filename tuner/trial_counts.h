// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts the outcomes of a task's trials, to be shown to users: the number of trials by status, and
// the reasons of failures. Not thread-safe.

#include <cstdint>
#include <map>
#include <string>

#include "db/record.h"

namespace tw::tuner {

class TrialCounts {
 public:
  void add(const db::Record& trial);
  /// Counts a candidate that left no record because it was not to blame for its failure. It counts
  /// under the status "lost", but not as a trial.
  void add_lost(const std::string& reason);
  /// Counts a failure. Reasons that differ only in their numbers, such as "differs by 0.1" and
  /// "differs by 0.2", are counted together, under the text of the first.
  void add_failure(const std::string& reason);

  /// Number of trials.
  int64_t total() const { return total_; }
  /// True if there were trials or lost candidates, and all of them were disturbed or lost. They
  /// then say nothing about any schedule.
  bool prove_nothing() const;
  /// The number of trials and lost candidates for each text of a status: {"ok": 12, "wrong": 1}.
  const std::map<std::string, int64_t>& by_status() const { return by_status_; }
  /// Number of failures by reason.
  const std::map<std::string, int64_t>& failures() const { return failures_; }
  /// Returns the three most frequent reasons of failures with their counts: "21 x wrong: it
  /// differs; 1 x timeout: ...".
  std::string most_frequent_failures() const;

 private:
  int64_t total_ = 0;
  std::map<std::string, int64_t> by_status_, failures_;
  /// The first reason of each kind. The key is the text of the reason with "#" in place of numbers.
  std::map<std::string, std::string> first_reasons_;
};

}  // namespace tw::tuner
