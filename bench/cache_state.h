// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state of the caches when a kernel is called. Thread-safe.

#include <optional>
#include <string_view>
#include <vector>

#include "tuner/measure/cache_lines.h"

namespace tw::bench {

enum class CacheState {
  Hot,      ///< all in the caches, as far as they fit: calls follow each other
  Cold,     ///< weights in memory, as each call has another copy of them; all else as in Hot
  Network,  ///< activations just written by another layer; weights and outputs in memory
};
std::string_view to_string(CacheState state);  ///< "hot", "cold", "network"
std::optional<CacheState> parse_cache_state(std::string_view text);

using tuner::Bytes;

/// The arrays of a kernel by their role in a network.
struct Arrays {
  std::vector<Bytes> activations, weights, outputs;
};

/// Evicts weights and outputs from all caches, then writes the activations again, as they are, line
/// by line and from first to last, on the calling thread. Requires: nobody else uses them.
void enter_network_state(const Arrays& arrays);

}  // namespace tw::bench
