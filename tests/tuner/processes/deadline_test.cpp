// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/deadline.h"

#include <gtest/gtest.h>

namespace tw::tuner {
namespace {

class CancellationTest : public testing::Test {
 protected:
  int64_t now_ns_ = 5'000'000'000;
  std::atomic<int> interrupts_ = 0;
  Cancellation cancellation_{&interrupts_, [this] { return now_ns_; }};
};

TEST_F(CancellationTest, TheClockIsTold) {
  const Deadline deadline = cancellation_.deadline(2.5, Needed::No);
  EXPECT_EQ(deadline.at_ns, 7'500'000'000);
  now_ns_ += 60'000'000'000;
  EXPECT_FALSE(deadline.stop.is_stopped()) << "time that passes is no cancellation";
}

TEST_F(CancellationTest, Fault31_OneInterruptCancelsAtOnceWhatIsNotNeeded) {
  const Deadline needed = cancellation_.deadline(100, Needed::ForResult),
                 other = cancellation_.deadline(100, Needed::No);
  EXPECT_FALSE(cancellation_.is_requested());
  EXPECT_FALSE(needed.stop.is_stopped() || other.stop.is_stopped());
  interrupts_ = 1;
  EXPECT_TRUE(cancellation_.is_requested());
  EXPECT_TRUE(other.stop.is_stopped());
  EXPECT_FALSE(needed.stop.is_stopped());
  now_ns_ += 1'299'000'000;
  EXPECT_FALSE(needed.stop.is_stopped());
  now_ns_ += 1'000'000;
  EXPECT_TRUE(needed.stop.is_stopped());
}

// All waits share one grace period, which begins with the first wait that notices the interrupt.
TEST_F(CancellationTest, Fault31_TheGraceBeginsWithTheFirstWaitThatNotices) {
  interrupts_ = 1;
  const Cancellation copy = cancellation_;
  EXPECT_FALSE(copy.deadline(100, Needed::ForResult).stop.is_stopped());
  now_ns_ += 1'300'000'000;
  EXPECT_TRUE(cancellation_.deadline(100, Needed::ForResult).stop.is_stopped());
}

TEST_F(CancellationTest, Fault31_TwoInterruptsCancelEverything) {
  interrupts_ = 2;
  EXPECT_TRUE(cancellation_.deadline(100, Needed::ForResult).stop.is_stopped());
}

TEST_F(CancellationTest, Fault93_TheEndOfABudgetStopsEveryWaitOfARunAndItsWorkers) {
  const Cancellation of_the_workers = cancellation_;
  const Deadline begun = of_the_workers.deadline(100, Needed::ForResult);
  cancellation_.end_at(now_ns_ + 1);
  EXPECT_EQ(begun.stop.reason(), std::nullopt);
  now_ns_ += 1;
  EXPECT_EQ(begun.stop.reason(), StopReason::OutOfTime);
  EXPECT_FALSE(cancellation_.is_requested()) << "that is the user's wish";
  interrupts_ = 1;
  EXPECT_EQ(begun.stop.reason(), StopReason::Interrupted);
  interrupts_ = 0;
  cancellation_.end_at(Cancellation::never);
  EXPECT_EQ(begun.stop.reason(), std::nullopt) << "the next run with these workers";
}

TEST(Deadline, NobodyCancelsWithoutACounter) {
  const Cancellation nobody(nullptr, [] { return int64_t{0}; });
  EXPECT_FALSE(nobody.is_requested());
  EXPECT_FALSE(nobody.deadline(1, Needed::No).stop.is_stopped());
  EXPECT_FALSE(Deadline{7}.stop.is_stopped());
}

}  // namespace
}  // namespace tw::tuner
