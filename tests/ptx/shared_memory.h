// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shared memory of a block. It detects accesses that a GPU does not order:
//   - an access to bytes that an asynchronous copy is still writing;
//   - a read of bytes that another thread wrote, or a write to bytes that another thread read or
//     wrote, if that thread has not passed a barrier since then;
//   - a write to bytes that a wgmma is still reading;
//   - a read by the asynchronous proxy (wgmma) of bytes that threads wrote without
//     fence.proxy.async.
// It remembers only the last writer and the last reader of each byte, so it finds many races but
// not all. Each race that it reports is one.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace tw::ptx {

/// Thrown for an effect that PTX leaves undefined, and for a program that never ends.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A thread, and the number of times that it has made its accesses visible to others, for example
/// by a barrier.
struct Accessor {
  int thread = -1;
  uint32_t step = 0;
};

class SharedMemory {
 public:
  SharedMemory() = default;
  /// Fills the memory with a pattern that no kernel computes.
  SharedMemory(int64_t base, int64_t bytes);

  void load(const std::vector<struct Thread>& threads, Accessor by, int64_t at, int64_t bytes,
            void* to);
  void store(const std::vector<struct Thread>& threads, Accessor by, int64_t at, int64_t bytes,
             const void* from);
  /// Begins an asynchronous copy into these bytes. No thread may access them until the copy ends.
  void begin_copy(const std::vector<struct Thread>& threads, Accessor by, int64_t at,
                  int64_t bytes);
  /// Ends the copy. `by` has written the bytes by the generic proxy; if its thread is -1, the copy
  /// engine has.
  void end_copy(Accessor by, int64_t at, int64_t bytes, const std::byte* content);
  /// Makes the thread's writes until now visible to the asynchronous proxy.
  void fence_proxy(int thread);
  /// Returns these bytes for a wgmma to read, and locks them until unlock().
  const std::byte* lock(const std::vector<struct Thread>& threads, Accessor by, int64_t at,
                        int64_t bytes);
  void unlock(Accessor by, int64_t at, int64_t bytes);
  /// Reserves bytes for an mbarrier. Only instructions for mbarriers may access them.
  void reserve(int64_t at, int64_t bytes);

 private:
  struct Shadow {
    int16_t writer = -1, reader = -1;
    uint32_t written = 0, read = 0;
    uint8_t locks = 0;
    bool is_pending = false, is_unfenced = false, is_reserved = false;
  };
  Shadow* check(int64_t at, int64_t bytes, bool writes, const std::vector<struct Thread>& threads,
                Accessor by);

  int64_t base_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<Shadow> shadows_;
  std::vector<std::vector<std::pair<int64_t, int64_t>>> unfenced_;  ///< by thread: first, bytes
};

}  // namespace tw::ptx
