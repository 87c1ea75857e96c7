// SPDX-License-Identifier: Apache-2.0
#pragma once
// Moves arrays between the levels of the caches, so that a kernel that is timed alone finds its
// data where it would find them in a network. Thread-safe.

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

/// Writes the bytes again with the values that they have, line by line from first to last, so that
/// the caches of this core own them. Requires: no other thread uses the bytes.
void rewrite(Bytes bytes);

/// The arrays of a kernel by their roles in a network.
struct Roles {
  std::vector<Bytes> activations, constants;
};

/// Removes the data of a kernel from the caches of all of its threads' cores.
class CacheSweep {
 public:
  /// `machine` has the sizes of the caches. The clock limits the wait for threads.
  CacheSweep(const Machine& machine, Clock clock);

  /// Brings the caches into a state other than Hot. Each thread reads other data until its L1 and
  /// L2 hold nothing of the kernel's, evicts its share of the constants if the state has them in
  /// memory, and writes its share of the activations again, as the kernel before would have done.
  /// All threads are gathered before and after (meeting.h), and stay awake as between the steps of
  /// a network.
  void enter(dsl::CacheState state, const Roles& roles, runtime::ThreadPool& pool, int threads);

 private:
  Clock clock_;
  std::vector<std::byte> other_;  ///< data that no kernel uses
};

}  // namespace tw::tuner
