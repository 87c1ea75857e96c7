// SPDX-License-Identifier: Apache-2.0
#include "db/ranking.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace tw::db {
namespace {

// Returns a trial whose operations take 5 us at the default peak. So a latency of 10 us is half of
// the peak.
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

RankedTrial of_session(RankedTrial trial, const char* session) {
  trial.session = session;
  trial.host = std::string("host of ") + session;
  return trial;
}

TEST(Ranking, Fault87_OneVoiceDoesNotBanASchedule) {
  const RankedTrial slow = of_session(trial("a", "s1", 10e3), "x");
  const RankedTrial fast = of_session(trial("b", "s2", 8e3), "x");
  const RankedTrial again = of_session(trial("f", "s2", 8.1e3), "x");
  for (const TrialStatus status : {TrialStatus::Crash, TrialStatus::Wrong}) {
    const RankedTrial of_another = of_session(trial("c", "s2", 0, 100, status), "y");
    const RankedTrial of_a_third = of_session(trial("d", "s2", 0, 100, status), "z");
    const RankedTrial of_itself = of_session(trial("e", "s2", 0, 100, status), "x");
    EXPECT_EQ(best_hash({slow, fast, again, of_another}), "f");
    EXPECT_EQ(judge(std::vector{slow, fast, again, of_another})[3].doubt, Doubt::Contradicted);
    EXPECT_EQ(best_hash({slow, fast, again, of_another, of_a_third}), "a");
    EXPECT_EQ(judge(std::vector{slow, fast, again, of_another, of_a_third})[3].doubt,
              Doubt::NotTimed);
    EXPECT_EQ(best_hash({slow, fast, again, of_itself}), "a") << "it contradicts itself";
    EXPECT_EQ(best_hash({slow, fast, again, of_another, of_another}), "f") << "still one session";
    EXPECT_EQ(best_hash({slow, fast, of_another}), "b") << "a session that timed nothing";
    const RankedTrial timed = of_session(trial("h", "s3", 11e3), "y");
    EXPECT_EQ(best_hash({slow, fast, of_another, timed}), "a") << "one trial against one";
    EXPECT_EQ(best_hash({slow, fast, again, of_another, timed}), "f");
    const RankedTrial disturbed = of_session(trial("g", "s2", 0, 100, TrialStatus::Unstable), "x");
    EXPECT_EQ(best_hash({slow, fast, disturbed, of_another}), "b") << "it was right both times";
  }
}

TEST(Ranking, Fault28_BeyondThePlausibleRooflineIsNotBest) {
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s2", 5e3 / 6.5)}), "a");
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("b", "s2", 5e3 / 5)}), "b");  // Winograd
  EXPECT_EQ(best_hash({trial("b", "s2", 100)}), "none");
}

TEST(Ranking, Fault29_AClockThatRunsSlowCancels) {
  // The machine's clock runs slow: all durations are halved, also those of the measured peak.
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), trial("c", "s2", 5.5e3, 200)}), "a");
  EXPECT_EQ(
      best_hash({trial("a", "s1", 10e3), trial("b", "s3", 9.9e3), trial("c", "s2", 5e3, 200)}),
      "b");
  // A throttled machine is slower in everything, so its trials are not worse for that.
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

// ---- sessions ----

RankedTrial of_session(const char* session, const char* schedule, double latency_ns,
                       double peak = 100) {
  RankedTrial result = trial("", schedule, latency_ns, peak);
  result.hash = fmt::format("{}/{}", session, schedule);
  result.session = session;
  result.host = fmt::format("host of {}", session);
  return result;
}

Doubt doubt_of(const std::vector<RankedTrial>& group, const std::string& hash) {
  const std::vector<Judgement> judgements = judge(group);
  for (size_t i = 0; i < group.size(); ++i)
    if (group[i].hash == hash) return judgements[i].doubt;
  ADD_FAILURE() << "no trial " << hash;
  return Doubt::None;
}

TEST(Ranking, Fault28_BeyondTheBandwidthOfTheMachineIsNotBest) {
  RankedTrial possible = trial("a", "s1", 10e3), impossible = trial("b", "s2", 5e3);
  possible.bytes = impossible.bytes = 1e6;
  possible.peak_gb_per_s = impossible.peak_gb_per_s = 99;  // b would need 2.02 times that
  EXPECT_EQ(best_hash({possible, impossible}), "a");
  EXPECT_EQ(doubt_of({possible, impossible}, "b"), Doubt::BeyondBandwidth);
  impossible.peak_gb_per_s = 101;
  EXPECT_EQ(best_hash({possible, impossible}), "b");
  impossible.peak_gb_per_s = 0;  // the peak is not known
  EXPECT_EQ(best_hash({possible, impossible}), "b");
}

