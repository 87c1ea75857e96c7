// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/calibration.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "tests/sanitizers.h"

namespace tw::tuner {
namespace {

constexpr int64_t kibi = 1 << 10, mebi = 1 << 20;

/// A simulated processor with the numbers of a Machine and a clock rate of its own.
class SimulatedBench final : public Bench {
 public:
  explicit SimulatedBench(tw::Machine machine) : machine_(std::move(machine)) {}

  bool has(Probe probe) const override { return probe != missing_; }
  double operation_ns(Probe probe) override {
    ++operations_;
    return cycles_of(probe) * cycle_ns();
  }
  Status lay_out(int64_t footprint, int threads, int64_t) override {
    if (refuses_memory_) return fail(ErrorCode::Environment, "[bench] no memory");
    rate_ = rate(footprint, threads);
    return {};
  }
  double byte_ns() override { return cycle_ns() / rate_; }

  double clock_ghz() const { return frequency_ ? frequency_() : machine_.core.clock_ghz; }

  tw::Machine machine_;
  std::function<double()> frequency_;  ///< GHz now; empty: the machine's
  double error_ = 0;                   ///< share by which everything but additions takes longer
  bool refuses_memory_ = false;
  std::optional<Probe> missing_;
  int64_t operations_ = 0;

 private:
  double rate_ = 0;

  double cycle_ns() const { return 1 / clock_ghz(); }
  double cycles_of(Probe probe) const {
    const Core& core = machine_.core;
    const std::map<Probe, double> cycles = {{Probe::MultiplyAdd, 1 / core.fma_per_cycle},
                                            {Probe::DependentMultiplyAdd, core.fma_latency_cycles},
                                            {Probe::ByteDot, 1 / core.byte_dots_per_cycle},
                                            {Probe::WordDot, 1 / core.word_dots_per_cycle},
                                            {Probe::Bf16Dot, 1 / core.bf16_dots_per_cycle},
                                            {Probe::ByteTileDot, 1 / core.byte_tile_dots_per_cycle},
                                            {Probe::Bf16TileDot, 1 / core.bf16_tile_dots_per_cycle},
                                            {Probe::Load, 1 / core.loads_per_cycle},
                                            {Probe::Store, 1 / core.stores_per_cycle},
                                            {Probe::Instruction, 1 / core.instructions_per_cycle}};
    return probe == Probe::Addition ? 1 : (1 + error_) * cycles.at(probe);
  }
  double rate(int64_t footprint, int threads) const {
    for (const CacheLevel& cache : machine_.caches)
      if (threads == 1 && footprint <= cache.bytes) return cache.bytes_per_cycle;
    return machine_.memory_bytes_per_cycle *
           std::min<double>(threads, machine_.cores_that_fill_memory);
  }
};

/// A watch that objects to the moments for which `is_disturbed_` returns true.
class ScriptedWatch final : public Watch {
 public:
  void begin() override {
    if (on_begin_) on_begin_();
  }
  Moment end() override {
    ++moments_;
    return {1, is_disturbed_ && is_disturbed_(moments_) ? 1 : 0};
  }
  std::optional<std::string> objection(const Moment& moment) const override {
    if (moment.switches == 0) return std::nullopt;
    return "a neighbour was there";
  }
  void rest() override { ++rests_; }

