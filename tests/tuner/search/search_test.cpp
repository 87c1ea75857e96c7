// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "cost_model/features.h"
#include "dsl/operators.h"
#include "schedules/space/space.h"
#include "tests/tuner/tuning.h"

namespace tw::tuner {
namespace {

using schedules::Point;
using schedules::Space;

Space conv_space() {
  static const dsl::Workload workload =
      workload_of("conv2d n=1 c=32 h=14 w=14 k=48 r=3 s=3 pad=1 f32 fast");
  return Space::derive(workload.compute, host_target());
}

/// A landscape with one summit, which is a hidden point. The height of a point is the mean over its
/// decisions of 1 / (1 + the number of values between its choice and that of the summit).
class Landscape {
 public:
  Landscape(const Space& space, uint64_t seed) : space_(&space) {
    Random random(seed);
    summit_ = space.sample(random);
  }
  double throughput(const Point& point) const {
    double height = 0;
    for (size_t d = 0; d < point.choices.size(); ++d) {
      const double steps = std::abs(point.choices[d] - summit_.choices[d]);
      height += 1 / (1 + steps);
    }
    return height / static_cast<double>(point.choices.size());
  }

 private:
  const Space* space_;
  Point summit_;
};

/// Result of search(), which ends when a throughput of `enough` is reached, `limit` trials are
/// made, or nothing is proposed.
struct Trace {
  int trials = 0;
  double best = 0;
  std::vector<Point> proposed;
};

Trace search(std::string_view name, const Space& space, const Landscape& landscape, uint64_t seed,
             double enough, int limit) {
  auto made = make_search(name);
  EXPECT_TRUE(made);
  Random random(seed);
  Trace run;
  std::vector<Tried> history;
  std::set<Point> seen;
  const Score score = [&](const std::vector<Point>& points) {
    std::vector<Prediction> scores;
    for (const Point& point : points)
      scores.push_back(seen.contains(point) ? -std::numeric_limits<double>::infinity()
                                            : landscape.throughput(point));
    return scores;
  };
  while (run.trials < limit) {
    const auto batch = (*made)->propose(space, {history, {}}, score, 8, random);
    if (batch.empty()) return run;
    EXPECT_LE(batch.size(), 8u);
    for (const Point& point : batch) {
      ++run.trials;
      EXPECT_TRUE(space.allowed(point)) << name;
      EXPECT_TRUE(seen.insert(point).second)
          << name << " proposes " << space.to_string(point) << " again";
      run.proposed.push_back(point);
      history.push_back({point, landscape.throughput(point)});
      run.best = std::max(run.best, history.back().throughput);
      if (run.best >= enough) return run;
    }
  }
  return run;
}

class Searches : public testing::TestWithParam<std::string_view> {};

TEST_P(Searches, AreDeterministicAndProposeOnlyWhatIsAllowedAndNew) {
  const Space space = conv_space();
  const Landscape landscape(space, 7);
  const Trace one = search(GetParam(), space, landscape, 3, 2, 64),
              same = search(GetParam(), space, landscape, 3, 2, 64);
  EXPECT_EQ(one.proposed.size(), 64u);
  EXPECT_EQ(one.proposed, same.proposed);
}

TEST_P(Searches, GiveUpWhereNothingIsNew) {
  const Space space = conv_space();
  auto made = make_search(GetParam());
  ASSERT_TRUE(made);
  Random random(1);
  const Score nothing = [](const std::vector<Point>& points) {
    return std::vector<Prediction>(points.size(), -std::numeric_limits<double>::infinity());
  };
  EXPECT_TRUE((*made)->propose(space, {{}, {}}, nothing, 8, random).empty());
}

std::vector<std::string_view> names_of_searches() {
  std::vector<std::string_view> names;
  for (const SearchInfo& info : searches()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, Searches, testing::ValuesIn(names_of_searches()));

// Points of a group have the same features. If predictions carry features and the points are
// predicted to be about as fast, a batch has a point of each group.
TEST(Search, ABatchHasKernelsThatDiffer) {
  const dsl::Workload workload =
      workload_of("conv2d n=1 c=32 h=14 w=14 k=48 r=3 s=3 pad=1 f32 fast");
  const Space space = Space::derive(workload.compute, parse_target("x86-64-v4").value());
  const Landscape landscape(space, 7);
  std::vector<std::vector<float>> groups;
  for (const auto& [some, others] : {std::pair(0, 0), std::pair(3, 0), std::pair(0, 3),
                                     std::pair(3, 3), std::pair(6, 3), std::pair(3, 6)}) {
    std::vector<float>& row = groups.emplace_back(cost_model::feature_count(), 0.0F);
    for (size_t i = 0; i < 20; ++i) row[i] = static_cast<float>(i % 2 == 0 ? some : others);
  }
  const auto group_of = [&](const Point& point) {
    int sum = 0;
    for (const int choice : point.choices) sum += choice;
    return static_cast<size_t>(sum) % groups.size();
  };
  const auto groups_proposed = [&](bool tells_features, const std::vector<Tried>& history) {
    const Score score = [&](const std::vector<Point>& points) {
      std::vector<Prediction> predictions;
      for (const Point& point : points) {
        predictions.emplace_back(1e-3 * landscape.throughput(point));
        if (tells_features) predictions.back().features = groups[group_of(point)];
      }
      return predictions;
    };
    Random random(1);
    std::set<size_t> seen;
    const auto evolution = make_search("evolution").value();
    for (const Point& point : evolution->propose(space, {history, {}}, score, 6, random))
      seen.insert(group_of(point));
    return seen.size();
  };
  EXPECT_LE(groups_proposed(false, {}), 4u);
  EXPECT_EQ(groups_proposed(true, {}), groups.size());
  const std::vector<Tried> trials = {{space.default_point(), 1.0}};
  EXPECT_GE(groups_proposed(true, trials), groups.size() - 1) << "one is a sample";
}

TEST(Search, SeedsDiffer) {
  const Space space = conv_space();
  const Landscape landscape(space, 7);
  for (const std::string_view name : {"evolution", "blind", "random"})
    EXPECT_NE(search(name, space, landscape, 1, 2, 16).proposed,
              search(name, space, landscape, 2, 2, 16).proposed);
}

TEST(Search, EvolutionClimbsFasterThanChance) {
  const Space space = conv_space();
  int evolution = 0, random = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Landscape landscape(space, 100 + seed);
    evolution += search("evolution", space, landscape, seed, 0.9, 512).trials;
    random += search("random", space, landscape, seed, 0.9, 512).trials;
  }
  EXPECT_LT(4 * evolution, random) << "trials of five searches";
}

/// Returns the best throughput of 256 trials. The score of a new point is `praise` times its
/// throughput.
double best_found(std::string_view name, const Landscape& landscape, uint64_t seed, double praise) {
  const Space space = conv_space();
  auto made = make_search(name);
  Random source(seed);
  std::vector<Tried> history;
  std::set<Point> seen;
  double best = 0;
  const Score score = [&](const std::vector<Point>& points) {
    std::vector<Prediction> scores;
    for (const Point& p : points)
      scores.push_back(seen.contains(p) ? -std::numeric_limits<double>::infinity()
                                        : praise * landscape.throughput(p));
    return scores;
  };
  while (history.size() < 256)
    for (const Point& point : (*made)->propose(space, {history, {}}, score, 8, source)) {
      seen.insert(point);
      history.push_back({point, landscape.throughput(point)});
      best = std::max(best, history.back().throughput);
    }
  return best;
}

TEST(Search, EvolutionClimbsWithAScoreThatKnowsNothing) {
  const Space space = conv_space();
  double evolution = 0, random = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Landscape landscape(space, 100 + seed);
    evolution += best_found("evolution", landscape, seed, 0);
    random += best_found("random", landscape, seed, 0);
  }
  EXPECT_GT(evolution, random);
}

TEST(Search, BlindClimbsWhateverTheScoreSays) {
  const Space space = conv_space();
  double blind = 0, random = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Landscape landscape(space, 100 + seed);
    EXPECT_EQ(best_found("blind", landscape, seed, -1), best_found("blind", landscape, seed, 1));
    blind += best_found("blind", landscape, seed, -1);
    random += best_found("random", landscape, seed, -1);
  }
  EXPECT_GT(blind, random);
}

