// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/watch.h"

#include <gtest/gtest.h>

#include "tuner/measure/peak.h"

namespace tw::tuner {
namespace {

/// A watch over a simulated machine. Each reading of the clock advances it by a step, so a longer
/// step means a slower machine.
class Watched : public testing::Test {
 protected:
  Moment watch_over(int64_t step_before_ns, int64_t step_after_ns) {
    step_ns_ = step_before_ns;
    now_ns_ += 1'000'000;  // the reading from before is out of date
    watch_->begin();
    step_ns_ = step_after_ns;
    Moment moment = watch_->end();
    moment.switches = 0;  // removes the context switches of the machine that runs the test
    return moment;
  }

  int64_t now_ns_ = 0, step_ns_ = 1000;
  int slow_looks_ = 0;  ///< readings of the gauge's clock until the machine is fast again
  runtime::ThreadPool pool_{{.threads = 1}};
  Gauge gauge_{pool_, 1, [this] { return now_ns_ += slow_looks_-- > 0 ? 1430 : step_ns_; }};
  std::unique_ptr<Watch> watch_ = watch_processor(gauge_, [this] { return now_ns_ += step_ns_; });
};

TEST_F(Watched, SteadyMomentsCount) {
  EXPECT_EQ(watch_->objection(watch_over(1000, 1000)), std::nullopt);
  EXPECT_EQ(watch_->objection(watch_over(1000, 1030)), std::nullopt);
}

TEST_F(Watched, Fault74_SlowBeforeOrAfterDoesNot) {
  (void)watch_over(1000, 1000);
  for (const auto& [before, after] : {std::pair{1430, 1000}, {1000, 1430}, {1430, 1430}})
    EXPECT_EQ(watch_->objection(watch_over(before, after)),
              "the processor ran at 70 % of the speed that it has shown");
}

TEST_F(Watched, Fault74_ACoreThatHasIdledIsWarmedUpFirst) {
  (void)watch_over(1000, 1000);
  slow_looks_ = 40;
  EXPECT_EQ(watch_->objection(watch_over(1000, 1000)), std::nullopt);
  EXPECT_LE(slow_looks_, 0);
}

TEST_F(Watched, Fault74_WhatWasFastIsSlowBesideWhatCameLater) {
  const Moment early = watch_over(1000, 1000);
  EXPECT_EQ(watch_->objection(early), std::nullopt);
  for (size_t i = 0; i < Gauge::group; ++i) (void)watch_over(700, 700);
  EXPECT_TRUE(watch_->objection(early));
}

TEST_F(Watched, Fault48_ALostProcessorIsTold) {
  Moment moment = watch_over(1000, 1000);
  moment.switches = 2;
  EXPECT_EQ(watch_->objection(moment), "other processes took the processor 2 times");
}

}  // namespace
}  // namespace tw::tuner
