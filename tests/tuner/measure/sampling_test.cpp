// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/random.h"

namespace tw::tuner {
namespace {

/// A machine whose time passes only while kernels run, disturbed as a shared one is: a spread of a
/// few per cent, rare pre-emptions, and a neighbour that slows everything down from some moment on.
class NoisyMachine {
 public:
  explicit NoisyMachine(uint64_t seed, double spread = 0.03, double preemptions = 0.03)
      : random_(seed), spread_(spread), preemptions_(preemptions) {}

  /// The real machine reads its clock in steps.
  Clock clock(int64_t resolution_ns = 1) {
    return [this, resolution_ns] {
      now_ns_ += 20;
      return static_cast<int64_t>(now_ns_) / resolution_ns * resolution_ns;
    };
  }
  Run kernel(double latency_ns) {
    return [this, latency_ns] {
      ++calls_;
      now_ns_ += latency_ns * disturbance();
    };
  }
  Timer timer(double latency_ns, int64_t resolution_ns = 1) {
    return timed_by(clock(resolution_ns), kernel(latency_ns));
  }
  void slow_down_at(double time_ns, double factor) {
    slow_from_ns_ = time_ns;
    slow_factor_ = factor;
  }
  void pause(double ns) { now_ns_ += ns; }
  /// A neighbour is busy for `busy_ns` of every `period_ns`, the first time from `from_ns` on.
  void episodes(double period_ns, double busy_ns, double from_ns, double factor) {
    period_ns_ = period_ns;
    busy_ns_ = busy_ns;
    slow_from_ns_ = from_ns;
    slow_factor_ = factor;
  }
  double factor_now() const {
    const double since_ns = now_ns_ - slow_from_ns_;
    if (since_ns < 0) return 1;
    return std::fmod(since_ns, period_ns_) < busy_ns_ ? slow_factor_ : 1;
  }
  double now_ns() const { return now_ns_; }
  int64_t calls() const { return calls_; }

 private:
  double normal() {
    const double u = 1 - random_.unit();
    return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * random_.unit());
  }
  /// Delays are one-sided and independent from call to call; a smaller part goes both ways and
  /// wanders slowly, as clocks do. With spread 0.03 the minima of two equal kernels differ by about
  /// 0.5 %.
  double disturbance() {
    wander_ = 0.9 * wander_ + 0.436 * normal();  // variance 1
    double factor = std::exp(spread_ * (std::abs(normal()) + 0.3 * wander_));
    if (random_.unit() < preemptions_) factor *= 2 + 2 * random_.unit();
    return factor * factor_now();
  }

  Random random_;
  double spread_, preemptions_;
  double now_ns_ = 0;
  double wander_ = 0;
  double slow_from_ns_ = 1e300, slow_factor_ = 1;
  double period_ns_ = 1e300, busy_ns_ = 1e300;
  int64_t calls_ = 0;
};

constexpr double call_ns = 2e6;  // longer than a batch: every call is a sample

NoWatch no_watch;

/// Reads the speed of a NoisyMachine, as a gauge does.
class MachineWatch : public Watch {
 public:
  explicit MachineWatch(NoisyMachine& machine) : machine_(machine) {}
  void begin() override { before_ = read(); }
  Moment end() override { return {std::min(before_, read()), 0}; }
  std::optional<std::string> objection(const Moment& moment) const override {
    if (moment.speed >= 0.93 * fastest_) return std::nullopt;
    return "a slow moment";
  }
  void rest() override { machine_.pause(4e6); }

 private:
  double read() {
    machine_.pause(50e3);
    fastest_ = std::max(fastest_, 1 / machine_.factor_now());
    return 1 / machine_.factor_now();
  }
  NoisyMachine& machine_;
  double before_ = 0, fastest_ = 0;
};

TEST(Median, OfAnEvenNumberIsTheLargerOfTheMiddleTwo) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({3, 9, 1}), 3);
  EXPECT_EQ(median({4, 1, 9, 2}), 4);
}

TEST(Estimate, OfNothingIsZero) {
  EXPECT_EQ(estimate({}).samples, 0);
  EXPECT_EQ(estimate({}).relative_interval(), 0);
}

