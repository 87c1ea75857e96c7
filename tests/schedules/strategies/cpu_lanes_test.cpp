// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/schedules/agreement.h"
#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

TEST(CpuLanes, HoldPartialResultsInVectors) {
  const Space space = space_of_workload("reduce_sum rows=64 cols=1000 f32 fast", "x86-64-v3");
  EXPECT_EQ(steps_of(space, "out: cpu_lanes lanes=4 tasks=1"), R"(rfactor out j 32
compute_at out.rf out i
split out.rf j_rf 8
reorder out.rf i j j_rf.0 j_rf.1
cache_write out.rf i
vectorize out.rf j_rf.1
unroll out.rf j_rf.0
unroll out j_rf
parallel out i
)");
  EXPECT_EQ(steps_of(space, "out: cpu_lanes lanes=1 tasks=1"), R"(rfactor out j 8
compute_at out.rf out i
reorder out.rf i j j_rf
cache_write out.rf i
vectorize out.rf j_rf
unroll out j_rf
parallel out i
)");
}

TEST(CpuLanes, HoldPartialResultsInsideOfAnotherStageToo) {
  const Space space = space_of_workload("softmax rows=64 cols=128 f32 fast", "x86-64-v3");
  EXPECT_EQ(steps_of(space,
                     "out: cpu_elementwise tile=4 vectors=1 columns=0 tasks=1; "
                     "total: cpu_lanes place=1 lanes=1 tasks=1; "
                     "e: cpu_elementwise place=1 tile=1 vectors=1 columns=0 tasks=1; "
                     "peak: cpu_lanes place=1 lanes=2 tasks=1"),
            R"(split out i 4
split out j 8
reorder out i.0 i.1 j.0 j.1
vectorize out j.1
parallel out i.0
rfactor total j 8
compute_at total out i.0
compute_at total.rf total i
reorder total.rf i j j_rf
cache_write total.rf i
vectorize total.rf j_rf
unroll total j_rf
compute_at e out i.0
split e j 8
reorder e i j.0 j.1
vectorize e j.1
rfactor peak j 16
compute_at peak out i.0
compute_at peak.rf peak i
split peak.rf j_rf 8
reorder peak.rf i j j_rf.0 j_rf.1
cache_write peak.rf i
vectorize peak.rf j_rf.1
unroll peak.rf j_rf.0
unroll peak j_rf
)");
}

/// Returns a product with b stored as n rows of k contiguous elements, as the caller asks.
dsl::Workload rows_of_product(const std::string& sizes) {
  return dsl::parse_workload("dense " + sizes + " f32 fast {b=NK}").value();
}

Space space_of_rows(const dsl::Workload& workload) {
  return Space::derive(problem_of(workload), *parse_target("x86-64-v3")).value();
}

TEST(CpuLanes, ComputeResultsThatShareAFactorTogether) {
  EXPECT_EQ(steps_of(space_of_rows(rows_of_product("m=1 n=64 k=1000")),
                     "out: cpu_lanes lanes=2 tasks=2 rows=4"),
            R"(set_layout b NK
rfactor out k 16
split out n 4
compute_at out.rf out n.0
split out.rf n 4
split out.rf k_rf 8
reorder out.rf m n.0 k n.1 k_rf.0 k_rf.1
cache_write out.rf n.0
vectorize out.rf k_rf.1
unroll out.rf n.1
unroll out.rf k_rf.0
unroll out k_rf
parallel out m
parallel out n.0
)");
  const Space few = space_of_rows(rows_of_product("m=1 n=2 k=1000"));
  EXPECT_TRUE(allows(few, "out: cpu_lanes lanes=2 tasks=1 rows=2"));
  EXPECT_FALSE(allows(few, "out: cpu_lanes lanes=2 tasks=1 rows=4"));
  // 16 accumulators and two vectors of factors are more than 16 registers.
  const Space many = space_of_rows(rows_of_product("m=1 n=64 k=1000"));
  EXPECT_FALSE(allows(many, "out: cpu_lanes lanes=4 tasks=1 rows=4"));
  // Sums of different rows share no factor, so that computing several rows together gains nothing.
  const Space sums = space_of_workload("reduce_sum rows=64 cols=1000 f32 fast", "x86-64-v3");
  EXPECT_FALSE(allows(sums, "out: cpu_lanes lanes=2 tasks=1 rows=2"));
  EXPECT_TRUE(allows(sums, "out: cpu_lanes lanes=2 tasks=1"));
}

