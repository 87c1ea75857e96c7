// SPDX-License-Identifier: Apache-2.0
#include "bench/observed.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "bench/affinity.h"
#include "tuner/measure/contention.h"
#include "tuner/measure/device_peak.h"
#include "tuner/measure/peak.h"

namespace tw::bench {
namespace {

// Pause before a turn. Idle threads of OpenMP poll for up to about 5 ms before they sleep, and ours
// for 0.1 ms. If they polled on a core that the next contender needs, that contender would be
// slower.
constexpr auto idle_poll = std::chrono::milliseconds(10);
// Length and largest number of the pauses in which the clock rate of a GPU recovers from the power
// limit.
constexpr auto clock_recovery = std::chrono::milliseconds(100);
constexpr int most_pauses = 10;
// The clock counts as recovered if the peak rises by no more than this share during a pause.
// Repeated measurements of a steady peak differ by about as much.
constexpr double steady_rise = 0.01;

Result<double> peak_gflops(int threads, const tuner::Clock& clock) {
  std::this_thread::sleep_for(idle_poll);
  TW_TRY(const tuner::Peak peak, tuner::measure_f32_peak(threads, clock));
  return peak.gflops;
}

/// Measures the peak of a device until it stops rising. Earlier work may have lowered the device's
/// clock rate.
Result<double> recovered_peak(runtime::Device& device) {
  TW_TRY(double peak, tuner::measure_f32_peak(device));
  for (int pause = 0; pause < most_pauses; ++pause) {
    std::this_thread::sleep_for(clock_recovery);
    TW_TRY(const double again, tuner::measure_f32_peak(device));
    if (again <= peak * (1 + steady_rise)) return std::max(peak, again);
    peak = again;
  }
  return peak;
}

}  // namespace

Result<Observed> observe(int threads, const tuner::Clock& clock,
                         const std::function<Status(tuner::Watch&)>& timing) {
  TW_TRY(const double peak_before, peak_gflops(threads, clock));
  const tuner::Counters before = tuner::read_counters({});
  const int64_t start = clock();
  double undisturbed_gflops = 0;
  {
    const PinnedHere pinned;
    // The gauge runs only on this core. On more threads it would wake them up beside the
    // contenders' threads.
    runtime::ThreadPool here({.threads = 1});
    tuner::Gauge gauge(here, 1, clock);
    const auto watch = tuner::watch_processor(gauge, clock);
    TW_RETURN_IF_ERROR(timing(*watch));
    undisturbed_gflops = threads == 1 ? gauge.undisturbed() : 0;
  }
  const auto busy = tuner::contention(before, tuner::read_counters({}), clock() - start);
  TW_TRY(const double peak_after, peak_gflops(threads, clock));
  const auto drifted = tuner::drift(peak_before, peak_after);
  return Observed{std::max({peak_before, peak_after, undisturbed_gflops}),
                  busy ? *busy : drifted.value_or("")};
}

Result<Observed> observe_device(runtime::Device& device, const std::function<Status()>& timing) {
  TW_TRY(const double before, recovered_peak(device));
  TW_RETURN_IF_ERROR(timing());
  TW_TRY(double after, tuner::measure_f32_peak(device));
  for (int pause = 0; pause < most_pauses && tuner::drift(before, after); ++pause) {
    std::this_thread::sleep_for(clock_recovery);
    TW_TRY(const double again, tuner::measure_f32_peak(device));
    after = std::max(after, again);
  }
  return Observed{std::max(before, after), tuner::drift(before, after).value_or("")};
}

Rounds rounds_for(int rounds, int threads) {
  Rounds options;
  options.rounds = rounds;
  if (threads > 1) options.between = [] { std::this_thread::sleep_for(idle_poll); };
  return options;
}

}  // namespace tw::bench
