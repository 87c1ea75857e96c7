// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the machine can do right now: peak multiply-adds and read bandwidth. Measured beside every
// session, so that records from different moments compare, and before and after a measurement, so
// that a clock change or a neighbour is noticed (contention.h).
//
// The loops use the widest vectors of the target, whatever this program was compiled for: a kernel
// is compared with what its own instruction set can do. Thread-safe, but two measurements at once
// disturb each other.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "tuner/clock.h"

namespace tw::tuner {

struct Peak {
  double gflops = 0;  ///< f32, two operations a multiply-add, all threads together
  int threads = 1;
  std::string isa;  ///< "avx512", "avx2", "avx" or "baseline"
};

/// Runs on `threads` threads, the calling one among them, for budget_ns after a short start. An
/// Environment error when the system refuses a thread. Requires a target that this machine can run.
Result<Peak> measure_f32_peak(int threads, const Clock& clock, int64_t budget_ns = 10'000'000,
                              const Target& target = host_target());

/// GB/s at which one thread reads a buffer of that size over and over: choose half of a cache's
/// size for that cache, several times the last one's for memory.
double measure_read_bandwidth(size_t bytes, const Clock& clock, int64_t budget_ns = 5'000'000,
                              const Target& target = host_target());

}  // namespace tw::tuner
