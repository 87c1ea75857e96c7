// SPDX-License-Identifier: Apache-2.0
#include "schedules/space.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

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

TEST(Space, AConfigurationNamesTheStrategyOfEachStage) {
  const auto workload = dsl::parse_workload("softmax rows=64 cols=128 f32 fast");
  const Space space = space_of(workload->compute);
  const std::string text =
      "out: cpu_elementwise tile=1 vectors=1 columns=128 tasks=3; "
      "total: cpu_lanes place=0 lanes=1 tile=8 tasks=3; "
      "e: cpu_elementwise place=1 tile=4 vectors=4 columns=0 tasks=3; "
      "peak: cpu_lanes place=0 lanes=4 tile=1 tasks=3";
  const auto point = space.parse(text);
  ASSERT_TRUE(point);
  EXPECT_EQ(space.to_string(*point), text);
  Point other = *point;
  EXPECT_EQ(hash(other), hash(*point));
  other.choices.back() = 0;
  EXPECT_NE(other, *point);
  EXPECT_NE(hash(other), hash(*point));
  const auto changed_text = [&](const std::string& part, const std::string& by) {
    return std::string(text).replace(text.find(part), part.size(), by);
  };
  for (const std::string& wrong :
       {std::string(), changed_text("; peak: cpu_lanes place=0 lanes=4 tile=1 tasks=3", ""),
        changed_text("total:", "sum:"), changed_text("total: cpu_lanes", "total: cpu_tile"),
        changed_text(" place=1", ""), changed_text("place=1", "place=2"),
        changed_text("columns=128", "columns=127"), changed_text("columns=128", "columns="),
        changed_text("columns=128", "tasks=128"), changed_text("tasks=3;", "tasks=3 more=1;"),
        changed_text("vectors=4", "vectors=4x"), text + ";"})
    EXPECT_FALSE(space.parse(wrong)) << wrong;
}

// Strategies of a stage share the knobs of one name: a search keeps them when it goes from one to
// another.
TEST(Space, PointsOfSeveralStrategiesMix) {
  const auto workload = dsl::parse_workload("dense m=256 n=256 k=256 bf16 fast");
  const Space space = space_of(workload->compute, "cuda:sm_90a");
  std::map<std::string, Point> points;
  Random random(3);
  while (points.size() < 3) {
    const Point point = space.sample(random);
    points.emplace(words(space.to_string(point))[1], point);
  }
  EXPECT_TRUE(points.contains("gpu_simt") && points.contains("gpu_mma") &&
              points.contains("gpu_wgmma"));
  std::set<std::string> reached;
  int crossed = 0;
  Point point = points.at("gpu_simt");
  for (int i = 0; i < 600; ++i) {
    point = space.mutate(point, random);
    ASSERT_TRUE(space.allowed(point)) << space.to_string(point);
    ASSERT_EQ(space.parse(space.to_string(point)), point);
    reached.insert(words(space.to_string(point))[1]);
    const Point child = space.cross(points.at("gpu_mma"), points.at("gpu_wgmma"), random);
    ASSERT_TRUE(space.allowed(child)) << space.to_string(child);
    crossed += child != points.at("gpu_mma") && child != points.at("gpu_wgmma");
  }
  EXPECT_EQ(reached.size(), 3u);
  EXPECT_GT(crossed, 100);
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
