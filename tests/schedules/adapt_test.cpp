// SPDX-License-Identifier: Apache-2.0
#include "schedules/adapt.h"

#include <gmock/gmock.h>

#include "dsl/parse.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

using testing::ElementsAre;

dsl::Compute product(int m, int n, int k) {
  return dsl::parse_compute("input a: f32[" + std::to_string(m) + ", " + std::to_string(k) +
                            "]\nweight b: f32[" + std::to_string(k) + ", " + std::to_string(n) +
                            "]\nc: f32[m=" + std::to_string(m) + ", n=" + std::to_string(n) +
                            "] = sum(k=" + std::to_string(k) + ") a[m, k] * b[k, n]")
      .value();
}

Adapted adapted(const std::string& steps, const dsl::Compute& compute) {
  return adapt(read_steps("tw1; " + steps, "the test").value(), compute);
}

TEST(Adapt, StepsThatFitStayAsTheyAre) {
  const Adapted result = adapted(
      "split c m 3; split c n 5; reorder c m.0 n.0 k m.1 n.1; "
      "cache_write c n.0; vectorize c n.1",
      product(6, 10, 8));
  EXPECT_TRUE(result.is_unchanged());
  EXPECT_TRUE(notes_of(result).empty());
  EXPECT_EQ(result.steps.size(), 5u);
  EXPECT_EQ(result.schedule.steps().size(), 5u);
}

TEST(Adapt, FactorsBecomeTheExtentAndExactTailsGuards) {
  const dsl::Compute compute = product(7, 10, 8);
  const Adapted result = adapted(
      "split c n 64 as no ni; split c m 3 exact; split c k 3; reorder c no m.0 k.0 m.1 k.1 ni",
      compute);
  EXPECT_FALSE(result.is_unchanged());
  EXPECT_EQ(result.schedule.to_string(),
            "tw1\nsplit c n 10\nsplit c m 3\nsplit c k 3\nreorder c n.0 m.0 k.0 m.1 k.1 n.1");
  EXPECT_THAT(
      notes_of(result),
      ElementsAre("split c n 64 as no ni -> split c n 10: the extent is 10",
                  "split c m 3 exact -> split c m 3: 3 does not divide the extent 7: the last tile "
                  "has 1 of 3 iterations",
                  "split c k 3: the last tile has 2 of 3 iterations"));
  const auto program = result.schedule.program();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(disagreement(compute, *program), std::nullopt);
}

TEST(Adapt, PartialSumsAreNoMoreThanTerms) {
  const Adapted result = adapted("rfactor c k 16", product(2, 3, 4));
  EXPECT_EQ(result.schedule.to_string(), "tw1\nrfactor c k 4");
  EXPECT_THAT(notes_of(result), ElementsAre("rfactor c k 16 -> rfactor c k 4: the extent is 4"));
}

TEST(Adapt, StepsThatDoNotApplyAreLeftOutWithTheReason) {
  const Adapted result =
      adapted("split c z 4; unroll c z.1; split c m 3; epilogue out c", product(6, 10, 8));
  EXPECT_FALSE(result.is_unchanged());
  EXPECT_EQ(result.schedule.to_string(), "tw1\nsplit c m 3");
  EXPECT_EQ(result.steps[0].applied, "");
  EXPECT_THAT(
      notes_of(result),
      ElementsAre("left out: split c z 4: stage 'c' has no loop 'z': its loops are m, n, k",
                  "left out: unroll c z.1: stage 'c' has no loop 'z.1': its loops are m, n, k",
                  "left out: epilogue out c: there is no stage 'out': the stages are c"));
}

}  // namespace
}  // namespace tw::schedules