  std::function<void()> on_begin_;
  std::function<bool(int64_t moment)> is_disturbed_;
  int64_t moments_ = 0, rests_ = 0;
};

/// Returns a clock that advances by 1 ms whenever it is read.
Clock walking_clock() {
  return [now = int64_t{0}]() mutable { return now += 1'000'000; };
}

/// Returns a machine that differs from a default Machine in everything that is measured.
tw::Machine strange_machine() {
  tw::Machine machine;
  machine.name = "Strange";
  machine.cores = 8;
  machine.core.clock_ghz = 2.25;
  machine.core.fma_per_cycle = 1;
  machine.core.fma_latency_cycles = 6;
  machine.core.byte_dots_per_cycle = 1.5;
  machine.core.word_dots_per_cycle = 2;
  machine.core.bf16_dots_per_cycle = 0.25;
  machine.core.byte_tile_dots_per_cycle = 16;
  machine.core.bf16_tile_dots_per_cycle = 12;
  machine.core.loads_per_cycle = 3;
  machine.core.stores_per_cycle = 0.5;
  machine.core.instructions_per_cycle = 8;
  machine.caches[0] = {48 * kibi, 12, 64, 1, 3.0 * machine.core.vector_bytes};
  machine.caches[1] = {2 * mebi, 16, 64, 1, 25};
  machine.caches[2] = {24 * mebi, 12, 64, 8, 10.5};
  machine.memory_bytes_per_cycle = 3.25;
  machine.cores_that_fill_memory = 3.5;
  return machine;
}

/// Returns the part of the machine that the operating system reports: the name, the cores, and the
/// size, ways and sharing of each cache.
tw::Machine as_reported(const tw::Machine& machine) {
  tw::Machine reported;
  reported.name = machine.name;
  reported.cores = machine.cores;
  for (size_t i = 0; i < machine.caches.size(); ++i) {
    reported.caches[i] = machine.caches[i];
    reported.caches[i].bytes_per_cycle = 1;
  }
  return reported;
}

Result<tw::Machine> calibrated(SimulatedBench& bench, const tw::Machine& described) {
  ScriptedWatch watch;
  return calibrate(described, bench, watch, walking_clock());
}

tw::Machine expected_of(tw::Machine machine) {
  machine.origin = MachineOrigin::Calibrated;
  return machine;
}

TEST(Calibration, FindsEveryNumberOfAProcessor) {
  const tw::Machine strange = strange_machine();
  SimulatedBench bench(strange);
  const auto machine = calibrated(bench, as_reported(strange));
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(to_string(*machine), to_string(expected_of(strange)));
}

TEST(Calibration, ADotProductThatIsMissingHasTheRateOfMultiplyAdds) {
  for (const auto& [probe, rate] :
       {std::pair(Probe::Bf16Dot, &Core::bf16_dots_per_cycle),
        std::pair(Probe::ByteTileDot, &Core::byte_tile_dots_per_cycle)}) {
    tw::Machine strange = strange_machine();
    SimulatedBench bench(strange);
    bench.missing_ = probe;
    const auto machine = calibrated(bench, as_reported(strange));
    ASSERT_TRUE(machine) << machine.error().message;
    strange.core.*rate = strange.core.fma_per_cycle;
    EXPECT_EQ(to_string(*machine), to_string(expected_of(strange)));
  }
}

TEST(Calibration, AClockThatMovesChangesNothingButTheClock) {
  const tw::Machine strange = strange_machine();
  SimulatedBench bench(strange);
  // The clock rate changes in the middle of two of the seven samples of each number.
  bench.frequency_ = [&] { return bench.operations_ / 2 % 7 == 0 ? 2.0 : 3.0; };
  const auto machine = calibrated(bench, as_reported(strange));
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->core.fma_per_cycle, 1);
  EXPECT_EQ(machine->core.fma_latency_cycles, 6);
  EXPECT_EQ(machine->core.bf16_dots_per_cycle, 0.25);
  EXPECT_EQ(machine->core.instructions_per_cycle, 8);
  EXPECT_EQ(machine->core.clock_ghz, 3);
}

TEST(Calibration, SmallErrorsDoNotMakeOddPorts) {
  const tw::Machine strange = strange_machine();
  SimulatedBench bench(strange);
  bench.error_ = 0.03;
  const auto machine = calibrated(bench, as_reported(strange));
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->core.fma_per_cycle, 1);
  EXPECT_EQ(machine->core.fma_latency_cycles, 6);
  EXPECT_EQ(machine->core.loads_per_cycle, 3);
  EXPECT_EQ(machine->core.stores_per_cycle, 0.5);
}

/// Returns the size of L3 that calibration finds on a machine that has `bytes` and reports
/// `reported`.
int64_t l3_seen(int64_t bytes, int64_t reported) {
  tw::Machine real = strange_machine(), described = as_reported(real);
  real.caches[2].bytes = bytes;
  described.caches[2].bytes = reported;
  SimulatedBench bench(real);
  return calibrated(bench, described).value().caches[2].bytes;
}

