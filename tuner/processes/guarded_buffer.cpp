// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/guarded_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tw::tuner {
namespace {

/// Size of a guard region. It is larger than a page, so that an access that is off by a whole row
/// of an image is found too. Unmapped memory costs only address space.
constexpr size_t guard_bytes = 256 << 10;
/// Buffers that are larger than this are refused, so that the sums of sizes below do not overflow.
/// No machine has so much memory.
constexpr size_t largest_bytes = size_t{1} << 46;
constexpr auto canary = std::byte{0xa5};

/// A live buffer, as a signal handler reads it. The table of live buffers has a fixed size and no
/// locks. A slot whose base is 0 is free.
struct LiveBuffer {
  std::atomic<uintptr_t> base{0};
  std::atomic<uintptr_t> pages{0}, pages_end{0}, end{0};
  std::atomic<bool> read_only{false};
};
std::array<LiveBuffer, 1024> live_buffers;

// Base of a slot that is being filled. No page has this address.
constexpr uintptr_t being_filled = 1;

int take_slot() {
  for (size_t i = 0; i < live_buffers.size(); ++i) {
    uintptr_t free_slot = 0;
    if (live_buffers[i].base.compare_exchange_strong(free_slot, being_filled))
      return static_cast<int>(i);
  }
  return -1;
}

uintptr_t number(const std::byte* address) { return reinterpret_cast<uintptr_t>(address); }

size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

Error no_memory(size_t bytes) {
  return Error{
      ErrorCode::Environment,
      fmt::format("[guarded buffer] {} bytes: {}; a smaller shape or more memory is needed", bytes,
                  std::strerror(errno))};
}

/// Returns the byte at `offset` of data that are filled with the pattern. The pattern is a word of
/// two bytes, which repeats from the first byte of the data on.
std::byte poison_byte(Poison pattern, size_t offset) {
  const auto word = static_cast<uint16_t>(pattern);
  return static_cast<std::byte>(offset % 2 == 0 ? word & 0xff : word >> 8);
}

bool all_canaries(const std::byte* begin, const std::byte* end) {
  return std::all_of(begin, end, [](std::byte b) { return b == canary; });
}

}  // namespace

Result<GuardedBuffer> GuardedBuffer::make(size_t bytes, BufferOptions options) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  TW_CHECK(options.alignment > 0 && page % options.alignment == 0);
  GuardedBuffer b;
  b.size_ = bytes;
  const bool huge = options.huge_pages && bytes >= huge_page_bytes;
  if (!b.map(huge ? huge_page_bytes : page)) return tl::unexpected(no_memory(bytes));
  if (huge) ::madvise(b.pages_, b.page_bytes_, MADV_HUGEPAGE);
  const size_t front = (b.page_bytes_ - bytes) / options.alignment * options.alignment;
  b.data_ = b.pages_ + (options.align == Align::Begin ? 0 : front);
  b.fill_canaries();
  if (!b.enter_table())
    return fail(ErrorCode::Internal,
                fmt::format("[guarded buffer] more than {} at once; release some first",
                            live_buffers.size()));
  return b;
}

bool GuardedBuffer::map(size_t unit) {
  errno = ENOMEM;
  if (size_ > largest_bytes) return false;
  page_bytes_ = round_up(std::max<size_t>(size_, 1), unit);
  mapping_bytes_ =
      page_bytes_ + 2 * guard_bytes + unit;  // `unit` bytes more, to align the pages to `unit`
  void* mapping = ::mmap(nullptr, mapping_bytes_, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return false;
  mapping_ = static_cast<std::byte*>(mapping);
  pages_ = mapping_ + (round_up(number(mapping_) + guard_bytes, unit) - number(mapping_));
  return ::mprotect(pages_, page_bytes_, PROT_READ | PROT_WRITE) == 0;
}

bool GuardedBuffer::enter_table() {
  slot_ = take_slot();
  if (slot_ < 0) return false;
  LiveBuffer& live = live_buffers[static_cast<size_t>(slot_)];
  live.pages = number(pages_);
  live.pages_end = number(pages_ + page_bytes_);
  live.end = number(mapping_ + mapping_bytes_);
  live.read_only = false;
  live.base = number(mapping_);
  return true;
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept { *this = std::move(other); }

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  mapping_ = std::exchange(other.mapping_, nullptr);
  mapping_bytes_ = std::exchange(other.mapping_bytes_, 0);
  pages_ = std::exchange(other.pages_, nullptr);
  page_bytes_ = std::exchange(other.page_bytes_, 0);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  slot_ = std::exchange(other.slot_, -1);
  return *this;
}

GuardedBuffer::~GuardedBuffer() { release(); }

void GuardedBuffer::release() {
  if (slot_ >= 0) live_buffers[static_cast<size_t>(std::exchange(slot_, -1))].base = 0;
  if (mapping_ != nullptr) ::munmap(std::exchange(mapping_, nullptr), mapping_bytes_);
}

void GuardedBuffer::fill_canaries() {
  std::fill(pages_, data_, canary);
  std::fill(data_ + size_, pages_ + page_bytes_, canary);
}

void GuardedBuffer::poison(Poison pattern) {
  for (size_t i = 0; i < size_; ++i) data_[i] = poison_byte(pattern, i);
}

int64_t GuardedBuffer::poisoned(size_t element_bytes, Poison pattern) const {
  TW_CHECK(element_bytes > 0);
  int64_t count = 0;
  for (size_t begin = 0; begin + element_bytes <= size_; begin += element_bytes) {
    size_t i = begin;
    while (i < begin + element_bytes && data_[i] == poison_byte(pattern, i)) ++i;
    count += i == begin + element_bytes;
  }
  return count;
}

Slack GuardedBuffer::check() const {
  if (!all_canaries(pages_, data_)) return Slack::TouchedBefore;
  if (!all_canaries(data_ + size_, pages_ + page_bytes_)) return Slack::TouchedAfter;
  return Slack::Intact;
}

Status GuardedBuffer::make_read_only() { return protect(true); }
Status GuardedBuffer::make_writable() { return protect(false); }

Status GuardedBuffer::protect(bool read_only) {
  const int access = read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  if (::mprotect(pages_, page_bytes_, access) != 0) return tl::unexpected(no_memory(size_));
  live_buffers[static_cast<size_t>(slot_)].read_only = read_only;
  return {};
}

Region region_of(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const LiveBuffer& live : live_buffers) {
    const uintptr_t base = live.base;
    if (base <= being_filled || at < base || at >= live.end) continue;
    if (at < live.pages) return Region::GuardBefore;
    if (at >= live.pages_end) return Region::GuardAfter;
    return live.read_only ? Region::ReadOnly : Region::Elsewhere;
  }
  return Region::Elsewhere;
}

}  // namespace tw::tuner
