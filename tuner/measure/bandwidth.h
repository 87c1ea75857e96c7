// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory hierarchy as the threads of a kernel share it: which level holds arrays of a given
// size, and how fast the machine streams through arrays of that size at this moment.
//
//   const MemoryLevel level = level_of(footprint, target, threads);   // "L3"
//   TW_TRY(const Bandwidth rate, measure_bandwidth(footprint, threads, clock));
//   rate.of(read_bytes, written_bytes);                               // GB/s
//
// The loops use the widest vectors of host_target(), whatever this program was compiled for.
// Thread-safe, but two measurements at once disturb each other.

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

/// Smallest first. L1 and L2 belong to a core each, L3 to all; a GPU has L2 and memory. Levels that
/// are no larger than the one before are left out.
std::vector<MemoryLevel> memory_levels(const Target& target, int threads);

/// The smallest level that holds `footprint` bytes.
MemoryLevel level_of(int64_t footprint, const Target& target, int threads);

/// Rates in GB/s (1e9 bytes) of all threads together. A copied byte counts twice, as read and as
/// written; the read-for-ownership of a cache line that is overwritten does not count.
struct Bandwidth {
  double read_gb_per_s = 0, copy_gb_per_s = 0;

  /// The rate for a kernel that reads and writes this much: as much is copied as is both read and
  /// written, and the rest is read (or, where more is written, written at the rate of copies). 0
  /// where nothing was measured.
  double of(double read_bytes, double written_bytes) const;
};

/// Streams through arrays of `footprint` bytes (at most 128 MiB, which shows the speed of memory)
/// on `threads` threads, the calling one among them, each in a part of its own. Takes budget_ns for
/// each of reading and copying, and the time to touch the arrays once. Fails with Environment where
/// the system refuses threads or memory. Requires: threads >= 1.
Result<Bandwidth> measure_bandwidth(int64_t footprint, int threads, const Clock& clock,
                                    int64_t budget_ns = 10'000'000);

}  // namespace tw::tuner
