// SPDX-License-Identifier: Apache-2.0
#include "tuner/peak.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "tuner/crew.h"
#include "tuner/loops.h"

namespace tw::tuner {
namespace {

/// Operations of one call of the loop: two a multiply-add.
double flops_of(const Loops& loops) {
  return 2 * loops.fmas * loops.vector_bytes / static_cast<int>(sizeof(float));
}

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

/// Threads that wait for each other, each on its core. The first is the caller, who gives up late.
class Meeting {
 public:
  Meeting(int threads, const Clock& clock, int64_t until_ns)
      : clock_(clock), until_ns_(until_ns), cores_(static_cast<size_t>(threads)) {}

  int64_t until_ns() const { return until_ns_; }
  void open() {
    arrived_ = 0;
    is_over_ = false;
  }
  void attend(size_t thread) {
    cores_[thread] = sched_getcpu();
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    while (!is_complete() && !is_over_.load(std::memory_order_relaxed))
      if (thread == 0 && clock_() >= until_ns_) is_over_.store(true, std::memory_order_relaxed);
  }
  bool is_complete() const { return arrived_.load(std::memory_order_acquire) == cores_.size(); }

  /// Whether another thread had the caller's core.
  bool shares_core() const {
    return std::find(cores_.begin() + 1, cores_.end(), cores_[0]) != cores_.end();
  }
  /// Moves the caller to a core that none of the others has, if it may use one. The system is free
  /// to move it again.
  bool leave_core() const {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
    cpu_set_t free = allowed;
    for (const int core : cores_) CPU_CLR(static_cast<size_t>(core), &free);
    return CPU_COUNT(&free) > 0 && sched_setaffinity(0, sizeof free, &free) == 0 &&
           sched_setaffinity(0, sizeof allowed, &allowed) == 0;
  }

 private:
  const Clock& clock_;
  int64_t until_ns_;
  std::vector<int> cores_;
  std::atomic<size_t> arrived_{0};
  std::atomic<bool> is_over_{false};
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
    : pool_(pool), threads_(threads), clock_(std::move(clock)) {
  const Loops loops = loops_for(target);
  fma_ = loops.fma;
  flops_ = flops_of(loops);
}

void Gauge::assemble(int64_t patience_ns) {
  Meeting meeting(threads_, clock_, clock_() + patience_ns);
  const auto attend = [](void* context, int32_t thread) noexcept -> int32_t {
    static_cast<Meeting*>(context)->attend(static_cast<size_t>(thread));
    return 0;
  };
  do {
    meeting.open();
    pool_.parallel_for(threads_, attend, &meeting, threads_, runtime::Distribution::Static);
  } while (meeting.is_complete() && meeting.shares_core() && meeting.leave_core() &&
           clock_() < meeting.until_ns());
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