/// Checks that the configurations `before` + rows + `after` with 1, 2 and 4 rows compute what the
/// compute means.
void expect_right_rows(const dsl::Compute& compute, const Space& space, const std::string& before,
                       const std::string& after = "") {
  for (const char* rows : {"", " rows=2", " rows=4"}) {
    const auto point = space.parse(before + rows + after);
    ASSERT_TRUE(point && space.allowed(*point)) << before << rows << after;
    const auto program = space.schedule(*point).program();
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(disagreement(compute, *program, 5), std::nullopt) << before << rows << after;
  }
}

TEST(CpuLanes, ComputeTheLastRowsToo) {
  for (const char* sizes : {"m=1 n=7 k=37", "m=3 n=4 k=40", "m=2 n=9 k=24 relu=1"}) {
    const dsl::Workload workload = rows_of_product(sizes);
    const std::string stage = workload.compute.stages.front().name;
    expect_right_rows(workload.compute, space_of_rows(workload),
                      stage + ": cpu_lanes lanes=2 tasks=2");
  }
}

TEST(CpuLanes, ComputeRowsWithinAnotherStageAndOfAnotherType) {
  Random random(3);
  for (const char* expression :
       {"input a: f32[2, 40]; input b: f32[7, 40]; input c: f32[2, 7]; "
        "t: f32[i=2, n=7] = sum(k=40) a[i, k] * b[n, k]; out: f32[i=2, n=7] = t[i, n] * c[i, n]",
        "input a: i8[3, 40]; input b: i8[6, 40]; "
        "t: i32[i=3, n=6] = sum(k=40) i32(a[i, k]) * i32(b[n, k]); "
        "out: i8[i=3, n=6] = i8(t[i, n])"}) {
    const auto compute = dsl::parse_compute(expression);
    ASSERT_TRUE(compute) << compute.error().message;
    const auto workload = dsl::with_layouts(dsl::workload(*compute).value(), {{"b", "AB"}});
    ASSERT_TRUE(workload) << workload.error().message;
    const Space space = space_of_rows(*workload);
    for (int i = 0; i < 60; ++i) {
      const Point point = space.sample(random);
      const std::string text = space.to_string(point);
      if (!space.allowed(point)) continue;
      const auto program = space.schedule(point).program();
      ASSERT_TRUE(program) << text << program.error().message;
      EXPECT_EQ(disagreement(*compute, *program, 5), std::nullopt) << text;
    }
  }
}

// Unrolling the loop would make hundreds of statements, which LLVM takes long to compile.
TEST(CpuLanes, CombineManyPartialResultsInALoop) {
  const auto compute = dsl::parse_compute("input a: i8[4, 999]; out: i8[i=4] = sum(j=999) a[i, j]");
  const Space space = Space::derive(*compute, *parse_target("x86-64-v4"));
  EXPECT_EQ(steps_of(space, "out: cpu_lanes lanes=2 tasks=1").find("unroll out j_rf"),
            std::string::npos);
  EXPECT_NE(steps_of(space, "out: cpu_lanes lanes=1 tasks=1").find("unroll out j_rf"),
            std::string::npos);
}

TEST(CpuLanes, AreTheDefaultWhereRowsLieContiguous) {
  for (const char* key :
       {"softmax rows=64 cols=128 f32 fast", "argmax rows=64 cols=1000 f32 fast"}) {
    const Space space = space_of_workload(key, "x86-64-v4");
    const std::string text = space.to_string(space.default_point());
    EXPECT_NE(text.find(": cpu_lanes "), std::string::npos) << key << " " << text;
  }
}

TEST(CpuLanes, MatchReductionsWithoutAVectorAxisOnCpus) {
  const char* rows = "reduce_sum rows=64 cols=1000 f32 fast";
  EXPECT_TRUE(offers(space_of_workload(rows, "arm-64-linux"), "cpu_lanes"));
  EXPECT_FALSE(offers(space_of_workload(rows, "opencl"), "cpu_lanes"));
  EXPECT_FALSE(
      offers(space_of_workload("dense m=64 n=64 k=64 f32 fast", "x86-64-v3"), "cpu_lanes"));
}

}  // namespace
}  // namespace tw::schedules
