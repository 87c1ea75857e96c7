// SPDX-License-Identifier: Apache-2.0
#include "bench/interleave.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace tw::bench {
namespace {

/// Time that advances only by what the contenders spend.
struct Time {
  int64_t now_ns = 0;
  std::string turns;  ///< one letter for each batch
  tuner::Clock clock() {
    return [this] { return now_ns; };
  }
};

class Fake : public Contender {
 public:
  Fake(Time& time, std::function<int64_t(int64_t)> cost_ns)
      : time_(time), cost_ns_(std::move(cost_ns)) {}
  void prepare_call() override {
    ++prepared_;
    is_prepared_ = true;
    time_.now_ns += prepare_ns_;
  }
  Status run(int64_t call) override {
    timed_ += is_prepared_;
    is_prepared_ = false;
    EXPECT_EQ(call, calls_++) << "calls are numbered from 0";
    if (call == failing_) return fail(ErrorCode::Internal, "[fake] as told");
    time_.now_ns += cost_ns_(call);
    return {};
  }
  Result<dsl::Arrays> outputs() override { return dsl::Arrays(); }
  std::string description() const override { return "fake"; }

  int64_t failing_ = -1;
  int64_t calls_ = 0;
  int64_t prepare_ns_ = 0, prepared_ = 0, timed_ = 0;

