// SPDX-License-Identifier: Apache-2.0
#include "bench/cache_state.h"

#include <array>

namespace tw::bench {
namespace {

constexpr std::array<std::string_view, 3> names = {"hot", "cold", "network"};

}  // namespace

std::string_view to_string(CacheState state) { return names[static_cast<size_t>(state)]; }

std::optional<CacheState> parse_cache_state(std::string_view text) {
  for (size_t i = 0; i < names.size(); ++i)
    if (text == names[i]) return static_cast<CacheState>(i);
  return std::nullopt;
}

void enter_network_state(const Arrays& arrays) {
  for (const auto* away : {&arrays.weights, &arrays.outputs})
    for (const Bytes bytes : *away) tuner::evict(bytes);
  for (const Bytes bytes : arrays.activations) tuner::rewrite(bytes);
}

}  // namespace tw::bench
