// SPDX-License-Identifier: Apache-2.0
#pragma once
// A buffer that detects accesses of a kernel outside of the data. It has unmapped guard regions on
// both sides, and canary bytes between the data and the guards. Outputs can be filled with poison,
// and inputs can be protected from writes. An access to a guard faults at once; region_of() tells
// the signal handler which region was accessed.
//
// A kernel is run once with its buffers at Align::Begin, which catches reads before the start, and
// once at Align::End, which catches reads past the end. The data stay aligned for vectors. If their
// size is not a multiple of the alignment, up to alignment - 1 canary bytes lie between the data
// and the guard: 100 bytes with an alignment of 64 are followed by 28 canary bytes. check() finds
// writes to canary bytes, but reads of them are not found. If `alignment` is the size of an
// element, there are no canary bytes on the side of `align`.
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

/// Size of the pages that BufferOptions::huge_pages asks for.
inline constexpr size_t huge_page_bytes = size_t{2} << 20;

/// Says if the beginning or the end of the data lies at a guard region.
enum class Align { Begin, End };

struct BufferOptions {
  Align align = Align::End;
  size_t alignment = 64;    ///< alignment of data(); a power of two, at most a page
  bool huge_pages = false;  ///< ask for huge pages if the data fill one; the system may decline
  friend bool operator==(const BufferOptions&, const BufferOptions&) = default;
};

/// Patterns of poison. First and Second are two different NaNs in f16, bf16, f32 and f64, so a
/// result that depends on stale output differs between a run that begins with First and one that
/// begins with Second. Most and Least have large magnitudes in bf16, f32, f64 and integers, for
/// operations such as a maximum, which may ignore a NaN.
enum class Poison : uint16_t { First = 0x7ff1, Second = 0x7ff2, Most = 0x7f7f, Least = 0xff7f };

enum class Slack { Intact, TouchedBefore, TouchedAfter };

class GuardedBuffer {
 public:
  /// Allocates a buffer of `bytes` bytes, which may be 0. Fails with Environment if the memory
  /// cannot be allocated, and with Internal if there are 1024 buffers already.
  static Result<GuardedBuffer> make(size_t bytes, BufferOptions options = {});

  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  /// Fills the data with the pattern. Requires: the data are writable.
  void poison(Poison pattern);
  /// Number of elements that still hold the complete pattern, and so were never written.
  int64_t poisoned(size_t element_bytes, Poison pattern) const;
  /// State of the canary bytes: intact, or changed before or after the data.
  Slack check() const;

  /// Makes every later write fault; the fault is reported as a write to an input.
  Status make_read_only();
  Status make_writable();

 private:
  GuardedBuffer() = default;
  bool map(size_t unit);
  void fill_canaries();
  bool enter_table();
  Status protect(bool read_only);
  void release();

  std::byte* mapping_ = nullptr;  ///< start of the lower guard region
  size_t mapping_bytes_ = 0;
  std::byte* pages_ = nullptr;  ///< accessible memory: canaries, data, canaries
  size_t page_bytes_ = 0;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  int slot_ = -1;  ///< index in the table that region_of() reads
};

enum class Region { Elsewhere, GuardBefore, GuardAfter, ReadOnly };

/// Returns the region of a live guarded buffer in which the address lies. Elsewhere if the address
/// lies in no guarded buffer, or in memory that a kernel may write. Async-signal-safe.
Region region_of(const void* address);

}  // namespace tw::tuner
