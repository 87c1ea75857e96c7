// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/algorithms.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "schedules/program/legality.h"
#include "tests/nightly.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/spaces.h"

namespace tw::schedules {
namespace {

constexpr const char* target = "x86-64-v4";
constexpr const char* conv = "conv2d n=1 c=32 h=14 w=14 k=32 r=3 s=3 pad=1 f32 fast";

Space space_for(const std::string& workload, const char* name = target) {
  return Space::derive(problem_of(dsl::parse_workload(workload).value()), *parse_target(name))
      .value();
}

/// Returns the name of the algorithm that a configuration begins with, such as "winograd_4", or
/// "direct" if it begins with a stage.
std::string algorithm_of(const Space& space, const Point& point) {
  const std::string text = space.to_string(point);
  const std::string first = text.substr(0, text.find(';'));
  return first.find(':') == std::string::npos ? first : "direct";
}

std::set<std::string> algorithms_of(const Space& space) {
  std::set<std::string> found;
  Random random(1);
  for (int i = 0; i < 60; ++i) found.insert(algorithm_of(space, space.sample(random)));
  return found;
}

TEST(Algorithms, AreOfferedWhereTheAccuracyClassAllowsThemAndProductsOutnumberTransforms) {
  using Names = std::set<std::string>;
  const Names all = {"direct", "winograd_2", "winograd_4", "winograd_6"};
  EXPECT_EQ(algorithms_of(space_for(conv)), all);
  EXPECT_EQ(algorithms_of(space_for("conv2d n=1 c=64 h=7 w=9 k=64 r=1 s=7 pad_left=3 pad_right=3 "
                                    "f32 fast")),
            all);
  // The result has 5 x 5 pixels, fewer than a tile of 6 x 6 computes.
  EXPECT_EQ(algorithms_of(space_for("conv2d n=1 c=32 h=5 w=5 k=32 r=3 s=3 pad=1 f32 fast")),
            (Names{"direct", "winograd_2", "winograd_4"}));
  for (const char* workload :
       {"conv2d n=1 c=32 h=14 w=14 k=32 r=3 s=3 pad=1 f32 strict",
        "conv2d n=1 c=32 h=14 w=14 k=32 r=3 s=3 pad=1 stride=2 f32 fast",
        "conv2d n=1 c=32 h=14 w=14 k=32 r=1 s=1 f32 fast",
        "conv2d n=1 c=32 h=14 w=14 k=32 r=3 s=3 pad=1 groups=32 f32 fast",
        "conv2d n=1 c=3 h=14 w=14 k=32 r=3 s=3 pad=1 f32 fast", "dense m=64 n=64 k=64 f32 fast"})
    EXPECT_EQ(algorithms_of(space_for(workload)), Names{"direct"}) << workload;
  EXPECT_EQ(algorithms_of(space_for(conv, "cuda:sm_90a")), Names{"direct"});
  EXPECT_EQ(algorithms_of(space_for("conv2d n=1 c=32 h=14 w=14 k=32 r=3 s=3 pad=1 i8 fast")),
            (Names{"direct", "packed_dot"}));
  EXPECT_EQ(algorithms_of(space_for("conv2d n=1 c=32 h=14 w=14 k=32 r=3 s=3 pad=1 i16 fast")),
            Names{"direct"});
}

TEST(Algorithms, ThoseThatAreExpectedToBeTooInexactAreLeftOut) {
  const dsl::Workload workload = dsl::parse_workload(conv).value();
  const Space all = space_for(conv);
  ASSERT_EQ(all.algorithms(), 4u);
  EXPECT_EQ(expected_error(all, 0), 0);
  const double most = expected_error(all, 2);
  ASSERT_LT(expected_error(all, 1), most);
  ASSERT_GT(expected_error(all, 3), most);
  const Space some = Space::derive(problem_of(workload, most), *parse_target(target)).value();
  EXPECT_EQ(algorithms_of(some), (std::set<std::string>{"direct", "winograd_2", "winograd_4"}));
  EXPECT_EQ(Space::derive(problem_of(workload, 0), *parse_target(target))->algorithms(), 1u);
}

TEST(Algorithms, MovesOfTheSearchKeepThem) {
  const Space space = space_for(conv);
  Random random(3);
  std::map<std::string, Point> points;
  for (int i = 0; i < 60; ++i) {
    const Point point = space.sample(random);
    points.emplace(algorithm_of(space, point), point);
  }
  ASSERT_EQ(points.size(), 4u);
  for (const auto& [name, point] : points) {
    Point at = point;
    for (int i = 0; i < 100; ++i) {
      const Point next = space.mutate(at, random);
      ASSERT_TRUE(space.allowed(next)) << space.to_string(next);
      ASSERT_EQ(algorithm_of(space, next), name);
      EXPECT_EQ(algorithm_of(space, space.cross(next, at, random)), name);
      at = next;
    }
    EXPECT_NE(at, point);
    for (const Point& next : space.neighbours(point)) EXPECT_EQ(algorithm_of(space, next), name);
    for (const auto& [other, mate] : points)
      if (other != name) {
        EXPECT_EQ(space.cross(point, mate, random), point);
      }
  }
  EXPECT_EQ(algorithm_of(space, space.default_point()), "direct");
}

TEST(Algorithms, AreTheFirstWordOfAConfiguration) {
  const Space space = space_for(conv);
  Random random(5);
  for (int i = 0; i < 40; ++i) {
    const Point point = space.sample(random);
    ASSERT_TRUE(space.allowed(point));
    const std::string text = space.to_string(point);
    EXPECT_EQ(space.parse(text), point) << text;
    if (algorithm_of(space, point) == "direct") continue;
    // The text without the name of the algorithm, or with the name of an unknown algorithm, is not
    // parsed as this point.
    EXPECT_NE(space.parse(text.substr(text.find(';') + 2)), point);
    EXPECT_FALSE(space.parse("strassen" + text.substr(text.find(';'))));
  }
  // A direct schedule has the same text in a space with other algorithms as in one without, so that
  // records of direct schedules stay valid.
  const Space direct = space_for("conv2d n=1 c=32 h=14 w=14 k=32 r=3 s=3 pad=1 f32 strict");
  const std::string text = direct.to_string(direct.default_point());
  const auto point = space.parse(text);
  ASSERT_TRUE(point);
  EXPECT_EQ(space.to_string(*point), text);
  EXPECT_EQ(space.schedule(*point).to_string(),
            direct.schedule(direct.default_point()).to_string());
}

TEST(Algorithms, PointsAreFoundBackFromTheirSteps) {
  EXPECT_GE(found_back(space_for(conv), 12, 7), 11);
}

/// Checks that random schedules of all algorithms other than the direct one compute the problem's
/// compute within `tolerance`.
void expect_agreement(const Problem& problem, const char* name, double tolerance) {
  const auto space = Space::derive(problem, *parse_target(name));
  ASSERT_TRUE(space) << space.error().message;
  const int samples = cases_of(8, 400);
  Random random(11);
  int legal = 0;
  for (int i = 0; i < samples; ++i) {
    const Point point = space->sample(random);
    if (algorithm_of(*space, point) == "direct") continue;
    const Schedule schedule = space->schedule(point);
    const auto program = schedule.program(limits_of(space->target()));
    if (!program) continue;
    ++legal;
    EXPECT_EQ(disagreement(problem.compute, *program, static_cast<uint64_t>(i), tolerance),
              std::nullopt)
        << schedule.to_string();
  }
  EXPECT_GT(legal, samples / 4);
}

// The cases have consumers of the convolution, layouts that are asked for, and extents that no
// tile, strip or vector divides.
TEST(Algorithms, RandomSchedulesComputeWhatTheComputeMeans) {
  const struct {
    const char* workload;
    dsl::Layouts layouts = {};
    double tolerance = 2e-3;
  } cases[] = {
      {"conv2d n=1 c=9 h=7 w=10 k=20 r=3 s=3 pad=1 f32 fast"},
      {"conv2d n=2 c=16 h=6 w=7 k=17 r=3 s=3 f32 fast"},
      {"conv2d n=1 c=20 h=5 w=9 k=9 r=1 s=3 pad_left=1 f32 fast"},
      {"conv2d n=1 c=32 h=17 w=4 k=32 r=7 s=1 pad_top=3 pad_bottom=3 f32 fast"},
      {"conv2d n=1 c=18 h=9 w=8 k=24 r=5 s=5 pad=2 f32 fast", {}, 1e-1},
      {"conv2d n=1 c=32 h=6 w=7 k=40 r=3 s=3 pad=1 groups=2 f32 fast"},
      {"conv2d n=1 c=16 h=8 w=8 k=16 r=3 s=3 pad=1 bias=1 relu=1 f32 fast"},
      {"conv2d n=1 c=16 h=8 w=8 k=16 r=3 s=3 pad=1 f32 fast", {{"in", "NCHW"}, {"out", "NCHW"}}},
      {"conv2d n=1 c=16 h=8 w=8 k=16 r=3 s=3 pad=1 f32 fast", {{"in", "NHWC"}, {"out", "NCHW8c"}}},
  };
  for (const auto& [workload, layouts, tolerance] : cases) {
    SCOPED_TRACE(workload);
    Problem problem = problem_of(dsl::parse_workload(workload).value());
    problem.layouts = layouts;
    expect_agreement(problem, target, tolerance);
    expect_agreement(problem, "x86-64-v3", tolerance);
  }
}

// The cases are a one-dimensional convolution, consumers that read the convolution twice, and
// weights that are an input, not a constant.
TEST(Algorithms, RandomSchedulesOfExpressionsComputeWhatTheyMean) {
  for (const char* text : {R"(input a: f32[2, 24, 23]
           weight w: f32[16, 24, 3]
           out: f32[n=2, k=16, x=21] = sum(c=24, r=3) a[n, c, x + r] * w[k, c, r])",
                           R"(input a: f32[1, 16, 10, 9]
           weight w: f32[20, 16, 3, 3]
           input b: f32[1, 20, 8, 7]
           conv: f32[n=1, k=20, y=8, x=7] = sum(c=16, r=3, s=3) a[n, c, y + r, x + s] * w[k, c, r, s]
           out: f32[n=1, k=20, y=8, x=7] = conv[n, k, y, x] * max(conv[n, k, y, x], b[n, k, y, x]))",
                           R"(input a: f32[1, 16, 10, 9]
           input w: f32[20, 16, 3, 3]
           out: f32[n=1, k=20, y=8, x=7] = sum(c=16, r=3, s=3) a[n, c, y + r, x + s] * w[k, c, r, s])"}) {
    SCOPED_TRACE(text);
    const auto compute = dsl::parse_compute(text);
    ASSERT_TRUE(compute) << compute.error().message;
    Problem problem{*compute};
    problem.algorithms = true;
    expect_agreement(problem, target, 2e-3);
  }
}