TEST(Estimate, OfOneSampleIsThatSample) {
  const Estimate e = estimate({5});
  EXPECT_EQ(e.latency_ns, 5);
  EXPECT_EQ(e.low_ns, 5);
  EXPECT_EQ(e.high_ns, 5);
}

TEST(Estimate, IsTheLowerQuartileAndOrderDoesNotMatter) {
  const Estimate e = estimate({5, 1, 4, 2, 3});
  EXPECT_EQ(e.latency_ns, 2);
  EXPECT_EQ(e.min_ns, 1);
  EXPECT_EQ(e.median_ns, 3);
  EXPECT_LE(e.low_ns, e.latency_ns);
  EXPECT_GE(e.high_ns, e.latency_ns);
}

// Each reads the clock anew: neither what is done before a call nor reading the clock counts.
TEST(Timers, SingleCallsAreTimedWithoutWhatIsDoneBeforeThem) {
  NoisyMachine machine(1, 0, 0);
  int prepared = 0;
  const auto prepare = [&] {
    ++prepared;
    machine.pause(5e6);
  };
  const Timer timer = timed_singly(machine.clock(), prepare, machine.kernel(700));
  EXPECT_EQ(prepared, 0);
  EXPECT_EQ(timer(3), 3 * 700);
  EXPECT_EQ(prepared, 3);
  EXPECT_EQ(machine.calls(), 3);
}

TEST(Estimate, OutliersDoNotMoveIt) {
  std::vector<double> quiet, disturbed;
  for (int i = 0; i < 40; ++i) {
    quiet.push_back(100 + i % 5);
    disturbed.push_back(i % 2 == 0 ? 100 + i % 5 : 350);
  }
  EXPECT_NEAR(estimate(disturbed).latency_ns, estimate(quiet).latency_ns, 2);
}

TEST(Estimate, IntervalMissesTheQuartileOnEitherSideAsRarelyAsItSays) {
  Random random(3);
  int too_high = 0, too_low = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<double> samples;
    for (int k = 0; k < 30; ++k) samples.push_back(1 + random.unit());  // its quartile is 1.25
    const Estimate e = estimate(samples);
    too_high += e.low_ns > 1.25;
    too_low += e.high_ns < 1.25;
  }
  EXPECT_LE(too_high, 120);  // 2.5 % are 100
  EXPECT_LE(too_low, 120);
  EXPECT_GE(too_high + too_low, 40);  // an interval that says nothing never misses
}

TEST(Estimate, IntervalShrinksWithMoreSamples) {
  Random random(4);
  std::vector<double> few, many;
  for (int i = 0; i < 400; ++i) {
    many.push_back(1 + random.unit());
    if (i < 20) few.push_back(many.back());
  }
  EXPECT_LT(estimate(many).relative_interval(), estimate(few).relative_interval() / 2);
}

TEST(Sample, SettlesNearTheTruth) {
  NoisyMachine machine(1, 0.02, 0.05);
  const Samples s = sample(machine.timer(call_ns), {}, machine.clock(), no_watch);
  EXPECT_EQ(s.state, SampleState::Settled);
  EXPECT_NEAR(s.estimate.latency_ns, call_ns, 0.02 * call_ns);
  EXPECT_EQ(s.calls_per_batch, 1);
  EXPECT_EQ(s.raw_ns.size(), static_cast<size_t>(s.estimate.samples));
}

TEST(Sample, SaysThatItIsNoisy) {
  NoisyMachine machine(2, 1.0);
  const Samples s = sample(machine.timer(call_ns), {.max_samples = 30}, machine.clock(), no_watch);
  EXPECT_EQ(s.state, SampleState::Noisy);
  EXPECT_EQ(s.raw_ns.size(), 30u);
}

TEST(Sample, StopsWhenItsTimeIsOver) {
  NoisyMachine machine(3, 1.0);
  const Samples s =
      sample(machine.timer(1e8), {.max_total_ns = 500'000'000}, machine.clock(), no_watch);
  EXPECT_EQ(s.state, SampleState::Noisy);
  EXPECT_LE(machine.calls(), 8);
  EXPECT_GE(s.raw_ns.size(), 1u);
}

