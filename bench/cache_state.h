// SPDX-License-Identifier: Apache-2.0
#pragma once
// The states of the caches in which a kernel can be timed. Thread-safe.

#include <optional>
#include <string_view>
#include <vector>

#include "tuner/measure/cache_lines.h"

namespace tw::bench {

enum class CacheState {
  /// Calls follow each other directly, so all arrays are in the caches, as far as they fit.
  Hot,
  /// Weights are in memory, because each call uses another copy of them; other arrays as in Hot.
  Cold,
  /// Activations are in the caches, as if just written by another layer; weights and outputs are in
  /// memory.
  Network,
};
std::string_view to_string(CacheState state);  ///< "hot", "cold", "network"
std::optional<CacheState> parse_cache_state(std::string_view text);

using tuner::Bytes;

/// The arrays of a kernel, divided by their role in a network.
struct Arrays {
  std::vector<Bytes> activations, weights, outputs;
};

/// Brings the caches into the state Network. The calling thread evicts weights and outputs from all
/// caches. Then it reads one byte of each cache line of the activations and writes the same value
/// back, from the first line to the last. So the activations are then in the caches of this
/// thread's core, as far as they fit. Requires: no other thread uses the arrays.
void enter_network_state(const Arrays& arrays);

}  // namespace tw::bench
