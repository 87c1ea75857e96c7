// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/nest.h"
#include "schedules/space/find_point.h"
#include "tests/nightly.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/random_bulk_product.h"
#include "tests/schedules/random_compute.h"
#include "tests/schedules/random_problem.h"
#include "tests/schedules/spaces.h"

namespace tw::schedules {
namespace {

TEST(Space, ValuesThatAreComparedAreNotComputedAgain) {
  for (const std::string type : {"f16", "f32"}) {
    const auto compute =
        dsl::parse_compute("input a: " + type + "[8, 16]; input b: " + type +
                           "[16]; t: i64[i=8] = argmax(j=16) a[i, j] + b[j] / 3" + type);
    ASSERT_TRUE(compute) << compute.error().message;
    const Space space = Space::derive({.compute = *compute}, host_target()).value();
    Random random(1);
    for (int i = 0; i < 8; ++i) {
      const Schedule schedule =
          space.schedule(i == 0 ? space.default_point() : space.sample(random));
      EXPECT_EQ(schedule.to_string().find("inline t_value"), std::string::npos);
      EXPECT_EQ(disagreement(*compute, schedule.program().value()), std::nullopt);
    }
  }
}

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
      "total: cpu_lanes place=0 lanes=1 tasks=3; "
      "e: cpu_elementwise place=1 tile=4 vectors=4 columns=0 tasks=3; "
      "peak: cpu_lanes place=0 lanes=4 tasks=3";
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
       {std::string(), changed_text("; peak: cpu_lanes place=0 lanes=4 tasks=3", ""),
        changed_text("total:", "sum:"), changed_text("total: cpu_lanes", "total: cpu_tile"),
        changed_text(" place=1", ""), changed_text("place=1", "place=2"),
        changed_text("columns=128", "columns=127"), changed_text("columns=128", "columns="),
        changed_text("columns=128", "tasks=128"), changed_text("tasks=3;", "tasks=3 more=1;"),
        changed_text("vectors=4", "vectors=4x"), text + ";",
        changed_text("lanes=4", "lanes=4 tile=1")})  // of a record whose strategy had that knob
    EXPECT_FALSE(space.parse(wrong)) << wrong;
}

// If several strategies of a stage have a knob of the same name, they share it. A search keeps its
// value when it changes the strategy.
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

/// Returns the layouts that a schedule sets, by tensor.
std::map<std::string, std::string> layouts_of(const Schedule& schedule) {
  std::map<std::string, std::string> layouts;
  for (const Step& step : schedule.steps())
    if (const auto* set = std::get_if<SetLayout>(&step)) layouts[set->tensor] += set->layout;
  return layouts;
}

/// Checks 24 schedules of the problem: all have the layouts that are asked for, and the first two
/// that are legal compute what the compute means.
void expect_layouts(const Problem& problem, const char* target) {
  const auto space = Space::derive(problem, *parse_target(target));
  ASSERT_TRUE(space) << space.error().message;
  Random random(3);
  int legal = 0, lost = 0;
  const Limits limits = limits_of(space->target());
  for (int i = 0; i < 24; ++i) {
    const Schedule schedule =
        space->schedule(i == 0 ? space->default_point() : space->sample(random));
    std::map<std::string, std::string> layouts = layouts_of(schedule);
    for (const auto& [tensor, layout] : problem.layouts) {
      const bool is_declared = layout == problem.compute.letters_of(tensor);
      EXPECT_EQ(layouts[tensor], is_declared ? "" : layout) << schedule.to_string();
    }
    lost += !schedule.error() && !point_of(*space, schedule);
    const auto program = schedule.program(limits);
    EXPECT_TRUE(program || i > 0) << program.error().message;
    if (!program) continue;
    ++legal;
    if (legal <= 2) {
      EXPECT_EQ(disagreement(problem.compute, *program, 3, 1e-4), std::nullopt)
          << schedule.to_string();
    }
  }
  EXPECT_GT(legal, 4);
  // If blocks are not whole vectors, several points may have the same schedule, and point_of() then
  // finds none for some schedules.
  EXPECT_LE(lost, 4);
}

