// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/coverage.h"

#include <cstddef>
#include <cstdint>

// The compiler inserts a call of the function below into each block of code. So the functions here
// must be neither instrumented nor checked themselves.
#define TW_PLAIN __attribute__((no_sanitize("address", "undefined"), no_sanitize_coverage))

namespace tw::fuzz {
namespace {

constexpr size_t places = 1 << 18;

// Plain arrays, because members of std::array would be instrumented.
uint8_t reached_now[places], reached_ever[places];
uint32_t reached_list[places];
size_t reached_count;

}  // namespace

TW_PLAIN void begin_input() {
  for (size_t i = 0; i < reached_count; ++i) reached_now[reached_list[i]] = 0;
  reached_count = 0;
}

TW_PLAIN bool reached_something_new() {
  bool is_new = false;
  for (size_t i = 0; i < reached_count; ++i) {
    uint8_t& ever = reached_ever[reached_list[i]];
    is_new |= ever == 0;
    ever = 1;
  }
  return is_new;
}

TW_PLAIN void reach(uint64_t address) {
  const uint32_t place = static_cast<uint32_t>((address * 0x9e3779b97f4a7c15ull) >> 46);
  if (reached_now[place]) return;
  reached_now[place] = 1;
  reached_list[reached_count++] = place;
}

}  // namespace tw::fuzz

// The place is relative to our own code, so that runs with the same seed are the same wherever the
// program is loaded.
extern "C" TW_PLAIN void __sanitizer_cov_trace_pc() {
  tw::fuzz::reach(reinterpret_cast<uint64_t>(__builtin_return_address(0)) -
                  reinterpret_cast<uint64_t>(&tw::fuzz::begin_input));
}
