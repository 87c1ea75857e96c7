// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shared memory of a block, which notices accesses that a GPU does not order:
//   - an access to bytes that an asynchronous copy still writes;
//   - a read of what another thread wrote, or a write over what another thread read, where that
//     thread has not passed a barrier since;
//   - a write over what a wgmma still reads;
//   - a read by the asynchronous proxy (wgmma) of what threads wrote without
//     fence.proxy.async.
// It remembers the last writer and the last reader of each byte, so it finds many races, not all.
// It never reports one that is none.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace tw::ptx {

/// Something that PTX leaves undefined, or a program that goes on forever.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A thread, and how often it has made its accesses visible to others by a barrier.
struct Accessor {
  int thread = -1;
  uint32_t step = 0;
};

class SharedMemory {
 public:
  SharedMemory() = default;
  /// Bytes begin with a pattern that is no result.
  SharedMemory(int64_t base, int64_t bytes);

  void load(const std::vector<struct Thread>& threads, Accessor by, int64_t at, int64_t bytes,
            void* to);
  void store(const std::vector<struct Thread>& threads, Accessor by, int64_t at, int64_t bytes,
             const void* from);
  /// An asynchronous copy into these bytes begins; nobody may access them until it ends.
  void begin_copy(const std::vector<struct Thread>& threads, Accessor by, int64_t at,
                  int64_t bytes);
  /// It ends. `by` has written them by the generic proxy, or, if its thread is -1, the copy engine.
  void end_copy(Accessor by, int64_t at, int64_t bytes, const std::byte* content);
  /// The thread's writes until now become visible to the asynchronous proxy.
  void fence_proxy(int thread);
  /// A wgmma reads these bytes, until unlock().
  const std::byte* lock(const std::vector<struct Thread>& threads, Accessor by, int64_t at,
                        int64_t bytes);
  void unlock(Accessor by, int64_t at, int64_t bytes);
  /// Takes bytes for an mbarrier, which is accessed by its own instructions only.
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
