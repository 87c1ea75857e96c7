// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays of the caller's in the memory of a device, and checks that they fit the arguments of a
// kernel or a network; and which queue a call goes to. Free functions; thread-safe.

#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "runtime/arguments.h"
#include "runtime/device.h"

namespace tw::runtime {

/// A logical array in memory of a device.
struct DeviceArray {
  DeviceAddress memory = nullptr;
  DType dtype = Float32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides = {};  ///< in elements; empty: row-major
  int64_t offset = 0;                 ///< bytes from `memory` to the first element
};

/// Alignment of arrays in bytes: the size of the widest vector access.
inline constexpr int64_t device_alignment = 16;

/// Unsupported, naming the argument, where its storage is no logical array: a device has no code
/// that converts it.
Status check_logical(const ArgumentInfo& argument);

/// The memory of each array, to be kept until the driver has the launches on it. An argument in a
/// layout of its own takes its storage, an array of one dimension. Usage, naming the argument:
/// arrays that views_of() refuses, that are not contiguous, or that are not aligned to
/// device_alignment. Cannot check whether CUDA memory is as large as the array.
Result<std::vector<DeviceBuffer>> borrow_arrays(const std::shared_ptr<Device>& device,
                                                std::span<const ArgumentInfo> arguments,
                                                std::span<const DeviceArray> arrays);

/// A queue of a device, to tell one from another. Work on one queue is in order, so that calls
/// there can share memory; the handle of CUDA's per-thread stream stands for as many queues as
/// there are threads.
using Queue = std::tuple<bool, void*, int64_t>;
Queue queue_of(DeviceStream stream, const Device& device);

}  // namespace tw::runtime
