// SPDX-License-Identifier: Apache-2.0
#include "cost_model/fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "base/random.h"
#include "cost_model/features.h"
#include "tests/cost_model/programs.h"

namespace tw::cost_model {
namespace {

size_t row_of(std::string_view name) {
  const auto table = feature_table();
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].name == name) return i;
  ADD_FAILURE() << name;
  return 0;
}

/// A kernel whose time is spent on resources by chance.
std::vector<float> random_kernel(Random& random) {
  std::vector<float> row(feature_count());
  const size_t first = row_of("spent_arithmetic");
  double sum = 0;
  for (size_t i = 0; i < resource_count; ++i)
    sum += row[first + i] = static_cast<float>(std::pow(random.unit(), 3));
  for (size_t i = 0; i < resource_count; ++i) row[first + i] /= static_cast<float>(sum);
  row[row_of("expected_ns")] = static_cast<float>(15 + random.unit());
  return row;
}

/// Kernels on a machine whose costs of resources are the analytic model's times these factors.
struct Measured {
  std::vector<std::vector<float>> rows;
  std::vector<FitTrial> trials;
};
Measured measured(size_t count, const std::array<double, factor_count>& factors, double noise = 0,
                  uint64_t seed = 1) {
  Random random(seed);
  Measured m;
  for (size_t i = 0; i < count; ++i) m.rows.push_back(random_kernel(random));
  for (const std::vector<float>& row : m.rows) {
    double log_time = ordering_time_of(row) * std::numbers::ln2 + noise * (random.unit() - 0.5);
    for (size_t f = 0; f < factor_count; ++f) log_time += std::log(factors[f]) * spent_of(row)[f];
    m.trials.push_back({row, std::exp(-log_time), 7});
  }
  return m;
}

std::array<double, factor_count> all_as_thought() {
  std::array<double, factor_count> factors;
  factors.fill(1);
  return factors;
}
std::array<double, factor_count> slow(Resource resource, double factor) {
  auto factors = all_as_thought();
  factors[static_cast<size_t>(resource)] = factor;
  return factors;
}

double factor_of(const Fit& fit, Resource resource) {
  return std::exp(fit.log_factors[static_cast<size_t>(resource)]);
}

TEST(Fit, WithoutTrialsItIsTheAnalyticModel) {
  const Fit fit = fit_factors({});
  Random random(2);
  EXPECT_EQ(fit.log_factors, Fit{}.log_factors);
  EXPECT_EQ(fit.correction(random_kernel(random)), 0);
  EXPECT_EQ(Fit{}.deviation(random_kernel(random)), 0);
}

TEST(Fit, OneTrialOfAWorkloadSaysNothing) {
  const Measured one = measured(1, slow(Resource::Loads, 3));
  EXPECT_EQ(fit_factors(one.trials).log_factors, Fit{}.log_factors);
}

TEST(Fit, FindsTheResourceThatIsSlowerThanThought) {
  const Measured m = measured(2000, slow(Resource::Loads, 1.6), 0.1);
  const Fit fit = fit_factors(m.trials);
  EXPECT_NEAR(factor_of(fit, Resource::Loads) / factor_of(fit, Resource::Arithmetic), 1.6, 0.1);
  EXPECT_NEAR(factor_of(fit, Resource::Stores) / factor_of(fit, Resource::L2), 1, 0.1);
}

// The 13 factors of a few noisy trials stay near 1, where least squares would be anywhere.
TEST(Fit, FewTrialsMoveFactorsLittle) {
  const Measured m = measured(5, all_as_thought(), 0.4);
  for (const double log_factor : fit_factors(m.trials).log_factors)
    EXPECT_LT(std::fabs(log_factor), 0.2);
}

TEST(Fit, TheScaleOfAWorkloadDoesNotMatter) {
  Measured m = measured(40, slow(Resource::L2, 2));
  const Fit before = fit_factors(m.trials);
  for (FitTrial& trial : m.trials) trial.throughput *= 1000;
  const Fit after = fit_factors(m.trials);
  for (size_t i = 0; i < factor_count; ++i)
    EXPECT_NEAR(before.log_factors[i], after.log_factors[i], 1e-9);
}

TEST(Fit, WhatIsKnownBetterDeviatesLess) {
  Random random(3);
  const std::vector<float> kernel = random_kernel(random);
  const double few = fit_factors(measured(4, all_as_thought()).trials).deviation(kernel),
               many = fit_factors(measured(400, all_as_thought()).trials).deviation(kernel);
  EXPECT_GT(few, 2 * many);
  EXPECT_GT(many, 0);
}

TEST(Fit, RowsOfProgramsSayWhatTheirTimeIsSpentOn) {
  const auto row =
      extract_features(testing::conv({.pixels = 14, .vectors = 2}), testing::avx512(), 1);
  ASSERT_TRUE(row);
  const auto spent = spent_of(*row);
  ASSERT_EQ(spent.size(), factor_count);
  EXPECT_NEAR(std::accumulate(spent.begin(), spent.end() - 1, 0.0), 1, 1e-5);
  EXPECT_GT(spent[static_cast<size_t>(Resource::Arithmetic)], 0.5);
  EXPECT_EQ(spent[static_cast<size_t>(Resource::Dispatch)] > 0, true);
}

}  // namespace
}  // namespace tw::cost_model
