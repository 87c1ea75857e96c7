// SPDX-License-Identifier: Apache-2.0
#include "tuner/trial_counts.h"

#include <gtest/gtest.h>

namespace tw::tuner {
namespace {

using db::TrialStatus;

db::Record trial(TrialStatus status, const std::string& reason = "") {
  db::Record record;
  record.status = status;
  record.reason = reason;
  record.latency_ns = status == TrialStatus::Ok || status == TrialStatus::Hopeless ? 1000 : 0;
  return record;
}

TEST(TrialCounts, CountsByStatus) {
  TrialCounts counts;
  EXPECT_FALSE(counts.prove_nothing());
  counts.add(trial(TrialStatus::Ok));
  counts.add(trial(TrialStatus::Ok));
  counts.add(trial(TrialStatus::Hopeless, "slow"));
  counts.add(trial(TrialStatus::Duplicate, "the machine code of another"));
  EXPECT_EQ(counts.total(), 4);
  EXPECT_EQ(counts.by_status().at("ok"), 2);
  EXPECT_TRUE(counts.failures().empty()) << "slow ones and duplicates are no failures";
}

TEST(TrialCounts, ReasonsThatDifferInNumbersAreOne) {
  TrialCounts counts;
  counts.add(trial(TrialStatus::Wrong, "differs by 0.25 of 3 elements"));
  counts.add(trial(TrialStatus::Wrong, "differs by 1e-3 of 17 elements"));
  counts.add(trial(TrialStatus::Crash, "SIGSEGV at 0x40"));
  EXPECT_EQ(counts.failures().at("wrong: differs by 0.25 of 3 elements"), 2);
  EXPECT_EQ(counts.most_frequent_failures(),
            "2 x wrong: differs by 0.25 of 3 elements; 1 x crash: SIGSEGV at 0x40");
}

TEST(TrialCounts, SaysWhenTheMachineWasNeverQuiet) {
  TrialCounts counts;
  counts.add(trial(TrialStatus::Unstable, "busy"));
  EXPECT_TRUE(counts.prove_nothing());
  counts.add(trial(TrialStatus::Wrong, "differs"));
  EXPECT_FALSE(counts.prove_nothing());
}

}  // namespace
}  // namespace tw::tuner
