// SPDX-License-Identifier: Apache-2.0
#include "cost_model/corrections.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/random.h"
#include "cost_model/features.h"
#include "cost_model/resources.h"
#include "cost_model/spearman.h"
#include "tests/cost_model/programs.h"

namespace tw::cost_model {
namespace {

size_t place_of_feature(std::string_view name) {
  const auto table = feature_table();
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].name == name) return i;
  ADD_FAILURE() << name;
  return 0;
}

size_t share_of(Resource resource) {
  return place_of_feature("spent_arithmetic") + static_cast<size_t>(resource);
}

// Features in which kernels of different kinds differ. For example, two kinds may be two sizes of a
// tile.
constexpr const char* differing[] = {"lanes",        "statements",     "hot_fmas",   "chain",
                                     "accumulators", "turn_footprint", "l2_traffic", "loop_turns"};

/// Returns the features of a kernel of one of four kinds. The parts of its time that resources take
/// are random. Its expected time is 2^15 to 2^15.5 ns.
std::vector<float> random_kernel(Random& random) {
  std::vector<float> row(feature_count());
  const size_t first = place_of_feature("spent_arithmetic");
  double sum = 0;
  for (size_t i = 0; i < resource_count; ++i)
    sum += row[first + i] = static_cast<float>(std::pow(random.unit(), 3));
  for (size_t i = 0; i < resource_count; ++i) row[first + i] /= static_cast<float>(sum);
  const auto kind = static_cast<float>(random.below(4));
  for (const char* name : differing) row[place_of_feature(name)] = 3 * kind;
  const auto time = static_cast<float>(15 + 0.5 * random.unit());
  row[place_of_feature("analytic_ns")] = row[place_of_feature("expected_ns")] = time;
  return row;
}

/// log2 of the factor by which a kernel takes longer than expected.
using SlowBy = double (*)(const std::vector<float>& row);
double as_expected(const std::vector<float>&) { return 0; }
double slow_loads(const std::vector<float>& row) { return 1.5 * row[share_of(Resource::Loads)]; }
/// Returns 1 for kernels of the second kind, which take twice as long as expected, and 0 for
/// others.
double slow_kind(const std::vector<float>& row) {
  return row[place_of_feature("lanes")] == 3 ? 1 : 0;
}

struct KernelSet {
  std::vector<std::vector<float>> rows;
  std::vector<MeasuredKernel> kernels;
};
/// Returns kernels that take longer than expected by a factor of 2^truth and by a random factor.
/// The natural logarithm of the random factor is within -noise/2 and noise/2.
KernelSet kernels_that_are(size_t count, SlowBy truth, double noise = 0, uint64_t seed = 1,
                           uint64_t group = 7) {
  Random random(seed);
  KernelSet m;
  for (size_t i = 0; i < count; ++i) m.rows.push_back(random_kernel(random));
  for (const std::vector<float>& row : m.rows) {
    const double log2_time = ordering_time_of(row) + truth(row);
    m.kernels.push_back(
        {row, std::exp2(-log2_time) * std::exp(noise * (random.unit() - 0.5)), group});
  }
  return m;
}

/// Returns the rank correlation of corrected and true times of 200 new kernels.
double correlation_on_new_kernels(const Corrections& corrections, SlowBy truth) {
  const KernelSet m = kernels_that_are(200, truth, 0, 99);
  std::vector<double> times, truths;
  for (size_t i = 0; i < m.rows.size(); ++i) {
    times.push_back(ordering_time_of(m.rows[i]) + corrections.log2_factor(m.rows[i]));
    truths.push_back(-std::log(m.kernels[i].throughput));
  }
  return spearman(times, truths).value_or(0);
}

TEST(Corrections, WithoutTrialsNothingIsCorrected) {
  Random random(2);
  const std::vector<float> row = random_kernel(random);
  for (const Corrections& corrections : {Corrections(), Corrections({}, 1)}) {
    EXPECT_EQ(corrections.log2_factor(row), 0);
    EXPECT_EQ(corrections.leave_one_out().trials, 0u);
  }
}