TEST(Search, Fault03_SpacesOfEmptyShapesCanBeSearched) {
  for (const char* key :
       {"softmax rows=0 cols=5 f32 fast", "layer_norm rows=0 cols=5 f32 fast",
        "argmax rows=0 cols=5 f32 fast", "dense m=0 n=5 k=3 f32 fast",
        "conv2d n=0 c=3 h=8 w=8 k=4 r=3 s=3 f32 fast", "add_relu n=0 c=2 h=3 w=3 f32 fast"}) {
    const dsl::Workload workload = workload_of(key);
    const Space space = Space::derive(workload.compute, host_target());
    Random random(1);
    EXPECT_TRUE(space.schedule(space.default_point()).program()) << key;
    for (int i = 0; i < 50; ++i) (void)space.schedule(space.sample(random)).program();
  }
}

TEST(Search, Fault07_SpacesOfRandomShapesNeverTrap) {
  for (const dsl::Operator& op : dsl::operators()) {
    Random random(7);
    int valid = 0;
    for (int round = 0; round < 300 && valid < 12; ++round) {
      dsl::Attributes given;
      for (const dsl::Attribute& attribute : op.attributes)
        if (!attribute.is_flag && !attribute.value && attribute.same_as.empty())
          given[std::string(attribute.name)] = random.below(6);
      const auto made = dsl::make_workload(op.name, given);
      if (!made) continue;
      ++valid;
      const Space space = Space::derive(made->compute, host_target());
      EXPECT_TRUE(space.schedule(space.default_point()).program()) << made->key();
      for (int i = 0; i < 3; ++i) (void)space.schedule(space.sample(random)).program();
    }
    EXPECT_GT(valid, 0) << op.name;
  }
}

