// SPDX-License-Identifier: Apache-2.0
#include "db/ranking.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace tw::db {
namespace {

// flops over the peak is 5 us: 10 us is half of the peak.
RankedTrial trial(const char* hash, const char* schedule, double latency_ns, double peak = 100,
                  TrialStatus status = TrialStatus::Ok) {
  return {1, hash, schedule, status, latency_ns, 500'000, peak};
}

std::string best_hash(const std::vector<RankedTrial>& group) {
  const auto best = best_of(group);
  return best ? group[best->index].hash : "none";
}

TEST(Ranking, TheFastestOkTrialWins) {
  EXPECT_EQ(best_hash({}), "none");
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s2", 9e3), trial("c", "s3", 11e3)}),
            "b");
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s2", 1, 100, TrialStatus::Timeout)}),
            "a");
}

TEST(Ranking, Fault48_ADisturbedTrialIsBestWhereNoneWasUndisturbed) {
  const RankedTrial fast = trial("a", "s1", 8e3, 100, TrialStatus::Unstable);
  const RankedTrial slow = trial("b", "s2", 9e3, 100, TrialStatus::Unstable);
  EXPECT_EQ(best_hash({slow, fast}), "a");
  EXPECT_EQ(best_hash({slow, fast, trial("c", "s3", 20e3)}), "c");
  EXPECT_EQ(best_hash({trial("d", "s4", 0, 100, TrialStatus::Unstable)}), "none");
  EXPECT_EQ(best_hash({slow, fast, trial("e", "s1", 0, 100, TrialStatus::Wrong)}), "b");
}

TEST(Ranking, TiesGoToTheSmallerHash) {
  EXPECT_EQ(best_hash({trial("b", "s1", 10e3), trial("a", "s2", 10e3)}), "a");
}

TEST(Ranking, AScheduleProvenWrongIsNeverBest) {
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s2", 8e3),
                       trial("c", "s2", 8e3, 100, TrialStatus::Wrong)}),
            "a");
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s2", 8e3),
                       trial("c", "s2", 0, 100, TrialStatus::Timeout)}),
            "b");
}

TEST(Ranking, Fault28_BeyondThePlausibleRooflineIsNotBest) {
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s2", 5e3 / 6.5)}), "a");
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s2", 5e3 / 5)}), "b");  // Winograd
  EXPECT_EQ(best_hash({trial("b", "s2", 100)}), "none");
}

TEST(Ranking, Fault29_AClockThatRunsSlowCancels) {
  // The mis-clocked machine sees every duration halved, its own peak included.
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("c", "s2", 5.5e3, 200)}), "a");
  EXPECT_EQ(
      best_hash({trial("a", "s1", 10e3), trial("b", "s3", 9.9e3), trial("c", "s2", 5e3, 200)}),
      "b");
  // A throttled machine is slower all over: its schedule is no worse for it.
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s1", 10e3), trial("c", "s2", 12e3, 70)}),
            "c");
}

TEST(Ranking, Fault29_ADisturbedPeakDoesNotMakeATrialFast) {
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s3", 11e3), trial("c", "s2", 12e3, 50)}),
            "a");
}

TEST(Ranking, Fault29_OneFastOutlierOfAScheduleIsOutvoted) {
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s2", 12e3), trial("c", "s2", 12.1e3),
                       trial("d", "s2", 3e3)}),
            "a");
}

TEST(Ranking, TrialsWithoutAPeakYieldToThoseWithOne) {
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3, 0), trial("b", "s2", 11e3, 0)}), "a");
  EXPECT_EQ(best_hash({trial("a", "s1", 1e3, 0), trial("b", "s2", 11e3)}), "b");
}

TEST(Ranking, Fault30_TheOrderOfTrialsDoesNotMatter) {
  constexpr TrialStatus statuses[] = {TrialStatus::Ok,       TrialStatus::Ok,
                                      TrialStatus::Unstable, TrialStatus::Unstable,
                                      TrialStatus::Wrong,    TrialStatus::Timeout};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<RankedTrial> group;
    for (int64_t i = 0, n = 1 + random.below(20); i < n; ++i)
      group.push_back(
          trial(fmt::format("h{}", i).c_str(), fmt::format("s{}", random.below(5)).c_str(),
                1e3 * static_cast<double>(random.below(6)),
                50.0 * static_cast<double>(random.below(4)), statuses[random.below(6)]));
    const std::string expected = best_hash(group);
    for (int round = 0; round < 5; ++round) {
      random.shuffle(group);
      ASSERT_EQ(best_hash(group), expected) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace tw::db