// 500,000 operations in 700 ns are 7.1 times the peak, but the kernel skips half of them.
TEST(Ranking, OperationsThatKernelsSkipAreNotBeyondThePeak) {
  RankedTrial fast = trial("b", "s2", 700);
  EXPECT_TRUE(asks_for_share(fast));
  EXPECT_EQ(doubt_of({trial("a", "s1", 10e3), fast}, "b"), Doubt::BeyondPeak);
  fast.needed_share = 0.5;
  EXPECT_EQ(best_hash({trial("a", "s1", 10e3), fast}), "b");
  fast.latency_ns = 400;  // the operations that are left are 6.25 times the peak
  EXPECT_EQ(doubt_of({trial("a", "s1", 10e3), fast}, "b"), Doubt::BeyondPeak);
  EXPECT_FALSE(asks_for_share(trial("a", "s1", 10e3)));
}

// A session has one vote on the group's peak, however many trials it has.
TEST(Ranking, Fault29_ALongSessionDoesNotOutvoteThePeaksOfOthers) {
  std::vector<RankedTrial> group = {of_session("a", "s1", 10e3), of_session("b", "s1", 9.9e3)};
  for (const char* schedule : {"s2", "s3", "s4", "s5", "s6"})
    group.push_back(of_session("c", schedule, 6e3, 200));
  EXPECT_EQ(doubt_of(group, "a/s1"), Doubt::None);
  EXPECT_EQ(best_hash(group), "a/s1");
}

TEST(Ranking, Fault29_ASessionHasOneVoteOnASchedule) {
  std::vector<RankedTrial> group = {of_session("a", "s1", 10e3), of_session("b", "s1", 10.5e3),
                                    of_session("a", "s2", 9e3)};
  for (int i = 0; i < 5; ++i) group.push_back(of_session("c", "s1", 8.5e3));
  EXPECT_EQ(best_hash(group), "a/s2");
}

TEST(Ranking, Fault29_ASessionThatIsOutvotedLosesItsOtherSchedulesToo) {
  const std::vector<RankedTrial> group = {of_session("a", "s1", 10e3),
                                          of_session("b", "s1", 10.2e3), of_session("c", "s1", 5e3),
                                          of_session("a", "s2", 9e3), of_session("c", "s3", 5.5e3)};
  EXPECT_EQ(doubt_of(group, "c/s3"), Doubt::SessionOutvoted);
  EXPECT_EQ(doubt_of(group, "a/s2"), Doubt::None);
  EXPECT_EQ(best_hash(group), "a/s2");
}

// A newer compiler makes faster code from the same schedules, so its sessions vote among
// themselves.
TEST(Ranking, SessionsWithANewerToolchainAreNotOutvotedByThoseWithAnOlder) {
  std::vector<RankedTrial> group = {of_session("a", "s1", 10e3), of_session("b", "s1", 10.2e3),
                                    of_session("c", "s1", 9.9e3), of_session("d", "s1", 6e3),
                                    of_session("d", "s2", 5.5e3)};
  EXPECT_EQ(doubt_of(group, "d/s2"), Doubt::SessionOutvoted);
  for (size_t i : {3, 4}) group[i].toolchain = "newer";
  for (const Judgement& judgement : judge(group)) EXPECT_EQ(judgement.doubt, Doubt::None);
  EXPECT_EQ(best_hash(group), "d/s2");
}

TEST(Ranking, Fault29_AToolchainsSessionsOutvoteOneOfTheirOwn) {
  std::vector<RankedTrial> group = {of_session("a", "s1", 10e3),  of_session("b", "s1", 10e3),
                                    of_session("c", "s1", 10e3),  of_session("d", "s1", 6e3),
                                    of_session("e", "s1", 6.1e3), of_session("f", "s1", 3e3),
                                    of_session("f", "s2", 2.9e3)};
  for (size_t i = 3; i < group.size(); ++i) group[i].toolchain = "newer";
  EXPECT_EQ(doubt_of(group, "f/s2"), Doubt::SessionOutvoted);
  EXPECT_EQ(doubt_of(group, "d/s1"), Doubt::None);
  EXPECT_EQ(doubt_of(group, "a/s1"), Doubt::None);
}

