// SPDX-License-Identifier: Apache-2.0
#include "tests/schedules/chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "schedules/nest.h"
#include "schedules/space/stage_plan.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/spaces.h"

namespace tw::schedules {
namespace {

using ::testing::HasSubstr;

dsl::Compute parsed(const std::string& text) {
  auto compute = dsl::parse_compute(text);
  if (!compute) throw std::runtime_error(compute.error().message);
  return std::move(*compute);
}

int64_t nodes_of(const dsl::Compute& compute) {
  int64_t sum = 0;
  for (const dsl::Stage& stage : compute.stages) sum += stage.body.node().size;
  return sum;
}

ComputePlan plan_of(const dsl::Compute& compute) {
  return plan_stages({compute}, *parse_target("x86-64-v3")).value();
}

/// Returns a chain of stages, each of which reads its predecessor once.
std::string maxima(int stages) {
  std::string text = "input a: f32[64]", before = "a";
  for (int i = 1; i <= stages; ++i) {
    text += fmt::format("; s{0}: f32[x=64] = max({1}[x] * 1.5, 0.0)", i, before);
    before = fmt::format("s{}", i);
  }
  return text;
}

// The plan has at most 64 times as many expression nodes as the compute, for any number of stages.
TEST(Chains, Fault77_PlansAreAsLargeAsTheirText) {
  constexpr int64_t most_growth = 64;
  for (const int stages : {4, 16, 64})
    for (const std::string& text : {mandelbrot(stages), blurs(stages), products(stages)}) {
      const dsl::Compute compute = parsed(text);
      EXPECT_LE(nodes_of(plan_of(compute).compute), most_growth * nodes_of(compute)) << text;
    }
}

// A chain of one blur is planned as a single stage. Of eight blurs at least four stages stay,
// because an inlined stage would be computed again for each of its three reads.
TEST(Chains, Fault77_WhatIsReadAtSeveralPlacesIsNotComputedForEach) {
  EXPECT_EQ(plan_of(parsed(blurs(1))).compute.stages.size(), 1u);
  const size_t kept = plan_of(parsed(blurs(8))).compute.stages.size();
  EXPECT_GE(kept, 4u);
}

TEST(Chains, Fault77_ExpensiveStagesAreNotComputedForEachRead) {
  std::string text = "input x: f32[64]", before = "x";
  for (int i = 0; i < 5; ++i) {
    text += fmt::format("; s{0}: f32[i=64] = tanh({1}[i]) + {1}[i] * 0.9", i, before);
    before = fmt::format("s{}", i);
  }
  int functions = 0;
  for (const dsl::Stage& stage : plan_of(parsed(text)).compute.stages)
    dsl::for_each(stage.body, [&](const Expr& e) { functions += e.as<dsl::Unary>() != nullptr; });
  EXPECT_EQ(functions, 5);
}

TEST(Chains, WhatIsReadOnceIsInlinedHoweverManyTheyAre) {
  EXPECT_EQ(plan_of(parsed(maxima(48))).compute.stages.size(), 1u);
}

TEST(Chains, Fault77_DefaultsAndSamplesAgreeWithTheInterpreter) {
  // The chains are short, because z, squared again and again, is exact in f32 for a few iterations
  // only.
  for (const std::string& text : {mandelbrot(3), blurs(10), products(3)}) {
    const dsl::Compute compute = parsed(text);
    const Space space = space_of(compute, "x86-64-v3");
    Random random(5);
    std::vector<Point> points = {space.default_point()};
    for (int i = 0; i < 20; ++i) points.push_back(space.sample(random));
    int legal = 0;
    for (const Point& point : points) {
      const auto program = space.schedule(point).program();
      if (!program) continue;
      ++legal;
      EXPECT_EQ(disagreement(compute, *program, 1, 1e-5), std::nullopt)
          << space.schedule(point).to_string();
    }
    EXPECT_GE(legal, 2) << text;
  }
}

TEST(Chains, Fault91_AStopEndsPlanningWithoutAPlan) {
  for (const int questions : {1, 2, 40, 100'000}) {
    int64_t asked = 0;
    const StopToken stop = stop_at([&] { return ++asked; }, questions);
    const auto plan = plan_stages({parsed(maxima(100))}, *parse_target("x86-64-v3"), stop);
    ASSERT_EQ(plan.has_value(), questions == 100'000) << questions;
    if (plan)
      EXPECT_EQ(plan->compute.stages.size(), 1u);
    else
      EXPECT_EQ(plan.error().code, ErrorCode::TryLater);
    EXPECT_LE(asked, questions + 1) << "nothing is planned once it is stopped";
  }
}

// If a compute has many tiled stages, hardly any random point meets the constraints of all stages.
// Even so, samples must be allowed and differ from each other.
TEST(Chains, Fault77_SamplesOfManyStagesDiffer) {
  const Space space = space_of(parsed(products(16)), "x86-64-v3");
  Random random(7);
  const Point first = space.sample(random), second = space.sample(random);
  EXPECT_TRUE(space.allowed(first));
  EXPECT_TRUE(space.allowed(second));
  EXPECT_NE(first, second);
  EXPECT_TRUE(space.schedule(space.default_point()).program());
}

TEST(Chains, Fault91_TheDefaultIsTheSameHoweverOftenItIsAskedForOrThereIsNone) {
  const Space space = space_of(parsed(products(3)), "x86-64-v3");
  int64_t asked = 0;
  const auto patient = space.default_point(stop_at([&] { return ++asked; }, INT64_MAX));
  EXPECT_EQ(patient.value(), space.default_point());
  for (const int64_t questions : {int64_t{1}, asked / 2, asked}) {
    int64_t again = 0;
    EXPECT_FALSE(space.default_point(stop_at([&] { return ++again; }, questions))) << questions;
  }
}

// An index expression with products of variables, such as the spatial weight of a bilateral filter,
// is not affine. Simplification must still keep its value.
TEST(Chains, ProductsOfIndicesAreSimplified) {
  const dsl::Compute compute =
      parsed("input a: i64[9]; out: i64[y=9, x=7] = (x - 3) * (x - 3) + (y - x) * y + a[y]");
  const Space space = space_of(compute, "x86-64-v3");
  const auto program = space.schedule(space.default_point()).program();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(disagreement(compute, *program), std::nullopt);
}

TEST(Chains, Fault77_StepsRefuseExpressionsThatGrowExponentially) {
  Schedule schedule(parsed(mandelbrot(12)));
  for (int i = 1; i <= 12 && !schedule.error(); ++i)
    schedule = schedule.inlined(fmt::format("re{}", i)).inlined(fmt::format("im{}", i));
  ASSERT_TRUE(schedule.error());
  EXPECT_THAT(schedule.error()->message, HasSubstr("[inline] the expression of"));
  EXPECT_THAT(schedule.error()->message, HasSubstr("more than 100000 nodes"));
}

}  // namespace
}  // namespace tw::schedules
