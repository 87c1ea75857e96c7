// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state of the caches when a kernel is called. A caller that knows the state asks for a kernel
// that was tuned for it, because the fastest kernel for weights that lie in L2 need not be the
// fastest for weights that come from main memory. Thread-safe.

#include <string_view>

#include "base/result.h"

namespace tw::dsl {

/// The data of a kernel that are in the caches when it is called.
///   Hot: the kernel is called again and again, so its arrays are in the caches as far as they fit.
///   NetworkL3, NetworkMemory: the other operators of a network run between two calls. Activations
///     that the kernel reads were just written. The memory that the kernel writes has left L1 and
///     L2 and lies in L3. Constants come from L3 (NetworkL3) or main memory (NetworkMemory).
enum class CacheState { Hot, NetworkL3, NetworkMemory };
std::string_view to_string(CacheState state);  ///< "hot", "network:L3", "network:memory"
/// Parses a text of to_string(). Fails with Usage for any other text; the message lists the names.
Result<CacheState> parse_cache_state(std::string_view text);

}  // namespace tw::dsl
