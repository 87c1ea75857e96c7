// SPDX-License-Identifier: Apache-2.0
#include "schedules/space.h"

#include <gtest/gtest.h>

#include "dsl/workload.h"
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
