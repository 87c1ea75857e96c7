// SPDX-License-Identifier: Apache-2.0
#include "bench/cache_state.h"

#include <array>
#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tw::bench {
namespace {

constexpr size_t line_bytes = 64;

constexpr std::array<std::string_view, 3> names = {"hot", "cold", "network"};

void evict_line(const std::byte* address) {
#if defined(__x86_64__)
  _mm_clflush(address);
#elif defined(__aarch64__)
  asm volatile("dc civac, %0" : : "r"(address) : "memory");
#else
#error "how does this processor evict a line?"
#endif
}

/// Calls `visit` with the first byte in each cache line that the bytes touch.
template <typename Visit>
void for_each_line(Bytes bytes, const Visit& visit) {
  const auto into = reinterpret_cast<uintptr_t>(bytes.data()) % line_bytes;
  for (size_t at = 0; at < bytes.size(); at = at == 0 ? line_bytes - into : at + line_bytes)
    visit(bytes.data() + at);
}

void rewrite_line(std::byte* address) {
  volatile std::byte* const byte = address;
  *byte = *byte;  // makes the line modified, and owned by this core's caches
}

}  // namespace

std::string_view to_string(CacheState state) { return names[static_cast<size_t>(state)]; }

std::optional<CacheState> parse_cache_state(std::string_view text) {
  for (size_t i = 0; i < names.size(); ++i)
    if (text == names[i]) return static_cast<CacheState>(i);
  return std::nullopt;
}

void enter_network_state(const Arrays& arrays) {
  for (const auto* away : {&arrays.weights, &arrays.outputs})
    for (const Bytes bytes : *away) for_each_line(bytes, evict_line);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Bytes bytes : arrays.activations) for_each_line(bytes, rewrite_line);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace tw::bench
