// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the numbers of a CPU that is not in the table of known processors: the ports, latencies
// and vector width of a core, the caches, and main memory. A calibration takes well under a second
// on a quiet machine, and at most 3 seconds.
//
//   TW_TRY(const Machine machine, calibrate_processor(host_target(), monotonic_clock()));
//
// Times are converted to cycles by a chain of dependent integer additions that is timed right
// before each measurement. An addition takes one cycle on every processor, so a changing clock rate
// does not matter. A timing that was disturbed (watch.h) is repeated.
//
// The size of a cache is the size of arrays at which the reading speed changes, because an array
// that is read repeatedly is read at the speed of the smallest level that holds it. The search for
// this size starts from the size that the system reports, but does not trust it: a virtual machine
// may have only a part of a cache.

#include <cstdint>
#include <memory>

#include "base/machine.h"
#include "base/result.h"
#include "base/target.h"
#include "tuner/measure/watch.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Operations that a Bench times. They work on whole vectors, with three exceptions: an Addition
/// adds two integers, an Instruction is any single instruction of the mix, and an operation of a
/// tile probe is the dot product of two vectors of 64 bytes.
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

/// Runs and times the operations of a calibration. Tests replace it by simulated processors. Not
/// thread-safe.
class Bench {
 public:
  virtual ~Bench() = default;
  /// True if the processor has instructions for the operation and the system lets this process use
  /// them. It is always true except for dot products, of vectors or of tiles. If `probe` is a dot
  /// product of tiles, the call asks the system for permission to use the tile registers.
  virtual bool has(Probe probe) const = 0;
  /// Returns the time of one operation in ns, measured for some 10 us. Requires: has(probe).
  virtual double operation_ns(Probe probe) = 0;
  /// Allocates arrays of `footprint` bytes in total, with a part for each of `threads` threads.
  /// Each thread reads its part once, so that the arrays lie in the fastest memory level that holds
  /// them. Fails with Environment if the system refuses memory or threads, and with TryLater if the
  /// arrays are not ready by the deadline.
  virtual Status lay_out(int64_t footprint, int threads, int64_t deadline_ns) = 0;
  /// Lets all threads read their parts of the arrays again and again. Returns the elapsed time in
  /// ns divided by the bytes that all threads read together. For example, four threads that read 1
  /// MB each in 100 us give 0.025 ns.
  virtual double byte_ns() = 0;
};

/// A Bench for the processor that runs this process, with the loops for the target's vectors.
/// Requires: the processor can run the target.
std::unique_ptr<Bench> processor_bench(const Target& target, Clock clock);

/// Time after which a calibration starts no further timing. The remaining 0.1 s of 3 s is left for
/// the last timing, which may be slow on a busy machine.
inline constexpr int64_t calibration_budget_ns = 2'900'000'000;

/// Returns the description `described` with measured rates, latencies and bandwidths, and with the
/// origin Calibrated. The name, the number of cores, the vector width, and the ways and sharing of
/// the caches stay as described. The described size of a cache is replaced only if the measured
/// size differs from it by more than a factor of two. Fails with TryLater if the machine was
/// disturbed or too slow until the budget ended. Fails with Environment if the numbers are
/// impossible for a machine, if the clock stands still, or if the system refuses memory or threads.
Result<tw::Machine> calibrate(const tw::Machine& described, Bench& bench, Watch& watch,
                              const Clock& clock, int64_t budget_ns = calibration_budget_ns);

/// Calibrates the processor that runs this process, with vectors as wide as the target's features
/// allow. All measurements use one thread. Main memory is also measured with several threads, at
/// most as many as the target's machine has cores. If the target's machine is an assumed one and
/// the system reports the name of the processor, the result has that name. Fails as calibrate().
/// Requires: the processor can run the target.
Result<tw::Machine> calibrate_processor(const Target& target, const Clock& clock,
                                        int64_t budget_ns = calibration_budget_ns);

}  // namespace tw::tuner
