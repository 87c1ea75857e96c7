// SPDX-License-Identifier: Apache-2.0
#include "runtime/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/integer.h"

namespace tw::runtime {
namespace {

constexpr int64_t kHugePage = 2 << 20;

int64_t physical_bytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

tl::unexpected<Error> out_of_memory(int64_t bytes) {
  return fail(
      ErrorCode::Environment,
      fmt::format("[kernel] out of memory: the call needs {} bytes of working memory, the machine "
                  "has {}; use a smaller shape or a schedule with less scratch",
                  bytes, physical_bytes()));
}

}  // namespace

Result<Arena> Arena::allocate(int64_t bytes) {
  if (bytes == 0) return Arena();
  // The system may grant more memory than the machine has, and kill the process when it uses that
  // memory. So the size is compared with the physical memory here.
  if (bytes < 0 || bytes > physical_bytes()) return out_of_memory(bytes);
  const int64_t alignment = bytes >= kHugePage ? kHugePage : arena_alignment;
  const int64_t size = round_up(bytes, alignment);
  void* data = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size));
  if (data == nullptr) return out_of_memory(bytes);
  if (alignment == kHugePage) madvise(data, static_cast<size_t>(size), MADV_HUGEPAGE);
  return Arena(static_cast<char*>(data), size);
}

Arena::~Arena() { std::free(data_); }

ArenaCache::~ArenaCache() {
  for (auto& place : kept_) delete place.load(std::memory_order_relaxed);
}

Result<std::unique_ptr<Arena>> ArenaCache::take(int64_t bytes) {
  for (auto& place : kept_) {
    std::unique_ptr<Arena> kept(place.exchange(nullptr, std::memory_order_acquire));
    if (kept && kept->bytes() >= bytes) return kept;
    if (kept) give_back(std::move(kept));
  }
  TW_TRY(Arena arena, Arena::allocate(bytes));
  return std::make_unique<Arena>(std::move(arena));
}

void ArenaCache::give_back(std::unique_ptr<Arena> arena) {
  for (auto& place : kept_) {
    Arena* empty = nullptr;
    if (!place.compare_exchange_strong(empty, arena.get(), std::memory_order_release)) continue;
    arena.release();
    return;
  }
  // All places are occupied. The larger one of this arena and the arena at place 0 is kept, because
  // it can be used for more calls.
  std::unique_ptr<Arena> other(kept_[0].exchange(nullptr, std::memory_order_acquire));
  if (other && other->bytes() > arena->bytes()) std::swap(other, arena);
  Arena* empty = nullptr;
  if (kept_[0].compare_exchange_strong(empty, arena.get(), std::memory_order_release))
    arena.release();
}

}  // namespace tw::runtime
