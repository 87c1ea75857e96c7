// SPDX-License-Identifier: Apache-2.0
#include "schedules/nest.h"

#include <gtest/gtest.h>

#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

struct NestCase {
  std::string compute, steps, expected;
  friend void PrintTo(const NestCase& c, std::ostream* out) { *out << c.steps; }
};

const std::string gemm =
    "input a: f32[6, 8]; weight b: f32[8, 10]; weight bias: f32[10]; c: f32[m=6, n=10] = sum(k=8) "
    "a[m, k] * b[k, n]; "
    "out: f32[m=6, n=10] = max(c[m, n] + bias[n], 0.0)";
const std::string chain =
    "input a: f32[12]; t: f32[i=12] = a[i] * 2.0; u: f32[i=12] = t[i] + 1.0; out: f32[i=11] = u[i] "
    "+ u[i + 1]";
const std::string square = "input a: f32[10, 8]; out: f32[i=10] = sum(j=8) a[i, j]";

/// Returns the loops of a stage after the steps, or the error.
std::string loops_after(const std::string& compute, const std::string& steps,
                        const std::string& stage) {
  const auto schedule = parse_schedule(dsl::parse_compute(compute).value(), "tw1;" + steps);
  return schedule ? describe(*schedule->nest().find(stage)) : schedule.error().message;
}

TEST(Nest, StepsChangeLoops) {
  EXPECT_EQ(loops_after(gemm, "", "c"), "c: for m in 0..6 / for n in 0..10 / for k in 0..8");
  EXPECT_EQ(loops_after(gemm, "split c n 4", "c"),
            "c: for m in 0..6 / for n.0 in 0..3 / for n.1 in 0..4 / for k in 0..8");
  EXPECT_EQ(
      loops_after(gemm, "split c n 4; split c n.0 2", "c"),
      "c: for m in 0..6 / for n.0.0 in 0..2 / for n.0.1 in 0..2 / for n.1 in 0..4 / for k in 0..8");
  EXPECT_EQ(loops_after(gemm, "fuse c m n", "c"), "c: for m*n in 0..60 / for k in 0..8");
  EXPECT_EQ(loops_after(gemm, "reorder c k m", "c"),
            "c: for k in 0..8 / for n in 0..10 / for m in 0..6");
  EXPECT_EQ(loops_after(gemm, "unroll c m; vectorize c n", "c"),
            "c: unroll m in 0..6 / vector n in 0..10 / for k in 0..8");
  EXPECT_EQ(loops_after(gemm, "parallel c m", "c"),
            "c: parallel m in 0..6 / for n in 0..10 / for k in 0..8");
  EXPECT_EQ(loops_after(gemm, "compute_at c out m", "c"),
            "c: for m in 0..1 / for n in 0..10 / for k in 0..8");
  EXPECT_EQ(loops_after(gemm, "rfactor c k 3", "c.rf"),
            "c.rf: for m in 0..6 / for n in 0..10 / for k_rf in 0..3 / for k in 0..3");
  EXPECT_EQ(loops_after(gemm, "rfactor c k 3 blocks", "c.rf"),
            "c.rf: for k_rf in 0..3 / for m in 0..6 / for n in 0..10 / for k in 0..3");
  EXPECT_EQ(loops_after(gemm, "cache_read b c m", "b@c"), "b@c: for i0 in 0..8 / for i1 in 0..10");
  EXPECT_EQ(loops_after(chain, "compute_at u out i", "u"), "u: for i in 0..2");
}

// Each of five tiles reads three elements. The last tile's reads are cut off at element 12, but its
// region is as long as the regions of the other tiles.
TEST(Nest, RegionsOfReadsThatAreCutOffAtTheEndAreAsLongAsOthers) {
  const std::string tiles =
      "input a: f32[13]; u: f32[i=13] = a[i] + 1; "
      "out: f32[t=5] = u[3 * t] + u[min(3 * t + 2, 12)] * u[min(3 * t + 1, 12)]";
  EXPECT_EQ(loops_after(tiles, "compute_at u out t", "u"), "u: for i in 0..3");
  // Here the reads are not known to lie near the end of u, so that the region is all of u.
  const std::string far =
      "input a: f32[13]; u: f32[i=13] = a[i] + 1; "
      "out: f32[t=5] = u[t] + u[min(3 * t + 1, 12)]";
  EXPECT_EQ(loops_after(far, "compute_at u out t", "u"), "u: for i in 0..13");
}

