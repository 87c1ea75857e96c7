// SPDX-License-Identifier: Apache-2.0
#include "tuner/pace.h"

#include <gtest/gtest.h>

namespace tw::tuner {
namespace {

using db::TrialStatus;

MeasureReply reply(TrialStatus status, double incumbent_pace = 1) {
  MeasureReply reply{.status = status};
  reply.incumbent_pace = incumbent_pace;
  return reply;
}

TEST(Pace, AnEpisodeChangesNothing) {
  Pace pace;
  for (double now_s = 0; now_s < 29; ++now_s) pace.note(reply(TrialStatus::Unstable, 1.4), now_s);
  EXPECT_TRUE(pace.is_disturbed());
  EXPECT_EQ(pace.factor(), 1);
  pace.note(reply(TrialStatus::Ok), 29);
  EXPECT_FALSE(pace.is_disturbed());
  // Another episode begins after the undisturbed reply. The two episodes do not add up to more than
  // 30 s.
  pace.note(reply(TrialStatus::Unstable, 1.4), 30);
  pace.note(reply(TrialStatus::Unstable, 1.4), 59);
  EXPECT_EQ(pace.factor(), 1);
}

TEST(Pace, AMachineThatStaysSlowerIsASlowerMachine) {
  Pace pace;
  pace.note(reply(TrialStatus::Unstable, 1.4), 0);
  pace.note(reply(TrialStatus::Unstable, 1.4), 30);
  EXPECT_EQ(pace.factor(), 1);
  pace.note(reply(TrialStatus::Unstable, 1.4), 31);
  EXPECT_DOUBLE_EQ(pace.factor(), 1.4);
  // Relative to the present speed the incumbent is as fast as expected, until it becomes slower
  // still.
  pace.note(reply(TrialStatus::Ok, 1), 32);
  EXPECT_DOUBLE_EQ(pace.factor(), 1.4);
  pace.note(reply(TrialStatus::Unstable, 1.5), 40);
  pace.note(reply(TrialStatus::Unstable, 1.5), 71);
  EXPECT_DOUBLE_EQ(pace.factor(), 1.4 * 1.5);
}

TEST(Pace, AMachineThatIsFastAgainIsSeenAtOnce) {
  Pace pace;
  pace.note(reply(TrialStatus::Unstable, 1.4), 0);
  pace.note(reply(TrialStatus::Unstable, 1.4), 31);
  pace.note(reply(TrialStatus::Hopeless, 0.8), 40);
  EXPECT_DOUBLE_EQ(pace.factor(), 1.4 * 0.8);
  pace.note(reply(TrialStatus::Hopeless, 0.5), 41);
  EXPECT_EQ(pace.factor(), 1);
}

TEST(Pace, NoiseOfAnIncumbentIsNoSpeed) {
  Pace pace;
  pace.note(reply(TrialStatus::Unstable, 1.4), 0);
  pace.note(reply(TrialStatus::Unstable, 1.4), 31);
  pace.note(reply(TrialStatus::Hopeless, 0.96), 40);
  EXPECT_DOUBLE_EQ(pace.factor(), 1.4);
}

TEST(Pace, CandidatesThatWereNotTimedSayNothing) {
  Pace pace;
  pace.note(reply(TrialStatus::Unstable, 1.4), 0);
  for (const TrialStatus status : {TrialStatus::Duplicate, TrialStatus::Wrong, TrialStatus::Crash})
    pace.note(reply(status), 20);
  pace.note(reply(TrialStatus::Unstable, 1.4), 31);
  EXPECT_DOUBLE_EQ(pace.factor(), 1.4);
}

TEST(Pace, DisturbancesOfTheCandidateAloneSayNothing) {
  Pace pace;
  pace.note(reply(TrialStatus::Unstable), 0);
  pace.note(reply(TrialStatus::Unstable), 100);
  EXPECT_EQ(pace.factor(), 1);
}

}  // namespace
}  // namespace tw::tuner