TEST(Space, LayoutsThatAreAskedForAreThoseOfEverySchedule) {
  const auto conv = dsl::parse_workload("conv2d n=1 c=16 h=4 w=5 k=32 r=3 s=3 pad=1 f32 fast");
  for (const char* target :
       due<const char*>({"x86-64-v3", "cuda:sm_90a", "x86-64-v4", "cuda:sm_80", "opencl"}, 3)) {
    expect_layouts({conv->compute, {{"in", "NCHW16c"}, {"out", "NHWC"}}}, target);
    expect_layouts({conv->compute, {{"in", "NHWC"}, {"out", "NCHW16c"}}}, target);
    expect_layouts({conv->compute, {{"in", "NCHW"}, {"out", "NCHW"}}}, target);
    expect_layouts({conv->compute, {{"w", "OIHW"}}}, target);
    // Blocks of 2 elements are smaller than a vector.
    expect_layouts({conv->compute, {{"out", "NCHW2c"}}}, target);
  }
}

// A compute that only copies a tensor to another layout has a space, too.
TEST(Space, TransposesAreCopiesBetweenLayouts) {
  const auto copy = dsl::parse_compute(
      "input a: f32[2, 16, 5, 7]; out: f32[n=2, c=16, h=5, w=7] = a[n, c, h, w]");
  ASSERT_TRUE(copy) << copy.error().message;
  const Problem problem{*copy, {{"a", "ABCD8b"}, {"out", "ACDB"}}};
  expect_layouts(problem, "x86-64-v3");
  const Space space = Space::derive(problem, *parse_target("x86-64-v3")).value();
  const std::string steps = space.schedule(space.default_point()).to_string();
  EXPECT_NE(steps.find("vectorize out c"), std::string::npos) << steps;
}

TEST(Space, LayoutsThatCannotBeAreErrors) {
  const auto conv = dsl::parse_workload("conv2d n=1 c=16 h=4 w=5 k=32 r=3 s=3 pad=1 f32 fast");
  const auto error = [&](const Problem& problem, const char* target) {
    const auto space = Space::derive(problem, *parse_target(target));
    EXPECT_FALSE(space);
    return space ? Error{} : space.error();
  };
  const Error unknown = error({conv->compute, {{"bias", "A"}}}, "x86-64-v3");
  EXPECT_EQ(unknown.code, ErrorCode::Usage);
  EXPECT_NE(unknown.message.find("'bias'"), std::string::npos) << unknown.message;
  EXPECT_EQ(error({conv->compute, {{"in", "NCHX"}}}, "x86-64-v3").code, ErrorCode::Usage);
}

TEST(Space, LayoutsThatNoStrategyHasAreUnsupported) {
  const auto conv = dsl::parse_workload("conv2d n=1 c=16 h=4 w=5 k=32 r=3 s=3 pad=1 f32 fast");
  const Problem problem{conv->compute, {{"in", "NHWC"}}};
  const auto space = Space::derive(problem, *parse_target("cuda:sm_80"), StopToken{}, {});
  ASSERT_FALSE(space);
  EXPECT_EQ(space.error().code, ErrorCode::Unsupported);
  EXPECT_NE(space.error().message.find("in=NHWC"), std::string::npos) << space.error().message;
}