TEST(Sample, Fault47_BatchesGrowUntilTheTimerCanSeeThem) {
  for (const int64_t resolution_ns : {1, 1'000, 1'000'000}) {
    NoisyMachine machine(4, 0.02, 0);
    const Sampling options = {.timer_resolution_ns = resolution_ns,
                              .max_total_ns = int64_t{100} << 30};
    const Samples s = sample(machine.timer(300, resolution_ns), options, machine.clock(), no_watch);
    EXPECT_EQ(s.state, SampleState::Settled) << resolution_ns;
    EXPECT_NEAR(s.estimate.latency_ns, 300, 10) << resolution_ns;
    EXPECT_GE(static_cast<double>(s.calls_per_batch) * 330, 100.0 * resolution_ns);
  }
}

TEST(Sample, Fault47_KernelBelowAnyBatchIsTooFast) {
  NoisyMachine machine(5);
  const Sampling options = {.timer_resolution_ns = 15'000'000, .max_batch_calls = 1000};
  const Samples s = sample(machine.timer(3, 15'000'000), options, machine.clock(), no_watch);
  EXPECT_EQ(s.state, SampleState::TooFast);
  EXPECT_TRUE(s.raw_ns.empty());
  EXPECT_EQ(s.estimate.latency_ns, 0);
}

TEST(Sample, Fault47_TimerThatStandsStillIsTooFastAndEnds) {
  const Clock stopped = [] { return int64_t{42}; };
  const Samples s = sample(timed_by(stopped, [] {}), {.max_batch_calls = 1000}, stopped, no_watch);
  EXPECT_EQ(s.state, SampleState::TooFast);
}

/// Timings of 300 ns of which the call with the number `paused` takes 20 ms longer.
Timer timer_paused_in(NoisyMachine& machine, int64_t paused) {
  return timed_by(machine.clock(), [&machine, paused, kernel = machine.kernel(300)] {
    kernel();
    if (machine.calls() == paused) machine.pause(20e6);
  });
}

TEST(Sample, Fault48_PausesMakeNoBatchTooShort) {
  for (const int64_t paused : {1, 2, 12, 40}) {
    NoisyMachine machine(4, 0.02, 0);
    const Sampling options;
    const Samples s = sample(timer_paused_in(machine, paused), options, machine.clock(), no_watch);
    EXPECT_GE(static_cast<double>(s.calls_per_batch) * 330,
              static_cast<double>(options.min_batch_ns))
        << paused;
  }
}

TEST(SampleBeside, DropsAHopelessCandidateAfterAFewProbes) {
  NoisyMachine machine(7, 0.02, 0);
  const Samples s =
      sample_beside({call_ns}, machine.timer(5 * call_ns), {}, machine.clock(), no_watch);
  EXPECT_EQ(s.state, SampleState::Dropped);
  EXPECT_LE(machine.calls(), 5);  // warm-up and probes
}

TEST(SampleBeside, DropsAtOnceWhatNoPauseExplains) {
  NoisyMachine machine(8, 0.02, 0);
  sample_beside({call_ns}, machine.timer(200 * call_ns), {}, machine.clock(), no_watch);
  EXPECT_EQ(machine.calls(), 1);
}

TEST(SampleBeside, Fault48_KeepsShortKernelsThatArePausedForATimeSlice) {
  int kept = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    NoisyMachine machine(seed, 0.02, 0);
    Random random(seed);
    const tuner::Run kernel = machine.kernel(0.2e6);
    // A busy neighbour takes every second slice: of 20 ms after at most 3 of ours.
    const auto paused = [&] {
      kernel();
      if (random.chance(0.2e6 / 3e6)) machine.pause(20e6);
    };
    const Samples s =
        sample_beside({0.21e6}, timed_by(machine.clock(), paused), {}, machine.clock(), no_watch);
    kept += s.state != SampleState::Dropped;
  }
  EXPECT_GE(kept, 190);
}

TEST(SampleBeside, DropsASlowerCandidateAfterAFewSamples) {
  NoisyMachine machine(9, 0.02, 0);
  const Samples s =
      sample_beside({call_ns}, machine.timer(1.35 * call_ns), {}, machine.clock(), no_watch);
  EXPECT_EQ(s.state, SampleState::Dropped);
  EXPECT_LE(machine.calls(), 6);
}

