// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state of the caches when a kernel is called. Thread-safe.

#include <optional>
#include <string_view>
#include <vector>

#include "tuner/measure/cache_lines.h"

namespace tw::bench {

enum class CacheState {
  Hot,      ///< calls follow each other, so all arrays are in the caches, as far as they fit
  Cold,     ///< weights in memory, as each call uses another copy of them; other arrays as in Hot
  Network,  ///< activations just written by another layer; weights and outputs in memory
};
std::string_view to_string(CacheState state);  ///< "hot", "cold", "network"
std::optional<CacheState> parse_cache_state(std::string_view text);

using tuner::Bytes;

/// The arrays of a kernel by their role in a network.
struct Arrays {
  std::vector<Bytes> activations, weights, outputs;
};

/// Brings the caches into the state Network. The calling thread evicts weights and outputs from all
/// caches, then writes each activation with its own values, line by line from first to last.
/// Requires: no other thread uses the arrays.
void enter_network_state(const Arrays& arrays);

}  // namespace tw::bench