/// Checks spaces of problems that ask for random layouts of random tensors. Schedules must have
/// these layouts, and those that are legal must compute what the compute means.
void expect_random_problems(const char* target, int problems) {
  const Target machine = *parse_target(target);
  int legal = 0, all = 0;
  for (int seed = 1; seed <= problems; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    const auto [compute, tolerance] = random_compute(random);
    const Problem problem = random_problem(random, compute);
    const auto space = Space::derive(problem, machine);
    ASSERT_TRUE(space) << space.error().message;
    for (int i = 0; i < 3; ++i, ++all) {
      const Schedule schedule = space->schedule(space->sample(random));
      const auto program = schedule.program(limits_of(machine));
      if (!program) continue;
      ++legal;
      ASSERT_EQ(disagreement(compute, *program, 3, std::max(tolerance, 1e-4)), std::nullopt)
          << target << ", seed " << seed << "\n"
          << dsl::to_text(compute) << "\n"
          << schedule.to_string() << to_string(*program);
      for (const Argument& argument : program->arguments) {
        const auto asked = problem.layouts.find(argument.buffer.name);
        if (asked == problem.layouts.end()) continue;
        EXPECT_EQ(argument.layout.to_string(argument.letters), asked->second);
      }
    }
  }
  EXPECT_GE(legal * 10, all * 7) << target << ": " << legal << " of " << all;
}

TEST(Space, RandomLayoutsAreKept) {
  for (const char* target : {"x86-64-v3", "x86-64-v4", "cuda:sm_80", "cuda:sm_90a", "opencl"})
    expect_random_problems(target, 60);
}

// TMA copies an operand if its layout allows it. The order of its declared dimensions does not
// matter.
TEST(Space, LayoutsDecideWhatTheCopyEngineMoves) {
  const auto product = dsl::parse_workload("dense m=256 n=256 k=256 bf16 fast");
  const Target target = *parse_target("cuda:sm_90a");
  const auto boxes = [&](const std::string& layout) {
    const auto space = Space::derive({product->compute, {{"a", layout}}}, target);
    Random random(1);
    size_t most = 0;
    for (int i = 0; i < 100; ++i)
      most = std::max(most, tma_operands(space->schedule(space->sample(random))).size());
    return most;
  };
  const std::string letters = product->compute.letters_of("a");
  EXPECT_EQ(boxes(letters), 2u);
  EXPECT_EQ(boxes(std::string(letters.rbegin(), letters.rend())), 2u);
  EXPECT_EQ(boxes(letters + "16" + static_cast<char>(std::tolower(letters[1]))), 1u);
}

// A product's rows and columns are the two sides of a block. The side that is contiguous in the
// output becomes the innermost thread loop.
TEST(Space, LayoutsOfTheOutputDecideWhichThreadsAreNeighbours) {
  const auto conv = dsl::parse_workload("conv2d n=1 c=64 h=16 w=16 k=64 r=1 s=1 f32 fast");
  const auto last_bound = [&](const std::string& layout) {
    const auto space =
        Space::derive({conv->compute, {{"out", layout}}}, *parse_target("opencl")).value();
    const Schedule schedule = space.schedule(space.default_point());
    std::string loop;
    for (const Step& step : schedule.steps())
      if (const auto* bind = std::get_if<Bind>(&step); bind && bind->stage == "out")
        loop = bind->loop;
    return loop;
  };
  EXPECT_TRUE(last_bound("NCHW").starts_with("n*y*x")) << last_bound("NCHW");
  EXPECT_TRUE(last_bound("NHWC").starts_with("k")) << last_bound("NHWC");
  EXPECT_TRUE(last_bound("NCWH").starts_with("n*x*y")) << last_bound("NCWH");
}

TEST(Space, TheDefaultIsLegal) {
  for (const Case& c : cases()) {
    const Space space = space_of(c.compute);
    const auto program = space.schedule(space.default_point()).program();
    EXPECT_TRUE(program) << c.name << ": " << program.error().message;
  }
}

