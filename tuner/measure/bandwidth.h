// SPDX-License-Identifier: Apache-2.0
#pragma once
// Says in which level of the memory hierarchy arrays of a given size lie, and measures how fast the
// machine streams through such arrays at this moment. Both depend on the number of threads, because
// each core has its own L1 and L2.
//
//   const MemoryLevel level = level_of(footprint, target, threads);   // "L3"
//   TW_TRY(const Bandwidth rate, measure_bandwidth(footprint, threads, clock));
//   rate.of(read_bytes, written_bytes);                               // GB/s
//
// The loops use the widest vectors of host_target(), even if this program was compiled for narrower
// ones. Thread-safe, but two measurements at the same time disturb each other.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

struct MemoryLevel {
  std::string_view name;  ///< "L1", "L2", "L3", "memory"
  int64_t bytes = 0;      ///< capacity for all threads together; INT64_MAX for memory
};

/// Returns the memory levels for `threads` threads, smallest first. On processors they are L1, L2,
/// L3 and memory. Each core has its own L1 and L2, so their capacities are multiplied by the number
/// of threads; all cores share L3. A GPU has L2 and memory. A level that is no larger than the
/// level before it is left out.
std::vector<MemoryLevel> memory_levels(const Target& target, int threads);

/// Returns the smallest level that holds `footprint` bytes.
MemoryLevel level_of(int64_t footprint, const Target& target, int threads);

/// Rates of all threads together, in GB/s (1e9 bytes). A copied byte counts twice, once as read and
/// once as written. The read-for-ownership of a cache line that is overwritten does not count.
struct Bandwidth {
  double read_gb_per_s = 0, copy_gb_per_s = 0;

  /// Returns the rate in GB/s for a kernel that reads `read_bytes` and writes `written_bytes`; 0 if
  /// nothing was measured or both are 0. Each written byte is counted at the rate of copies,
  /// together with one read byte if there are enough. The remaining read bytes are counted at the
  /// rate of reads. For example, if 3 GB are read and 1 GB is written, 2 GB (1 read, 1 written)
  /// count as copied and 2 GB as read.
  double of(double read_bytes, double written_bytes) const;
};

/// Measures the rates by streaming through arrays of `footprint` bytes. For a footprint above 128
/// MiB the arrays have 128 MiB, which is enough to show the speed of memory. `threads` is the
/// number of threads, including the calling thread; each streams through its own part of the
/// arrays. Reading and copying are measured for budget_ns each, in addition to the time for
/// touching the arrays once. Fails with Environment if the system refuses threads or memory.
/// Requires: threads >= 1.
Result<Bandwidth> measure_bandwidth(int64_t footprint, int threads, const Clock& clock,
                                    int64_t budget_ns = 10'000'000);

}  // namespace tw::tuner
