// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures what a CPU can do, where no table says it: the ports, latency and width of a core, the
// caches, main memory. It takes well under a second on a quiet machine, and at most 3 seconds.
//
//   TW_TRY(const Machine machine, calibrate_processor(host_target(), monotonic_clock()));
//
// Times become cycles by a chain of dependent integer additions, run beside each of them: one
// addition is one cycle on every processor, so a clock that moves changes nothing. As for kernels
// (watch.h), a timing counts only if nothing disturbed it, and is repeated otherwise.
//
// Caches: an array that is read again and again is read at the speed of the smallest level that
// holds it, so the sizes at which the speed changes are the sizes of the levels. They are sought
// around those that the system reports, of which a virtual machine may see a part only.

#include <cstdint>
#include <memory>

#include "base/machine.h"
#include "base/result.h"
#include "base/target.h"
#include "tuner/measure/watch.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Operations that a Bench times. All but Addition and Instruction operate on whole vectors.
enum class Probe {
  Addition,              ///< of integers, each dependent on the one before
  MultiplyAdd,           ///< independent ones
  DependentMultiplyAdd,  ///< each dependent on the one before
  ByteDot,               ///< independent dot products of integers of 8 bits
  WordDot,               ///< the same of integers of 16 bits
  Bf16Dot,               ///< the same of bf16
  ByteTileDot,           ///< dot products of integers of 8 bits, as parts of tiles of the core
  Bf16TileDot,           ///< the same of bf16
  Load,                  ///< from L1
  Store,                 ///< to L1
  Instruction,           ///< a mix of several kinds
};

/// Does the work of a calibration and times it. Not thread-safe.
class Bench {
 public:
  virtual ~Bench() = default;
  /// True if the processor has instructions for the operation, and the system allows them: it is
  /// asked for tile registers. There are instructions for all operations but dot products and
  /// tiles.
  virtual bool has(Probe probe) const = 0;
  /// Time of one operation in ns, measured over some 10 us. Requires: it has(probe).
  virtual double operation_ns(Probe probe) = 0;
  /// Readies arrays of `footprint` bytes together, a part for each of `threads` threads, in the
  /// level of memory that holds them. Environment where the system refuses memory or threads,
  /// TryLater where it does not have them ready by the deadline.
  virtual Status lay_out(int64_t footprint, int threads, int64_t deadline_ns) = 0;
  /// Time of one byte while all threads read on in their parts, round and round: a time for all
  /// threads, not for each.
  virtual double byte_ns() = 0;
};

/// The processor of this process, by the loops for the target. Requires a target that it can run.
std::unique_ptr<Bench> processor_bench(const Target& target, Clock clock);

/// Leaves room within 3 seconds for a last timing on a busy machine.
inline constexpr int64_t calibration_budget_ns = 2'900'000'000;

/// `described` with measured numbers in place of its own, and the origin Calibrated. Its vector
/// width is that of the bench; its cores, and the sizes, ways and sharing of its caches are those
/// that the system reports. TryLater where the machine was disturbed until the budget was used;
/// Environment where the numbers are none of a machine, or memory is refused.
Result<tw::Machine> calibrate(const tw::Machine& described, Bench& bench, Watch& watch,
                              const Clock& clock, int64_t budget_ns = calibration_budget_ns);

/// Measures the processor of this process, with vectors as wide as the target's features allow: on
/// one thread and, for main memory, on up to as many threads as the target's machine has cores. If
/// the target's machine is an assumed one, the result has the name of the processor, where the
/// system reports it. Requires a target that the processor can run.
Result<tw::Machine> calibrate_processor(const Target& target, const Clock& clock,
                                        int64_t budget_ns = calibration_budget_ns);

}  // namespace tw::tuner