TEST(SampleBeside, KeepsGoodCandidatesThoughProbesArePreempted) {
  int kept = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    NoisyMachine machine(seed, 0.02, 0.05);
    const Samples s =
        sample_beside({call_ns}, machine.timer(0.95 * call_ns), {}, machine.clock(), no_watch);
    kept += s.state != SampleState::Dropped;
  }
  EXPECT_GE(kept, 196);
}

/// As on a machine whose neighbour is busy for 0.3 s of 0.75, wherever in that a timing begins.
class Episodes : public testing::Test {
 protected:
  static constexpr int phases = 60;
  static NoisyMachine machine_at(int phase) {
    NoisyMachine machine(static_cast<uint64_t>(phase), 0.02, 0.01);
    machine.episodes(0.75e9, 0.3e9, -0.75e9 * phase / phases, 1.43);
    return machine;
  }
  static constexpr Sampling options = {.min_batch_ns = 500'000,
                                       .min_samples = 7,
                                       .max_samples = 24,
                                       .max_total_ns = 60'000'000,
                                       .patience_ns = 600'000'000};
};

TEST_F(Episodes, Fault74_AreWaitedForWhereTheGaugeSeesThem) {
  for (int phase = 0; phase < phases; ++phase) {
    NoisyMachine machine = machine_at(phase);
    MachineWatch watch(machine);
    const Samples s = sample_beside({call_ns, machine.timer(call_ns)},
                                    machine.timer(1.15 * call_ns), options, machine.clock(), watch);
    ASSERT_NE(s.state, SampleState::Dropped) << phase;
    EXPECT_NEAR(s.estimate.latency_ns, 1.15 * call_ns, 0.1 * call_ns) << phase;
  }
}

TEST_F(Episodes, Fault74_AreSeenByTheIncumbentWhereNoGaugeSeesThem) {
  int kept = 0;
  for (int phase = 0; phase < phases; ++phase) {
    NoisyMachine machine = machine_at(phase);
    const Samples s =
        sample_beside({call_ns, machine.timer(call_ns)}, machine.timer(1.02 * call_ns), options,
                      machine.clock(), no_watch);
    ASSERT_NE(s.state, SampleState::Dropped) << phase;
    if (s.state == SampleState::Disturbed) continue;
    EXPECT_NEAR(s.estimate.latency_ns, 1.02 * call_ns, 0.1 * call_ns) << phase;
    ++kept;
  }
  EXPECT_GE(kept, phases / 2);
}

TEST_F(Episodes, Fault74_OfOneKernelAloneShowAsStretchesThatDisagree) {
  for (int phase = 0; phase < phases; ++phase) {
    NoisyMachine machine = machine_at(phase);
    const Samples s = sample_spread(
        machine.timer(call_ns), 5, [&] { machine.pause(0.25e9); }, options, machine.clock(),
        no_watch);
    EXPECT_NEAR(s.estimate.latency_ns, call_ns, 0.06 * call_ns) << phase;
  }
}

TEST_F(Episodes, Fault74_AMachineThatTurnsOutToBeFasterRaisesObjectionsLater) {
  NoisyMachine machine(1, 0.02, 0);
  machine.episodes(1e300, 20e6, 0, 1.43);  // the first thing that is known of it is a slow moment
  MachineWatch watch(machine);
  const Samples s = sample(machine.timer(call_ns), options, machine.clock(), watch);
  EXPECT_NEAR(s.estimate.latency_ns, call_ns, 0.06 * call_ns);
}

TEST_F(Episodes, Fault74_WithoutEndAreALatencyThatDoesNotCount) {
  NoisyMachine machine(2, 0.02, 0);
  MachineWatch watch(machine);
  watch.begin();  // knows how fast it was
  machine.episodes(1e300, 1e300, 0, 1.43);
  const Samples s = sample_beside({call_ns, machine.timer(call_ns)}, machine.timer(call_ns),
                                  options, machine.clock(), watch);
  EXPECT_EQ(s.state, SampleState::Disturbed);
  EXPECT_NEAR(s.estimate.latency_ns, 1.43 * call_ns, 0.1 * call_ns);
  EXPECT_EQ(s.estimate.low_ns, 0);
  EXPECT_EQ(s.estimate.high_ns, *std::max_element(s.raw_ns.begin(), s.raw_ns.end()));
  EXPECT_EQ(s.disturbance, "a slow moment");
}

