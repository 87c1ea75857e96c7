// SPDX-License-Identifier: Apache-2.0
#pragma once
// Moves arrays between the levels of the caches before a kernel is timed alone, so that the kernel
// finds its data in the same cache level as if other operators of a network had run before it.
// Thread-safe.

#include <cstddef>
#include <span>
#include <vector>

#include "base/machine.h"
#include "dsl/cache_state.h"
#include "runtime/thread_pool.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

using Bytes = std::span<std::byte>;

/// Writes the bytes back to memory and evicts them from the caches of all cores. The memory may be
/// read-only.
void evict(Bytes bytes);

/// Writes one byte of each cache line again with the value that it has, from the first line to the
/// last, so that the caches of this core hold the lines as modified. Requires: no other thread uses
/// the bytes.
void rewrite(Bytes bytes);

/// The inputs of a kernel by their roles in a network: activations, which the operator before has
/// just computed, and constants, such as weights.
struct Roles {
  std::vector<Bytes> activations, constants;
};

/// Brings the caches of the cores on which a kernel's threads run into a dsl::CacheState.
class CacheSweep {
 public:
  /// `machine` gives the sizes of the caches. `clock` limits how long enter() waits for threads.
  CacheSweep(const Machine& machine, Clock clock);

  /// Brings the caches into `state`, which must not be Hot. Each of the `threads` threads does
  /// three things in this order:
  /// - It reads other data until its L1 and L2 hold none of the kernel's data.
  /// - If the state is NetworkMemory, it evicts its share of the constants.
  /// - It rewrites its share of the activations, because the operator before has just written them.
  ///
  /// If there are several threads, they are gathered before and after these steps (meeting.h), so
  /// that no thread sleeps when the kernel is called, as between two operators of a network.
  void enter(dsl::CacheState state, const Roles& roles, runtime::ThreadPool& pool, int threads);

 private:
  Clock clock_;
  std::vector<std::byte> other_;  ///< data that no kernel uses, read to fill the caches
};

}  // namespace tw::tuner
