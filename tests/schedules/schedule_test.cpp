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

TEST(Schedule, LoopsMayHaveNamesOfTheirOwn) {
  const std::string named =
      "tw1\nsplit c m 3 as mo mi\nsplit c n 5 exact as no ni\nsplit c k 4 as k ki\n"
      "reorder c mo no k mi ki ni\nfuse c mo no as tile\ncache_write c tile\nunroll c ki\n"
      "vectorize c ni\nparallel c tile";
  const std::string canonical =
      "tw1\nsplit c m 3\nsplit c n 5 exact\nsplit c k 4\n"
      "reorder c m.0 n.0 k.0 m.1 k.1 n.1\nfuse c m.0 n.0\ncache_write c m.0*n.0\nunroll c k.1\n"
      "vectorize c n.1\nparallel c m.0*n.0";
  const auto schedule = parse_schedule(gemm_compute(), named);
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(schedule->to_string(), canonical);
  const auto derived = parse_schedule(gemm_compute(), canonical);
  ASSERT_TRUE(derived) << derived.error().message;
  EXPECT_EQ(schedule->hash(), derived->hash());
  EXPECT_EQ(to_string(*schedule->program()), to_string(*derived->program()));
}

TEST(Schedule, NamesThatAreDerivedFromOwnNamesAreValidToo) {
  const auto schedule = parse_schedule(gemm_compute(),
                                       "tw1; split c n 10 as no ni; split c ni 5; unroll c ni.1; "
                                       "fuse c m no; split c m*no 2 as a b; split c a 1; "
                                       "unroll c a.1; reorder c n.1.0 k");
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(schedule->to_string(),
            "tw1\nsplit c n 10\nsplit c n.1 5\nunroll c n.1.1\nfuse c m n.0\nsplit c m*n.0 2\n"
            "split c m*n.0.0 1\nunroll c m*n.0.0.1\nreorder c n.1.0 k");
}

TEST(Schedule, AStagedOperandHasTheNamesOfItsConsumersLoops) {
  const auto schedule =
      parse_schedule(gemm_compute(),
                     "tw1; split c m 3 as mo mi; split c k 4 as ko ki; reorder c mo ko mi n ki; "
                     "cache_write c mo; cache_operand c 1 ko ki mi; split a@c ki 2 as a b; "
                     "reorder a@c mi a b");
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_TRUE(
      schedule->to_string().ends_with("cache_operand c 1 k.0 k.1 m.1\nsplit a@c k.1 2\n"
                                      "reorder a@c m.1 k.1.0 k.1.1"))
      << schedule->to_string();
}

TEST(Schedule, NamesThatAreNoneOrTakenAreRefused) {
  const auto refused = [](const std::string& steps) {
    return parse_schedule(gemm_compute(), "tw1; " + steps).error().message;
  };
  EXPECT_TRUE(refused("split c n 5 as n.0 ni")
                  .starts_with("[split] 'n.0' is no name for a loop: use letters, digits and '_'"));
  EXPECT_TRUE(refused("split c n 5 as 5 ni").starts_with("[split] '5' is no name for a loop"));
  EXPECT_TRUE(
      refused("split c n 5 as m ni").starts_with("[split] stage 'c' has a loop 'm' already"));
  EXPECT_TRUE(
      refused("split c n 5 as a a").starts_with("[split] stage 'c' has a loop 'a' already"));
  EXPECT_TRUE(refused("split c n 5 as a b; split c m 3 as b c")
                  .starts_with("[split] stage 'c' has a loop 'b' already"));
  EXPECT_EQ(
      refused("split c n 5 as no ni; unroll c nii"),
      "[unroll] stage 'c' has no loop 'nii': its loops are m, no (n.0), ni (n.1), k; did you "
      "mean 'ni'?\n  c: for m in 0..6 / for no (n.0) in 0..2 / for ni (n.1) in 0..5 / for k in "
      "0..8");
}

TEST(Schedule, ANameOfALoopThatIsGoneMayBeGivenAgain) {
  const auto schedule = parse_schedule(
      gemm_compute(), "tw1; split c n 10 as n ni; split c ni 5 as ni nj; unroll c ni");
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(schedule->to_string(), "tw1\nsplit c n 10\nsplit c n.1 5\nunroll c n.1.0");
}

TEST(Schedule, CommentsAreLeftOut) {
  const auto schedule = parse_schedule(
      gemm_compute(), "# by hand\ntw1  # the version\nsplit c m 3 # rows; of a tile");
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(schedule->to_string(), "tw1\nsplit c m 3");
}

struct Misplaced {
  std::string text, message;
  friend void PrintTo(const Misplaced& m, std::ostream* out) { *out << m.text; }
};
class ReadErrors : public ::testing::TestWithParam<Misplaced> {};

TEST_P(ReadErrors, SayWhere) {
  const auto schedule = read_schedule(gemm_compute(), GetParam().text, "x.tw1");
  ASSERT_FALSE(schedule);
  EXPECT_EQ(schedule.error().code, ErrorCode::Invalid);
  EXPECT_EQ(schedule.error().message.substr(0, GetParam().message.size()), GetParam().message);
  EXPECT_EQ(schedule.error().message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ReadErrors,
    ::testing::Values(
        Misplaced{"", "[schedule] x.tw1, line 1, column 1: the text begins with '', expected"},
        Misplaced{"\n  tw2", "[schedule] x.tw1, line 2, column 3: the text begins with 'tw2'"},
        Misplaced{"tw1\n\n  splt c m 3", "[schedule] x.tw1, line 3, column 3: 'splt' is no"},
        Misplaced{"tw1\nsplit c m", "[split] x.tw1, line 2, column 10: the factor is missing"},
        Misplaced{"tw1; split c m 0", "[split] x.tw1, line 1, column 16: '0' is no positive"},
        Misplaced{
            "tw1\nsplit c m 3\nreorder c m.0 k z m.1",
            "[reorder] x.tw1, line 3, column 17: stage 'c' has no loop 'z': its loops are m.0, "
            "m.1, n, k; c: for m.0 in 0..2"},
        Misplaced{"tw1\nsplit d m 3",
                  "[split] x.tw1, line 2, column 7: there is no stage 'd': the stages are c"},
        Misplaced{"tw1\nset_layout z AB",
                  "[set_layout] x.tw1, line 2, column 12: there is no tensor 'z'"},
        Misplaced{"tw1\nsplit c m 4 exact", "[split] x.tw1, line 2, column 1: 4 does not divide"},
        Misplaced{"tw1\nsplit c m 3 as mo mi\nunroll c mj",
                  "[unroll] x.tw1, line 3, column 10: stage 'c' has no loop 'mj'"}));

TEST(Schedule, StepsAreReadWithoutACompute) {
  const auto steps = read_steps("tw1\nsplit z q 3 as a b\nunroll z b", "x.tw1");
  ASSERT_TRUE(steps) << steps.error().message;
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ(to_string((*steps)[0]), "split z q 3 as a b");
  EXPECT_TRUE(read_steps("tw1\nsplit z", "x.tw1")
                  .error()
                  .message.starts_with("[split] x.tw1, line 2, column 8: the loop is missing"));
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