// Each of the four stages before the last one has its own knob `place`, so that independent choices
// would seldom fuse all of them.
TEST(Space, ChainsAreOftenSampledAsAWhole) {
  const auto workload = dsl::parse_workload("attention b=2 m=48 n=64 d=32 f32 fast");
  const Space space = space_of(workload->compute);
  ASSERT_EQ(space.stages(0), 5u);
  Random random(5);
  int fused = 0;
  for (int i = 0; i < 400; ++i) {
    const Point point = space.sample(random);
    const std::string text = space.to_string(point);
    EXPECT_EQ(is_fused(space, point), text.find("place=0") == std::string::npos) << text;
    fused += is_fused(space, point);
  }
  EXPECT_GT(fused, 60);
  EXPECT_LT(fused, 180);
  EXPECT_FALSE(is_fused(space_of(dsl::parse_workload("dense m=8 n=8 k=8 f32 fast")->compute),
                        Point{std::vector<int>(20, 0)}));
}

// Each element of a row is used once, so that packing the rows would cost as much as reducing them.
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

TEST(Space, ReductionsToOneNumberHaveLanes) {
  const auto compute =
      dsl::parse_compute("input x: f32[4, 100]; y: f32[] = max(i=4, j=100) x[i, j]");
  ASSERT_TRUE(compute) << compute.error().message;
  const Space space = space_of(*compute, "x86-64-v3");
  const Schedule schedule = space.schedule(space.default_point());
  const std::string steps = schedule.to_string();
  EXPECT_NE(steps.find("\nvectorize y.rf j_rf"), std::string::npos) << steps;
  const auto program = schedule.program();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(disagreement(*compute, *program), std::nullopt);
}

// If the epilogue stores a type other than the type of the sum, the sum must be kept in an
// accumulator.
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
  ASSERT_TRUE(point_of(space, schedule));

  const Schedule plain(workload->compute);
  EXPECT_FALSE(point_of(space, plain));
  std::vector<Step> fewer = schedule.steps();
  fewer.pop_back();
  EXPECT_FALSE(point_of(space, plain.then(fewer)));
  const std::string& stage = workload->compute.stages.back().name;
  EXPECT_FALSE(point_of(space, plain.split(stage, "m", 7).split(stage, "m.1", 3)));
  EXPECT_FALSE(point_of(space, plain.split(stage, "no_such_loop", 7)));
}

TEST(Space, TheNearestPointIsTheOneOfMostCommonSteps) {
  const auto workload = dsl::make_workload("dense", *dsl::parse_shape("m=64 n=64 k=64", "dense"));
  const Space space = space_of(workload->compute);
  const Schedule known = space.schedule(space.default_point());
  ASSERT_FALSE(known.error());
  const Point itself = nearest_point(space, known).value();
  EXPECT_TRUE(space.allowed(itself));

  // The schedule has an additional step that no point has. The other steps determine the nearest
  // point.
  std::vector<Step> steps = known.steps();
  const Schedule plain(workload->compute);
  const Schedule other = plain.split(plain.nest().stages[0].stage.name, "m", 7).then(steps);
  EXPECT_FALSE(point_of(space, other));
  const auto common = [&](const Point& point) {
    int count = 0;
    const Schedule schedule = space.schedule(point);
    for (const Step& step : schedule.steps())
      for (const Step& wanted : steps) count += to_string(step) == to_string(wanted);
    return count;
  };
  Random random(9);
  int best_of_samples = 0;
  for (int i = 0; i < 50; ++i)
    best_of_samples = std::max(best_of_samples, common(space.sample(random)));
  EXPECT_GT(common(itself), best_of_samples);
  EXPECT_EQ(nearest_point(space, known), itself);  // nothing is random
}

TEST(Space, EveryPointIsFoundBackFromItsSchedule) {
  TW_ONLY_NIGHTLY();
  for (const char* target : {"x86-64-v3", "x86-64-v4"})
    for (const Case& c : cases()) {
      const int found = found_back(space_of(c.compute, target), 200, 11);
      EXPECT_GE(found, c.compute.stages.size() > 4 ? 160 : 200) << target << " " << c.name;
    }
}

}  // namespace
}  // namespace tw::schedules
