// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx/shared_memory.h"

#include <fmt/format.h>

#include <cstring>

#include "tests/ptx/machine.h"

namespace tw::ptx {

SharedMemory::SharedMemory(int64_t base, int64_t bytes)
    : base_(base),
      bytes_(static_cast<size_t>(bytes), std::byte{0xff}),
      shadows_(static_cast<size_t>(bytes)) {}

SharedMemory::Shadow* SharedMemory::check(int64_t at, int64_t bytes, bool writes,
                                          const std::vector<Thread>& threads, Accessor by) {
  const auto size = static_cast<int64_t>(bytes_.size());
  if (at < base_ || at + bytes > base_ + size)
    throw Fault(fmt::format("{} bytes at {} of shared memory, which has {} from {} on", bytes, at,
                            size, base_));
  const auto is_unordered = [&](int other, uint32_t step) {
    return other >= 0 && other != by.thread && threads[static_cast<size_t>(other)].step == step;
  };
  Shadow* const first = &shadows_[static_cast<size_t>(at - base_)];
  for (Shadow* s = first; s != first + bytes; ++s) {
    if (s->is_pending)
      throw Fault(fmt::format("{} shared memory at {} that an asynchronous copy still writes",
                              writes ? "writes" : "reads", at));
    if (s->is_reserved) throw Fault(fmt::format("accesses the mbarrier at {}", at));
    if (writes && s->locks > 0)
      throw Fault(fmt::format("writes shared memory at {} that a wgmma still reads", at));
    if (is_unordered(s->writer, s->written))
      throw Fault(fmt::format("{} shared memory at {} that thread {} wrote, without a barrier",
                              writes ? "writes" : "reads", at, s->writer));
    if (writes && is_unordered(s->reader, s->read))
      throw Fault(fmt::format("writes shared memory at {} that thread {} read, without a barrier",
                              at, s->reader));
  }
  return first;
}

void SharedMemory::load(const std::vector<Thread>& threads, Accessor by, int64_t at, int64_t bytes,
                        void* to) {
  Shadow* const first = check(at, bytes, false, threads, by);
  for (Shadow* s = first; s != first + bytes; ++s) {
    s->reader = static_cast<int16_t>(by.thread);
    s->read = by.step;
  }
  std::memcpy(to, &bytes_[static_cast<size_t>(at - base_)], static_cast<size_t>(bytes));
}

void SharedMemory::store(const std::vector<Thread>& threads, Accessor by, int64_t at, int64_t bytes,
                         const void* from) {
  check(at, bytes, true, threads, by);
  end_copy(by, at, bytes, static_cast<const std::byte*>(from));
}

void SharedMemory::begin_copy(const std::vector<Thread>& threads, Accessor by, int64_t at,
                              int64_t bytes) {
  Shadow* const first = check(at, bytes, true, threads, by);
  for (Shadow* s = first; s != first + bytes; ++s) s->is_pending = true;
}

void SharedMemory::end_copy(Accessor by, int64_t at, int64_t bytes, const std::byte* content) {
  const auto first = static_cast<size_t>(at - base_);
  const bool is_generic = by.thread >= 0;
  for (size_t i = first; i < first + static_cast<size_t>(bytes); ++i)
    shadows_[i] = {
        .writer = static_cast<int16_t>(by.thread), .written = by.step, .is_unfenced = is_generic};
  std::memcpy(&bytes_[first], content, static_cast<size_t>(bytes));
  if (!is_generic) return;
  const auto thread = static_cast<size_t>(by.thread);
  if (unfenced_.size() <= thread) unfenced_.resize(thread + 1);
  unfenced_[thread].emplace_back(at, bytes);
}

void SharedMemory::fence_proxy(int thread) {
  if (static_cast<size_t>(thread) >= unfenced_.size()) return;
  auto& ranges = unfenced_[static_cast<size_t>(thread)];
  for (const auto& [at, bytes] : ranges)
    for (int64_t i = at - base_; i < at - base_ + bytes; ++i)
      if (Shadow& s = shadows_[static_cast<size_t>(i)]; s.writer == thread) s.is_unfenced = false;
  ranges.clear();
}

const std::byte* SharedMemory::lock(const std::vector<Thread>& threads, Accessor by, int64_t at,
                                    int64_t bytes) {
  Shadow* const first = check(at, bytes, false, threads, by);
  for (Shadow* s = first; s != first + bytes; ++s) {
    if (s->is_unfenced)
      throw Fault(
          fmt::format("reads shared memory at {} that thread {} wrote without "
                      "fence.proxy.async",
                      at, s->writer));
    ++s->locks;
  }
  return &bytes_[static_cast<size_t>(at - base_)];
}

void SharedMemory::unlock(Accessor by, int64_t at, int64_t bytes) {
  const auto first = static_cast<size_t>(at - base_);
  for (size_t i = first; i < first + static_cast<size_t>(bytes); ++i) {
    --shadows_[i].locks;
    shadows_[i].reader = static_cast<int16_t>(by.thread);
    shadows_[i].read = by.step;
  }
}

void SharedMemory::reserve(int64_t at, int64_t bytes) {
  check(at, bytes, true, {}, {});
  for (int64_t i = at - base_; i < at - base_ + bytes; ++i)
    shadows_[static_cast<size_t>(i)].is_reserved = true;
}

}  // namespace tw::ptx
