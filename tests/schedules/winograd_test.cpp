// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/adapt.h"
#include "tests/schedules/property.h"

namespace tw::schedules {
namespace {

dsl::Compute conv(const std::string& shape, const std::string& type = "f32") {
  return dsl::parse_workload("conv2d " + shape + " " + type + " fast").value().compute;
}
const char* const small = "n=1 c=3 h=7 w=10 k=5 r=3 s=3 pad=1";

/// Returns the number of products of a stage.
double products_of(const Schedule& schedule, const std::string& stage) {
  return dsl::evaluations_of(*schedule.nest().compute.find_stage(stage));
}

void expect_agreement(const Schedule& schedule, double tolerance) {
  const auto program = schedule.program();
  ASSERT_TRUE(program) << program.error().message << "\n" << schedule.to_string();
  EXPECT_EQ(disagreement(schedule.compute(), *program, 3, tolerance), std::nullopt)
      << schedule.to_string() << "\n"
      << to_string(*program);
}

TEST(Winograd, OneStepMakesTheStagesOfAOneDimensionalAlgorithm) {
  const Schedule schedule = Schedule(conv(small)).winograd("out", "x", 4);
  ASSERT_FALSE(schedule.error()) << schedule.error()->message;
  std::vector<std::string> names;
  for (const StageNest& stage : schedule.nest().stages) names.push_back(stage.stage.name);
  EXPECT_EQ(names, (std::vector<std::string>{"out.d", "out.u", "out.v", "out.m", "out"}));
  // 10 columns are computed as three tiles with 6 products each, instead of 10 times 3 products.
  EXPECT_EQ(products_of(schedule, "out.m"), 5 * 7 * 3 * 6 * 3 * 3);
  EXPECT_EQ(products_of(Schedule(conv(small)), "out"), 5 * 7 * 10 * 3 * 3 * 3);
  // out.d has the data with their padding. Only x is tiled; along y, neighbouring rows of results
  // read overlapping rows of out.d.
  EXPECT_EQ(schedule.nest().compute.shape_of("out.d"), (std::vector<int64_t>{1, 9, 12, 3}));
  EXPECT_EQ(schedule.nest().compute.shape_of("out.v"), (std::vector<int64_t>{6, 1, 9, 3, 3}));
  EXPECT_EQ(schedule.nest().compute.shape_of("out.m"), (std::vector<int64_t>{6, 1, 7, 3, 5}));
  expect_agreement(schedule, 1e-5);
}

TEST(Winograd, TwoStepsMakeTheTwoDimensionalAlgorithm) {
  const Schedule schedule = Schedule(conv(small)).winograd("out", "x", 4).winograd("out.m", "y", 4);
  ASSERT_FALSE(schedule.error()) << schedule.error()->message;
  EXPECT_EQ(products_of(schedule, "out.m.m"), 36 * 2 * 3 * 5 * 3);
  EXPECT_EQ(schedule.to_string(), "tw1\nwinograd out x 4\nwinograd out.m y 4");
  const auto replayed = parse_schedule(schedule.compute(), schedule.to_string());
  ASSERT_TRUE(replayed) << replayed.error().message;
  EXPECT_EQ(replayed->hash(), schedule.hash());
  expect_agreement(schedule, 1e-5);
}

// One-dimensional algorithms, nested if there is one for each axis, serve windows of all shapes.
TEST(Winograd, WindowsOfAllShapesAreComputed) {
  const struct {
    const char* shape;
    std::vector<Winograd> steps;
  } cases[] = {
      {"n=2 c=4 h=5 w=9 k=3 r=1 s=3", {{"out", "x", 4}}},
      {"n=1 c=4 h=9 w=5 k=3 r=3 s=1 pad_top=1", {{"out", "y", 2}}},
      {"n=1 c=2 h=4 w=17 k=3 r=1 s=7 pad_left=3 pad_right=3", {{"out", "x", 4}}},
      {"n=1 c=2 h=17 w=4 k=3 r=7 s=1 pad_top=3 pad_bottom=3", {{"out", "y", 2}}},
      {"n=1 c=2 h=9 w=11 k=3 r=5 s=5 pad=2", {{"out", "x", 2}, {"out.m", "y", 4}}},
      {"n=1 c=3 h=13 w=8 k=2 r=3 s=3 pad=1", {{"out", "x", 6}, {"out.m", "y", 6}}},
      {"n=1 c=3 h=8 w=8 k=2 r=3 s=3", {{"out", "y", 2}, {"out.m", "x", 4}}},
      // The other axis has a stride or a dilation.
      {"n=1 c=3 h=9 w=9 k=2 r=3 s=3 stride_h=2 pad=1", {{"out", "x", 4}}},
      {"n=1 c=3 h=9 w=9 k=2 r=3 s=3 dilation_w=2 pad=1", {{"out", "y", 4}}},
      {"n=1 c=6 h=7 w=7 k=4 r=3 s=3 groups=2 pad=1", {{"out", "x", 2}, {"out.m", "y", 2}}},
      {"n=1 c=5 h=7 w=7 k=5 r=3 s=3 groups=5 pad=1", {{"out", "x", 2}, {"out.m", "y", 2}}},
  };
  for (const auto& [shape, steps] : cases) {
    SCOPED_TRACE(shape);
    Schedule schedule(conv(shape));
    for (const Winograd& step : steps) schedule = schedule.then(step);
    ASSERT_FALSE(schedule.error()) << schedule.error()->message;
    expect_agreement(schedule, 1e-4);
  }
}

TEST(Winograd, ConsumersAndTypesStayAsTheyAre) {
  for (const char* type : {"f32", "bf16", "f16", "f64"}) {
    const Schedule schedule =
        Schedule(conv("n=1 c=3 h=6 w=6 k=4 r=3 s=3 pad=1 bias=1 relu=1", type))
            .winograd("conv", "x", 2)
            .winograd("conv.m", "y", 2);
    ASSERT_FALSE(schedule.error()) << schedule.error()->message;
    EXPECT_EQ(schedule.nest().compute.outputs, std::vector<std::string>{"out"});
    expect_agreement(schedule, 1e-3);
  }
}

// If the loop over interpolation points is unrolled, each copy has the expression of its point,
// without a select.
TEST(Winograd, UnrolledTransformsHaveNoSelects) {
  const Schedule schedule = Schedule(conv("n=1 c=4 h=4 w=8 k=4 r=1 s=3"))
                                .winograd("out", "x", 2)
                                .reorder("out.v", {"n", "y_in", "x_tile", "x_point", "c"})
                                .unroll("out.v", "x_point");
  const auto program = schedule.program();
  ASSERT_TRUE(program) << program.error().message;
  const std::string text = to_string(*program);
  const size_t begin = text.find("phase 1 out.v"), end = text.find("phase 2");
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << text;
  EXPECT_EQ(text.substr(begin, end - begin).find("select"), std::string::npos) << text;
  expect_agreement(schedule, 0);
}

TEST(Winograd, StagesThatDoNotMatchAreOneSentence) {
  const auto message = [](const dsl::Compute& compute, const Winograd& step) {
    const Schedule schedule = Schedule(compute).then(step);
    EXPECT_TRUE(schedule.error());
    const std::string text = schedule.error() ? schedule.error()->message : "";
    return text.substr(0, text.find('\n'));
  };
  const dsl::Compute plain = conv(small);
  EXPECT_EQ(message(plain, {"out", "z", 4}), "[winograd] 'out' has no axis 'z'");
  EXPECT_EQ(
      message(plain, {"out", "k", 4}),
      "[winograd] 'out' is no convolution along 'k': that is a sum of products, one factor of "
      "which depends on 'k' plus an axis of the sum");
  EXPECT_EQ(message(plain, {"out", "x", 1}), "[winograd] a tile of 1 saves no products");
  EXPECT_EQ(message(plain, {"out", "x", 11}),
            "[winograd] a tile of 11 for 3 taps needs 13 products, and there are algorithms for at "
            "most 12");
  EXPECT_EQ(message(conv("n=1 c=3 h=7 w=10 k=5 r=1 s=1"), {"out", "x", 4}),
            "[winograd] 'out' has one tap along 'x', which saves no products");
  EXPECT_EQ(message(conv(small, "i8"), {"out", "x", 4}),
            "[winograd] 'out' sums in i32, and the transforms have fractions");
  for (const char* window : {"stride=2", "dilation=2"})
    EXPECT_NE(message(conv(std::string(small) + " " + window), {"out", "x", 4}).find("no conv"),
              std::string::npos);
  const Schedule split = Schedule(plain).split("out", "x", 2).winograd("out", "x", 4);
  ASSERT_TRUE(split.error());
  EXPECT_NE(split.error()->message.find("'out' has steps already"), std::string::npos);
}

TEST(Winograd, TilesAdaptToOtherShapes) {
  const std::vector<Step> steps =
      read_steps("tw1; winograd out x 4; winograd out.m y 6; split out.m.m k 64", "test").value();
  const Adapted adapted = adapt(steps, conv("n=1 c=3 h=3 w=10 k=5 r=3 s=3 pad=1"));
  EXPECT_EQ(adapted.schedule.to_string(),
            "tw1\nwinograd out x 4\nwinograd out.m y 3\nsplit out.m.m k 5");
  // Steps that do not apply to another shape are dropped. For a window of 1 x 1, that is all of
  // them.
  const Adapted none = adapt(steps, conv("n=1 c=3 h=3 w=10 k=5 r=1 s=1"));
  EXPECT_EQ(none.schedule.to_string(), "tw1");
}

}  // namespace
}  // namespace tw::schedules
