// SPDX-License-Identifier: Apache-2.0
#include "dsl/random_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "dsl/parse.h"

namespace tw::dsl {
namespace {

Compute compute_of(const std::string& text) { return parse_compute(text).value(); }

/// Returns the ranges of inputs that are indices, such as "ids 0..99".
std::vector<std::string> ranges_of(const std::string& text) {
  std::vector<std::string> ranges;
  for (const auto& [input, range] : index_ranges(compute_of(text)))
    ranges.push_back(input + " " + std::to_string(range.first) + ".." + std::to_string(range.last));
  return ranges;
}

constexpr const char* gather = R"(
input table: f32[100, 16]
input ids: i32[64]
out: f32[i=64, j=16] = table[clamp(i64(ids[i]), 0, 99), j]
)";

TEST(RandomInputs, IndicesReachTheWholeTable) {
  EXPECT_THAT(ranges_of(gather), testing::ElementsAre("ids 0..99"));
  const Arrays inputs = random_inputs(compute_of(gather), 1).value();
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 64; ++i) seen.insert(inputs.at("ids").get_int(i));
  EXPECT_GE(*seen.begin(), 0);
  EXPECT_LE(*seen.rbegin(), 99);
  EXPECT_GT(seen.size(), 32u);
  EXPECT_EQ(random_inputs(compute_of(gather), 1)->at("ids").data, inputs.at("ids").data);
  EXPECT_NE(random_inputs(compute_of(gather), 2)->at("ids").data, inputs.at("ids").data);
}

TEST(RandomInputs, BoundsAroundAnIndexAreItsRange) {
  EXPECT_THAT(ranges_of("input t: f32[64]\ninput a: i32[8]\n"
                        "out: f32[i=8, j=4] = t[clamp(i64(a[i]), 2, 15) * 4 + j]"),
              testing::ElementsAre("a 2..15"));
  EXPECT_THAT(ranges_of("input t: f32[64]\ninput a: i32[8]\nout: f32[i=8] = "
                        "select(0 <= i64(a[i]) && i64(a[i]) < 64, t[i64(a[i])], 0.0)"),
              testing::ElementsAre("a 0..63"));
  // The input is an index of two tables. The smaller table limits its range.
  EXPECT_THAT(ranges_of("input t: f32[64]\ninput u: f32[9]\ninput a: i32[8]\n"
                        "out: f32[i=8] = t[clamp(i64(a[i]), 0, 63)] + u[clamp(i64(a[i]), 0, 8)]"),
              testing::ElementsAre("a 0..8"));
}

TEST(RandomInputs, DataHaveNoRange) {
  EXPECT_THAT(ranges_of("input a: i32[8]\nout: i32[i=8] = a[i] + 1i32"), testing::IsEmpty());
  const Arrays inputs =
      random_inputs(compute_of("input a: i32[800]\nout: i32[i=800] = a[i] + 1i32"), 1).value();
  for (int64_t i = 0; i < 800; ++i) EXPECT_LE(std::abs(inputs.at("a").get_int(i)), 4);
}

TEST(RandomInputs, TypesHoldTheirIndices) {
  const Compute bytes = compute_of(
      "input t: f32[1000]\ninput a: i8[64]\nout: f32[i=64] = t[clamp(i64(a[i]), 0, 999)]");
  const Arrays inputs = random_inputs(bytes, 3).value();
  for (int64_t i = 0; i < 64; ++i) EXPECT_GE(inputs.at("a").get_int(i), 0);
}

}  // namespace
}  // namespace tw::dsl