/// Objects to all moments but each `period`-th.
class RarelyQuiet : public Watch {
 public:
  explicit RarelyQuiet(int period) : period_(period) {}
  void begin() override {}
  Moment end() override { return {1, ++moments_ % period_}; }
  std::optional<std::string> objection(const Moment& moment) const override {
    if (moment.switches == 0) return std::nullopt;
    return "others";
  }
  void rest() override {}

 private:
  int period_, moments_ = 0;
};

TEST_F(Episodes, Fault48_WhatFewMomentsAllowIsALatencyWithAWideInterval) {
  const auto sampled = [&](int period) {
    NoisyMachine machine(5, 0.1, 0);
    RarelyQuiet watch(period);
    return sample(machine.timer(call_ns), options, machine.clock(), watch);
  };
  const Samples some = sampled(40);  // 0.6 s of patience are some 300 calls
  EXPECT_EQ(some.state, SampleState::Noisy);
  EXPECT_LT(some.raw_ns.size(), 10u);
  EXPECT_GT(some.estimate.relative_interval(), options.target_relative_interval);
  EXPECT_EQ(sampled(100).state, SampleState::Disturbed);
}

TEST_F(Episodes, Fault48_AStretchThatCountsIsTakenBeforeFasterOnesThatDoNot) {
  NoisyMachine machine(6, 0.02, 0);
  MachineWatch watch(machine);
  watch.begin();
  machine.episodes(1e9, 0.9e9, 0, 1.43);
  const Samples s = sample_spread(
      machine.timer(call_ns), 3, [&] { machine.pause(1e6); }, options, machine.clock(), watch);
  EXPECT_NE(s.state, SampleState::Disturbed);
  EXPECT_NEAR(s.estimate.latency_ns, call_ns, 0.06 * call_ns);
}

TEST_F(Episodes, Fault74_AnIncumbentThatStaysSlowerIsTold) {
  NoisyMachine machine(3, 0.02, 0);
  machine.episodes(1e300, 1e300, 0, 1.2);
  const Samples s = sample_beside({call_ns, machine.timer(call_ns)}, machine.timer(2 * call_ns),
                                  options, machine.clock(), no_watch);
  EXPECT_EQ(s.state, SampleState::Disturbed);
  EXPECT_NEAR(s.incumbent_pace, 1.2, 0.05);
}

// It was measured while the machine was slower.
TEST_F(Episodes, Fault74_AnIncumbentThatIsFasterThanExpectedIsTold) {
  NoisyMachine machine(4, 0.02, 0);
  const Samples slow =
      sample_beside({1.4 * call_ns, machine.timer(call_ns)}, machine.timer(3 * call_ns), options,
                    machine.clock(), no_watch);
  EXPECT_EQ(slow.state, SampleState::Dropped);
  EXPECT_NEAR(slow.incumbent_pace, 1 / 1.4, 0.05);
  const Samples as_expected =
      sample_beside({call_ns, machine.timer(call_ns)}, machine.timer(3 * call_ns), options,
                    machine.clock(), no_watch);
  EXPECT_NEAR(as_expected.incumbent_pace, 1, 0.06);
  const Samples as_fast = sample_beside({1.4 * call_ns, machine.timer(call_ns)},
                                        machine.timer(call_ns), options, machine.clock(), no_watch);
  EXPECT_EQ(as_fast.incumbent_pace, 1) << "it was not timed";
}

TEST_F(Episodes, Fault74_ComparisonsTakeRoundsAgain) {
  int right = 0;
  for (int phase = 0; phase < phases; ++phase) {
    NoisyMachine machine = machine_at(phase);
    MachineWatch watch(machine);
    const Comparison c =
        compare_abba(machine.timer(call_ns), machine.timer(1.08 * call_ns), 15, options, watch);
    right += c.winner == Winner::A;
  }
  EXPECT_GE(right, phases * 9 / 10);
}

TEST(CompareAbba, FindsARealDifferenceInEitherDirection) {
  int right = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    NoisyMachine machine(seed);
    const auto fast = machine.timer(call_ns), slow = machine.timer(1.08 * call_ns);
    right += compare_abba(fast, slow, 15, {}, no_watch).winner == Winner::A;
    right += compare_abba(slow, fast, 15, {}, no_watch).winner == Winner::B;
  }
  EXPECT_GE(right, 95);
}

