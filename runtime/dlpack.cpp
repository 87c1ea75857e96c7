// SPDX-License-Identifier: Apache-2.0
#include "runtime/dlpack.h"

#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tw::runtime {
namespace {

constexpr int most_axes = 64;
// There is no check for bool: DLPack has a code for it since version 0.8, and Debian's header is
// older.
static_assert(kDLInt == static_cast<int>(NumberKind::Int));
static_assert(kDLUInt == static_cast<int>(NumberKind::UInt));
static_assert(kDLFloat == static_cast<int>(NumberKind::Float));
static_assert(kDLBfloat == static_cast<int>(NumberKind::BFloat));

/// Returns a text for messages, such as "CUDA device 1".
std::string show(DLDevice device) {
  switch (static_cast<int>(device.device_type)) {
    case kDLCPU:
      return "the processor";
    case kDLCUDA:
      return fmt::format("CUDA device {}", device.device_id);
    case kDLCUDAHost:
      return "the processor, pinned by CUDA";
    case kDLCUDAManaged:
      return "CUDA's managed memory";
    case kDLOpenCL:
      return fmt::format("OpenCL device {}", device.device_id);
    default:
      return fmt::format("DLPack's device type {}", static_cast<int>(device.device_type));
  }
}

/// The device on which a kernel runs, and the kinds of memory that the kernel can use there.
struct DevicePlace {
  std::optional<DLDevice> own;   ///< memory of a device of this type and index is accepted
  std::vector<int> others = {};  ///< memory of these device types is accepted with any index
  std::string remedy;

  bool reaches(DLDevice device) const {
    for (const int other : others)
      if (device.device_type == other) return true;
    return own && device.device_type == own->device_type && device.device_id == own->device_id;
  }
};

DevicePlace processor() {
  return {{}, {kDLCPU, kDLCUDAHost, kDLCUDAManaged}, "the processor: copy it there"};
}

DevicePlace place_of(const Device& device) {
  const bool cuda = device.facts().is_cuda();
  const DLDevice own{cuda ? kDLCUDA : kDLOpenCL, device.facts().index};
  std::vector<int> others;
  if (cuda) others = {kDLCUDAHost, kDLCUDAManaged};
  return {own, std::move(others), show(own) + ": copy it there"};
}

/// Converts a DLTensor to a DeviceArray. Memory and offset stay separate, because a handle of
/// OpenCL is no address to which an offset could be added.
Result<DeviceArray> array_of(const ArgumentInfo& argument, const DLTensor* tensor,
                             const DevicePlace& place) {
  if (tensor == nullptr) return wrong_argument(argument, "no tensor given");
  if (!place.reaches(tensor->device))
    return wrong_argument(argument, fmt::format("a tensor on {} given, expected one on {}",
                                                show(tensor->device), place.remedy));
  if (tensor->dtype.lanes != 1)
    return wrong_argument(
        argument, fmt::format("elements of {} lanes given, expected 1", tensor->dtype.lanes));
  const auto dtype = dlpack_dtype(tensor->dtype.code, tensor->dtype.bits);
  if (!dtype)
    return wrong_argument(
        argument, fmt::format("elements of DLPack's type code {} with {} bits "
                              "given, expected {}; convert the array",
                              tensor->dtype.code, tensor->dtype.bits, to_string(argument.dtype)));
  if (tensor->ndim < 0 || tensor->ndim > most_axes ||
      (tensor->ndim > 0 && tensor->shape == nullptr))
    return wrong_argument(
        argument, fmt::format("rank {} and {} shape given, expected 0 to {} with as many extents",
                              tensor->ndim, tensor->shape == nullptr ? "no" : "a", most_axes));
  if (tensor->byte_offset > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return wrong_argument(
        argument, fmt::format("a byte offset of {} given: it leaves memory", tensor->byte_offset));
  DeviceArray array{tensor->data, *dtype, {tensor->shape, tensor->shape + tensor->ndim}};
  if (tensor->strides != nullptr)
    array.strides.assign(tensor->strides, tensor->strides + tensor->ndim);
  array.offset = static_cast<int64_t>(tensor->byte_offset);
  return array;
}

Result<std::vector<DeviceArray>> arrays_of(std::span<const ArgumentInfo> arguments,
                                           std::span<const void* const> tensors,
                                           const DevicePlace& place) {
  TW_RETURN_IF_ERROR(check_count(arguments, tensors.size()));
  std::vector<DeviceArray> arrays;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TW_TRY(DeviceArray array,
           array_of(arguments[i], static_cast<const DLTensor*>(tensors[i]), place));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

/// Returns the tensors as arrays for kernels and models of the processor.
Result<std::vector<Buffer>> buffers_of(std::span<const ArgumentInfo> arguments,
                                       std::span<const void* const> tensors) {
  TW_TRY(auto arrays, arrays_of(arguments, tensors, processor()));
  std::vector<Buffer> buffers;
  for (DeviceArray& array : arrays) {
    char* const data = static_cast<char*>(array.memory);
    buffers.push_back({data == nullptr ? nullptr : data + array.offset, array.dtype,
                       std::move(array.shape), std::move(array.strides)});
  }
  return buffers;
}

/// Converts the number of a stream, as Python's array API defines it, to a queue. 0 is an error,
/// because the API does not define it and libraries use it for different streams.
Result<DeviceStream> stream_of(const Device& device, int64_t stream) {
  if (stream == dlpack_own_queue) return DeviceStream();
  const bool cuda = device.facts().is_cuda();
  if (stream < (cuda ? 1 : 3))
    return fail(ErrorCode::Usage,
                fmt::format("[dlpack] stream {} given, expected {}, or -1 for the device's own "
                            "queue",
                            stream,
                            cuda ? "1 (CUDA's legacy default stream), 2 (the thread's own) or a "
                                   "CUstream's address"
                                 : "a cl_command_queue's address"));
  return DeviceStream(reinterpret_cast<void*>(stream));
}

}  // namespace

std::optional<DType> dlpack_dtype(uint8_t code, uint8_t bits) {
  for (const DType type : all_dtypes)
    if (static_cast<uint8_t>(info_of(type).kind) == code && 8 * size_bytes(type) == bits)
      return type;
  return std::nullopt;
}

Status call_dlpack(const Kernel& kernel, std::span<const void* const> tensors, ThreadPool& pool,
                   int threads) {
  TW_TRY(const auto buffers, buffers_of(kernel.info().arguments, tensors));
  return kernel.call(buffers, pool, threads);
}

Status call_dlpack(const Model& model, std::span<const void* const> tensors, ThreadPool& pool,
                   int threads) {
  TW_TRY(const auto buffers, buffers_of(model.arguments(), tensors));
  return model.call(buffers, pool, threads);
}

Status call_dlpack(const DeviceKernel& kernel, std::span<const void* const> tensors,
                   int64_t stream) {
  const Device& device = *kernel.device();
  TW_TRY(const DeviceStream queue, stream_of(device, stream));
  TW_TRY(const auto arrays, arrays_of(kernel.info().arguments, tensors, place_of(device)));
  return kernel.call_on(arrays, queue);
}

}  // namespace tw::runtime
