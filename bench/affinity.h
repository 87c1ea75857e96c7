// SPDX-License-Identifier: Apache-2.0
#pragma once
// Binds threads to cores. Thread-safe.

#include <cstddef>
#include <vector>

namespace tw::bench {

/// Binds the calling thread to a core for the rest of its life. If the system refuses, the thread
/// stays unbound.
void pin_to(int core);

/// Binds the calling thread to some of its cores for the object's life. Threads that it starts in
/// this time are bound too.
class PinnedHere {
 public:
  /// Binds to the first core.
  PinnedHere();
  /// Binds to at most `count` cores, from the core at index `first` of the allowed ones on.
  PinnedHere(size_t first, size_t count);
  ~PinnedHere();
  PinnedHere(const PinnedHere&) = delete;
  PinnedHere& operator=(const PinnedHere&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace tw::bench