TEST(Calibration, CachesAreAsLargeAsTheyAreSeenWhereThatIsNotWhatTheSystemSays) {
  EXPECT_EQ(l3_seen(32 * mebi, 32 * mebi), 32 * mebi);
  EXPECT_EQ(l3_seen(20 * mebi, 32 * mebi), 32 * mebi) << "within a factor of two";
  EXPECT_EQ(l3_seen(48 * mebi, 32 * mebi), 32 * mebi) << "within a factor of two";
  EXPECT_EQ(l3_seen(8 * mebi, 32 * mebi), 8 * mebi);
  EXPECT_EQ(l3_seen(32 * mebi, 8 * mebi), 32 * mebi);
  EXPECT_EQ(l3_seen(24 * mebi, 384 * mebi), 24 * mebi) << "of all sockets";
}

TEST(Calibration, LevelsThatAreEquallyFastKeepTheirSize) {
  tw::Machine real = strange_machine();
  real.caches[2].bytes_per_cycle = real.memory_bytes_per_cycle;
  SimulatedBench bench(real);
  EXPECT_EQ(calibrated(bench, as_reported(real)).value().caches[2].bytes, 24 * mebi);
}

TEST(Calibration, AMachineWithoutAnL3HasNone) {
  tw::Machine real = strange_machine();
  real.caches[2].bytes = 0;
  SimulatedBench bench(real);
  const auto machine = calibrated(bench, as_reported(real));
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->caches[2].bytes, 0);
  EXPECT_EQ(machine->caches[1].bytes_per_cycle, 25);
}

TEST(Calibration, OneCoreSaysNothingAboutSharedMemory) {
  tw::Machine real = strange_machine(), described = as_reported(real);
  real.cores = described.cores = 1;
  described.cores_that_fill_memory = 7;
  SimulatedBench bench(real);
  EXPECT_EQ(calibrated(bench, described).value().cores_that_fill_memory, 7);
}

TEST(Calibration, Fault48_WhatWasDisturbedIsMeasuredAgain) {
  const tw::Machine strange = strange_machine();
  SimulatedBench bench(strange);
  ScriptedWatch watch;
  bool disturbed = false;
  watch.on_begin_ = [&] {
    disturbed = watch.moments_ % 3 != 0;
    bench.error_ = disturbed ? 0.4 : 0;
  };
  watch.is_disturbed_ = [&](int64_t) { return disturbed; };
  const auto machine = calibrate(as_reported(strange), bench, watch, walking_clock());
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(to_string(machine->core.fma_latency_cycles == 6 ? *machine : strange),
            to_string(expected_of(strange)));
  EXPECT_GT(watch.rests_, 0);
}

TEST(Calibration, Fault48_DisturbedThroughoutItEndsWithTheReasonWithinItsBudget) {
  const tw::Machine strange = strange_machine();
  SimulatedBench bench(strange);
  ScriptedWatch watch;
  watch.is_disturbed_ = [](int64_t) { return true; };
  int64_t now_ns = 0;
  const Clock clock = [&] { return now_ns += 1'000'000; };
  const auto machine = calibrate(as_reported(strange), bench, watch, clock);
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().code, ErrorCode::TryLater);
  EXPECT_NE(machine.error().message.find("a neighbour was there"), std::string::npos);
  EXPECT_EQ(machine.error().message.find('\n'), std::string::npos);
  EXPECT_LT(now_ns, calibration_budget_ns + 10'000'000);
}

TEST(Calibration, Fault47_AClockThatStandsStillIsAnError) {
  const Clock stopped = [] { return int64_t{5}; };
  const std::unique_ptr<Bench> bench = processor_bench(host_target(), stopped);
  NoWatch watch;
  const auto machine = calibrate(tw::Machine(), *bench, watch, stopped);
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().code, ErrorCode::Environment);
}

TEST(Calibration, MemoryThatIsRefusedIsAnError) {
  SimulatedBench bench(strange_machine());
  bench.refuses_memory_ = true;
  EXPECT_EQ(calibrated(bench, as_reported(bench.machine_)).error().code, ErrorCode::Environment);
}