TEST(Search, UnknownNamesGetTheList) {
  const auto made = make_search("evolutoin");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::Usage);
  for (const SearchInfo& info : searches()) {
    EXPECT_NE(made.error().message.find(info.name), std::string::npos);
    EXPECT_TRUE(make_search(info.name)) << info.name;
  }
}

Space space_of_algorithms() {
  static const dsl::Workload workload =
      workload_of("conv2d n=1 c=32 h=14 w=14 k=48 r=3 s=3 pad=1 f32 fast");
  return Space::derive(schedules::problem_of(workload), host_target()).value();
}

TEST(Search, TheAlgorithmThatIsRatedBestHasHalfOfTheFirstPool) {
  const Space space = space_of_algorithms();
  ASSERT_EQ(space.algorithms(), 4u);
  std::vector<std::string> rated;
  const Score score = [&](const std::vector<Point>& points) {
    std::vector<Prediction> scores;
    for (const Point& point : points) {
      rated.push_back(space.to_string(point).substr(0, 10));
      scores.push_back(rated.back() == "winograd_2" ? 2.0 : 1.0);
    }
    return scores;
  };
  Random random(1);
  const std::vector<Tried> nothing;
  const std::vector<Point> picked =
      (*make_search("evolution"))->propose(space, {nothing, {}}, score, 4, random);
  ASSERT_EQ(picked.size(), 4u);
  for (const Point& point : picked)
    EXPECT_TRUE(space.to_string(point).starts_with("winograd_2")) << space.to_string(point);
  const auto count = std::count(rated.begin(), rated.end(), "winograd_2");
  EXPECT_GT(count, std::ssize(rated) / 2);
  EXPECT_LT(count, std::ssize(rated) * 3 / 4);
}

// In this landscape, few samples have the right choices for every stage.
TEST(Search, TheFirstProposalForAChainDescendsFromTheBestSamples) {
  const dsl::Workload workload = workload_of("attention b=2 m=48 n=64 d=32 f32 fast");
  const Space space = Space::derive(workload.compute, host_target());
  const std::vector<Tried> nothing;
  for (const uint64_t seed : {1, 2, 3}) {
    const Landscape landscape(space, seed);
    size_t scored = 0;
    const Score score = [&](const std::vector<Point>& points) {
      scored += points.size();
      std::vector<Prediction> scores;
      for (const Point& point : points) scores.emplace_back(landscape.throughput(point));
      return scores;
    };
    Random random(seed);
    const std::vector<Point> picked =
        (*make_search("evolution"))->propose(space, {nothing, {}}, score, 4, random);
    ASSERT_EQ(picked.size(), 4u);
    double best_sample = 0;
    for (size_t i = 0; i < scored; ++i)
      best_sample = std::max(best_sample, landscape.throughput(space.sample(random)));
    EXPECT_GT(landscape.throughput(picked[0]), 1.05 * best_sample) << seed;
  }
}