 private:
  bool is_prepared_ = false;
  Time& time_;
  std::function<int64_t(int64_t)> cost_ns_;
};

std::function<int64_t(int64_t)> always(int64_t ns) {
  return [ns](int64_t) { return ns; };
}

TEST(Interleave, RatioIsThePeersTimeOverOurs) {
  Time time;
  Fake a(time, always(1000)), b(time, always(1500));
  const auto versus = interleave(a, b, {}, time.clock());
  ASSERT_TRUE(versus);
  EXPECT_DOUBLE_EQ(versus->a_ns.value, 1000);
  EXPECT_DOUBLE_EQ(versus->b_ns.value, 1500);
  EXPECT_DOUBLE_EQ(versus->ratio.value, 1.5);
  EXPECT_DOUBLE_EQ(versus->ratio.low, 1.5);
  EXPECT_DOUBLE_EQ(versus->ratio.high, 1.5);
}

// One fast turn changes the least time but no median. So each median and the ratio lie in their
// intervals.
TEST(Interleave, EachFigureIsAMedianInItsInterval) {
  Time time;
  Fake a(time, [](int64_t call) { return call == 5 ? 1'000'000 : 3'000'000 + 1'000 * call; }),
      b(time, [](int64_t call) { return 3'000'000 + 2'000 * (call % 7); });
  const auto versus = interleave(a, b, {.rounds = 10}, time.clock());
  ASSERT_TRUE(versus);
  EXPECT_DOUBLE_EQ(versus->a_least_ns, 1'000'000);
  EXPECT_GT(versus->a_ns.value, 3'000'000);
  for (const Median& figure : {versus->a_ns, versus->b_ns, versus->ratio}) {
    EXPECT_LT(figure.low, figure.value);
    EXPECT_GT(figure.high, figure.value);
  }
}

// The caches are prepared before each call, outside of its time.
TEST(Interleave, PreparesEachCallOutsideOfItsTime) {
  Time time;
  Fake a(time, always(1000)), b(time, always(1500));
  for (Fake* fake : {&a, &b}) fake->prepare_ns_ = 400'000;
  const auto versus = interleave(a, b, {.min_batch_ns = 10'000, .prepares = true}, time.clock());
  ASSERT_TRUE(versus);
  EXPECT_DOUBLE_EQ(versus->a_ns.value, 1000);
  EXPECT_DOUBLE_EQ(versus->b_ns.value, 1500);
  EXPECT_EQ(a.prepared_, a.timed_);
  EXPECT_GT(a.prepared_, 0);
}

// Rare outliers, which take four times as long, do not move the median.
TEST(Interleave, WithstandsOutliers) {
  Time time;
  const auto noisy = [](int64_t ns) {
    return [ns](int64_t call) { return call % 97 == 0 ? 4 * ns : ns; };
  };
  Fake a(time, noisy(3'000'000)), b(time, noisy(3'000'000));
  const auto versus = interleave(a, b, {.rounds = 40}, time.clock());
  ASSERT_TRUE(versus);
  EXPECT_DOUBLE_EQ(versus->ratio.value, 1);
}

// If a machine becomes slower all the time, the order A B B A affects both sides equally.
TEST(Interleave, CancelsADrift) {
  Time time;
  const auto drifting = [&time](int64_t) { return 2'000'000 + time.now_ns / 100; };
  Fake a(time, drifting), b(time, drifting);
  const auto versus = interleave(a, b, {.rounds = 20}, time.clock());
  ASSERT_TRUE(versus);
  EXPECT_NEAR(versus->ratio.value, 1, 1e-3);
}

TEST(Interleave, BatchesAreLongEnough) {
  Time time;
  Fake a(time, always(100)), b(time, always(5'000'000));
  std::vector<int64_t> calls;
  Rounds rounds{
      .rounds = 1, .min_batch_ns = 1'000'000, .between = [&] { calls.push_back(a.calls_); }};
  ASSERT_TRUE(interleave(a, b, rounds, time.clock()));
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_GE(calls[1] - calls[0], 10'000) << "a's batch, between its turn and b's";
  EXPECT_EQ(calls[2], calls[1]);
}

/// A watch that objects to the rounds (counted from 0) for which `objects` returns true.
class Objecting : public tuner::NoWatch {
 public:
  explicit Objecting(std::function<bool(int)> objects) : objects_(std::move(objects)) {}
  std::optional<std::string> objection(const tuner::Moment&) const override {
    if (objects_(round_++)) return "a neighbour";
    return std::nullopt;
  }

 private:
  std::function<bool(int)> objects_;
  mutable int round_ = 0;
};

TEST(Interleave, Fault74_RoundsThatDoNotCountAreTakenAgain) {
  Time time;
  // The contender is slow for about as long as four rounds take. A round is four batches of at
  // least 2 ms each.
  const auto slow_at_first = [&time](int64_t) {
    return time.now_ns < 50'000'000 ? 1'500'000 : 1'000'000;
  };
  Fake a(time, slow_at_first), b(time, always(1'000'000));
  Objecting watch([&](int) { return time.now_ns < 60'000'000; });
  const auto versus = interleave(a, b, {.rounds = 5, .watch = &watch}, time.clock());
  ASSERT_TRUE(versus);
  EXPECT_EQ(versus->rounds, 5);
  EXPECT_DOUBLE_EQ(versus->ratio.value, 1);
  EXPECT_EQ(versus->disturbance, "a neighbour");
}

TEST(Interleave, Fault74_WithoutEndItIsTold) {
  Time time;
  Fake a(time, always(1'000'000)), b(time, always(2'000'000));
  Objecting watch([](int) { return true; });
  const auto versus = interleave(a, b, {.rounds = 3, .watch = &watch}, time.clock());
  ASSERT_TRUE(versus);
  EXPECT_EQ(versus->rounds, 0);
  EXPECT_DOUBLE_EQ(versus->ratio.value, 2);
}

TEST(Interleave, AFailureEndsIt) {
  Time time;
  Fake a(time, always(1'000'000)), b(time, always(1'000'000));
  b.failing_ = 7;
  const auto versus = interleave(a, b, {}, time.clock());
  ASSERT_FALSE(versus);
  EXPECT_EQ(versus.error().message, "[fake] as told");
}

TEST(InterleaveAll, TurnsGoForthAndBack) {
  Time time;
  const auto letter = [&time](char name, int64_t ns) {
    return [&time, name, ns](int64_t) {
      time.turns += name;
      return ns;
    };
  };
  Fake a(time, letter('a', 1'000'000)), b(time, letter('b', 2'000'000)),
      c(time, letter('c', 4'000'000));
  std::vector<size_t> begins;
  const Rounds rounds{.rounds = 1, .min_batch_ns = 4'000'000, .between = [&] {
                        begins.push_back(time.turns.size());
                      }};
  const auto laps = interleave_all({&a, &b, &c}, rounds, time.clock());
  ASSERT_TRUE(laps);
  std::string order;
  for (const size_t begin : begins) order += time.turns[begin];
  EXPECT_EQ(order, "abccba");
  EXPECT_EQ(laps->ns, (std::vector<std::vector<double>>{{1e6}, {2e6}, {4e6}}));
  EXPECT_EQ(laps->rounds, 1);
}

TEST(InterleaveAll, Fault74_TurnsThatDoNotCountAreTakenAgain) {
  Time time;
  int disturbed = 3;  // turns that take three times as long
  Fake a(time, [&](int64_t) { return disturbed > 0 ? 6'000'000 : 2'000'000; }),
      b(time, always(2'000'000));
  Objecting watch([&](int) { return disturbed-- > 0; });
  const auto laps = interleave_all({&a, &b}, {.rounds = 2, .watch = &watch}, time.clock());
  ASSERT_TRUE(laps);
  EXPECT_EQ(laps->rounds, 2);
  EXPECT_EQ(laps->ns, (std::vector<std::vector<double>>{{2e6, 2e6}, {2e6, 2e6}}));
  EXPECT_EQ(laps->disturbance, "a neighbour");
}

TEST(InterleaveAll, Fault74_WithoutEndItIsTold) {
  Time time;
  Fake a(time, always(2'000'000));
  Objecting watch([](int) { return true; });
  const auto laps = interleave_all({&a}, {.rounds = 3, .watch = &watch}, time.clock());
  ASSERT_TRUE(laps);
  EXPECT_EQ(laps->rounds, 0);
  EXPECT_EQ(laps->ns[0].size(), 6u);
}

TEST(Interleave, FastestCallsKeepTheOrderOfTheContenders) {
  Time time;
  Fake a(time, always(3'000'000)), b(time, always(2'000'000));
  const auto ns = fastest_calls({&a, &b}, 3, {}, time.clock());
  ASSERT_TRUE(ns);
  EXPECT_EQ(*ns, (std::vector<double>{3e6, 2e6}));
}

TEST(Median, IntervalComesFromTheOrder) {
  const Median one = median_of({5});
  EXPECT_EQ(one.value, 5);
  EXPECT_EQ(one.low, 5);
  EXPECT_EQ(one.high, 5);
  // The second and the ninth of ten values enclose the median with a probability of 97.9 %, the
  // third and the eighth with 89 %.
  const Median ten = median_of({10, 9, 8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_EQ(ten.value, 5.5);
  EXPECT_EQ(ten.low, 2);
  EXPECT_EQ(ten.high, 9);
}

/// Returns the probability that at most `most` of `count` values lie below their true median.
double at_most(size_t most, size_t count) {
  double ways = 1, all = 0;
  for (size_t below = 0; below <= most; ++below) {
    all += ways;
    ways *= static_cast<double>(count - below) / static_cast<double>(below + 1);
  }
  return std::ldexp(all, -static_cast<int>(count));
}

TEST(Median, IntervalIsTheNarrowestThatHas95PerCent) {
  for (size_t count = 6; count <= 40; ++count) {
    std::vector<double> values(count);
    std::iota(values.begin(), values.end(), 0);
    const Median median = median_of(values);
    const auto low = static_cast<size_t>(median.low);
    EXPECT_EQ(median.high, static_cast<double>(count - 1 - low));
    EXPECT_LE(2 * at_most(low, count), 0.05) << count;
    EXPECT_GT(2 * at_most(low + 1, count), 0.05) << count;
  }
}

TEST(Median, IntervalOfTenThousandValues) {
  std::vector<double> values(10'000);
  std::iota(values.begin(), values.end(), 0);
  // The normal approximation is accurate here and gives 5000 - 1.96 * 50.
  EXPECT_NEAR(median_of(values).low, 4902, 2);
}

}  // namespace
}  // namespace tw::bench
