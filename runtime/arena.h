// SPDX-License-Identifier: Apache-2.0
#pragma once
// The working memory of kernel calls. An Arena is an aligned block of memory. An ArenaCache keeps
// arenas for later calls. For arenas of at least 2 MiB, the system is asked for huge pages.
// ArenaCache is thread-safe and never blocks, not even in a child of fork().

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"

namespace tw::runtime {

/// Alignment in bytes of every arena, and of each buffer inside an arena.
inline constexpr int64_t arena_alignment = 64;

class Arena {
 public:
  /// Allocates at least `bytes` bytes. Fails with Environment ("out of memory") if `bytes` exceeds
  /// the machine's physical memory, or if the system refuses. No page is touched.
  static Result<Arena> allocate(int64_t bytes);

  Arena() = default;
  Arena(Arena&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
    other.bytes_ = 0;
  }
  Arena& operator=(Arena&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Arena();

  /// Returns the address of the first byte, aligned to arena_alignment; null for an arena of 0
  /// bytes.
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  Arena(char* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

class ArenaCache {
 public:
  ArenaCache() = default;
  ~ArenaCache();
  ArenaCache(const ArenaCache&) = delete;
  ArenaCache& operator=(const ArenaCache&) = delete;

  /// Takes an arena of at least `bytes` bytes from the cache, or allocates a new arena. The content
  /// of the arena is arbitrary. The pointer is never null. Fails with the errors of
  /// Arena::allocate().
  Result<std::unique_ptr<Arena>> take(int64_t bytes);
  /// Keeps the arena for a later take(). If the cache is full, it keeps the larger one of this
  /// arena and one kept arena, and frees the other one.
  void give_back(std::unique_ptr<Arena> arena);

 private:
  std::array<std::atomic<Arena*>, 4> kept_ = {};
};

/// Holds an arena that was taken from a cache, and gives the arena back when it is destroyed.
class BorrowedArena {
 public:
  BorrowedArena(ArenaCache& cache, std::unique_ptr<Arena> arena)
      : cache_(cache), arena_(std::move(arena)) {}
  ~BorrowedArena() { cache_.give_back(std::move(arena_)); }
  BorrowedArena(const BorrowedArena&) = delete;
  BorrowedArena& operator=(const BorrowedArena&) = delete;
  char* data() const { return arena_->data(); }

 private:
  ArenaCache& cache_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace tw::runtime
