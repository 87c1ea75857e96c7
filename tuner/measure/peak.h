// SPDX-License-Identifier: Apache-2.0
#pragma once
// The peak rate of multiply-adds at this moment. It is measured beside every session, so that
// records from different moments compare, and by a Gauge before and after every timing, so that a
// change of the clock frequency or a busy neighbour is noticed (watch.h).
//
// The loops use the widest vectors of the target, whatever this program was compiled for: a kernel
// is compared with what its own instruction set can do. Thread-safe, but two measurements at once
// disturb each other.

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
  double gflops = 0;  ///< f32, two operations a multiply-add, all threads together
  int threads = 1;
  std::string isa;  ///< "avx512", "avx2", "avx" or "baseline"
};

/// Measures on `threads` threads, the calling one among them, for budget_ns after a short start.
/// Fails with Environment when the system refuses a thread. Requires: threads >= 1, and a target
/// that this machine can run.
Result<Peak> measure_f32_peak(int threads, const Clock& clock, int64_t budget_ns = 10'000'000,
                              const Target& target = host_target());

/// Reads the speed of the machine within some 50 us, by the loop that measures the peak: a
/// reference of known speed beside which timings are taken. Another process on the core's sibling
/// thread, which the system shows neither as load nor as switches, slows the loop as it slows a
/// kernel.
class Gauge {
 public:
  /// Reads on `threads` threads of the pool, which must outlive the gauge. Requires a target that
  /// this machine can run.
  Gauge(runtime::ThreadPool& pool, int threads, Clock clock, const Target& target = host_target());
  int threads() const { return threads_; }

  /// Gathers the threads of the gauge (meeting.h). Without that, readings and timings are of fewer
  /// threads.
  void assemble(int64_t patience_ns);

  /// GFLOP/s of f32 multiply-adds on all threads together: the fastest of a few short windows, one
  /// of which a timer's interrupt may disturb.
  double read();
  /// The speed that the machine has when nothing disturbs it: of the readings of the latest
  /// `memory_ns`, in groups of `group`, the fastest group's upper quartile; 0 before the first.
  /// Single readings scatter by 5 %. A machine whose clock stays lower for longer is a slower
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
  runtime::ThreadPool::Awake awake_;  ///< threads that slept would make readings and timings slow
  int threads_;
  Clock clock_;
  void (*fma_)(volatile float* seed);
  double flops_;  ///< operations of one call of fma_
  /// The groups of the latest `memory_ns` that are faster than all later groups. The oldest, which
  /// is the fastest, comes first.
  std::deque<Group> groups_;
  std::vector<double> readings_;  ///< of the group that is not complete yet
};

}  // namespace tw::tuner
