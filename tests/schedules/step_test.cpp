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
                                                 "fuse out y x.0",
                                                 "reorder out k.0 y x.0 c x.1",
                                                 "unroll out x.1",
                                                 "vectorize out k.1",
                                                 "parallel out y",
                                                 "bind out x.0",
                                                 "compute_at first out x.0",
                                                 "inline t",
                                                 "epilogue out conv",
                                                 "cache_write conv x.0",
                                                 "cache_write conv x.0 local",
                                                 "cache_read in conv c",
                                                 "cache_operand conv 2 c.0 c.1 k.1",
                                                 "tensorize conv h mma_m16n8k8_3xtf32",
                                                 "pipeline a@c 3",
                                                 "bulk a@c",
                                                 "specialise c",
                                                 "pad a@c m.1.0 4",
                                                 "swizzle a@c 128",
                                                 "rfactor out j 8",
                                                 "rfactor c k 4 blocks",
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
    ::testing::Values(Malformed{"", "[schedule] an empty step"},
                      Malformed{"splt out x 4", "[schedule] 'splt' is no scheduling step"},
                      Malformed{"split out x", "[split] a number is missing"},
                      Malformed{"split out", "[split] a name is missing"},
                      Malformed{"split out x 0", "[split] '0' is no positive integer"},
                      Malformed{"split out x -3", "[split] '-3' is no positive integer"},
                      Malformed{"split out x 99999999999999999999",
                                "[split] '99999999999999999999' is no positive integer"},
                      Malformed{"split out x 4 round",
                                "[split] 'round' is no tail: use guard, exact or shift"},
                      Malformed{"reorder out", "[reorder] the list of loops is missing"},
                      Malformed{"unroll out x y", "[unroll] 'y' is left over"},
                      Malformed{"cache_write c m scratch",
                                "[cache_write] 'scratch' is no scope: use register or local"},
                      Malformed{"pipeline a@c", "[pipeline] a number is missing"},
                      Malformed{"pipeline a@c 0", "[pipeline] '0' is no positive integer"},
                      Malformed{"pad a@c k.1", "[pad] a number is missing"},
                      Malformed{"rfactor out j many", "[rfactor] 'many' is no positive integer"},
                      Malformed{"rfactor out j 8 halves",
                                "[rfactor] 'halves' is no partition: use interleaved or blocks"},
                      Malformed{"rfactor out j 8 blocks 2", "[rfactor] '2' is left over"}));

}  // namespace
}  // namespace tw::schedules