/// Returns a small convolution with a stride of 1. Groups, padding, bias, relu and layouts are
/// chosen at random.
Problem random_convolution(Random& random) {
  const auto pick = [&](std::vector<std::string> texts) {
    return texts[static_cast<size_t>(random.below(static_cast<int64_t>(texts.size())))];
  };
  const auto extent = [&](int64_t least, int64_t most) {
    return std::to_string(least + random.below(most - least + 1));
  };
  const int64_t channels = 8 + random.below(12);
  const std::string groups = pick({"", "", " groups=2"});
  std::string c = std::to_string(channels), k = extent(8, 20);
  if (!groups.empty())
    c = std::to_string(2 * channels), k = std::to_string(2 * (4 + random.below(8)));
  const std::string key =
      "conv2d n=" + extent(1, 2) + " c=" + c + " h=" + extent(5, 9) + " w=" + extent(5, 9) +
      " k=" + k + pick({" r=3 s=3", " r=3 s=3", " r=1 s=3", " r=3 s=1", " r=5 s=5", " r=2 s=4"}) +
      pick({"", " pad_top=1", " pad_left=1 pad_bottom=2", " pad=1"}) + groups +
      pick({"", "", " bias=1", " bias=1 relu=1", " relu=1"}) + " f32 fast";
  const auto workload = dsl::parse_workload(key);
  EXPECT_TRUE(workload) << key << workload.error().message;
  Problem problem = problem_of(*workload);
  const bool has_groups = !groups.empty();
  for (const char* tensor : {"in", "out"})
    if (const std::string layout = pick({"", "", "NHWC", "NCHW", "NCHW4c"});
        !layout.empty() && !has_groups)
      problem.layouts.emplace(tensor, layout);
  return problem;
}

