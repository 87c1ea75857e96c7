// SPDX-License-Identifier: Apache-2.0
#pragma once
// Binds threads to cores. Thread-safe.

#include <vector>

namespace tw::bench {

/// Binds the calling thread to a core, for good. If the system refuses, the thread stays unbound.
void pin_to(int core);

/// Binds the calling thread to its first core for the object's life.
class PinnedHere {
 public:
  PinnedHere();
  ~PinnedHere();
  PinnedHere(const PinnedHere&) = delete;
  PinnedHere& operator=(const PinnedHere&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace tw::bench
