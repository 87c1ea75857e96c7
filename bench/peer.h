// SPDX-License-Identifier: Apache-2.0
#pragma once
// The libraries that kernels are compared with. Which are there was decided when this was built.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/contender.h"

namespace tw::bench {

struct Peer {
  std::string name, version;
  /// A workload in the forms in which the library offers it, of which the fastest counts. `item` is
  /// the workload's name. Unsupported where the library or this program has none.
  Result<std::vector<std::unique_ptr<Contender>>> (*make)(const std::string& item,
                                                          const Setup& setup);
  /// It takes and returns row-major arrays, so what we pack is part of our time.
  bool row_major = false;
};

Peer onednn_peer();
Peer halide_peer();

/// Usage with the names that there are, Environment where this was built without it.
Result<Peer> find_peer(std::string_view name);

}  // namespace tw::bench
