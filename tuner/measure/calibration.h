// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the numbers of a CPU that no table has: the ports, latencies and vector width of a core,
// the caches, and main memory. It takes well under a second on a quiet machine, and at most 3
// seconds.
//
//   TW_TRY(const Machine machine, calibrate_processor(host_target(), monotonic_clock()));
//
// Times are converted to cycles by a chain of dependent integer additions that runs beside each
// measurement. An addition takes one cycle on every processor, so a changing clock rate does not
// matter. As for kernels (watch.h), a timing counts only if nothing disturbed it, and is repeated
// otherwise.
//
// The sizes of the caches are the array sizes at which the reading speed changes, since an array
// that is read repeatedly is read at the speed of the smallest level that holds it. They are
// searched for around the sizes that the system reports, because a virtual machine may have only a
// part of a cache.

#include <cstdint>
#include <memory>

#include "base/machine.h"
#include "base/result.h"
#include "base/target.h"
#include "tuner/measure/watch.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Operations that a Bench times. All but Addition and Instruction work on whole vectors.
enum class Probe {
  Addition,              ///< integer additions, each dependent on the one before
  MultiplyAdd,           ///< independent multiply-adds
  DependentMultiplyAdd,  ///< multiply-adds, each dependent on the one before
  ByteDot,               ///< independent dot products of 8-bit integers
  WordDot,               ///< independent dot products of 16-bit integers
  Bf16Dot,               ///< independent dot products of bf16
  ByteTileDot,           ///< dot products of 8-bit integers by the core's tile instructions
  Bf16TileDot,           ///< dot products of bf16 by the core's tile instructions
  Load,                  ///< loads from L1
  Store,                 ///< stores to L1
  Instruction,           ///< instructions of several kinds, mixed
};

/// Does the work of a calibration and times it. Not thread-safe.
class Bench {
 public:
  virtual ~Bench() = default;
  /// True if the processor has instructions for the operation and the system allows them; the call
  /// asks the system for tile registers. Always true for operations that are no dot products.
  virtual bool has(Probe probe) const = 0;
  /// Time of one operation in ns, measured for about 10 us. Requires: has(probe).
  virtual double operation_ns(Probe probe) = 0;
  /// Allocates arrays of `footprint` bytes in total, a part for each of `threads` threads, and
  /// brings them into the memory level that holds them. Environment if the system refuses memory or
  /// threads; TryLater if the arrays are not ready by the deadline.
  virtual Status lay_out(int64_t footprint, int threads, int64_t deadline_ns) = 0;
  /// Time for each byte in ns while all threads read through their parts again and again. It is the
  /// time of all threads together, not of each.
  virtual double byte_ns() = 0;
};

/// A Bench of the processor of this process, by the loops for the target. Requires: the processor
/// can run the target.
std::unique_ptr<Bench> processor_bench(const Target& target, Clock clock);

/// Time limit of a calibration; leaves room within 3 seconds for a last timing on a busy machine.
inline constexpr int64_t calibration_budget_ns = 2'900'000'000;

/// Returns `described` with measured numbers in place of its own, and the origin Calibrated. The
/// vector width is that of the bench. The number of cores, and the sizes, ways and sharing of the
/// caches, are as the system reports them. Errors: TryLater if the machine was disturbed until the
/// budget ended; Environment if the numbers are impossible for a machine, or memory is refused.
Result<tw::Machine> calibrate(const tw::Machine& described, Bench& bench, Watch& watch,
                              const Clock& clock, int64_t budget_ns = calibration_budget_ns);

/// Measures the processor of this process, with vectors as wide as the target's features allow. It
/// measures on one thread and, for main memory, on up to as many threads as the target's machine
/// has cores. If the target's machine is an assumed one, the result is named after the processor,
/// if the system reports its name. Requires: the processor can run the target.
Result<tw::Machine> calibrate_processor(const Target& target, const Clock& clock,
                                        int64_t budget_ns = calibration_budget_ns);

}  // namespace tw::tuner