class RandomAlgorithms : public testing::TestWithParam<int> {};

// The inputs are integers, so the exact results are integers, too. The tolerance is at most 0.1,
// because a larger difference cannot be rounding.
TEST_P(RandomAlgorithms, SchedulesOfRandomConvolutionsAgree) {
  constexpr const char* targets[] = {target, "x86-64-v3", "x86-64-linux-sse4_1"};
  Random random(static_cast<uint64_t>(GetParam()));
  const int problems = cases_of(60, 3000);
  int64_t computed = 0;
  for (int i = 0; i < problems; ++i) {
    const Problem problem = random_convolution(random);
    const auto space = Space::derive(problem, *parse_target(targets[i % 3]));
    ASSERT_TRUE(space) << space.error().message;
    for (int s = 0; s < 6; ++s) {
      const Point point = space->sample(random);
      const Schedule schedule = space->schedule(point);
      const auto program = schedule.program(limits_of(space->target()));
      if (!program) continue;
      ++computed;
      const double tolerance =
          std::clamp(1e3 * expected_error(*space, space->algorithm_of(point)), 2e-3, 0.1);
      ASSERT_EQ(disagreement(problem.compute, *program, static_cast<uint64_t>(s), tolerance),
                std::nullopt)
          << dsl::to_line(problem.compute) << "\n"
          << schedule.to_string();
    }
  }
  EXPECT_GT(computed, 4 * problems);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomAlgorithms, testing::Range(1, 5));

}  // namespace
}  // namespace tw::schedules
