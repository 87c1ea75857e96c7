// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "cost_model/expected.h"
#include "dsl/workload.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"

namespace tw::tuner {
namespace {

using testing::HasSubstr;
using testing::Not;

dsl::Workload convolution(const std::string& layout, const std::string& accuracy = "fast") {
  const auto workload = dsl::parse_workload(
      "conv2d n=1 c=64 h=28 w=28 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 " + accuracy);
  return dsl::with_layouts(*workload, {{"in", layout}, {"out", layout}}).value();
}

Predict predictor() { return predict_for(parse_target("x86-64-v3").value(), 1, {}); }

TEST(Predictor, AlgorithmsAreOfferedUnderAllLayouts) {
  const Predict predict = predictor();
  for (const std::string layout : {"NCHW", "NHWC", "NCHW8c"}) {
    const auto fast = predict(convolution(layout), Precision::Rough);
    ASSERT_TRUE(fast) << fast.error().message;
    EXPECT_THAT(fast->schedule, HasSubstr("winograd")) << layout;
    const auto strict = predict(convolution(layout, "strict"), Precision::Rough);
    ASSERT_TRUE(strict) << strict.error().message;
    EXPECT_THAT(strict->schedule, Not(HasSubstr("winograd"))) << layout;
    EXPECT_LT(fast->analytic_ns, strict->analytic_ns) << layout;
  }
}

TEST(Predictor, TheFullPredictionIsNeverSlower) {
  const Predict predict = predictor();
  for (const std::string layout : {"NCHW", "NCHW8c"}) {
    const double rough = predict(convolution(layout), Precision::Rough)->analytic_ns;
    EXPECT_LE(predict(convolution(layout), Precision::Full)->analytic_ns, rough) << layout;
  }
}

TEST(Predictor, ItsScheduleHasAnExpectedTime) {
  const Target target = parse_target("x86-64-v3").value();
  dsl::Workload workload = convolution("NCHW8c");
  for (const dsl::CacheState state : {dsl::CacheState::Hot, dsl::CacheState::NetworkMemory}) {
    workload.state = state;
    const auto predicted = predictor()(workload, Precision::Rough);
    ASSERT_TRUE(predicted) << predicted.error().message;
    const auto schedule = schedules::parse_schedule(workload.compute, predicted->schedule);
    const auto kernel = schedule->program(schedules::limits_of(target));
    EXPECT_EQ(predicted->expected_ns,
              cost_model::expected_ns(*kernel, schedules::problem_of(workload), target, 1));
  }
}

// A predictor shares good points between workloads. They do not depend on which workload is
// predicted first.
TEST(Predictor, ItsOrderChangesNothing) {
  const Predict one = predictor(), other = predictor();
  const std::string first = one(convolution("NCHW8c"), Precision::Rough)->schedule;
  EXPECT_TRUE(other(convolution("NHWC"), Precision::Full));
  EXPECT_EQ(other(convolution("NCHW8c"), Precision::Rough)->schedule, first);
}

TEST(Predictor, EndsWithItsToken) {
  const std::atomic<int> interrupts = 1;
  const Predict predict =
      predict_for(parse_target("x86-64-v3").value(), 1, stop_on_interrupt(&interrupts));
  const auto predicted = predict(convolution("NCHW"), Precision::Rough);
  ASSERT_FALSE(predicted);
  EXPECT_EQ(predicted.error().code, ErrorCode::Interrupted);
}

}  // namespace
}  // namespace tw::tuner
