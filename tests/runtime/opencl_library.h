// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands for a program that uses OpenCL directly. It has memory and queues of its own, in the
// context of a device's queue. Fails the test if there is no OpenCL. Not thread-safe.

#include <cstdint>
#include <memory>
#include <vector>

namespace tw::runtime {

/// Makes PoCL keep its cache in a directory of this process, which is removed when the process
/// ends. Call it before the first use of PoCL, because PoCL reads the setting only then.
void keep_pocl_cache_apart();

class OpenClLibrary {
 public:
  /// `queue` is a cl_command_queue. The library uses its context and its device.
  explicit OpenClLibrary(void* queue);

  /// Returns a new cl_command_queue.
  std::shared_ptr<void> make_queue(bool in_order = true);
  /// Returns a new cl_command_queue in another context.
  std::shared_ptr<void> make_foreign_queue();
  /// Returns a new cl_mem with `offset` numbers of no importance, followed by `numbers`.
  std::shared_ptr<void> make_memory(const std::vector<float>& numbers, size_t offset = 0);
  /// Returns a new cl_mem in another context.
  std::shared_ptr<void> make_foreign_memory(size_t bytes);
  /// Returns `count` numbers of the memory, from the index `offset` on, after the queue has run all
  /// its commands.
  std::vector<float> read(void* queue, void* memory, size_t count, size_t offset = 0);
  /// Returns the number of references to the memory. The first reference is that of make_memory().
  int references(void* memory);
  /// Returns the alignment in bytes at which sub-buffers must begin.
  int64_t alignment();

 private:
  std::shared_ptr<void> new_context();

  void* context_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace tw::runtime
