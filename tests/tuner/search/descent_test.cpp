// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/descent.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/hash.h"
#include "codegen/gpu/nvrtc.h"
#include "cost_model/analytic.h"
#include "cost_model/features.h"
#include "schedules/problem.h"
#include "schedules/program/legality.h"
#include "tests/nightly.h"
#include "tests/tuner/tuning.h"
#include "tuner/search/scoring.h"
#include "tuner/search/spill_check.h"

namespace tw::tuner {
namespace {

using schedules::Point;
using schedules::Space;

const Target hopper = parse_target("cuda:sm_90a").value();

Space product_space() {
  return Space::derive(workload_of("dense m=256 n=256 k=256 bf16 fast").compute, hopper);
}

/// Returns a score that is higher the fewer decisions differ from the wanted point. Adds the number
/// of points that it scores to `scored`.
Score closeness_to(const Point& wanted, int* scored = nullptr) {
  return [wanted, scored](const std::vector<Point>& points) {
    std::vector<Prediction> predictions;
    for (const Point& point : points) {
      double score = 0;
      for (size_t d = 0; d < wanted.choices.size(); ++d)
        score -= point.choices[d] != wanted.choices[d];
      predictions.emplace_back(score);
    }
    if (scored) *scored += static_cast<int>(points.size());
    return predictions;
  };
}

TEST(Descents, SingleChangesLeadToTheBestPoint) {
  const Space space = product_space();
  const Point first = space.default_point();
  Random random(3);
  Point wanted = first;
  for (int i = 0; i < 4; ++i) {  // each step changes one decision and gives an allowed point
    const std::vector<Point> near = space.neighbours(wanted);
    wanted = near[static_cast<size_t>(random.below(static_cast<int64_t>(near.size())))];
  }
  ASSERT_NE(wanted, first);
  EXPECT_EQ(descend(space, {first}, closeness_to(wanted),
                    {.samples = 8, .starts = 3, .mutations = 64}, random),
            wanted);
}

// The first point that a search proposes on a GPU is predicted to be faster than the best of 768
// samples.
TEST(Descents, BeginASearchOnAGpu) {
  const Space space = product_space();
  const Score score = score_before_trials(space, 1, Prior::Pretrained, {});
  Random random(5);
  const auto search = make_search("evolution").value();
  const std::vector<Point> proposed =
      search->propose(space, {{}, {}, {}, 1'000}, score, 16, random);
  ASSERT_FALSE(proposed.empty());
  std::vector<Point> samples = {space.default_point()};
  for (int i = 0; i < 768; ++i) samples.push_back(space.sample(random));
  double best = -std::numeric_limits<double>::infinity();
  for (const Prediction& prediction : score(samples)) best = std::max(best, prediction.score);
  EXPECT_GT(score({proposed.front()})[0].score, best);
}

TEST(Descents, GiveNothingWhenTheyAreStopped) {
  const Space space = product_space();
  const Point first = space.default_point();
  Random random(3);
  int scored = 0;
  const std::atomic<int> interrupts = 1;
  const auto best =
      descend(space, {first}, closeness_to(space.sample(random), &scored),
              {.samples = 8, .starts = 3, .mutations = 8}, random, stop_on_interrupt(&interrupts));
  ASSERT_FALSE(best);
  EXPECT_EQ(best.error().code, ErrorCode::Interrupted);
  EXPECT_EQ(scored, 1);
}

TEST(Descents, LeavePointsThatCannotBeUsed) {
  const Space space = product_space();
  const Point first = space.default_point();
  Random random(3);
  const Score none = [](const std::vector<Point>& points) {
    return std::vector<Prediction>(points.size(), -std::numeric_limits<double>::infinity());
  };
  EXPECT_EQ(descend(space, {first}, none, {.samples = 4, .starts = 2, .mutations = 4}, random),
            first);
}

/// Returns a hash of the point as its score. Such a score has many local optima.
double rugged(const Point& point) {
  size_t h = 0;
  for (const int choice : point.choices) h = mix(h, static_cast<size_t>(choice));
  return static_cast<double>(h % 1'000'000);
}

std::vector<Prediction> rugged_scores(const std::vector<Point>& points) {
  std::vector<Prediction> predictions;
  for (const Point& point : points) predictions.emplace_back(rugged(point));
  return predictions;
}

TEST(Descents, PerturbationsLeaveLocalOptima) {
  const Space space = product_space();
  const auto end = [&](uint64_t seed, size_t perturbations) {
    Random random(seed);
    return rugged(*descend(space, {space.default_point()}, rugged_scores,
                           {.samples = 4, .starts = 2, .perturbations = perturbations}, random));
  };
  int better = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const double without = end(seed, 0), with = end(seed, 16);
    EXPECT_GE(with, without);
    better += with > without;
  }
  EXPECT_GT(better, 0);
}

TEST(Descents, BestPointsComeInOrder) {
  const Space space = product_space();
  const Descent descent{.samples = 8, .starts = 4, .perturbations = 4};
  Random random(5), again(5);
  const std::vector<Point> best =
      best_points(space, {space.default_point()}, rugged_scores, descent, random, 6).value();
  ASSERT_EQ(best.size(), 6u);
  for (size_t i = 1; i < best.size(); ++i) EXPECT_GE(rugged(best[i - 1]), rugged(best[i]));
  EXPECT_EQ(descend(space, {space.default_point()}, rugged_scores, descent, again), best.front());
}

TEST(Descents, ChoicesThatAreNotAcceptedArePassedOver) {
  const schedules::Problem problem =
      schedules::problem_of(workload_of("dense m=256 n=256 k=256 bf16 fast"));
  std::vector<std::string> offered;
  const auto chosen = [&](size_t refused) {
    offered.clear();
    const Accepts accepts = [&](const std::string& schedule) {
      offered.push_back(schedule);
      return offered.size() > refused;
    };
    return predicted_schedule(problem, hopper, 1, {}, effort_of_kernel, accepts).value();
  };
  const std::string best = predicted_schedule(problem, hopper, 1).value();
  EXPECT_EQ(chosen(0), best);
  const std::string third = chosen(2);
  ASSERT_EQ(offered.size(), 3u);
  EXPECT_EQ(third, offered.back());
  EXPECT_EQ(offered.front(), best);
  EXPECT_EQ(chosen(100), best);
  EXPECT_EQ(offered.size(), 8u);
}

TEST(SpillCheck, AsksTheCompiler) {
  const dsl::Workload workload = workload_of("dense m=1024 n=1024 k=1024 f32 fast");
  EXPECT_FALSE(accepts_without_spills(workload, parse_target("opencl").value(), {}));
  if (!codegen::Nvrtc::open()) GTEST_SKIP() << "[SKIP] NVRTC is not installed";
  const Accepts accepts = accepts_without_spills(workload, hopper, {});
  const Space space = Space::derive(workload.compute, hopper);
  EXPECT_TRUE(accepts(space.schedule(space.default_point()).to_string()));
  // Each thread has 128 sums, and partial sums for four steps of 8 terms. They do not fit in its
  // registers.
  const auto large = space.parse(
      "out: gpu_mma warps.rows=1 warps.columns=1 tiles=4 block.rows=64 copy.rows=1 "
      "block.columns=64 copy.columns=0 stages=3 copies=0 unroll=8 raster=2 split=2");
  EXPECT_FALSE(accepts(space.schedule(large.value()).to_string()));
  EXPECT_FALSE(accepts("tw1\nno step"));
}

/// Returns the predicted time; infinity for an illegal schedule, or if registers are expected to
/// spill.
double predicted_ns(const schedules::Schedule& schedule) {
  const auto program = schedule.program(schedules::limits_searched(hopper));
  if (!program) return std::numeric_limits<double>::infinity();
  const auto features = cost_model::extract_features(*program, hopper, 1).value();
  return cost_model::gpu_spills_of(features) > 0
             ? std::numeric_limits<double>::infinity()
             : std::exp2(cost_model::analytic_time_of(features)) - 1;
}

/// Returns the predicted time of the schedule that is chosen by prediction, divided by that of the
/// best of `samples` samples.
double ratio_to_samples(const std::string& key, int samples) {
  const dsl::Workload workload = workload_of(key);
  const auto preferred = predicted_schedule(schedules::problem_of(workload), hopper, 1).value();
  const Space space = Space::derive(workload.compute, hopper);
  Random random(11);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < samples; ++i)
    best = std::min(best, predicted_ns(space.schedule(space.sample(random))));
  const double ours = predicted_ns(schedules::parse_schedule(workload.compute, preferred).value());
  fmt::print("{}: {:.1f} us, best of {} samples {:.1f} us\n", key, ours / 1e3, samples, best / 1e3);
  return ours / best;
}

/// Returns the predicted time of the schedule that is chosen with effort_of_network, divided by
/// that of the schedule that is chosen without a descent.
double ratio_without_descent(const std::string& key) {
  const dsl::Workload workload = workload_of(key);
  const Target target = parse_target("x86-64-v3").value();
  const Space space = Space::derive(workload.compute, target);
  const auto predicted_ns = [&](const PredictionEffort& effort) {
    const auto text = predicted_schedule(space, 1, {}, effort).value();
    const auto schedule = schedules::parse_schedule(workload.compute, text).value();
    return cost_model::analytic_cost_ns(schedule.program().value(), target, 1).value();
  };
  PredictionEffort without = effort_of_network;
  without.descends = false;
  return predicted_ns(effort_of_network) / predicted_ns(without);
}

// In few points of a proposal do the schedules of all stages fit each other.
TEST(Descents, MakePredictionsOfChainsFaster) {
  EXPECT_LT(ratio_without_descent("attention b=6 m=1500 n=1500 d=64 f32 fast"), 0.98);
}

// Dot products are one of several ways to sum, and few of their tiles are good.
TEST(Descents, MakePredictionsOfIntegerProductsFaster) {
  EXPECT_LT(ratio_without_descent("dense m=196 n=256 k=256 i8 fast"), 0.98);
}

// Before anything is measured, a search chooses a point that is about as good as the best of 20,000
// samples. By day, only one product is compared, with 300 samples.
TEST(Descents, OnTheModelAreAsGoodAsManySamples) {
  const std::vector<std::string> products = {
      "conv2d n=32 c=256 h=56 w=56 k=64 r=1 s=1 stride=1 pad=0 dilation=1 groups=1 bf16 fast",
      "dense m=4096 n=4096 k=4096 bf16 fast", "dense m=4096 n=4096 k=4096 f32 fast",
      "conv2d n=32 c=64 h=56 w=56 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 bf16 fast",

      "batch_matmul b=16 m=1024 n=1024 k=64 bf16 fast"};
  for (const std::string& key : due(products, products.size()))
    EXPECT_LE(ratio_to_samples(key, is_nightly() ? 20'000 : 300), 1.03) << key;
}

}  // namespace
}  // namespace tw::tuner
