// SPDX-License-Identifier: Apache-2.0
// data/curves.jsonl has guided searches of the 23 layers of ResNet-50, one a line: {"best":
// [[trial, ns], ...], "trials", "workload"}. "best" has a pair for each trial that was faster than
// all before.
#include "tuner/search/gain.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/random.h"

namespace tw::tuner {
namespace {

/// The best latency in ns after each trial, or 0 before the first valid trial.
using Best = std::vector<double>;

std::vector<Best> guided_searches() {
  std::ifstream file(TW_CURVE_DATA);
  std::vector<Best> searches;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    Best best(json["trials"].get<size_t>());
    for (const auto& step : json["best"])
      std::fill(best.begin() + step[0].get<ptrdiff_t>() - 1, best.end(), step[1].get<double>());
    searches.push_back(std::move(best));
  }
  return searches;
}

/// Returns ten searches of each layer: its recorded samples in ten random orders.
std::vector<Best> random_searches() {
  std::ifstream file(TW_REPLAY_DATA);
  std::vector<std::vector<double>> layers;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("workload"))
      layers.emplace_back();
    else
      layers.back().push_back(json["ns"].get<double>());
  }
  Random random(1);
  std::vector<Best> searches;
  for (std::vector<double>& trials : layers)
    for (int order = 0; order < 10; ++order) {
      random.shuffle(trials);
      Best best;
      for (const double ns : trials) best.push_back(best.empty() ? ns : std::min(best.back(), ns));
      searches.push_back(std::move(best));
    }
  return searches;
}

/// Returns the predicted gains divided by the real ones. Both are sums of logarithms over all
/// searches and over the steps from 8, 16, 32, ... trials to twice as many.
double predicted_over_realised(const std::vector<Best>& searches) {
  double predicted = 0, realised = 0;
  for (const Best& best : searches) {
    GainCurve curve;
    size_t due = 8;
    for (size_t n = 1; n < best.size(); ++n) {
      curve.add(best[n - 1]);
      if (n < due || best[n - 1] == 0) continue;
      due *= 2;
      const size_t end = std::min(2 * n, best.size());
      predicted -= std::log(1 - curve.next(static_cast<double>(end - n)));
      realised += std::log(best[n - 1] / best[end - 1]);
    }
  }
  return predicted / realised;
}

TEST(Gain, WhatIsPredictedIsWhatCame) {
  const double guided = predicted_over_realised(guided_searches());
  const double random = predicted_over_realised(random_searches());
  fmt::print("[  gain    ] predicted / realised: {:.2f} guided, {:.2f} random\n", guided, random);
  for (const double ratio : {guided, random}) {
    EXPECT_GT(ratio, 0.5);
    EXPECT_LT(ratio, 2);
  }
}

TEST(Gain, FallsWithTrialsThatBringNothing) {
  GainCurve curve;
  curve.add(1000);
  double last = 1;
  for (int trial = 0; trial < 500; ++trial) {
    curve.add(1000);
    EXPECT_GT(last, curve.next(100));
    last = curve.next(100);
  }
  EXPECT_LT(last, 0.001);
  EXPECT_GT(last, 0);
}

TEST(Gain, TrialsInVainCountAsOneByOne) {
  GainCurve one_by_one, together;
  for (GainCurve* curve : {&one_by_one, &together}) {
    curve->add_in_vain(2);
    curve->add(200);
    curve->add(100);
  }
  for (int i = 0; i < 60; ++i) one_by_one.add(i % 2 == 0 ? 0 : 150);
  together.add_in_vain(60);
  together.add_in_vain(0);
  EXPECT_EQ(together.trials(), one_by_one.trials());
  for (const double more : {1.0, 64.0, 4096.0})
    EXPECT_NEAR(together.next(more), one_by_one.next(more), 1e-12);
}

TEST(Gain, RisesWithAStep) {
  GainCurve steady, stepping;
  for (int trial = 0; trial < 50; ++trial) {
    steady.add(1000);
    stepping.add(trial < 40 ? 1000 : 800);
  }
  EXPECT_GT(stepping.next(50), 10 * steady.next(50));
}

TEST(Gain, MoreTrialsBringMoreButNeverAll) {
  GainCurve curve;
  for (const double best : {1000.0, 100.0, 1.0}) curve.add(best);
  EXPECT_EQ(curve.next(0), 0);
  EXPECT_LT(curve.next(1), curve.next(10));
  EXPECT_LT(curve.next(1e9), 1);
}

TEST(Gain, BeforeTheFirstValidTrialAlmostAnythingMayCome) {
  GainCurve curve;
  EXPECT_GT(curve.next(8), 0.8);
  for (int trial = 0; trial < 96; ++trial) curve.add(0);
  EXPECT_EQ(curve.trials(), 96);
  EXPECT_EQ(curve.next(96), 0.5);
  curve.add(1000);
  EXPECT_LT(curve.next(97), 0.1);
}

GainCurve after(int trials) {
  GainCurve curve;
  for (int trial = 0; trial < trials; ++trial) curve.add(1000);
  return curve;
}

TEST(Gain, TimeGoesWhereItSavesMost) {
  const SharedSearch usual{after(50), 1000, 10};
  SharedSearch slower = usual, larger = usual, longer = usual, busy = usual;
  slower.trials_per_s = 5;
  larger.total_ns = 3000;
  longer.curve = after(500);
  busy.committed = 50;
  EXPECT_EQ(most_promising({slower, usual, longer, busy}, 1), 1u);
  EXPECT_EQ(most_promising({usual, larger}, 1), 1u);
  EXPECT_EQ(most_promising({}, 1), std::nullopt);
  SharedSearch nothing = usual;
  nothing.total_ns = 0;
  EXPECT_EQ(most_promising({nothing}, 1), std::nullopt);
}

TEST(Gain, OneSearchAloneIsWorthWhatItsCurveSays) {
  const SharedSearch one{after(50), 1000, 10};
  EXPECT_DOUBLE_EQ(expected_improvement({one}, 60), one.curve.next(600));
}

// Two equal searches get half of the minute each. Beside a search that gains nothing any more, a
// young search gets nearly the whole minute, but shortens only half of the total time.
TEST(Gain, ManySearchesShareTheTime) {
  const SharedSearch young{after(50), 1000, 10}, old{after(50'000), 1000, 10};
  EXPECT_NEAR(expected_improvement({young, young}, 60), young.curve.next(300), 1e-6);
  EXPECT_NEAR(expected_improvement({young, old}, 60), young.curve.next(600) / 2, 1e-4);
  EXPECT_EQ(expected_improvement({}, 60), 0);
}

}  // namespace
}  // namespace tw::tuner
