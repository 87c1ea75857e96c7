// SPDX-License-Identifier: Apache-2.0
#pragma once
// The caller's arrays in the memory of a device, and the checks that they fit the arguments of a
// kernel or a network. Also a key for the queue on which a call runs. Free functions; thread-safe.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/arguments.h"
#include "runtime/device.h"

namespace tw::runtime {

/// The caller's array for one argument, in the memory of a device. It is in logical layout or, if
/// the argument has a layout, in storage layout as one dimension.
struct DeviceArray {
  DeviceAddress memory = nullptr;
  DType dtype = Float32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides = {};  ///< in elements; empty: row-major
  int64_t offset = 0;                 ///< bytes from `memory` to the first element
};

/// Required alignment of arrays in bytes: the size of the widest vector access.
inline constexpr int64_t device_alignment = 16;

/// Checks that the argument is stored as a logical (row-major) array. If it has a layout, fails
/// with Unsupported, because a device has no code that converts layouts; the message names the
/// argument.
Status check_logical(const ArgumentInfo& argument);

/// Makes a buffer of the memory of each array. Keep the buffers until the launches on them have
/// been submitted. For an argument that has a layout, the array is its storage, in one dimension.
/// Fails with Usage if the array does not fit its argument, is not contiguous, shares memory with
/// an output, or is CUDA memory that is not aligned to device_alignment; the message names the
/// argument. Fails with Unsupported for a logical array if the argument has a layout, and with the
/// errors of DeviceBuffer::borrow(). Does not check whether CUDA memory is as large as the array.
Result<std::vector<DeviceBuffer>> borrow_arrays(const std::shared_ptr<Device>& device,
                                                std::span<const ArgumentInfo> arguments,
                                                std::span<const DeviceArray> arrays);

/// Identifies a queue of a device. It is the key of maps. Work on one queue runs in order, so calls
/// on that queue can share memory.
struct Queue {
  bool is_callers = false;  ///< false for the device's own queue
  void* stream = nullptr;
  /// For CUDA's per-thread stream, an object that lives as long as the calling thread, because the
  /// handle of that stream names a different queue in each thread. Empty for other streams.
  std::weak_ptr<const void> thread = {};

  bool operator<(const Queue& other) const;
};
Queue queue_of(DeviceStream stream, const Device& device);

/// Removes the entries for the per-thread streams of threads that have ended, because no later call
/// can use these queues. Work may still run on them, but drivers free memory and graphs only when
/// the work that uses them is done.
template <typename Memory>
void drop_ended_threads(std::map<Queue, Memory>& memories) {
  std::erase_if(memories, [](const auto& entry) {
    return entry.first.stream == cuda_per_thread_stream && entry.first.thread.expired();
  });
}

}  // namespace tw::runtime