// A kernel that was not measured is not verified either, so its rounding errors are not known.
TEST(Search, WhatRoundsMuchWaitsUntilSomethingWasTried) {
  const dsl::Workload workload =
      workload_of("conv2d n=1 c=320 h=17 w=17 k=192 r=1 s=7 pad_left=3 pad_right=3 f32 fast");
  const Space space = Space::derive(schedules::problem_of(workload), host_target()).value();
  ASSERT_EQ(space.algorithms(), 4u);
  const Score score = [&](const std::vector<Point>& points) {
    std::vector<Prediction> scores;
    for (const Point& point : points)
      scores.push_back(static_cast<double>(space.algorithm_of(point)));
    return scores;
  };
  const auto algorithms_after = [&](const std::vector<Tried>& history) {
    Random random(1);
    std::vector<size_t> algorithms;
    for (const Point& point :
         (*make_search("evolution"))->propose(space, {history, {}}, score, 4, random))
      algorithms.push_back(space.algorithm_of(point));
    return algorithms;
  };
  EXPECT_THAT(algorithms_after({}), testing::Each(2u)) << "tiles of 4";
  // The last point of a batch is the best of a few samples.
  EXPECT_THAT(algorithms_after({{space.default_point(), 1.0}}),
              testing::ElementsAre(3, 2, 2, testing::Lt(3)))
      << "one with tiles of 6, as long as none has worked";
}

// An algorithm that rounds too much is wrong with every schedule, however fast the model predicts
// it to be.
TEST(Search, AlgorithmsThatNeverWorkAreGivenUp) {
  const Space space = space_of_algorithms();
  const Score score = [&](const std::vector<Point>& points) {
    std::vector<Prediction> scores;
    for (const Point& point : points)
      scores.push_back(static_cast<double>(space.algorithm_of(point)));
    return scores;
  };
  auto evolution = *make_search("evolution");
  Random random(1);
  std::vector<Tried> history;
  std::set<size_t> last;
  for (int i = 0; i < 6; ++i) {
    last.clear();
    for (const Point& point : evolution->propose(space, {history, {}}, score, 4, random)) {
      last.insert(space.algorithm_of(point));
      history.push_back({point, space.algorithm_of(point) > 1 ? 0 : 1.0});
    }
  }
  EXPECT_THAT(last, testing::IsSubsetOf({0, 1}));
  EXPECT_TRUE(last.contains(1));
}

TEST(Search, SpreadProposesPointsOfAllPredictedSpeeds) {
  const Space space = space_of_algorithms();
  auto spread = *make_search("spread");
  Random random(3);
  const auto speed_of = [](const Point& point) {
    int64_t number = 0;
    for (const int choice : point.choices) number = (number * 31 + choice) % 1009;
    return static_cast<double>(number % 10);
  };
  const Score score = [&](const std::vector<Point>& points) {
    std::vector<Prediction> predictions;
    for (const Point& point : points) predictions.emplace_back(speed_of(point));
    return predictions;
  };
  const std::vector<Tried> nothing;
  std::set<double> speeds;
  std::set<Point> seen;
  for (int i = 0; i < 4; ++i)
    for (const Point& point : spread->propose(space, {nothing, {}}, score, 8, random)) {
      seen.insert(point);
      speeds.insert(speed_of(point));
    }
  EXPECT_GE(seen.size(), 24u);
  EXPECT_TRUE(speeds.contains(9));
  EXPECT_GE(speeds.size(), 6u);
}

// A step of the grid search changes decisions of one algorithm only. Changes of the decisions of
// other algorithms would not give new points.
TEST(Search, GridCountsThroughTheSpaceOfAnAlgorithm) {
  const Space space = space_of_algorithms();
  auto grid = *make_search("grid");
  Random random(1);
  const std::vector<Tried> nothing;
  const Score score = [](const std::vector<Point>& points) {
    return std::vector<Prediction>(points.size(), 1.0);
  };
  std::set<Point> seen;
  for (int i = 0; i < 5; ++i)
    for (const Point& point : grid->propose(space, {nothing, {}}, score, 20, random)) {
      EXPECT_TRUE(space.allowed(point));
      EXPECT_TRUE(seen.insert(point).second);
    }
  EXPECT_EQ(seen.size(), 100u);
}

/// An earlier run has tried the first 30,000 points. If the search proposed nothing, the new run
/// would end.
TEST(Search, GridFindsTheFirstNewPointBehindMany) {
  const Space space = space_of_algorithms();
  auto grid = *make_search("grid");
  Random random(1);
  const std::vector<Tried> nothing;
  int asked = 0;
  const Score score = [&](const std::vector<Point>& points) {
    return std::vector<Prediction>(points.size(),
                                   ++asked > 30'000 ? Prediction(1.0) : Prediction(Standing::Seen));
  };
  EXPECT_EQ(grid->propose(space, {nothing, {}}, score, 4, random).size(), 1u);
}

}  // namespace
}  // namespace tw::tuner
