// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/scoring.h"

#include <gtest/gtest.h>

#include "cost_model/expected.h"
#include "cost_model/features.h"
#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

const Target target = parse_target("x86-64-v3").value();

schedules::Space window_space() {
  const auto workload = workload_of(
      "conv2d n=1 c=16 h=14 w=14 k=16 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 fast");
  return schedules::Space::derive(workload.compute, target);
}

std::vector<schedules::Point> sampled(const schedules::Space& space, int count) {
  Random random(3);
  std::vector<schedules::Point> points;
  for (int i = 0; i < count; ++i) points.push_back(space.sample(random));
  return points;
}

TEST(Scoring, CandidatesAreTheLegalSchedulesOfTheirPoints) {
  const auto space = window_space();
  const auto points = sampled(space, 60);
  const auto candidates = candidates_of(space, points, target, {}, {});
  std::set<std::string> texts;
  for (size_t i = 0; i < points.size(); ++i) {
    const schedules::Schedule schedule = space.schedule(points[i]);
    const auto program = schedule.program(schedules::limits_searched(target));
    const bool expected = program && texts.insert(schedules::to_string(*program)).second;
    ASSERT_EQ(candidates[i].has_value(), expected) << i;
    if (!expected) continue;
    EXPECT_EQ(candidates[i]->point, points[i]);
    EXPECT_EQ(candidates[i]->schedule, schedule.to_string());
    EXPECT_EQ(candidates[i]->features,
              *cost_model::features_with_expected_time(*program, space.problem(), target, 1));
  }
  EXPECT_GT(texts.size(), 5u);
  EXPECT_LT(texts.size(), points.size());  // some are too large or give the same program
}

TEST(Scoring, BlocksOfGpusHaveTheLimitsOfTheirTarget) {
  const Target gpu = parse_target("cuda:sm_90a").value();
  const auto workload = workload_of("dense m=512 n=512 k=512 f32 fast");
  const auto space = schedules::Space::derive(workload.compute, gpu);
  const auto points = sampled(space, 60);
  const auto candidates = candidates_of(space, points, gpu, {}, {});
  int unrolled_further = 0, found = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!candidates[i]) continue;
    ++found;
    const auto schedule = schedules::parse_schedule(workload.compute, candidates[i]->schedule);
    ASSERT_TRUE(schedule->program(schedules::limits_of(gpu)));
    unrolled_further +=
        !schedule->program({.unrolled_statements = schedules::most_statements_searched});
  }
  EXPECT_GT(found, 40);
  EXPECT_GT(unrolled_further, 0);
}

TEST(Scoring, TheAnalyticPriorLeavesTheTreesOut) {
  const auto space = window_space();
  const auto points = sampled(space, 60);
  const auto with = candidates_of(space, points, target, {}, {});
  const auto without = candidates_of(space, points, target, {}, {.prior = Prior::Analytic});
  int corrected = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    ASSERT_EQ(with[i].has_value(), without[i].has_value());
    if (!with[i]) continue;
    const float analytic = cost_model::analytic_time_of(without[i]->features);
    EXPECT_EQ(cost_model::expected_time_of(without[i]->features), analytic);
    corrected += cost_model::expected_time_of(with[i]->features) != analytic;
  }
  EXPECT_GT(corrected, 0);
}

TEST(Scoring, WhatWasSeenOrComesTwiceIsLeftOut) {
  const auto space = window_space();
  const auto once = sampled(space, 20);
  auto points = once;
  points.insert(points.end(), once.begin(), once.end());
  const auto all = candidates_of(space, points, target, {}, {});
  Seen seen;
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_FALSE(all[20 + i]);
    if (all[i]) seen.schedules.insert(all[i]->schedule);
  }
  for (const auto& candidate : candidates_of(space, points, target, seen, {}))
    EXPECT_FALSE(candidate);
}

TEST(Scoring, WhatMeansTheSameProgramComesOnce) {
  // The kernel has one tap. Its loops may be unrolled or not and in any order, without another
  // program.
  const auto workload = workload_of(
      "conv2d n=1 c=16 h=14 w=14 k=16 r=1 s=1 stride=1 pad=0 dilation=1 groups=1 f32 fast");
  const auto space = schedules::Space::derive(workload.compute, target);
  Random random(5);
  std::vector<schedules::Point> points;
  for (int i = 0; i < 200; ++i) points.push_back(space.mutate(space.default_point(), random));
  std::set<std::string> texts, programs;
  for (const schedules::Point& point : points) {
    const schedules::Schedule schedule = space.schedule(point);
    const auto program =
        schedule.program({.unrolled_statements = schedules::most_statements_searched});
    if (!program) continue;
    texts.insert(schedule.to_string());
    programs.insert(schedules::to_string(*program));
  }
  EXPECT_LT(programs.size(), texts.size());
  Seen seen;
  for (const auto& candidate : candidates_of(space, points, target, {}, {})) {
    if (!candidate) continue;
    EXPECT_TRUE(seen.programs.insert(candidate->program).second) << candidate->schedule;
  }
  EXPECT_EQ(seen.programs.size(), programs.size());
  for (const auto& candidate : candidates_of(space, points, target, seen, {}))
    EXPECT_FALSE(candidate);
}

TEST(Scoring, WorkersChangeNothing) {
  const auto space = window_space();
  const auto points = sampled(space, 60);
  const auto one = candidates_of(space, points, target, {}, {.workers = 1});
  const auto three = candidates_of(space, points, target, {}, {.workers = 3});
  for (size_t i = 0; i < points.size(); ++i) {
    ASSERT_EQ(one[i].has_value(), three[i].has_value());
    if (one[i]) {
      EXPECT_EQ(one[i]->features, three[i]->features);
    }
  }
}

}  // namespace
}  // namespace tw::tuner