class NestErrors : public ::testing::TestWithParam<NestCase> {};

TEST_P(NestErrors, SayWhy) {
  const auto schedule =
      parse_schedule(dsl::parse_compute(GetParam().compute).value(), "tw1;" + GetParam().steps);
  ASSERT_FALSE(schedule) << GetParam().steps;
  EXPECT_EQ(schedule.error().code, ErrorCode::Invalid);
  const std::string message = schedule.error().message;
  EXPECT_EQ(message.substr(0, message.find('\n')), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Table, NestErrors,
    ::testing::Values(
        NestCase{gemm, "split d m 2", "[split] there is no stage 'd': the stages are c, out"},
        NestCase{gemm, "split c q 2", "[split] stage 'c' has no loop 'q': its loops are m, n, k"},
        NestCase{gemm, "split c n 4 exact",
                 "[split] 4 does not divide the extent 10 of 'n' and its tail is exact"},
        NestCase{gemm, "split c n 4 shift",
                 "[split] a shifted tail computes elements twice: not for reductions"},
        NestCase{gemm, "split out m 7 shift",
                 "[split] a shifted tile of 7 is longer than the extent 6"},
        NestCase{gemm, "split c k 9223372036854775807",
                 "[split] the loops of 'c' would have more than 2^58 iterations"},
        NestCase{gemm, "rfactor c k 9223372036854775807",
                 "[rfactor] the loops of 'c.rf' would have more than 2^58 iterations"},
        NestCase{gemm, "unroll c n; split c n 2",
                 "[split] loop 'n' is already unrolled, vectorized or parallel"},
        NestCase{gemm, "cache_write c m; split c m 2",
                 "[split] loop 'm' carries the accumulator of 'c'"},
        NestCase{
            gemm, "compute_at c out m; split out m 2",
            "[split] 'c' is computed at loop 'm' of 'out': schedule the loops around it first"},
        NestCase{gemm, "fuse c m k", "[fuse] 'k' is not directly inside 'm': reorder first"},
        NestCase{gemm, "fuse c n k", "[fuse] one loop reduces and the other does not"},
        NestCase{gemm, "unroll c m; fuse c m n", "[fuse] only serial loops fuse"},
        NestCase{gemm, "cache_write c m; fuse c m n",
                 "[fuse] one of the loops carries the accumulator"},
        NestCase{gemm, "reorder c m m", "[reorder] a loop is named twice"},
        NestCase{gemm, "vectorize c n; unroll c n",
                 "[unroll] loop 'n' is already vectorized or parallel"},
        NestCase{"input a: f32[300]; out: f32[i=300] = a[i]", "unroll out i",
                 "[unroll] loop 'i' has 300 iterations, at most 256 unroll: split it first"},
        NestCase{
            "input a: f32[300]; out: f32[i=300] = a[i]", "vectorize out i",
            "[vectorize] loop 'i' has 300 iterations, a vector has at most 64: split it first"},
        NestCase{gemm, "unroll c n; vectorize c n",
                 "[vectorize] loop 'n' is already unrolled or parallel"},
        NestCase{
            gemm, "vectorize c k",
            "[vectorize] loop 'k' reduces: its iterations share an element; rfactor makes partial "
            "results that do not, and inside of a vector the innermost loop may be a dot product"},
        NestCase{gemm, "parallel c k",
                 "[parallel] loop 'k' reduces: two tasks would write one element"},
        NestCase{gemm, "unroll c m; parallel c m", "[parallel] loop 'm' is unrolled or vectorized"},
        NestCase{gemm, "split out n 4 shift; parallel out n.1",
                 "[parallel] loop 'n.1' has a shifted tail: two tasks would write one element"},
        NestCase{gemm,
                 "split out n 4 shift; fuse out m n.0; split out m*n.0 2; parallel out m*n.0.0",
                 "[parallel] loop 'm*n.0.0' has a shifted tail: two tasks would write one element"},
        NestCase{gemm, "compute_at c out m; parallel c n",
                 "[parallel] stage 'c' is computed inside another"},
        NestCase{gemm, "compute_at c c m", "[compute_at] a stage cannot be computed inside itself"},
        NestCase{gemm, "compute_at out c m",
                 "[compute_at] 'out' is an output: it has a nest of its own"},
        NestCase{gemm, "split c m 2; compute_at c out m",
                 "[compute_at] 'c' has steps already: place it first, then schedule it"},
        NestCase{gemm, "reorder c k m; compute_at c out m",
                 "[compute_at] 'c' has steps already: place it first, then schedule it"},
        NestCase{gemm, "set_layout c AB4b; compute_at c out m",
                 "[compute_at] 'c' has a layout: a box of it has none"},
        NestCase{chain, "compute_at t out i", "[compute_at] 'out' does not read 't'"},
        NestCase{
            "input a: f32[4]; t: f32[i=4] = a[i]; u: f32[i=4] = t[i]; out: f32[i=4] = u[i] + t[i]",
            "compute_at t out i",
            "[compute_at] 't' is also read by 'u', which is not inside that loop"},
        NestCase{gemm, "inline c", "[inline] 'c' is a reduction"},
        NestCase{gemm, "inline out", "[inline] 'out' is an output"},
        NestCase{chain, "split t i 2; inline t", "[inline] 't' has steps already"},
        NestCase{chain, "compute_at t u i; inline u", "[inline] 'u' has steps already"},
        NestCase{gemm, "split out m 2; epilogue out c",
                 "[epilogue] 'out' must be elementwise and have no steps yet"},
        NestCase{chain, "epilogue u t", "[epilogue] 't' is no reduction: inline it instead"},
        NestCase{gemm, "compute_at c out m; epilogue out c",
                 "[epilogue] 'c' is computed inside another stage"},
        NestCase{"input a: f32[4, 3]; r: f32[i=4] = sum(j=3) a[i, j]; out: f32[i=2] = r[i * 2]",
                 "epilogue out r", "[epilogue] 'out' is no elementwise function of 'r'"},
        NestCase{"input a: f32[4, 3]; r: f32[i=4] = sum(j=3) a[i, j]; out: f32[i=4] = r[3 - i]",
                 "epilogue out r", "[epilogue] 'out' does not read 'r' at its own indices"},
        NestCase{"input a: f32[4, 3]; r: f32[i=4] = sum(j=3) a[i, j]; t: f32[i=4] = r[i]; out: "
                 "f32[i=4] = r[i] + t[i]",
                 "epilogue out r", "[epilogue] 't' reads 'r' too"},
        NestCase{"input a: f32[4, 3]; r: f32[i=4] = sum(j=3) a[i, j]; out: f32[i=4] = r[i] + 1.0; "
                 "output r, out",
                 "epilogue out r", "[epilogue] 'r' is an output"},
        NestCase{gemm, "epilogue out c; epilogue out c",
                 "[epilogue] there is no stage 'out': the stages are c"},
        NestCase{gemm, "cache_write c m; cache_write c n",
                 "[cache_write] 'c' has an accumulator already"},
        NestCase{gemm, "cache_write out m",
                 "[cache_write] 'out' accumulates nothing: it is no reduction"},
        NestCase{gemm, "unroll c m; cache_write c m",
                 "[cache_write] the loop is unrolled or vectorized"},
        NestCase{gemm, "cache_read a out m", "[cache_read] 'out' does not read 'a'"},
        NestCase{gemm, "cache_read a out m c", "[cache_read] 'c' is not computed inside of 'out'"},
        NestCase{gemm, "epilogue out c; cache_read bias c n",
                 "[cache_read] 'c' does not read 'bias'"},
        NestCase{gemm, "compute_at c out m; cache_read bias out m c",
                 "[cache_read] 'c' does not read 'bias'"},
        NestCase{chain, "store_in t",
                 "[store_in] 't' has a phase of its own: compute_at places it in the loops of "
                 "another stage"},
        NestCase{gemm, "compute_at c out m; store_in c",
                 "[store_in] 'c' reduces: cache_write keeps its sums in registers"},
        NestCase{gemm, "reorder c m n k; cache_write c n; cache_operand c 1 n k; store_in a@c",
                 "[store_in] 'a@c' copies for threads that share its buffer"},
        NestCase{chain, "compute_at t u i; store_in t; store_in t local",
                 "[store_in] 't' is in threads already"},
        NestCase{chain, "compute_at t u i; store_in t; store_at t u i",
                 "[store_at] 't' has steps after its compute_at: store it first, then schedule "
                 "it"},
        NestCase{gemm, "reorder c m k n; bind c k",
                 "[bind] loop 'k' reduces, and is not the innermost and only one that does: two "
                 "threads would write one element; rfactor makes partial results that do not"},
        NestCase{"input a: f32[4, 3, 2]; r: f32[i=4] = sum(j=3, k=2) a[i, j, k]", "bind r k",
                 "[bind] loop 'k' reduces, and is not the innermost and only one that does: two "
                 "threads would write one element; rfactor makes partial results that do not"},
        NestCase{gemm, "rfactor c m 2", "[rfactor] 'c' does not reduce over 'm'"},
        NestCase{gemm, "split c m 2; rfactor c k 2", "[rfactor] 'c' has steps already"},
        NestCase{"input a: f32[4, 3, 2]; r: f32[i=4] = sum(j=3, j_rf=2) a[i, j, j_rf]",
                 "rfactor r j 2", "[rfactor] 'r' has an axis 'j_rf' already"},
        NestCase{gemm, "set_layout d AB", "[set_layout] there is no tensor 'd'"},
        NestCase{gemm, "compute_at c out m; set_layout c BA",
                 "[set_layout] 'c' is computed inside another stage"},
        NestCase{gemm, "epilogue out c; set_layout c BA",
                 "[set_layout] 'c' is not in memory, 'out' takes its place"},
        NestCase{"input a: f32[3]; s: f32[] = sum(j=3) a[j]", "set_layout s A",
                 "[set_layout] 's' is a single number"},
        NestCase{"input a: f32[4, 4, 4]; t: f32[i=4, j=4, k=4] = a[i, j, k]; "
                 "out: f32[i=4, j=4, k=4] = t[i, j, k]",
                 "set_layout t A16777216aB16777216bC16777216c",
                 "[set_layout] 't' has more than 2^56 bytes in the layout "
                 "A16777216aB16777216bC16777216c"},
        NestCase{"input a: f64[4, 4, 4]; t: f64[i=4, j=4, k=4] = a[i, j, k]; "
                 "out: f64[i=4, j=4, k=4] = t[i, j, k]",
                 "set_layout t A16777216aB16777216bC8192c",
                 "[set_layout] 't' has more than 2^56 bytes in the layout "
                 "A16777216aB16777216bC8192c"},
        NestCase{gemm, "set_layout a AB4c",
                 "[layout] 'AB4c' is no layout of 'AB': 'c' names no dimension"}));

TEST(Nest, StepsBuiltInCodeAreCheckedLikeText) {
  const dsl::Compute compute = dsl::parse_compute(gemm).value();
  EXPECT_EQ(Schedule(compute).split("c", "m", 0).error()->message.substr(0, 37),
            "[split] the factor 0 is not positive\n");
  EXPECT_EQ(Schedule(compute).rfactor("c", "k", -1).error()->message.substr(0, 40),
            "[rfactor] the factor -1 is not positive\n");
  EXPECT_TRUE(Schedule(compute).reorder("c", {}).error());
  EXPECT_TRUE(Schedule(compute).cache_write("c", "m", Scope::Argument).error());
}

// ---- regressions: schedules that were lowered wrongly or refused for want of a proof ----------

class NestAgrees : public ::testing::TestWithParam<NestCase> {};

TEST_P(NestAgrees, WithTheCompute) {
  const dsl::Compute compute = dsl::parse_compute(GetParam().compute).value();
  const auto schedule = parse_schedule(compute, "tw1;" + GetParam().steps);
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto program = schedule->program();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(disagreement(compute, *program), std::nullopt) << to_string(*program);
}

INSTANTIATE_TEST_SUITE_P(
    Table, NestAgrees,
    ::testing::Values(
        // The reduction is empty, and the initialisation of the result is inside of the reduction
        // loop.
        NestCase{"input a: f32[5, 0]; r: f32[i=5] = sum(j=0) a[i, j]; out: f32[i=5] = r[i] + 1.0",
                 "epilogue out r; cache_write r j", ""},
        NestCase{"input a: i32[5, 0]; r: i32[i=5] = prod(j=0) a[i, j]",
                 "reorder r j i; cache_write r j", ""},
        // A sum with an accumulator that reads no tensor, or with staged factors that do not depend
        // on an axis that has a guard.
        NestCase{"c: f32[y=5] = sum(k=4) select(y + k < 6, 1.0, 0.0)", "cache_write c y", ""},
        NestCase{"c: f32[y=5] = sum(k=4) select(y + k < 6, 1.0, 0.0)",
                 "split c k 3; cache_write c y", ""},
        NestCase{"input a: f32[6]; input b: f32[5]; c: f32[m=6, n=5] = sum(k=7) a[m] * b[n]",
                 "split c m 3; split c k 4; reorder c m.0 m.1 n k.0 k.1; cache_write c m.0; "
                 "cache_operand c 1 m.0 m.1; cache_operand c 2 m.0 n",
                 ""},
        NestCase{"input a: f32[6, 7]; c: f32[m=6] = sum(k=7, r=5) a[m, k]",
                 "split c r 4; reorder c m k r.0 r.1; cache_write c m; cache_operand c 1 m k", ""},
        NestCase{"input a: f32[6, 7]; c: f32[m=6] = sum(k=7) a[m, k] * select(k < 3, 1.0, 0.0)",
                 "cache_write c m; cache_operand c 1 m k", ""},
        // The epilogue reads a stage that is declared after its reduction.
        NestCase{"input a: f32[4, 3]; r: f32[i=4] = sum(j=3) a[i, j]; t: f32[i=4] = a[i, 0] * 2.0; "
                 "out: f32[i=4] = r[i] + t[i]",
                 "epilogue out r", ""},
        // A padded window is reduced in parts, whose number of taps is rounded up.
        NestCase{
            "input in: f32[9]; weight w: f32[3]; "
            "out: f32[x=5] = sum(s=3) select(0 <= x * 2 + s - 1 && x * 2 + s - 1 < 9, in[x * 2 + "
            "s - 1], 0.0) * w[s]",
            "rfactor out s 2", ""},
        NestCase{gemm, "rfactor c k 3 blocks; parallel c.rf k_rf", ""},
        NestCase{gemm, "rfactor c k 3 blocks; cache_operand c.rf 1 m k; cache_operand c.rf 2 m n k",
                 ""},
        // Both factors read one tensor.
        NestCase{"input a: f32[6, 8]; c: f32[m=6, n=6] = sum(k=8) a[m, k] * a[n, k]",
                 "reorder c k m n; cache_operand c 1 k m; cache_operand c 2 k n; unroll a@c m; "
                 "unroll a.2@c n",
                 ""},
        // Partial sums of partial sums.
        NestCase{gemm, "rfactor c k 4; rfactor c k_rf 2 blocks; compute_at c.rf c.rf.rf m", ""},
        NestCase{"input a: f32[10]; out: f32[] = sum(j=10) a[j]", "rfactor out j 6 blocks", ""},
        // A fused loop inside of a loop with a guard.
        NestCase{"input a: f32[8]; out: f32[i=15] = a[i % 8]",
                 "split out i 3; split out i.0 2; fuse out i.0.1 i.1", ""},
        // A strided window in a blocked layout.
        NestCase{
            "input a: f32[8] @H; out: f32[y=5] = sum(r=3) select(0 <= y * 2 + r - 1 && y * 2 + r "
            "- 1 < 8, "
            "a[y * 2 + r - 1], 0.0)",
            "set_layout a H2h", ""},
        // Guards on narrow integers, whose arithmetic wraps: a - b <= 3 does not mean a <= b + 3.
        NestCase{"input a: u8[6, 8]; input b: u8[6, 8]; input x: i32[6, 8]; "
                 "out: i32[i=8] = sum(k=6) select(a[k, i] - b[k, i] <= 3, x[k, i], 0)",
                 "reorder out k i", ""},
        NestCase{"input a: u8[6, 8]; input x: i32[6, 8]; "
                 "out: i32[i=8] = sum(k=6) select(i8(a[k, i] + 127) < 0, x[k, i], 0)",
                 "reorder out k i", ""},
        // Clamped reads of an input that is copied for a tile whose last iteration is shifted back.
        NestCase{"input a: i32[11]; out: i32[i=11] = a[min(max(i + 2, 0), 10)]",
                 "split out i 4 shift; split out i.1 2; cache_read a out i.1.0", ""},
        // A clamped read of a stage that pads its input.
        NestCase{"input a: f32[4]; t: f32[i=4] = select(0 <= i - 3 && i - 3 < 4, a[i - 3], 1.0); "
                 "out: f32[i=4] = t[min(max(i + 1, 0), 3)]",
                 "inline t", ""},
        // The region that an iteration reads begins at an index that is rounded down.
        NestCase{"input a: i8[5]; t: i8[i=5] = a[i] + 1; out: i8[i=9] = t[(i + 1) / 3]",
                 "split out i 4 shift; reorder out i.1 i.0; compute_at t out i.1", ""}));

TEST(Nest, ResultsAreCachedWhereAnIterationHasThemAll) {
  const auto compute = dsl::parse_compute(
      "input a: f32[6, 7]\nweight b: f32[7, 10]\nc: f32[m=6, n=10] = sum(k=7) a[m, k] * b[k, n]");
  const Schedule tiled = Schedule(*compute)
                             .split("c", "m", 3)
                             .split("c", "n", 5)
                             .reorder("c", {"m.0", "n.0", "m.1", "n.1", "k"});
  const Schedule sums = tiled.cache_write("c", "n.0");
  const auto why_not = [](const Schedule& schedule) {
    const auto program = schedule.program();
    return program ? "legal"
                   : program.error().message.substr(0, program.error().message.find('\n'));
  };
  const Schedule cached = sums.cache_result("c", {"m.1", "n.1"});
  EXPECT_EQ(why_not(cached.bind("c@c", "n.1").bind("c", "n.1")), "legal");
  EXPECT_EQ(why_not(tiled.cache_result("c", {"m.1", "n.1"})),
            "[cache_result] 'c' has no accumulator: cache_write gives it one");
  EXPECT_EQ(why_not(sums.cache_result("c", {"m.1"})),
            "[cache_result] the results of 'c' depend on loop 'n.1' too");
  EXPECT_EQ(why_not(sums.cache_result("c", {"m.1", "m.1", "n.1"})),
            "[cache_result] loop 'm.1' is named twice");
  EXPECT_EQ(why_not(sums.cache_result("c", {"m.1", "n.1", "k"})),
            "[cache_result] loop 'k' reduces, or is not inside of 'n.0', the loop of the "
            "accumulator");
  EXPECT_EQ(why_not(cached.split("c", "n.1", 2)),
            "[split] 'c@c' is indexed by the loops of 'c': schedule them first");
  EXPECT_EQ(why_not(cached.parallel("c", "m.0").parallel("c", "n.0").parallel("c", "m.1")),
            "[cache_result] loop 'm.1' inside of 'n.0', the loop of the accumulator, is parallel: "
            "a task has a part of the results");
  const Schedule partial = Schedule(*compute)
                               .split("c", "k", 3)
                               .reorder("c", {"k.0", "m", "n", "k.1"})
                               .cache_write("c", "k.0")
                               .cache_result("c", {"m", "n"});
  EXPECT_EQ(why_not(partial),
            "[cache_result] 'c' continues its sums in a loop outside of 'k.0', the loop of the "
            "accumulator: an iteration has partial sums");
}

// Threads divide a row of 16 elements of `t` and of `out`. The steps after store_in say how.
TEST(Nest, AThreadReadsOnlyWhatItStores) {
  const auto compute = dsl::parse_compute(
      "input a: f32[6, 16]\nt: f32[i=6, j=16] = a[i, j] * 2.0\n"
      "out: f32[i=6, j=16] = t[i, j] + 1.0");
  const Schedule placed = Schedule(*compute)
                              .split("out", "j", 8)
                              .split("out", "j.1", 2)
                              .parallel("out", "i")
                              .bind("out", "j.1.0")
                              .compute_at("t", "out", "i")
                              .store_in("t");
  const auto why_not = [](const Schedule& schedule) {
    const auto program = schedule.program();
    return program ? "legal"
                   : program.error().message.substr(0, program.error().message.find('\n'));
  };
  const Schedule alike = placed.split("t", "j", 8).split("t", "j.1", 2).bind("t", "j.1.0");
  const auto program = alike.program();
  ASSERT_TRUE(program) << program.error().message;
  const std::vector<Buffer> buffers = local_buffers(*program->phases[0].body);
  ASSERT_EQ(buffers.size(), 1u);
  EXPECT_EQ(buffers[0].scope, Scope::Register);
  EXPECT_EQ(buffers[0].extents, (std::vector<int64_t>{1, 2, 4, 2}));
  EXPECT_EQ(thread_bytes(*program->phases[0].body), 2 * 2 * 4);
  EXPECT_EQ(disagreement(*compute, *program), std::nullopt) << to_string(*program);
  EXPECT_EQ(why_not(placed.split("t", "j", 8).split("t", "j.1", 2).bind("t", "j.0")),
            "[threads] elements of 't' pass from one thread to another");
  EXPECT_EQ(why_not(placed.split("t", "j", 4).bind("t", "j.1")),
            "[threads] 't' is a thread's own, but loop 'j.1.0' does not index it");
  EXPECT_EQ(why_not(placed),
            "[store_in] no loop of 't' is bound to threads that could keep its "
            "elements");
  EXPECT_EQ(
      why_not(placed.fuse("t", "i", "j").bind("t", "i*j")),
      "[store_in] the loops of 't' do not number its elements: a loop was fused, or split with "
      "a shifted tail or by a factor that does not divide an inner loop");
  EXPECT_EQ(why_not(alike.split("t", "i", 1)), "legal");
}

// The condition of `c` reads `t`, and all threads evaluate it. But only thread 0 computes `t`, so
// `t` cannot be in registers.
TEST(Nest, WhatAllThreadsEvaluateIsInNoPrivateBuffer) {
  const auto compute = dsl::parse_compute(
      "input a: f32[4]\ninput b: f32[8, 8]\nt: f32[i=4] = a[i] * 2.0\n"
      "c: f32[i=4, j=8] = sum(k=8) select(t[i] < 2.0, b[j, k], 0.0)");
  const auto why_not = [&](const std::string& steps) {
    const auto schedule = parse_schedule(*compute,
                                         "tw1; parallel c i; reorder c i k j; bind c j; "
                                         "compute_at t c i; bind t i" +
                                             steps);
    const auto program = schedule.value().program();
    return program ? "legal"
                   : program.error().message.substr(0, program.error().message.find('\n'));
  };
  EXPECT_EQ(why_not(""), "legal");
  EXPECT_EQ(
      why_not("; store_in t"),
      "[threads] all threads evaluate a condition or a bound that reads 't', which each thread "
      "has for itself");
}

TEST(Nest, EpiloguesReadWhatIsThereWhenSumsAreComplete) {
  const auto compute = dsl::parse_compute(
      "input a: f32[3, 16]\ninput b: f32[3, 16]\nt: f32[i=3, j=16] = a[i, j] - b[i, j]\n"
      "c: f32[i=3, j=16] = sum(k=3) t[i, j] * b[k, j]\n"
      "out: f32[i=3, j=16] = c[i, j] + t[i, j]");
  const auto program_of = [&](const std::string& loop) {
    return parse_schedule(*compute, "tw1; epilogue out c; reorder c i k j; compute_at t c " + loop)
        ->program();
  };
  const auto outside = program_of("i");
  ASSERT_TRUE(outside) << outside.error().message;
  EXPECT_EQ(disagreement(*compute, *outside), std::nullopt) << to_string(*outside);
  const auto inside = program_of("j");
  ASSERT_FALSE(inside);
  EXPECT_EQ(
      inside.error().message.substr(0, inside.error().message.find('\n')),
      "[epilogue] 'out' reads 't', which is computed at loop 'j', where sums are not complete: "
      "compute it at a loop outside of the reduction");
}

TEST(Nest, SumsDoNotWaitInANarrowerType) {
  const std::string text =
      "input a: f16[4, 6]; r: f32[i=4] = sum(j=6) f32(a[i, j]); out: f16[i=4] = f16(r[i] * 0.5)";
  const auto program = [&](const std::string& steps) {
    return parse_schedule(dsl::parse_compute(text).value(), "tw1;" + steps)->program();
  };
  EXPECT_TRUE(program("epilogue out r; cache_write r i"));
  for (const char* steps :
       {"epilogue out r", "epilogue out r; split r j 2; reorder r j.0 i j.1; cache_write r i"}) {
    ASSERT_FALSE(program(steps)) << steps;
    EXPECT_EQ(program(steps).error().message.substr(0, 49),
              "[epilogue] 'r' sums in f32 and 'out' stores f16: ");
  }
}

}  // namespace
}  // namespace tw::schedules
