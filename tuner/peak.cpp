// SPDX-License-Identifier: Apache-2.0
#include "tuner/peak.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "tuner/crew.h"

namespace tw::tuner {
namespace {

// --- Loops, one version an instruction set ---

/// About 5 us a call: short beside the 1 ms windows in which calls are counted.
constexpr int fma_iterations = 1024;

/// Independent chains hide the latency: 4 cycles times 2 ports need 8; more than the registers
/// spill. The multiplier keeps the values near 1, away from denormals and infinity.
#define TW_FMA_LOOP(name, target, vector_bytes, chains)                                            \
  target void name(volatile float* seed) {                                                         \
    typedef float Vector __attribute__((vector_size(vector_bytes)));                               \
    const Vector scale = *seed * 0.5f + Vector{}, shift = 1.0f - scale;                            \
    Vector sums[chains];                                                                           \
    for (int c = 0; c < chains; ++c) sums[c] = scale + static_cast<float>(c);                      \
    for (int i = 0; i < fma_iterations; ++i) {                                                     \
      _Pragma("GCC unroll 16") for (int c = 0; c < chains; ++c) sums[c] = sums[c] * scale + shift; \
    }                                                                                              \
    for (int c = 1; c < chains; ++c) sums[0] += sums[c];                                           \
    *seed = sums[0][0] == 0 ? 1.0f : 1.0f + 0 * sums[0][0];                                        \
  }

#if defined(__x86_64__)
#define TW_AVX512 __attribute__((target("avx512f,prefer-vector-width=512")))
#define TW_AVX2 __attribute__((target("avx2,fma")))
#define TW_AVX __attribute__((target("avx")))
TW_FMA_LOOP(fma_avx512, TW_AVX512, 64, 16)
TW_FMA_LOOP(fma_avx2, TW_AVX2, 32, 12)
TW_FMA_LOOP(fma_avx, TW_AVX, 32, 12)
#endif
TW_FMA_LOOP(fma_baseline, , 16, 12)

struct Loops {
  const char* isa;
  void (*fma)(volatile float* seed);
  double flops_per_fma_call;
};

constexpr double flops(int vector_bytes, int chains) {
  return 2.0 * fma_iterations * chains * vector_bytes / static_cast<int>(sizeof(float));
}

Loops best_loops([[maybe_unused]] const Target& target) {
#if defined(__x86_64__)
  if (target.has("avx512f")) return {"avx512", fma_avx512, flops(64, 16)};
  if (target.has("avx2") && target.has("fma")) return {"avx2", fma_avx2, flops(32, 12)};
  if (target.has("avx")) return {"avx", fma_avx, flops(32, 12)};
#endif
  return {"baseline", fma_baseline, flops(16, 12)};
}

// --- Rates ---

/// The rate that stands for a measurement: above most disturbed windows, below the ones that are
/// too good because the clock was read late at their start.
double upper_quartile(std::vector<double> rates) {
  if (rates.empty()) return 0;
  const auto at = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() * 3 / 4);
  std::nth_element(rates.begin(), at, rates.end());
  return *at;
}

struct alignas(64) Counter {
  std::atomic<int64_t> calls{0};
};

}  // namespace

Result<Peak> measure_f32_peak(int threads, const Clock& clock, int64_t budget_ns,
                              const Target& target) {
  TW_CHECK(threads > 0);
  const Loops loops = best_loops(target);
  std::vector<Counter> counters(static_cast<size_t>(threads));
  const auto step = [&](size_t thread) {
    volatile float seed = 1.0f;
    loops.fma(&seed);
    counters[thread].calls.fetch_add(1, std::memory_order_relaxed);
  };
  const auto calls = [&] {
    int64_t sum = 0;
    for (const Counter& c : counters) sum += c.calls.load(std::memory_order_relaxed);
    return sum;
  };
  Crew crew(threads, step);
  TW_RETURN_IF_ERROR(crew.start("peak"));
  while (std::any_of(counters.begin() + 1, counters.end(),
                     [](const Counter& c) { return c.calls == 0; }))
    step(0);
  std::vector<double> rates = crew.rates(calls, clock, budget_ns);
  for (double& rate : rates) rate *= loops.flops_per_fma_call;
  return Peak{upper_quartile(std::move(rates)), threads, loops.isa};
}

Gauge::Gauge(runtime::ThreadPool& pool, int threads, Clock clock, const Target& target)
    : pool_(pool), threads_(threads), clock_(std::move(clock)) {
  const Loops loops = best_loops(target);
  fma_ = loops.fma;
  flops_ = loops.flops_per_fma_call;
}

double Gauge::read() {
  constexpr int windows = 3;
  // About 10 us a window on one thread; handing out tasks to more takes a few of its own.
  struct Work {
    void (*fma)(volatile float* seed);
    int calls;
  } work = {fma_, threads_ == 1 ? 4 : 12};
  const auto run = [](void* context, int32_t) noexcept -> int32_t {
    const auto* w = static_cast<const Work*>(context);
    volatile float seed = 1.0f;
    for (int i = 0; i < w->calls; ++i) w->fma(&seed);
    return 0;
  };
  const double flops = flops_ * work.calls * threads_;
  double speed = 0;
  int64_t now = clock_();
  for (int i = 0; i < windows; ++i) {
    const int64_t from = now;
    pool_.parallel_for(threads_, run, &work, threads_, runtime::Distribution::Static);
    now = clock_();
    if (now > from) speed = std::max(speed, flops / static_cast<double>(now - from));
  }
  readings_.push_back(speed);
  if (readings_.size() == group) {
    const double complete = upper_quartile(std::exchange(readings_, {}));
    while (!groups_.empty() && groups_.back().speed <= complete) groups_.pop_back();
    groups_.push_back({now, complete});
  }
  while (!groups_.empty() && groups_.front().at_ns < now - memory_ns) groups_.pop_front();
  return speed;
}

double Gauge::undisturbed() const {
  const double known = groups_.empty() ? 0 : groups_.front().speed;
  if (known > 0 && readings_.size() < group / 2) return known;
  return std::max(known, upper_quartile(readings_));
}

}  // namespace tw::tuner
