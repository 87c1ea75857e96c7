// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which cores threads run on. Thread-safe.

#include <vector>

namespace tw::bench {

/// Binds the calling thread to a core, for good; a refusal is ignored: the thread floats.
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
