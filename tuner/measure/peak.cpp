// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/peak.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "tuner/measure/crew.h"
#include "tuner/measure/loops.h"
#include "tuner/measure/meeting.h"

namespace tw::tuner {
namespace {

/// Returns the number of operations in one call of Loops::fma; a multiply-add counts as two.
double flops_of(const Loops& loops) {
  return 2 * loops.fmas * loops.vector_bytes / static_cast<int>(sizeof(float));
}

/// Returns the upper quartile, which is used as the result of several windows. It is above most
/// disturbed windows, and below windows that look too fast because the clock was read late at their
/// start.
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
  const Loops loops = loops_for(target);
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
  for (double& rate : rates) rate *= flops_of(loops);
  return Peak{upper_quartile(std::move(rates)), threads, std::string(loops.isa)};
}

Gauge::Gauge(runtime::ThreadPool& pool, int threads, Clock clock, const Target& target)
    : pool_(pool), awake_(pool), threads_(threads), clock_(std::move(clock)) {
  const Loops loops = loops_for(target);
  fma_ = loops.fma;
  flops_ = flops_of(loops);
}

void Gauge::assemble(int64_t patience_ns) { gather(pool_, threads_, clock_, patience_ns); }

double Gauge::read() {
  constexpr int windows = 3;
  // A window takes about 10 us on one thread. With more threads it has more calls, because handing
  // out the tasks takes a few microseconds itself.
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
