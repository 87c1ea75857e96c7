// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/cache_lines.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "tuner/measure/meeting.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tw::tuner {
namespace {

constexpr size_t line_bytes = 64;

// L2 is emptied by reading this many times its size. If a cache does not strictly replace its
// oldest lines, some old lines survive when as many bytes as its size are read. Hardly any survive
// when twice as many are read.
constexpr int64_t sweeps_of_l2 = 2;

void evict_line(const std::byte* address) {
#if defined(__x86_64__)
  _mm_clflush(address);
#elif defined(__aarch64__)
  asm volatile("dc civac, %0" : : "r"(address) : "memory");
#else
#error "how does this processor evict a line?"
#endif
}

void rewrite_line(std::byte* address) {
  volatile std::byte* const byte = address;
  *byte = *byte;  // makes the line modified, and owned by this core's caches
}

/// Calls `visit` with the first byte in each cache line that the bytes touch.
template <typename Visit>
void for_each_line(Bytes bytes, const Visit& visit) {
  const auto into = reinterpret_cast<uintptr_t>(bytes.data()) % line_bytes;
  for (size_t at = 0; at < bytes.size(); at = at == 0 ? line_bytes - into : at + line_bytes)
    visit(bytes.data() + at);
}

void read_lines(const std::vector<std::byte>& bytes) {
  for (size_t at = 0; at < bytes.size(); at += line_bytes)
    (void)*static_cast<const volatile std::byte*>(&bytes[at]);
}

/// Returns the part of the bytes that the thread with index `thread` of `threads` threads handles.
Bytes share_of(Bytes bytes, size_t thread, size_t threads) {
  const size_t from = bytes.size() * thread / threads, to = bytes.size() * (thread + 1) / threads;
  return bytes.subspan(from, to - from);
}

}  // namespace

void evict(Bytes bytes) {
  for_each_line(bytes, evict_line);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void rewrite(Bytes bytes) {
  for_each_line(bytes, rewrite_line);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

CacheSweep::CacheSweep(const Machine& machine, Clock clock)
    : clock_(std::move(clock)), other_(static_cast<size_t>(sweeps_of_l2 * machine.l2_bytes())) {}

void CacheSweep::enter(dsl::CacheState state, const Roles& roles, runtime::ThreadPool& pool,
                       int threads) {
  TW_CHECK(state != dsl::CacheState::Hot, "calls that follow each other are hot by themselves");
  struct Work {
    const std::vector<std::byte>& other;
    const Roles& roles;
    bool evicts;
    size_t threads;
  } work = {other_, roles, state == dsl::CacheState::NetworkMemory, static_cast<size_t>(threads)};
  const auto enter_share = [](void* context, int32_t thread) noexcept -> int32_t {
    const auto& w = *static_cast<const Work*>(context);
    const auto share = [&](Bytes bytes) {
      return share_of(bytes, static_cast<size_t>(thread), w.threads);
    };
    read_lines(w.other);
    if (w.evicts)
      for (const Bytes bytes : w.roles.constants) evict(share(bytes));
    for (const Bytes bytes : w.roles.activations) rewrite(share(bytes));
    return 0;
  };
  if (threads > 1) gather(pool, threads, clock_);
  (void)pool.parallel_for(threads, enter_share, &work, threads, runtime::Distribution::Static);
  if (threads > 1) gather(pool, threads, clock_);
}

}  // namespace tw::tuner