TEST(Corrections, OneTrialOfAWorkloadSaysNothing) {
  const KernelSet one = kernels_that_are(1, slow_loads);
  const Corrections corrections(one.kernels, 7);
  for (const std::vector<float>& row : kernels_that_are(5, as_expected, 0, 3).rows)
    EXPECT_NEAR(corrections.log2_factor(row), 0, 1e-9);
}

TEST(Corrections, FewTrialsFindASlowResourceAndAKindOfKernelThatIsSlow) {
  for (const SlowBy truth : {slow_loads, slow_kind}) {
    const double before = correlation_on_new_kernels(Corrections(), truth),
                 few = correlation_on_new_kernels(
                     Corrections(kernels_that_are(16, truth, 0.1).kernels, 7), truth),
                 many = correlation_on_new_kernels(
                     Corrections(kernels_that_are(128, truth, 0.1).kernels, 7), truth);
    EXPECT_LT(before, 0.85);
    EXPECT_GT(few, before + 0.03);
    EXPECT_GT(many, 0.93);
  }
}

TEST(Corrections, WhatOtherWorkloadsOfTheMachineShowHolds) {
  KernelSet others = kernels_that_are(40, slow_loads, 0.1, 4, 1);
  const double before = correlation_on_new_kernels(Corrections(), slow_loads),
               here = correlation_on_new_kernels(Corrections(others.kernels, 7), slow_loads);
  EXPECT_GT(here, before + 0.03);
  for (MeasuredKernel& kernel : others.kernels) kernel.same_machine = false;
  const double elsewhere = correlation_on_new_kernels(Corrections(others.kernels, 7), slow_loads);
  EXPECT_LT(elsewhere, here) << "another machine may have other loads";
  KernelSet alike = kernels_that_are(40, slow_kind, 0.1, 4, 1);
  for (MeasuredKernel& kernel : alike.kernels) kernel.same_machine = false;
  EXPECT_GT(correlation_on_new_kernels(Corrections(alike.kernels, 7), slow_kind),
            correlation_on_new_kernels(Corrections(), slow_kind) + 0.03)
      << "similar kernels have similar errors there too";
}

// All kernels take their expected time, apart from noise. A correction that learns the noise would
// put new kernels into a wrong order.
TEST(Corrections, NoiseIsHardlyLearned) {
  const KernelSet m = kernels_that_are(24, as_expected, 0.6);
  EXPECT_GT(correlation_on_new_kernels(Corrections(m.kernels, 7), as_expected), 0.93);
}

// In `shuffled` the errors of the same kernels are exchanged at random. If a kernel is left out,
// the others do not predict its error, so that corrections must be small.
TEST(Corrections, WhatTrialsContradictIsShrunk) {
  const auto size = [](const KernelSet& m) {
    double sum = 0;
    const Corrections corrections(m.kernels, 7);
    for (const std::vector<float>& row : kernels_that_are(50, as_expected, 0, 3).rows)
      sum += std::fabs(corrections.log2_factor(row));
    return sum;
  };
  const KernelSet right = kernels_that_are(60, slow_kind);
  KernelSet shuffled = right;
  Random random(5);
  std::vector<double> errors;
  for (const MeasuredKernel& k : right.kernels)
    errors.push_back(std::log2(k.throughput) + ordering_time_of(k.features));
  random.shuffle(errors);
  for (size_t i = 0; i < errors.size(); ++i)
    shuffled.kernels[i].throughput = std::exp2(errors[i] - ordering_time_of(shuffled.rows[i]));
  EXPECT_LT(size(shuffled), 0.15 * size(right));
}

