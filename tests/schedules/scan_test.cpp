// SPDX-License-Identifier: Apache-2.0
// Tests of scans: the loops to which they are lowered, and the steps that they allow.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/parse.h"
#include "schedules/program/legality.h"
#include "schedules/space/default_schedule.h"
#include "schedules/space/space.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

using testing::HasSubstr;
using testing::Not;

const char* const rows = "input a: f32[6, 10]; out: f32[i=6, j=10] = sum(k <= j) a[i, k]";
const char* const columns = "input a: f32[6, 10]; out: f32[i=6, j=10] = sum(k < i) a[k, j]";

dsl::Compute scan_of(const char* text) { return dsl::parse_compute(text).value(); }

/// Returns the loops of the program's only phase, or the error.
std::string loops_of(const char* text, const std::string& steps) {
  const dsl::Compute compute = scan_of(text);
  const auto schedule = parse_schedule(compute, "tw1\n" + steps);
  if (!schedule) return schedule.error().message;
  const auto program = schedule->program();
  if (!program) return program.error().message;
  EXPECT_EQ(disagreement(compute, *program), std::nullopt) << steps;
  return to_string(*program->phases.back().body, 0);
}

TEST(Scan, KeepsARunningValueFromOneElementToTheNext) {
  EXPECT_EQ(loops_of(rows, ""), R"(for i in 0..6
  out.acc: register f32[1]
  out.acc[0] = 0.0
  for j in 0..10
    out.acc[0] += a[i, j]
    out[i, j] = out.acc[0]
)");
}

TEST(Scan, WithoutTheOwnTermStoresFirst) {
  EXPECT_EQ(loops_of(columns, "split out j 5\nreorder out j.0 i j.1\nvectorize out j.1\n"),
            R"(for j.0 in 0..2
  out.acc: register f32[5]
  vector j.1 in 0..5
    out.acc[j.1] = 0.0
  for i in 0..6
    vector j.1 in 0..5
      out[i, j.0 * 5 + j.1] = out.acc[j.1]
      out.acc[j.1] += a[i, j.0 * 5 + j.1]
)");
}

TEST(Scan, ManyRunningValuesAreMemory) {
  EXPECT_THAT(loops_of(columns, "reorder out i j\n"), HasSubstr("out.acc: local f32[10]"));
}

TEST(Scan, TailsLeaveTheRunningValueAlone) {
  for (const char* steps :
       {"split out j 4\n", "split out j 4\nunroll out j.1\n",
        "split out i 4\nreorder out j i.0 i.1",
        "split out i 4\nreorder out i.0 j i.1\nunroll out i.1", "split out j 3\nfuse out j.0 j.1",
        "split out j 4\nreorder out j.0 i j.1", "unroll out j", "parallel out i"})
    EXPECT_THAT(loops_of(rows, steps), HasSubstr("out.acc")) << steps;
}

TEST(Scan, TermsAndEpiloguesAndProducersJoinIt) {
  const char* text =
      "input a: f32[6, 10]; p: f32[i=6, j=10] = a[i, j] * 2.0; "
      "s: f32[i=6, j=10] = sum(k <= j) select(k < 5, p[i, k], 0.0); "
      "out: f32[i=6, j=10] = s[i, j] + a[i, 0]";
  EXPECT_THAT(loops_of(text, "epilogue out s\ncompute_at p s i\n"),
              HasSubstr("out[s.i, s.j] = s.acc[0] + a[s.i, 0]"));
  EXPECT_THAT(loops_of(text, "inline p\nepilogue out s\n"), HasSubstr("s.acc[0] += a"));
  EXPECT_THAT(loops_of(text, "compute_at s out i\n"), HasSubstr("s: local f32[1, 10]"));
  EXPECT_THAT(loops_of(text, "compute_at s out j\n"),
              HasSubstr("'s' is a scan along 'j', and what an iteration of loop 'j' reads of it "
                        "does not begin at 0"));
}

TEST(Scan, LoopsAlongItRunInOrder) {
  for (const char* step : {"parallel out j", "vectorize out j", "bind out j"})
    EXPECT_THAT(loops_of(rows, step),
                HasSubstr("loop 'j' scans: each of its iterations continues from the one before"))
        << step;
  EXPECT_THAT(loops_of(rows, "split out j 5\nreorder out j.1 j.0"),
              HasSubstr("the loops that this axis was split into keep their order"));
  EXPECT_THAT(loops_of(rows, "fuse out i j"), HasSubstr("one loop scans and the other does not"));
  EXPECT_THAT(loops_of(rows, "split out j 4 shift"), HasSubstr("not for reductions"));
}

TEST(Scan, StepsOfReductionsDoNotApply) {
  for (const char* step : {"rfactor out k 2", "cache_write out i", "cache_operand out 1 i j",
                           "tensorize out i mma_m16n8k16_f16"})
    EXPECT_THAT(loops_of(rows, step), HasSubstr("'out' is a scan along 'j'")) << step;
}

TEST(Scan, EmptyAxesAreNothing) {
  EXPECT_THAT(loops_of("input a: f32[6, 0]; out: f32[i=6, j=0] = sum(k <= j) a[i, k]", ""),
              Not(HasSubstr("out[")));
}

// A scan adds once per element. A sum with a mask would make n (n + 1) / 2 additions per row.
TEST(Scan, TakesAsManyOperationsAsItHasElements) { EXPECT_EQ(dsl::count_flops(scan_of(rows)), 60); }

TEST(Scan, EverySpaceHasLegalSchedules) {
  for (const char* target : {"x86-64-v3", "arm-64-linux", "cuda:sm_80", "opencl"})
    for (const char* text :
         {rows, columns, "input a: f32[70]; out: f32[j=70] = max(k <= j) a[k]",
          "input a: f32[3, 40, 33]; s: f32[i=3, j=40, l=33] = sum(k <= j) a[i, k, l]; "
          "out: f32[i=3, j=40, l=33] = s[i, j, l] / 2.0 + s[i, 39 - j, l]"}) {
      const dsl::Compute compute = scan_of(text);
      const Space space = Space::derive(compute, *parse_target(target));
      Random random(3);
      for (int round = 0; round < 12; ++round) {
        const Point point = round ? space.sample(random) : space.default_point();
        const Schedule schedule = space.schedule(point);
        const auto program = schedule.program(limits_of(space.target()));
        ASSERT_TRUE(program) << target << "\n" << schedule.to_string() << program.error().message;
        EXPECT_EQ(disagreement(compute, *program), std::nullopt) << target << "\n"
                                                                 << schedule.to_string();
      }
    }
}

}  // namespace
}  // namespace tw::schedules
