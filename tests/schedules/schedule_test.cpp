// SPDX-License-Identifier: Apache-2.0
#include "schedules/schedule.h"

#include <gtest/gtest.h>

#include "dsl/parse.h"
#include "schedules/nest.h"

namespace tw::schedules {
namespace {

const char* const gemm_text =
    "input a: f32[6, 8]\nweight b: f32[8, 10]\nc: f32[m=6, n=10] = sum(k=8) a[m, k] * b[k, n]";
dsl::Compute gemm_compute() { return dsl::parse_compute(gemm_text).value(); }

TEST(Schedule, FluentCallsAndTextAreOneThing) {
  const Schedule built = Schedule(gemm_compute())
                             .split("c", "m", 3)
                             .split("c", "n", 5, Tail::Exact)
                             .reorder("c", {"m.0", "n.0", "k", "m.1", "n.1"})
                             .cache_write("c", "n.0")
                             .vectorize("c", "n.1")
                             .unroll("c", "m.1")
                             .parallel("c", "m.0");
  ASSERT_FALSE(built.error());
  const std::string text =
      "tw1\nsplit c m 3\nsplit c n 5 exact\nreorder c m.0 n.0 k m.1 n.1\ncache_write c "
      "n.0\nvectorize c n.1\n"
      "unroll c m.1\nparallel c m.0";
  EXPECT_EQ(built.to_string(), text);
  const auto parsed = parse_schedule(gemm_compute(), text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->to_string(), text);
  EXPECT_EQ(parsed->hash(), built.hash());
  EXPECT_EQ(to_string(*parsed->program()), to_string(*built.program()));
}

TEST(Schedule, TextMayStandOnOneLine) {
  const auto schedule = parse_schedule(gemm_compute(), "tw1; split c m 3;unroll c m.1;\n");
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(schedule->to_string(), "tw1\nsplit c m 3\nunroll c m.1");
}

TEST(Schedule, OriginalIsUnchangedByFurtherSteps) {
  const Schedule plain(gemm_compute());
  const Schedule split = plain.split("c", "m", 3);
  EXPECT_EQ(plain.to_string(), "tw1");
  EXPECT_EQ(plain.nest().stages[0].loops.size(), 3u);
  EXPECT_EQ(split.nest().stages[0].loops.size(), 4u);
  EXPECT_NE(plain.hash(), split.hash());
}

TEST(Schedule, FirstErrorStays) {
  const Schedule schedule =
      Schedule(gemm_compute()).split("c", "m", 3).unroll("c", "x").split("c", "n", 5);
  ASSERT_TRUE(schedule.error());
  EXPECT_EQ(schedule.error()->message,
            "[unroll] stage 'c' has no loop 'x': its loops are m.0, m.1, n, k\n"
            "  c: for m.0 in 0..2 / for m.1 in 0..3 / for n in 0..10 / for k in 0..8");
  EXPECT_EQ(schedule.steps().size(), 1u);
  EXPECT_EQ(schedule.program().error(), *schedule.error());
}

TEST(Schedule, VersionIsRequired) {
  EXPECT_EQ(parse_schedule(gemm_compute(), "").error().message,
            "[schedule] the text begins with '', expected the version 'tw1'");
  EXPECT_EQ(parse_schedule(gemm_compute(), "tw2\nsplit c m 3").error().message,
            "[schedule] the text begins with 'tw2', expected the version 'tw1'");
}

TEST(Schedule, ParallelInsideASerialLoopIsRefused) {
  const auto program = Schedule(gemm_compute()).parallel("c", "n").program();
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().message,
            "[parallel] loop 'n' is inside a loop that is not parallel\n"
            "  c: for m in 0..6 / parallel n in 0..10 / for k in 0..8");
}

}  // namespace
}  // namespace tw::schedules