TEST(Corrections, EachTrialIsJudgedWithoutItself) {
  const KernelSet m = kernels_that_are(12, slow_kind, 0.3);
  std::vector<double> measured, predicted, times;
  for (size_t i = 0; i < m.rows.size(); ++i) {
    std::vector<MeasuredKernel> others = m.kernels;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    measured.push_back(m.kernels[i].throughput);
    times.push_back(-ordering_time_of(m.rows[i]));
    predicted.push_back(times.back() - Corrections(others, 7).log2_factor(m.rows[i]));
  }
  const LeaveOneOut judged = Corrections(m.kernels, 7).leave_one_out();
  EXPECT_EQ(judged.trials, 12u);
  EXPECT_DOUBLE_EQ(judged.before.value(), spearman(times, measured).value());
  // The two differ a little: here, each kernel's correction is trained with one trial less.
  EXPECT_NEAR(judged.corrected.value(), spearman(predicted, measured).value(), 0.05);
}

TEST(Corrections, AreNotThoughtToHelpAgainstNoise) {
  double before = 0, corrected = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const KernelSet m = kernels_that_are(12, as_expected, 1, seed);
    const LeaveOneOut judged = Corrections(m.kernels, 7).leave_one_out();
    before += judged.before.value() / 20;
    corrected += judged.corrected.value() / 20;
  }
  EXPECT_NEAR(corrected, before, 0.08);
  const LeaveOneOut right =
      Corrections(kernels_that_are(60, slow_kind, 0.05).kernels, 7).leave_one_out();
  EXPECT_GT(right.corrected.value(), right.before.value() + 0.03);
}

TEST(Corrections, TooFewTrialsAreNotJudged) {
  const LeaveOneOut none = Corrections(kernels_that_are(60, slow_kind).kernels, 8).leave_one_out();
  EXPECT_EQ(none.trials, 0u) << "all are of another workload";
  const LeaveOneOut two = Corrections(kernels_that_are(2, slow_kind).kernels, 7).leave_one_out();
  EXPECT_EQ(two.trials, 2u);
  EXPECT_FALSE(two.before || two.corrected);
}

// The workload's only own trial cannot be compared with another one, so that it changes nothing.
TEST(Corrections, OneOwnTrialLeavesWhatOthersShow) {
  KernelSet m = kernels_that_are(40, slow_kind, 0, 1, 1);
  const KernelSet own = kernels_that_are(1, slow_kind, 0, 2);
  const double without = Corrections(m.kernels, 7).log2_factor(m.rows[0]) -
                         Corrections(m.kernels, 7).log2_factor(m.rows[1]);
  m.kernels.push_back(own.kernels[0]);
  const double with = Corrections(m.kernels, 7).log2_factor(m.rows[0]) -
                      Corrections(m.kernels, 7).log2_factor(m.rows[1]);
  EXPECT_NEAR(with, without, 0.1 * std::fabs(without) + 1e-6);
}

TEST(Corrections, TheUnitOfThroughputDoesNotMatter) {
  KernelSet m = kernels_that_are(40, slow_loads, 0.1);
  const std::vector<std::vector<float>> rows = kernels_that_are(5, as_expected, 0, 3).rows;
  const Corrections before(m.kernels, 7);
  for (MeasuredKernel& kernel : m.kernels) kernel.throughput *= 1e12;
  const Corrections after(m.kernels, 7);
  for (const std::vector<float>& row : rows)
    EXPECT_NEAR(before.log2_factor(row), after.log2_factor(row), 1e-9);
}

TEST(Corrections, OfMoreTrialsThanCountTheLatestOwnOnesDo) {
  const KernelSet others = kernels_that_are(most_kernels, slow_kind, 0, 1, 1),
                  own = kernels_that_are(most_kernels, slow_loads, 0, 2),
                  old = kernels_that_are(50, slow_kind, 0, 3);
  std::vector<MeasuredKernel> kernels = old.kernels;
  kernels.insert(kernels.end(), own.kernels.begin(), own.kernels.end());
  kernels.insert(kernels.end(), others.kernels.begin(), others.kernels.end());
  const Corrections all(kernels, 7);
  EXPECT_EQ(all.leave_one_out().trials, most_kernels);
  const auto rows = kernels_that_are(5, as_expected, 0, 4).rows;
  const Corrections of_own(own.kernels, 7);
  for (const std::vector<float>& row : rows)
    EXPECT_EQ(all.log2_factor(row), of_own.log2_factor(row));
}

}  // namespace
}  // namespace tw::cost_model
