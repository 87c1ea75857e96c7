// SPDX-License-Identifier: Apache-2.0
#include "dsl/cache_state.h"

#include <fmt/format.h>

#include <array>

namespace tw::dsl {
namespace {

constexpr std::array<std::string_view, 3> state_names = {"hot", "network:L3", "network:memory"};

}  // namespace

std::string_view to_string(CacheState state) { return state_names[static_cast<size_t>(state)]; }

Result<CacheState> parse_cache_state(std::string_view text) {
  for (size_t i = 0; i < state_names.size(); ++i)
    if (text == state_names[i]) return static_cast<CacheState>(i);
  return fail(
      ErrorCode::Usage,
      fmt::format("[caches] '{}' is no state: use hot, network:L3 or network:memory", text));
}

}  // namespace tw::dsl
