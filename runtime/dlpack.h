// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls on the tensors of other libraries (PyTorch, JAX, CuPy, NumPy), as DLPack describes them.
// Tensors in memory of the device that runs the kernel are not copied.
//
//     const void* const tensors[] = {&a->dl_tensor, &b->dl_tensor, &c->dl_tensor};
//     TW_RETURN_IF_ERROR(call_dlpack(kernel, tensors, stream));
//
// A tensor is a DLTensor*, taken from a DLManagedTensor or, since DLPack 1.0, from a
// DLManagedTensorVersioned. Tensors are borrowed: the caller keeps them until the work has run, and
// deletes them. Each call gets one tensor for each argument, inputs first. A tensor that does not
// fit its argument is a Usage error that names the argument. Outputs must be writable, which a
// DLTensor does not state. Thread-safe.

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "runtime/devices/device_kernel.h"
#include "runtime/kernel.h"
#include "runtime/model.h"
#include "runtime/thread_pool.h"

namespace tw::runtime {

/// Returns the DType that equals a DLDataType with this code, this number of bits and one lane.
/// nullopt if there is no such DType.
std::optional<DType> dlpack_dtype(uint8_t code, uint8_t bits);

/// Does the same as Kernel::call(), for tensors in memory that the processor can access. This is
/// its main memory, and CUDA's pinned or managed memory.
Status call_dlpack(const Kernel& kernel, std::span<const void* const> tensors, ThreadPool& pool,
                   int threads = 0);

/// Does the same as Model::call(), for tensors in memory that the processor can access.
Status call_dlpack(const Model& model, std::span<const void* const> tensors, ThreadPool& pool,
                   int threads = 0);

/// Does the same as DeviceKernel::call_on(), for tensors in memory of the kernel's device. On CUDA,
/// they may also be in pinned or managed memory. `stream` follows Python's array API.
/// dlpack_own_queue means the device's own queue. With CUDA, 1 means the legacy default stream, 2
/// the default stream of the calling thread, and any larger number is the address of a CUstream.
/// With OpenCL the number is the address of a cl_command_queue, and 1 and 2 are refused. Fails with
/// Usage for refused numbers, which are also 0 and all negative numbers except dlpack_own_queue.
Status call_dlpack(const DeviceKernel& kernel, std::span<const void* const> tensors,
                   int64_t stream);

/// The value of `stream` for the device's own queue, which is not synchronised with any other
/// stream. The tensors must be ready before the call, and the caller must wait for the queue
/// afterwards.
inline constexpr int64_t dlpack_own_queue = -1;

}  // namespace tw::runtime
