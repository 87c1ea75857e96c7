// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state of the caches when a kernel is called, as far as its caller knows it: a part of what is
// asked of a kernel, as layouts are. The fastest kernel for weights that lie in L2 need not be the
// fastest for weights that come from memory. Thread-safe.

#include <string_view>

#include "base/result.h"

namespace tw::dsl {

///   Hot: calls follow each other, so all arrays are in the caches, as far as they fit.
///   NetworkL3, NetworkMemory: between two calls the other operators of a network run. The
///     activations that the kernel reads were just written, what it writes has left L1 and L2 and
///     lies in L3, and constants come from L3 or from main memory.
enum class CacheState { Hot, NetworkL3, NetworkMemory };
std::string_view to_string(CacheState state);  ///< "hot", "network:L3", "network:memory"
/// Usage, naming the states, for any other text.
Result<CacheState> parse_cache_state(std::string_view text);

}  // namespace tw::dsl
