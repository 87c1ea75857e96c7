// SPDX-License-Identifier: Apache-2.0
#include "bench/ablation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tw::bench {
namespace {

using testing::HasSubstr;

/// Returns an ablation with a row for each choice. The row of Choice::Blocked could not be timed.
Ablation ablation() {
  Ablation result;
  result.network = "net";
  for (const graph::Choice choice : ablation_choices) {
    AblationRow& row = result.rows.emplace_back();
    row.choice = choice;
    row.kernels_ns = 900'000;
    row.transforms_ns = 100'000;
    row.transforms = 3;
  }
  result.rows[1].error = "2 kernels not measured";
  return result;
}

/// Returns laps of the four models that were timed. There are two rounds, and the second is slower.
Laps laps() { return {.ns = {{4e6, 8e6}, {2e6, 4e6}, {1.5e6, 3e6}, {1e6, 2e6}}, .rounds = 2}; }

TEST(Ablation, SpeedsAreRelativeToTheFirstRowRoundByRound) {
  Ablation net = ablation();
  take_laps(laps(), net);
  EXPECT_EQ(net.rounds, 2);
  EXPECT_DOUBLE_EQ(net.rows[0].speed.value, 1);
  EXPECT_DOUBLE_EQ(net.rows[2].speed.value, 2);
  EXPECT_DOUBLE_EQ(net.rows[4].speed.value, 4);
  EXPECT_DOUBLE_EQ(net.rows[4].call_ns.value, 1.5e6);
  EXPECT_DOUBLE_EQ(net.global_to_local_best.value, 1.5);
  EXPECT_DOUBLE_EQ(net.global_to_local_best.low, 1.5);
}

TEST(Ablation, JsonHasTheFiguresOrTheReason) {
  Ablation net = ablation();
  take_laps(laps(), net);
  const nlohmann::json json = as_json(std::vector{net})["networks"][0];
  EXPECT_EQ(json["network"], "net");
  EXPECT_EQ(json["rows"][0]["name"], "row_major");
  EXPECT_EQ(json["rows"][0]["measured_us"], 6000);
  EXPECT_EQ(json["rows"][1]["error"], "2 kernels not measured");
  EXPECT_FALSE(json["rows"][1].contains("speed"));
  EXPECT_EQ(json["rows"][4]["predicted_us"], 1000);
  EXPECT_EQ(json["rows"][4]["transforms"], 3);
  EXPECT_EQ(json["rows"][4]["transforms_us"], 100);
  EXPECT_EQ(json["global_to_uniform"]["ratio"], 2);
  EXPECT_EQ(json["global_to_local_best"]["ratio"], 1.5);
}

TEST(Ablation, TheTableNamesWhatWasNotTimed) {
  Ablation net = ablation();
  take_laps(laps(), net);
  const std::string table = as_table({net});
  EXPECT_THAT(table, HasSubstr("blocked kernels: 2 kernels not measured"));
  EXPECT_THAT(table, HasSubstr("global search is 1.500 (1.500-1.500) times as fast as local best"));
  EXPECT_THAT(table, HasSubstr("(2.000-2.000) times as fast as transforms eliminated"));
  net.rows[3].error = "lost";
  net.global_to_local_best = {0, 0, 0};
  take_laps({.ns = {{1e6}, {1e6}, {1e6}}, .rounds = 1}, net);
  EXPECT_THAT(as_table({net}), testing::Not(HasSubstr("as fast as local best")));
}

}  // namespace
}  // namespace tw::bench