TEST(Calibration, NumbersOfNoMachineAreAnError) {
  tw::Machine absurd = strange_machine();
  absurd.core.loads_per_cycle = 1e6;
  SimulatedBench bench(absurd);
  const auto machine = calibrated(bench, as_reported(absurd));
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().code, ErrorCode::Environment);
  EXPECT_EQ(machine.error().message.find('\n'), std::string::npos);
}

/// Calibrates this processor. No watch judges disturbances, because a test never runs undisturbed.
Result<tw::Machine> host_measured(const tw::Machine& described) {
  constexpr int64_t a_minute_ns = 60'000'000'000;
  const std::unique_ptr<Bench> bench = processor_bench(host_target(), monotonic_clock());
  NoWatch watch;
  return calibrate(described, *bench, watch, monotonic_clock(), a_minute_ns);
}

TEST(Calibration, Fault73_OfThisProcessorIsPlausible) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer makes each access a call";
  tw::Machine described;  // no L3, so that the test need not touch hundreds of MiB
  described.caches[2].bytes = 0;
  const auto machine = host_measured(described);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->origin, MachineOrigin::Calibrated);
  EXPECT_TRUE(is_plausible(*machine));
  // No processor exceeds these upper bounds. Emulators and neighbours may be slow, so most numbers
  // have no lower bound.
  EXPECT_LT(machine->core.clock_ghz, 10);
  EXPECT_LT(machine->core.fma_per_cycle, 9);
  EXPECT_LT(machine->core.instructions_per_cycle, 20);
  EXPECT_GE(machine->core.fma_latency_cycles, 1);
  EXPECT_GE(machine->caches[0].bytes_per_cycle, machine->memory_bytes_per_cycle / 4);
}

TEST(Calibration, TheBenchReadsOnSeveralThreads) {
  const std::unique_ptr<Bench> bench = processor_bench(host_target(), monotonic_clock());
  for (const int threads : {1, 3, 2})
    for (const int64_t footprint : {int64_t{1}, 100 * kibi, 3 * mebi}) {
      ASSERT_TRUE(bench->lay_out(footprint, threads, INT64_MAX));
      const double ns = bench->byte_ns();
      EXPECT_GT(ns, 0);
      EXPECT_LT(ns, 1000);
    }
}

TEST(Calibration, TheBenchStopsTouchingMemoryAtTheDeadline) {
  const std::unique_ptr<Bench> bench = processor_bench(host_target(), walking_clock());
  EXPECT_EQ(bench->lay_out(int64_t{1} << 36, 1, 5'000'000).error().code, ErrorCode::TryLater);
  EXPECT_TRUE(bench->lay_out(1, 1, INT64_MAX));
}

/// The clock advances by 1 us whenever it is read, so times follow from the numbers of operations
/// in the loops.
TEST(Calibration, TheBenchDividesTimesByTheWorkOfItsLoops) {
  const auto bench_of = [](const char* target) {
    return processor_bench(*parse_target(target),
                           [now = int64_t{0}]() mutable { return now += 1000; });
  };
  const auto narrow = bench_of("x86-64-linux-sse4_1");
  EXPECT_DOUBLE_EQ(narrow->operation_ns(Probe::Addition), 1000.0 / (4 * 16384));
  EXPECT_DOUBLE_EQ(narrow->operation_ns(Probe::Load), 1000.0 / (4 * 64 * 1024));
  EXPECT_DOUBLE_EQ(narrow->operation_ns(Probe::WordDot), 1000.0 / (4 * 12 * 1024));
  EXPECT_FALSE(narrow->has(Probe::ByteDot));
  EXPECT_FALSE(narrow->has(Probe::Bf16Dot));
  if (!host_target().has("avx2") || !host_target().has("fma"))
    GTEST_SKIP() << "[SKIP] this machine has no AVX2";
  const auto wide = bench_of("x86-64-v3");
  EXPECT_DOUBLE_EQ(wide->operation_ns(Probe::Load), 1000.0 / (4 * 32 * 1024));
  EXPECT_DOUBLE_EQ(wide->operation_ns(Probe::DependentMultiplyAdd), 1000.0 / (4 * 1024));
}

}  // namespace
}  // namespace tw::tuner
