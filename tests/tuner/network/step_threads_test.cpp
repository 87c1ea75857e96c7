// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/step_threads.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "tuner/measure/sampling.h"

namespace tw::tuner {
namespace {

/// Returns rounds of a step that takes these times. Noise makes each time up to 3 % longer, and
/// every tenth time, on average, three times as long.
std::vector<TimePair> noisy_rounds(Random& random, int count, double one_ns, double all_ns) {
  const auto noisy = [&](double ns) {
    return ns * (1 + 0.03 * random.unit()) * (random.below(10) == 0 ? 3 : 1);
  };
  std::vector<TimePair> rounds;
  for (int round = 0; round < count; ++round) rounds.push_back({noisy(one_ns), noisy(all_ns)});
  return rounds;
}

TEST(StepThreads, OneThreadIsChosenWhereItIsClearlyFaster) {
  Random random(1);
  int chosen = 0;
  for (int step = 0; step < 100; ++step)
    chosen += is_first_faster(noisy_rounds(random, 40, 1000, 1200));
  EXPECT_GE(chosen, 95);
}

TEST(StepThreads, EqualAndSlowerTimesChooseThePlansThreads) {
  Random random(2);
  int wrong = 0;
  for (int step = 0; step < 200; ++step) {
    wrong += is_first_faster(noisy_rounds(random, 40, 1000, 1000));
    wrong += is_first_faster(noisy_rounds(random, 40, 1000, 700));
  }
  EXPECT_LE(wrong, 2);
}

TEST(StepThreads, AFewRoundsSayNothing) {
  EXPECT_FALSE(is_first_faster({}));
  EXPECT_FALSE(is_first_faster(std::vector<TimePair>(least_rounds - 1, {100, 200})));
  EXPECT_TRUE(is_first_faster(std::vector<TimePair>(least_rounds, {100, 200})));
  EXPECT_FALSE(is_first_faster(std::vector<TimePair>(20, {0, 0})));
}

}  // namespace
}  // namespace tw::tuner
