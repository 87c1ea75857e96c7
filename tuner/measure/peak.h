// SPDX-License-Identifier: Apache-2.0
#pragma once
// The peak rate of multiply-adds at this moment. It is measured in every session, so that records
// from different moments can be compared. A Gauge measures it before and after every timing, so
// that a change of the clock rate or a busy neighbour is noticed (watch.h).
//
// The loops use the widest vectors of the target, even if this program was compiled for narrower
// ones, because a kernel is compared with what its own instruction set can do. Thread-safe, but two
// measurements at the same time disturb each other.

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
  double gflops = 0;  ///< f32, all threads together; a multiply-add counts as two operations
  int threads = 1;
  std::string isa;  ///< "avx512", "avx2", "avx" or "baseline"
};

/// Measures the peak on `threads` threads, including the calling one, for budget_ns after a short
/// start. Environment if the system refuses a thread. Requires: threads >= 1, and a target that
/// this machine can run.
Result<Peak> measure_f32_peak(int threads, const Clock& clock, int64_t budget_ns = 10'000'000,
                              const Target& target = host_target());

/// Reads the speed of the machine within about 50 us by the loop that measures the peak. The loop
/// is a reference of known speed beside which timings are taken: another process on the core's
/// sibling thread slows it as it slows a kernel, though the system shows such a process neither as
/// load nor as context switches.
class Gauge {
 public:
  /// A gauge on `threads` threads of the pool, which must outlive it. Requires: this machine can
  /// run the target.
  Gauge(runtime::ThreadPool& pool, int threads, Clock clock, const Target& target = host_target());
  int threads() const { return threads_; }

  /// Gathers the threads of the gauge (meeting.h). Otherwise readings and timings may run on fewer
  /// threads.
  void assemble(int64_t patience_ns);

  /// GFLOP/s of f32 multiply-adds on all threads together. It is the fastest of a few short
  /// windows, since a timer interrupt may disturb one of them.
  double read();
  /// The speed of the machine when nothing disturbs it: the fastest upper quartile of the groups of
  /// `group` readings from the latest `memory_ns`; 0 before the first reading. Single readings
  /// scatter by 5 %. A clock rate that stays lower for longer than `memory_ns` counts as a slower
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
  /// Keeps threads awake, as waking would slow readings and timings.
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
