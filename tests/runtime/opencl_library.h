// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands for a program that uses OpenCL directly: it has memory and queues of its own, in the
// context of a device's queue. Fails the test if there is no OpenCL; not thread-safe.

#include <cstdint>
#include <memory>
#include <vector>

namespace tw::runtime {

/// PoCL reads where its cache is when it is first used: in a directory that lives as long as the
/// process.
void keep_pocl_cache_apart();

class OpenClLibrary {
 public:
  /// `queue` is a cl_command_queue, whose context and device are used.
  explicit OpenClLibrary(void* queue);

  /// cl_command_queue's, and a context of its own.
  std::shared_ptr<void> make_queue(bool in_order = true);
  std::shared_ptr<void> make_foreign_queue();
  /// A cl_mem that holds these numbers after `offset` others; and all that one holds.
  std::shared_ptr<void> make_memory(const std::vector<float>& numbers, size_t offset = 0);
  std::shared_ptr<void> make_foreign_memory(size_t bytes);
  /// Content of the memory after the queue has run all its commands.
  std::vector<float> read(void* queue, void* memory, size_t count, size_t offset = 0);
  /// Number of references to the memory, of which the one of make_memory() is the first.
  int references(void* memory);
  /// Bytes that parts of memory begin at multiples of.
  int64_t alignment();

 private:
  std::shared_ptr<void> new_context();

  void* context_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace tw::runtime