TEST(Ranking, TwoSessionsThatDisagreeAreBothBelieved) {
  const std::vector<RankedTrial> group = {of_session("a", "s1", 10e3), of_session("b", "s1", 5e3),
                                          of_session("b", "s2", 5.5e3)};
  EXPECT_EQ(best_hash(group), "b/s2");  // for s1 the slower of the two sessions counts
}

TEST(Ranking, TwoSessionsAgainstTwoAreAllBelieved) {
  const std::vector<RankedTrial> group = {of_session("a", "s1", 10e3), of_session("b", "s1", 10e3),
                                          of_session("c", "s1", 5e3), of_session("d", "s1", 5e3)};
  for (const Judgement& judgement : judge(group)) EXPECT_EQ(judgement.doubt, Doubt::None);
}

TEST(Ranking, Fault29_OneTimingFarFromThoseOfOtherSessionsIsAnOutlier) {
  std::vector<RankedTrial> group = {
      of_session("a", "s1", 10e3), of_session("b", "s1", 10.1e3), of_session("c", "s1", 5e3),
      of_session("a", "s2", 12e3), of_session("b", "s2", 12e3),   of_session("c", "s2", 12e3),
      of_session("a", "s3", 11e3), of_session("b", "s3", 11e3),   of_session("c", "s3", 11e3)};
  EXPECT_EQ(doubt_of(group, "c/s1"), Doubt::Outlier);
  EXPECT_EQ(doubt_of(group, "c/s2"), Doubt::None);
  EXPECT_EQ(best_hash(group), "b/s1");
}

TEST(Ranking, AWideLeadOverOneHostIsBelievedWhereItsSessionRepeatedIt) {
  std::vector<RankedTrial> group = {of_session("a", "s1", 10e3), of_session("b", "s2", 11e3),
                                    of_session("c", "s3", 4.5e3)};
  group[1].host = group[0].host;
  EXPECT_EQ(doubt_of(group, "c/s3"), Doubt::Unconfirmed);
  group.push_back(of_session("c", "s3", 4.6e3));
  group.back().hash = "c/s3 again";
  EXPECT_EQ(best_hash(group), "c/s3 again");
}

TEST(Ranking, Fault29_AHostDoesNotConfirmItsOwnLeadOverSeveralOthers) {
  std::vector<RankedTrial> group = {of_session("a", "s1", 10e3), of_session("b", "s2", 11e3),
                                    of_session("c", "s3", 4.5e3), of_session("later", "s3", 4.6e3)};
  group[3].host = group[2].host;
  EXPECT_EQ(doubt_of(group, "later/s3"), Doubt::Unconfirmed);
  EXPECT_EQ(best_hash(group), "a/s1");
  group.push_back(of_session("d", "s3", 4.7e3));
  EXPECT_EQ(best_hash(group), "later/s3");
}

TEST(Ranking, Fault29_AWideLeadOfOneTrialIsConfirmedFirst) {
  std::vector<RankedTrial> group = {of_session("a", "s1", 10e3), of_session("b", "s2", 11e3),
                                    of_session("c", "s3", 4.5e3)};
  EXPECT_EQ(doubt_of(group, "c/s3"), Doubt::Unconfirmed);
  EXPECT_EQ(best_hash(group), "a/s1");
  group.push_back(of_session("d", "s3", 4.6e3));
  EXPECT_EQ(best_hash(group), "d/s3");  // another host confirms it
  group.pop_back();
  group[1].host = group[2].host;  // only one other host is left
  EXPECT_EQ(best_hash(group), "c/s3");
  group[2] = of_session("c", "s3", 6e3);  // the lead is not wide
  EXPECT_EQ(best_hash(group), "c/s3");
}

TEST(Ranking, SessionsOfAScheduleAreCounted) {
  std::vector<RankedTrial> group = {of_session("a", "s1", 10e3), of_session("b", "s1", 11e3),
                                    of_session("b", "s1", 11.5e3), of_session("a", "s2", 12e3)};
  const auto timings = sessions_of(group, judge(group), "s1");
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0].session, "a");
  EXPECT_EQ(timings[1].latency_ns, 11.5e3);
  EXPECT_EQ(timings[1].trials, 2);
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
    for (RankedTrial& of : group) {
      of.session = fmt::format("session {}", random.below(5));
      of.host = fmt::format("host {}", of.session.back());
      of.toolchain = fmt::format("toolchain {}", random.below(2));
    }
    const std::string expected = best_hash(group);
    for (int round = 0; round < 5; ++round) {
      random.shuffle(group);
      ASSERT_EQ(best_hash(group), expected) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace tw::db
