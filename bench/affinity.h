// SPDX-License-Identifier: Apache-2.0
#pragma once
// Binds threads to cores. Thread-safe.

#include <cstddef>
#include <vector>

namespace tw::bench {

/// Binds the calling thread to a core for the rest of its life. If the system refuses, the thread
/// stays unbound.
void pin_to(int core);

/// Binds the calling thread, as long as the object lives, to some of the cores that the thread was
/// allowed to use before. Threads that the thread starts in this time are bound too.
class PinnedHere {
 public:
  /// Binds the thread to the first allowed core.
  PinnedHere();
  /// Binds the thread to at most `count` of its allowed cores, beginning with the one at index
  /// `first`.
  PinnedHere(size_t first, size_t count);
  ~PinnedHere();
  PinnedHere(const PinnedHere&) = delete;
  PinnedHere& operator=(const PinnedHere&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace tw::bench
