// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory in which a kernel cannot stray unnoticed: unmapped guard regions on both sides, canary
// bytes in whatever lies between the data and the guards, poison to begin with, and write
// protection for inputs. A step outside faults at once; region_of() tells the signal handler where
// it went.
//
// A kernel is run once with its buffers at Align::Begin, which catches reads before the start, and
// once at Align::End, which catches reads past the end. The data stay aligned for vectors: where
// the size is no multiple of the alignment, up to alignment - 1 canary bytes lie before the guard,
// in which writes are found by check() and reads are not found; `alignment` = the element size
// leaves none.
//
//   TW_TRY(auto out, GuardedBuffer::make(bytes, {.align = Align::End}));
//   out.poison(Poison::First);
//   kernel(out.data());
//   if (out.check() != Slack::Intact || out.poisoned(4, Poison::First) > 0) reject();
//
// A buffer belongs to one thread; region_of() is safe anywhere, signal handlers included.

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace tw::tuner {

/// Size of the pages that a GuardedBuffer asks for by BufferOptions::huge_pages.
inline constexpr size_t huge_page_bytes = size_t{2} << 20;

/// End of the data that touches a guard.
enum class Align { Begin, End };

struct BufferOptions {
  Align align = Align::End;
  size_t alignment = 64;    ///< of data(); a power of two, at most a page
  bool huge_pages = false;  ///< asked for where the data fill one; advice only
  friend bool operator==(const BufferOptions&, const BufferOptions&) = default;
};

/// Two different patterns, each a NaN as f16, bf16, f32 and f64: a result that depends on stale
/// output differs between a run on the one and a run on the other. And two of large magnitude as
/// bf16, f32, f64 and integers, since a maximum with a NaN may ignore it.
enum class Poison : uint16_t { First = 0x7ff1, Second = 0x7ff2, Most = 0x7f7f, Least = 0xff7f };

enum class Slack { Intact, TouchedBefore, TouchedAfter };

class GuardedBuffer {
 public:
  /// An Environment error when the memory is not to be had. Zero bytes are allowed.
  static Result<GuardedBuffer> make(size_t bytes, BufferOptions options = {});

  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  /// Fills the data with the pattern. Requires that it is writable.
  void poison(Poison pattern);
  /// Number of elements that still hold the whole pattern, and so were never written.
  int64_t poisoned(size_t element_bytes, Poison pattern) const;
  /// State of the canaries between the data and the guards: intact, or changed before or after the
  /// data.
  Slack check() const;

  /// From now on a write faults, and its report says that an input was written.
  Status make_read_only();
  Status make_writable();

 private:
  GuardedBuffer() = default;
  bool map(size_t unit);
  void fill_canaries();
  bool enter_table();
  Status protect(bool read_only);
  void release();

  std::byte* mapping_ = nullptr;  ///< of the lower guard
  size_t mapping_bytes_ = 0;
  std::byte* pages_ = nullptr;  ///< accessible memory: slack, data, slack
  size_t page_bytes_ = 0;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  int slot_ = -1;  ///< in the table that region_of() reads
};

enum class Region { Elsewhere, GuardBefore, GuardAfter, ReadOnly };

/// Region of an address with respect to all live guarded buffers. Async-signal-safe.
Region region_of(const void* address);

}  // namespace tw::tuner
