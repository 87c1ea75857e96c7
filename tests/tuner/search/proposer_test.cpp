// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/proposer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cost_model/features.h"
#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

using schedules::Point;
using schedules::Space;

class Proposing : public testing::Test {
 protected:
  std::vector<Point> proposed(size_t count) {
    return proposer_.propose([this](const auto& points) { return predicted(points); }, count);
  }
  std::vector<Prediction> predicted(const std::vector<Point>& points) {
    return proposer_.predict(points, model_);
  }

  dsl::Workload workload_ = workload_of(small);
  cost_model::WorkloadModel model_;
  Proposer proposer_{Space::derive(workload_.compute, host_target()),
                     make_search("evolution").value(), 1, 1};
};

TEST_F(Proposing, BatchesAreNewAndDiffer) {
  std::set<std::string> schedules;
  std::set<size_t> programs;
  for (int batch = 0; batch < 3; ++batch) {
    proposer_.begin({});
    for (const Candidate& candidate : proposer_.choose(proposed(8))) {
      EXPECT_TRUE(schedules.insert(candidate.schedule).second) << candidate.schedule;
      EXPECT_TRUE(programs.insert(candidate.program).second) << candidate.schedule;
      EXPECT_TRUE(proposer_.has_seen(candidate.schedule));
      proposer_.learn(candidate.point, 1e3);
    }
  }
  EXPECT_GE(schedules.size(), 16u);
}

TEST_F(Proposing, FeaturesOfPredictionsOutliveLaterPredictions) {
  proposer_.begin({});
  const Point first = proposer_.space().default_point();
  const Prediction prediction = predicted({first})[0];
  ASSERT_EQ(prediction.features.size(), cost_model::feature_count());
  const std::vector<float> before(prediction.features.begin(), prediction.features.end());
  Random random(5);
  for (int i = 0; i < 50; ++i) predicted({first, proposer_.space().sample(random)});
  EXPECT_TRUE(std::ranges::equal(prediction.features, before));
}

TEST_F(Proposing, PredictionsTellIllegalSeenAndNewPointsApart) {
  // Some samples of this space are illegal, whatever machine runs the test.
  proposer_ = Proposer(Space::derive(workload_.compute, parse_target("x86-64-v4").value()),
                       make_search("evolution").value(), 1, 1);
  proposer_.begin({});
  std::vector<Point> points;
  Random random(5);
  for (int i = 0; i < 100; ++i) points.push_back(proposer_.space().sample(random));
  points.push_back(points[0]);
  std::set<Standing> standings;
  const std::vector<Prediction> before = predicted(points);
  for (size_t i = 0; i < points.size(); ++i) {
    const Prediction& one = before[i];
    standings.insert(one.standing);
    EXPECT_EQ(one.is_new(), std::isfinite(one.score));
    EXPECT_EQ(one.features.empty(), !one.is_new());
    EXPECT_TRUE(!one.is_new() || proposer_.space().schedule(points[i]).program());
  }
  EXPECT_EQ(standings, (std::set{Standing::New, Standing::Seen, Standing::Illegal}));
  proposer_.choose(points);
  const std::vector<Prediction> after = predicted(points);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_FALSE(after[i].is_new());
    EXPECT_EQ(after[i].is_legal(), before[i].is_legal());
  }
}

/// A search that stores the history it is given and proposes nothing.
class Spy : public Search {
 public:
  explicit Spy(std::vector<Tried>& history) : history_(history) {}
  std::vector<Point> propose(const Space&, const Known& known, const Score&, size_t,
                             Random&) override {
    history_ = known.history;
    return {};
  }

 private:
  std::vector<Tried>& history_;
};

TEST_F(Proposing, ASearchIsGivenThePointsSpeedsAndFeaturesOfAllTrials) {
  std::vector<Tried> history;
  Proposer proposer(Space::derive(workload_.compute, host_target()), std::make_unique<Spy>(history),
                    1, 1);
  const Point first = proposer.space().default_point();
  proposer.learn(first, 1e3, {1, 2});
  proposer.begin({});
  proposer.propose([](const auto&) { return std::vector<Prediction>(); }, 1);
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].point, first);
  EXPECT_EQ(history[0].throughput, 1e3);
  EXPECT_EQ(history[0].features, (std::vector<float>{1, 2}));
}

TEST_F(Proposing, WhatTheDatabaseKnowsIsNotProposed) {
  proposer_.begin({});
  const Point first = proposer_.space().default_point();
  ASSERT_TRUE(std::isfinite(predicted({first})[0].score));
  Experience known;
  known.tried = {db::schedule_key(proposer_.space().schedule(first).to_string())};
  proposer_.learn(std::move(known));
  EXPECT_FALSE(std::isfinite(predicted({first})[0].score));
}

TEST_F(Proposing, SeedsAreInTheFirstBatch) {
  Random random(5);
  Point seed = proposer_.space().sample(random);
  while (!proposer_.space().schedule(seed).program()) seed = proposer_.space().sample(random);
  Experience known;
  known.seeds = {seed};
  proposer_.learn(std::move(known));
  proposer_.begin({});
  const std::string text = proposer_.space().schedule(seed).to_string();
  const std::vector<Candidate> batch = proposer_.choose(proposed(8));
  EXPECT_TRUE(std::any_of(batch.begin(), batch.end(),
                          [&](const Candidate& c) { return c.schedule == text; }));
}

TEST_F(Proposing, TheFirstCandidateIsChosenOnceAndBeforeAllOthers) {
  Candidate first;
  first.schedule = "by hand";
  first.program = 17;
  Random random(5);
  Point nearest = proposer_.space().sample(random);
  while (!proposer_.space().schedule(nearest).program()) nearest = proposer_.space().sample(random);
  proposer_.begin_with(first, nearest);
  EXPECT_TRUE(proposer_.has_first());
  proposer_.learn(Experience());
  proposer_.begin({});
  const std::vector<Candidate> batch = proposer_.choose(proposed(8));
  ASSERT_GE(batch.size(), 2u);
  EXPECT_EQ(batch[0].schedule, "by hand");
  EXPECT_FALSE(proposer_.has_first());
  EXPECT_TRUE(proposer_.has_seen("by hand"));
  const std::string text = proposer_.space().schedule(nearest).to_string();
  EXPECT_TRUE(std::any_of(batch.begin(), batch.end(),
                          [&](const Candidate& c) { return c.schedule == text; }));
  for (const Candidate& candidate : proposer_.choose(proposed(8)))
    EXPECT_NE(candidate.schedule, "by hand");
}

TEST_F(Proposing, PointsThatWereNotPredictedAreNoCandidates) {
  proposer_.begin({});
  EXPECT_TRUE(proposer_.choose({proposer_.space().default_point()}).empty());
}

}  // namespace
}  // namespace tw::tuner
