// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/device_arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "runtime/strided.h"

namespace tw::runtime {
namespace {

tl::unexpected<Error> not_packed(const ArgumentInfo& argument) {
  return fail(
      ErrorCode::Unsupported,
      fmt::format("[kernel] {} '{}' is stored as '{}', and kernels of GPUs have no code that "
                  "packs: give call_on() its storage, {} elements in one dimension, or tune the "
                  "workload with arrays as they are",
                  argument.is_output ? "output" : "input", argument.name, argument.layout,
                  argument.storage_elements));
}

/// Returns the description of the array that call_on() expects for the argument. If the argument
/// has a layout, this is the storage, with one dimension of `storage_elements` elements.
ArgumentInfo as_stored(ArgumentInfo argument) {
  if (!argument.layout.empty()) argument.shape = {argument.storage_elements};
  return argument;
}

Result<DeviceBuffer> borrow_array(const std::shared_ptr<Device>& device,
                                  const ArgumentInfo& of_kernel, const DeviceArray& array) {
  const ArgumentInfo argument = as_stored(of_kernel);
  if (!argument.layout.empty() && array.shape != argument.shape) return not_packed(argument);
  TW_TRY(const StridedView view,
         view_of(argument, {array.memory, array.dtype, array.shape, array.strides}));
  if (!is_contiguous(view))
    return wrong_argument(argument,
                          fmt::format("strides {} given for shape {}, expected a contiguous array: "
                                      "copy it on the device",
                                      array.strides, array.shape));
  if (array.offset < 0)
    return wrong_argument(argument,
                          fmt::format("offset {} given, expected 0 or more", array.offset));
  const int64_t bytes = storage_bytes(argument);
  if (bytes == 0) return DeviceBuffer();
  const auto address = reinterpret_cast<uintptr_t>(array.memory);
  if (device->facts().is_cuda() &&
      (address + static_cast<uintptr_t>(array.offset)) % device_alignment != 0)
    return wrong_argument(
        argument,
        fmt::format("misaligned memory given, expected a multiple of {}", device_alignment));
  auto memory = DeviceBuffer::borrow(device, array.memory, bytes, array.offset);
  if (memory || memory.error().code == ErrorCode::Environment) return memory;
  Error named = wrong_argument(argument, memory.error().message).value();
  named.code = memory.error().code;
  return tl::unexpected(std::move(named));
}

// Returns the bytes that each array occupies, for overlap checks. CUDA memory has real addresses.
// Handles of OpenCL are no addresses, so each distinct handle gets a range of 2^48 invented
// addresses.
std::vector<ByteRange> ranges_of(std::span<const ArgumentInfo> arguments,
                                 std::span<const DeviceArray> arrays, bool is_cuda) {
  std::vector<ByteRange> ranges;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto same = std::ranges::find(arrays, arrays[i].memory, &DeviceArray::memory);
    const uint64_t begin = is_cuda ? reinterpret_cast<uintptr_t>(arrays[i].memory)
                                   : static_cast<uint64_t>(same - arrays.begin()) << 48;
    const auto bytes = static_cast<uint64_t>(storage_bytes(arguments[i]));
    const uint64_t first = begin + static_cast<uint64_t>(arrays[i].offset);
    ranges.push_back(bytes == 0 ? ByteRange{} : ByteRange{first, first + bytes});
  }
  return ranges;
}

/// Returns a pointer to an object that lives as long as the calling thread.
std::weak_ptr<const void> calling_thread() {
  thread_local const auto thread = std::make_shared<const char>();
  return thread;
}

}  // namespace

Status check_logical(const ArgumentInfo& argument) {
  if (argument.layout.empty()) return {};
  return not_packed(argument);
}

Result<std::vector<DeviceBuffer>> borrow_arrays(const std::shared_ptr<Device>& device,
                                                std::span<const ArgumentInfo> arguments,
                                                std::span<const DeviceArray> arrays) {
  TW_RETURN_IF_ERROR(check_count(arguments, arrays.size()));
  std::vector<DeviceBuffer> memories;
  for (size_t i = 0; i < arrays.size(); ++i) {
    TW_TRY(DeviceBuffer memory, borrow_array(device, arguments[i], arrays[i]));
    memories.push_back(std::move(memory));
  }
  TW_RETURN_IF_ERROR(
      check_overlaps(arguments, ranges_of(arguments, arrays, device->facts().is_cuda())));
  return memories;
}

bool Queue::operator<(const Queue& other) const {
  const auto streams = std::pair(is_callers, stream),
             others = std::pair(other.is_callers, other.stream);
  return streams != others ? streams < others : thread.owner_before(other.thread);
}

Queue queue_of(DeviceStream stream, const Device& device) {
  if (!stream) return {};
  const bool is_cuda = device.facts().is_cuda();
  if (is_cuda && *stream == nullptr) return {true, cuda_legacy_stream};
  if (is_cuda && *stream == cuda_per_thread_stream) return {true, *stream, calling_thread()};
  return {true, *stream};
}

}  // namespace tw::runtime