TEST(CompareAbba, RatioIsTimeOfBOverTimeOfA) {
  NoisyMachine machine(11, 0.01, 0);
  const Comparison c =
      compare_abba(machine.timer(call_ns), machine.timer(2 * call_ns), 15, {}, no_watch);
  EXPECT_NEAR(c.ratio, 2, 0.04);
  EXPECT_LE(c.low, c.high);
  EXPECT_NEAR(c.low, 2, 0.1);
}

TEST(CompareAbba, NoiseFloorFollowsTheSession) {
  const auto mean_floor = [](double spread) {
    double sum = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      NoisyMachine machine(seed, spread);
      sum += compare_abba(machine.timer(call_ns), machine.timer(call_ns), 15, {}, no_watch)
                 .noise_floor;
    }
    return sum / 20;
  };
  EXPECT_NEAR(mean_floor(0.001), 0.01, 1e-3);  // never less than 1 %
  EXPECT_GT(mean_floor(0.10), 0.015);
}

TEST(CompareAbba, AFewRoundsNameNoWinner) {
  NoisyMachine machine(12);
  EXPECT_EQ(
      compare_abba(machine.timer(call_ns), machine.timer(3 * call_ns), 3, {}, no_watch).winner,
      Winner::Tie);
}

TEST(CompareAbba, Fault48_PausesMakeNoBatchTooShort) {
  NoisyMachine machine(4, 0.02, 0);
  std::vector<int64_t> calls;
  const Timer counted = [&, timer = timer_paused_in(machine, 2)](int64_t count) {
    calls.push_back(count);
    return timer(count);
  };
  const Sampling options;
  compare_abba(counted, machine.timer(300), 15, options, no_watch);
  EXPECT_GE(static_cast<double>(calls.back()) * 330, static_cast<double>(options.min_batch_ns));
}

TEST(CompareAbba, Fault47_APauseDoesNotHideThatNothingCanBeTimed) {
  int64_t timings = 0;
  const Timer paused_once = [&](int64_t) { return ++timings == 2 ? int64_t{20'000'000} : 0; };
  const Timer slow = [](int64_t calls) { return calls * 1'000'000; };
  const Comparison c = compare_abba(paused_once, slow, 15, {.max_batch_calls = 100}, no_watch);
  EXPECT_EQ(c.state, SampleState::TooFast);
}

TEST(CompareAbba, Fault47_NothingIsComparedBelowTheTimer) {
  const Timer stopped = [](int64_t) { return int64_t{0}; };
  const Comparison c = compare_abba(stopped, stopped, 15, {.max_batch_calls = 100}, no_watch);
  EXPECT_EQ(c.state, SampleState::TooFast);
  EXPECT_EQ(c.winner, Winner::Tie);
}

struct Session {
  const char* name;
  double spread, preemptions, slow_factor;
};
void PrintTo(const Session& session, std::ostream* out) { *out << session.name; }

class AgainstItself : public testing::TestWithParam<Session> {};
INSTANTIATE_TEST_SUITE_P(, AgainstItself,
                         testing::Values(Session{"quiet", 0.01, 0.01, 1},
                                         Session{"usual", 0.03, 0.03, 1},
                                         Session{"noisy", 0.10, 0.15, 1},
                                         Session{"neighbour_at_half_time", 0.03, 0.03, 1.6},
                                         Session{"clock_drop_at_half_time", 0.01, 0.01, 1.1}),
                         [](const auto& session) { return std::string(session.param.name); });

TEST_P(AgainstItself, Fault48_AtMostFiveFalseWinnersInAHundred) {
  const Session& session = GetParam();
  for (const int rounds : {11, 15}) {  // of finals, and of careful comparisons
    int winners = 0;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      NoisyMachine machine(1000 + seed, session.spread, session.preemptions);
      machine.slow_down_at((2 * rounds + 1) * call_ns, session.slow_factor);  // in the middle
      const Comparison c =
          compare_abba(machine.timer(call_ns), machine.timer(call_ns), rounds, {}, no_watch);
      winners += c.winner != Winner::Tie;
    }
    EXPECT_LE(winners, 5) << rounds << " rounds";
  }
}

}  // namespace
}  // namespace tw::tuner
