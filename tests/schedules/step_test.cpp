// SPDX-License-Identifier: Apache-2.0
#include "schedules/step.h"

#include <gtest/gtest.h>

#include <set>

namespace tw::schedules {
namespace {

const std::vector<std::string>& lines() {
  static const std::vector<std::string> table = {"split out x 14",
                                                 "split out x 14 exact",
                                                 "split out x.1 3 shift",
                                                 "split out x 14 as xo xi",
                                                 "split out x 14 exact as xo xi",
                                                 "fuse out y x.0",
                                                 "fuse out y x.0 as yx",
                                                 "reorder out k.0 y x.0 c x.1",
                                                 "unroll out x.1",
                                                 "vectorize out k.1",
                                                 "parallel out y",
                                                 "bind out x.0",
                                                 "compute_at first out x.0",
                                                 "store_at first out y",
                                                 "inline t",
                                                 "epilogue out conv",
                                                 "cache_write conv x.0",
                                                 "cache_write conv x.0 local",
                                                 "cache_read in conv c",
                                                 "cache_read in conv c sums conv",
                                                 "store_in t",
                                                 "store_in t local",
                                                 "cache_operand conv 2 c.0 c.1 k.1",
                                                 "cache_result conv k.1 x.1",
                                                 "tensorize conv h mma_m16n8k8_3xtf32",
                                                 "pipeline a@c 3",
                                                 "bulk a@c",
                                                 "specialise c",
                                                 "persist c",
                                                 "launch_bounds c 2",
                                                 "pad a@c m.1.0 4",
                                                 "swizzle a@c 128",
                                                 "rfactor out j 8",
                                                 "rfactor c k 4 blocks",
                                                 "winograd out x 4",
                                                 "pack_factors out c 4",
                                                 "pack_factors out c 4 i16",
                                                 "pad_factors out c",
                                                 "prefetch out w k.0 c.1",
                                                 "prepare out.u",
                                                 "set_layout w OIHW16i32o"};
  return table;
}

TEST(Step, TextRoundTrips) {
  std::set<size_t> kinds;
  for (const std::string& line : lines()) {
    const auto step = parse_step(line);
    ASSERT_TRUE(step) << step.error().message;
    EXPECT_EQ(to_string(*step), line);
    kinds.insert(step->index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Step>);
}

TEST(Step, UsageNamesTheFields) {
  const std::vector<std::string> usages = step_usages();
  ASSERT_EQ(usages.size(), std::variant_size_v<Step>);
  EXPECT_EQ(usages.front(), "split STAGE LOOP FACTOR [guard|exact|shift] [as OUTER INNER]");
  EXPECT_EQ(usages.back(), "set_layout TENSOR LAYOUT");
}

TEST(Step, UnknownStepsAreAnsweredWithThoseThatThereAre) {
  const auto step = parse_step("blorp out x");
  ASSERT_FALSE(step);
  EXPECT_TRUE(step.error().message.starts_with(
      "[schedule] 'blorp' is no scheduling step: the steps are split, fuse, reorder, "))
      << step.error().message;
}

TEST(Step, TheWordThatIsWrongIsNumbered) {
  const auto wrong = [](const std::vector<std::string>& words) {
    return parse_step(words).error().word;
  };
  EXPECT_EQ(wrong({"splt", "out", "x", "4"}), 0u);
  EXPECT_EQ(wrong({"split", "out", "x"}), 3u);  // missing, after the last
  EXPECT_EQ(wrong({"split", "out", "x", "0"}), 3u);
  EXPECT_EQ(wrong({"split", "out", "x", "4", "round"}), 4u);
  EXPECT_EQ(wrong({"split", "out", "x", "4", "exact", "as", "xo"}), 5u);
  EXPECT_EQ(wrong({"unroll", "out", "x", "y"}), 3u);
}

TEST(Step, DefaultsAreLeftOut) {
  EXPECT_EQ(to_string(*parse_step("  split out  x 4 guard ")), "split out x 4");
  EXPECT_EQ(to_string(*parse_step("cache_write c m register")), "cache_write c m");
  EXPECT_EQ(to_string(*parse_step("rfactor c k 4 interleaved")), "rfactor c k 4");
}

struct Malformed {
  std::string line, message;
  friend void PrintTo(const Malformed& m, std::ostream* out) { *out << m.line; }
};
class StepErrors : public ::testing::TestWithParam<Malformed> {};

TEST_P(StepErrors, SayWhatIsWrong) {
  const auto step = parse_step(GetParam().line);
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code, ErrorCode::Invalid);
  EXPECT_EQ(step.error().message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table, StepErrors,
    ::testing::Values(
        Malformed{"", "[schedule] an empty step"},
        Malformed{"splt out x 4", "[schedule] 'splt' is no scheduling step; did you mean 'split'?"},
        Malformed{
            "split out x",
            "[split] the factor is missing; write 'split STAGE LOOP FACTOR [guard|exact|shift] [as "
            "OUTER INNER]'"},
        Malformed{
            "split out",
            "[split] the loop is missing; write 'split STAGE LOOP FACTOR [guard|exact|shift] [as "
            "OUTER INNER]'"},
        Malformed{"split out x 0",
                  "[split] '0' is no positive integer; write 'split STAGE LOOP FACTOR "
                  "[guard|exact|shift] [as OUTER INNER]'"},
        Malformed{"split out x -3",
                  "[split] '-3' is no positive integer; write 'split STAGE LOOP FACTOR "
                  "[guard|exact|shift] [as OUTER INNER]'"},
        Malformed{"split out x 99999999999999999999",
                  "[split] '99999999999999999999' is no positive integer; write 'split STAGE LOOP "
                  "FACTOR [guard|exact|shift] [as OUTER INNER]'"},
        Malformed{"split out x 4 round",
                  "[split] 'round' is no tail: use guard, exact or shift; write 'split STAGE LOOP "
                  "FACTOR [guard|exact|shift] [as OUTER INNER]'"},
        Malformed{"split out x 4 as xo",
                  "[split] 'as' is followed by two names; write 'split STAGE LOOP FACTOR "
                  "[guard|exact|shift] [as OUTER INNER]'"},
        Malformed{"fuse out y x as a b",
                  "[fuse] 'as' is followed by one name; write 'fuse STAGE OUTER INNER [as NAME]'"},
        Malformed{"unroll out x as a", "[unroll] 'as' is left over; write 'unroll STAGE LOOP'"},
        Malformed{"reorder out", "[reorder] the loops are missing; write 'reorder STAGE LOOPS...'"},
        Malformed{"unroll out x y", "[unroll] 'y' is left over; write 'unroll STAGE LOOP'"},
        Malformed{"cache_write c m scratch",
                  "[cache_write] 'scratch' is no scope: use register or local; write 'cache_write "
                  "STAGE LOOP [register|local]'"},
        Malformed{"pipeline a@c", "[pipeline] the depth is missing; write 'pipeline STAGE DEPTH'"},
        Malformed{"pipeline a@c 0",
                  "[pipeline] '0' is no positive integer; write 'pipeline STAGE DEPTH'"},
        Malformed{"pad a@c k.1", "[pad] the elements is missing; write 'pad STAGE LOOP ELEMENTS'"},
        Malformed{"rfactor out j many",
                  "[rfactor] 'many' is no positive integer; write 'rfactor STAGE AXIS FACTOR "
                  "[interleaved|blocks]'"},
        Malformed{"rfactor out j 8 halves",
                  "[rfactor] 'halves' is no partition: use interleaved or blocks; write 'rfactor "
                  "STAGE AXIS FACTOR [interleaved|blocks]'"},
        Malformed{
            "rfactor out j 8 blocks 2",
            "[rfactor] '2' is left over; write 'rfactor STAGE AXIS FACTOR [interleaved|blocks]'"}));

}  // namespace
}  // namespace tw::schedules
