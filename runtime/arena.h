// SPDX-License-Identifier: Apache-2.0
#pragma once
// Working memory of kernel calls: aligned blocks that are kept for the next call. Large blocks ask
// for huge pages. ArenaCache is thread-safe and never blocks, in a child of fork too.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"

namespace tw::runtime {

/// Alignment in bytes of every block, and of each buffer within one.
inline constexpr int64_t arena_alignment = 64;

class Arena {
 public:
  /// Environment, "out of memory", for sizes that the machine cannot have, before any page is
  /// touched.
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

  /// Aligned to arena_alignment; null for an arena of 0 bytes.
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

  /// An arena of at least `bytes`, its content arbitrary; never null.
  Result<std::unique_ptr<Arena>> take(int64_t bytes);
  /// Keeps the arena for a later take; frees it if the cache is full of larger ones.
  void give_back(std::unique_ptr<Arena> arena);

 private:
  std::array<std::atomic<Arena*>, 4> kept_ = {};
};

/// An arena of a cache for the time of a call.
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
