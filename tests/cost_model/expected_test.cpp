// SPDX-License-Identifier: Apache-2.0
#include "cost_model/expected.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cost_model/analytic.h"
#include "cost_model/features.h"
#include "dsl/parse.h"
#include "tests/cost_model/programs.h"

namespace tw::cost_model {
namespace {

using testing::avx512;
using testing::conv;

std::vector<float> row_of(const schedules::Program& program) {
  return extract_features(program, avx512(), 1).value();
}

// If the features are changed, the model must be trained again. Otherwise the program has no model.
TEST(Expected, TheProgramCarriesAModelOfItsFeatures) {
  ASSERT_TRUE(shipped_model()) << shipped_model().error().message;
  EXPECT_LE(shipped_model()->to_bytes().size(), 5'000'000u);
  EXPECT_EQ(expectation_name(avx512()), "pretrained " + shipped_model()->name());
}

TEST(Expected, TheLastRowAloneIsReplacedByWhatTheModelSays) {
  std::vector<float> one = row_of(conv({.pixels = 14, .vectors = 2})),
                     other = row_of(conv({.pixels = 1, .vectors = 1}));
  const std::vector<float> before = one;
  EXPECT_EQ(expected_time_of(one), static_cast<float>(analytic_time_of(one)));
  std::vector<float>* const rows[] = {&one, &other};
  expect(rows, avx512());
  const std::vector<const std::vector<float>*> read = {&one, &other};
  const std::vector<double> times = shipped_model()->times(read, avx512().machine).value();
  EXPECT_EQ(expected_time_of(one), static_cast<float>(times[0]));
  EXPECT_EQ(expected_time_of(other), static_cast<float>(times[1]));
  EXPECT_NE(expected_time_of(one), static_cast<float>(analytic_time_of(one)));
  one.back() = before.back();
  EXPECT_EQ(one, before);
}

/// A product and a kernel of it, the schedule without steps.
struct Product {
  schedules::Problem problem =
      schedules::problem_of(*dsl::make_workload("dense", {{"m", 64}, {"n", 64}, {"k", 64}}));
  Target target = *parse_target("x86-64-v4");
  schedules::Schedule schedule = schedules::Schedule(problem.compute);
  schedules::Program program() const { return *schedule.program(schedules::limits_of(target)); }
  double ns() const { return expected_ns(program(), problem, target, 1).value(); }
};

TEST(Expected, TimesOfSchedulesAreThoseOfTheirFeatures) {
  Product product;
  for (const dsl::CacheState state :
       {dsl::CacheState::Hot, dsl::CacheState::NetworkL3, dsl::CacheState::NetworkMemory}) {
    product.problem.state = state;
    std::vector<float> row =
        extract_features_of_call(product.program(), product.problem, product.target, 1).value();
    std::vector<float>* const rows[] = {&row};
    expect(rows, product.target);
    EXPECT_EQ(
        features_with_expected_time(product.program(), product.problem, product.target, 1).value(),
        row);
    EXPECT_NEAR(product.ns(), std::exp2(expected_time_of(row)) - 1, 1e-9);
  }
  EXPECT_EQ(expected_ns(product.program(), product.problem, product.target, 0).error().code,
            ErrorCode::Usage);
}

TEST(Expected, ConstantsFromMemoryTakeLonger) {
  Product product;
  product.problem.state = dsl::CacheState::NetworkL3;
  const double from_l3 = product.ns();
  product.problem.state = dsl::CacheState::NetworkMemory;
  EXPECT_GT(product.ns(), 1.01 * from_l3);
}

TEST(Expected, WithoutTheTreesTheyAreTheAnalyticModels) {
  const Product product;
  const double with = product.ns();
  const double analytic = analytic_cost_ns(product.program(), product.target, 1).value();
  EXPECT_GT(std::abs(with / analytic - 1), 1e-3);
  {
    const AnalyticOnly without_trees;
    EXPECT_EQ(expectation_name(product.target), "analytic");
    EXPECT_NEAR(product.ns() / analytic, 1, 1e-5);
  }
  EXPECT_EQ(product.ns(), with);
}

// If a kernel of an expression keeps an array in another layout than the caller, a call converts
// the array. That takes time.
TEST(Expected, ConversionsTakeTime) {
  const dsl::Compute compute =
      dsl::parse_compute("input in: f32[96, 96]; out: f32[i=96, j=96] = in[i, j] + 1.0").value();
  const dsl::Workload workload = dsl::workload(compute).value();
  const Target target = *parse_target("x86-64-v4");
  const auto ns = [&](const std::string& steps, const dsl::Layouts& asked) {
    schedules::Problem problem = schedules::problem_of(workload);
    problem.layouts = asked;
    const schedules::Schedule schedule = *schedules::parse_schedule(compute, "tw1" + steps);
    return expected_ns(*schedule.program(), problem, target, 1).value();
  };
  const std::string transposed = "\nset_layout in BA";
  EXPECT_GT(ns(transposed, {}), 1.3 * ns(transposed, {{"in", "BA"}}));
  EXPECT_EQ(ns("", {}), ns("", {{"in", "AB"}}));
}

TEST(Expected, TheModelSaysNothingOfTargetsThatTheCorpusLacks) {
  for (const char* name : {"cuda:sm_90a", "opencl", "arm-64-linux"}) {
    const Target other = parse_target(name).value();
    EXPECT_EQ(expectation_name(other), "analytic");
    std::vector<float> row = row_of(conv({.pixels = 14, .vectors = 2}));
    const std::vector<float> before = row;
    std::vector<float>* const rows[] = {&row};
    expect(rows, other);
    EXPECT_EQ(row, before) << name;
  }
}

}  // namespace
}  // namespace tw::cost_model
