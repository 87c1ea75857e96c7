// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the machine can do right now: peak multiply-adds. Measured beside every session, so that
// records from different moments compare, and before and after a measurement, so that a clock
// change or a neighbour is noticed (contention.h).
//
// The loops use the widest vectors that the machine has, whatever this program was compiled for.
// Thread-safe, but two measurements at once disturb each other.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "tuner/clock.h"

namespace tw::tuner {

struct Peak {
  double gflops = 0;  ///< f32, two operations a multiply-add, all threads together
  int threads = 1;
  std::string isa;  ///< "avx512", "avx2" or "baseline"
};

/// Runs on `threads` threads, the calling one among them, for budget_ns after a short start. An
/// Environment error when the system refuses a thread.
Result<Peak> measure_f32_peak(int threads, const Clock& clock, int64_t budget_ns = 10'000'000);

}  // namespace tw::tuner
