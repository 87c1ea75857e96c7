// SPDX-License-Identifier: Apache-2.0
#pragma once
// Moves arrays between the levels of the caches, so that a kernel that is timed by itself finds its
// data where it would find them within a network. Thread-safe.

#include <cstddef>
#include <span>
#include <vector>

#include "base/machine.h"
#include "dsl/cache_state.h"
#include "runtime/thread_pool.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

using Bytes = std::span<std::byte>;

/// Writes the bytes back and evicts them from the caches of all cores. They may be read-only.
void evict(Bytes bytes);

/// Writes the bytes again as they are, line by line and from first to last, so that this core's
/// caches own them. Requires: nobody else uses them.
void rewrite(Bytes bytes);

/// The arrays of a kernel by their role in a network.
struct Roles {
  std::vector<Bytes> activations, constants;
};

/// Empties the caches of what a kernel left there, on all of its threads.
class CacheSweep {
 public:
  /// For a machine with these caches. The clock bounds the wait for threads.
  CacheSweep(const Machine& machine, Clock clock);

  /// Brings the caches into a state other than Hot: each of the threads reads other data until what
  /// its L1 and L2 held has moved on to L3, evicts its share of the constants if they are to come
  /// from memory, and writes its share of the activations again, as a kernel before would have. All
  /// threads are gathered before and after (meeting.h), and are awake as between the steps of a
  /// network.
  void enter(dsl::CacheState state, const Roles& roles, runtime::ThreadPool& pool, int threads);

 private:
  Clock clock_;
  std::vector<std::byte> other_;  ///< data that no kernel uses
};

}  // namespace tw::tuner
