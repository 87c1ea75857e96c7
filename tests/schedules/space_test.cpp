// SPDX-License-Identifier: Apache-2.0
#include "schedules/space.h"

#include <gtest/gtest.h>

#include "dsl/workload.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/spaces.h"

namespace tw::schedules {
namespace {

TEST(Space, SamplesAreAllowedAndTheirTextParsesBack) {
  for (const Case& c : cases()) {
    const Space space = space_of(c.compute);
    Random random(3);
    for (int i = 0; i < 20; ++i) {
      const Point point = space.sample(random);
      EXPECT_TRUE(space.allowed(point)) << c.name;
      EXPECT_EQ(space.parse(space.to_string(point)), point) << c.name;
      EXPECT_TRUE(space.allowed(space.mutate(point, random))) << c.name;
    }
  }
}

TEST(Space, TheDefaultIsLegal) {
  for (const Case& c : cases()) {
    const Space space = space_of(c.compute);
    const auto program = space.schedule(space.default_point()).program();
    EXPECT_TRUE(program) << c.name << ": " << program.error().message;
  }
}

// To pack rows whose elements are needed once costs as much as to reduce them.
TEST(Space, RowsAreReducedByLanesWhereTheyLie) {
  for (const char* key :
       {"softmax rows=64 cols=128 f32 fast", "layer_norm rows=64 cols=256 f32 fast",
        "argmax rows=64 cols=1000 f32 fast", "reduce_sum rows=64 cols=1000 f32 fast"}) {
    const auto workload = dsl::parse_workload(key);
    for (const char* target : {"x86-64-v4", "x86-64-v3", "x86-64-linux-sse4_1"}) {
      const Space space = space_of(workload->compute, target);
      const std::string steps = space.schedule(space.default_point()).to_string();
      EXPECT_NE(steps.find("\nrfactor "), std::string::npos) << key << " " << target << steps;
      EXPECT_EQ(steps.find("\nset_layout "), std::string::npos) << key << " " << target << steps;
    }
  }
}

// An epilogue of another type than the sum leaves the sum no other place than an accumulator.
TEST(Space, SumsAreStoredInAnotherType) {
  const char* const computes[] = {
      "input a: f32[9, 70]\ns: f32[i=9] = sum(j=70) a[i, j]\nout: f16[i=9] = f16(s[i])",
      "input a: f32[9, 3]\ns: f32[i=9] = sum(j=3) a[i, j]\nout: i32[i=9] = i32(s[i])",
      "input a: f32[5, 7]\ns: f32[i=7] = sum(j=5) a[j, i]\nout: f16[i=7] = f16(s[i])",
      "input a: f32[5, 70]\ns: f32[i=70] = sum(j=5) a[j, i]\nout: f16[i=70] = f16(s[i])",
      "input a: f32[70]\ns: f32[] = sum(j=70) a[j]\nout: f16[] = f16(s[])",
      "input a: i8[9, 70]\ns: i32[i=9] = sum(j=70) i32(a[i, j])\nt: i8[i=9] = i8(s[i])\n"
      "out: i8[i=9] = max(j=70) min(t[i], a[i, j])"};
  for (const char* text : computes) {
    const dsl::Compute compute = dsl::parse_compute(text).value();
    for (const char* target : {"x86-64-v4", "x86-64-linux-sse4_1", "cuda:sm_80"}) {
      const Space space = space_of(compute, target);
      Random random(6);
      int legal = 0;
      for (int i = 0; i < 20; ++i) {
        const Schedule schedule = space.schedule(space.sample(random));
        const auto program = schedule.program(limits_of(space.target()));
        if (!program) continue;
        ++legal;
        EXPECT_EQ(disagreement(compute, *program), std::nullopt) << schedule.to_string();
      }
      EXPECT_GE(legal, 10) << target << "\n" << text;
    }
  }
}

TEST(Space, PointsAreFoundBackFromTheirSchedules) {
  for (const Case& c : cases()) {
    const int found = found_back(space_of(c.compute), 20, 11);
    EXPECT_GE(found, c.compute.stages.size() > 4 ? 15 : 20) << c.name;
  }
}

TEST(Space, SchedulesFromElsewhereHaveNoPoint) {
  const auto workload = dsl::make_workload("dense", *dsl::parse_shape("m=64 n=64 k=64", "dense"));
  const Space space = space_of(workload->compute);
  Random random(5);
  Schedule schedule = space.schedule(space.sample(random));
  while (schedule.error()) schedule = space.schedule(space.sample(random));
  ASSERT_TRUE(space.point_of(schedule));

  const Schedule plain(workload->compute);
  EXPECT_FALSE(space.point_of(plain));
  std::vector<Step> fewer = schedule.steps();
  fewer.pop_back();
  EXPECT_FALSE(space.point_of(plain.then(fewer)));
  const std::string& stage = workload->compute.stages.back().name;
  EXPECT_FALSE(space.point_of(plain.split(stage, "m", 7).split(stage, "m.1", 3)));
  EXPECT_FALSE(space.point_of(plain.split(stage, "no_such_loop", 7)));
}

}  // namespace
}  // namespace tw::schedules
