// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the peak rate of multiply-adds at this moment. Every tuning run measures it, so that
// records from different moments can be compared. A Watch reads a Gauge before and after every
// timing, which shows a change of the clock rate or another busy process (watch.h).
//
// The loops use the widest vectors of the target, even if this program was compiled for narrower
// ones, because a kernel is compared with the peak of its own instruction set. measure_f32_peak()
// is thread-safe, but two measurements at the same time disturb each other. A Gauge is used by one
// thread at a time.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "runtime/thread_pool.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

struct Peak {
  double gflops = 0;  ///< f32 rate of all threads together; a multiply-add is two operations
  int threads = 1;
  std::string isa;  ///< "avx512", "avx2", "avx" or "baseline"
};

/// Measures the peak on `threads` threads, including the calling thread, for budget_ns after a
/// short warm-up. Fails with Environment if the system refuses a thread. Requires: threads >= 1,
/// and this machine can run the target.
Result<Peak> measure_f32_peak(int threads, const Clock& clock, int64_t budget_ns = 10'000'000,
                              const Target& target = host_target());

/// Reads the speed of the machine within about 50 us, by the loop that also measures the peak.
/// Timings that are taken beside a reading can be judged by it. Another process on the sibling
/// thread of a core slows the loop as it slows a kernel, although the system reports neither load
/// nor context switches.
class Gauge {
 public:
  /// A gauge on `threads` threads of the pool, which must outlive it. Requires: this machine can
  /// run the target.
  Gauge(runtime::ThreadPool& pool, int threads, Clock clock, const Target& target = host_target());
  int threads() const { return threads_; }

  /// Brings all threads of the gauge into a running state (gather() in meeting.h). Without this
  /// call, readings and timings may run on fewer threads.
  void assemble(int64_t patience_ns);

  /// Runs the loop, and returns its speed in GFLOP/s of all threads together. It is the speed of
  /// the fastest of a few short windows, since a timer interrupt may disturb one of them.
  double read();
  /// Returns the speed of the machine when nothing disturbs it, in GFLOP/s; 0 before the first
  /// reading. Single readings scatter by 5 %, so each group of `group` readings counts with its
  /// upper quartile. The last group may be incomplete; it counts too if it has at least half of its
  /// readings or is the only one. The result is the largest of these quartiles in the latest
  /// `memory_ns`. So a clock rate that stays lower for longer than `memory_ns` counts as a slower
  /// machine.
  double undisturbed() const;

  static constexpr int64_t memory_ns = 30'000'000'000;
  static constexpr size_t group = 32;

 private:
  struct Group {
    int64_t at_ns;
    double speed;
  };
  runtime::ThreadPool& pool_;
  /// Keeps the threads of the pool awake: waking them would slow readings and timings.
  runtime::ThreadPool::Awake awake_;
  int threads_;
  Clock clock_;
  void (*fma_)(volatile float* seed);
  double flops_;  ///< number of operations in a call of fma_
  /// The groups of the latest `memory_ns` that are faster than all groups after them. The oldest
  /// group comes first and is the fastest.
  std::deque<Group> groups_;
  std::vector<double> readings_;  ///< readings of the incomplete group
};

}  // namespace tw::tuner
