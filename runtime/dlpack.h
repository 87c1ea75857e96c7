// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls on tensors of other libraries (PyTorch, JAX, CuPy, NumPy), as DLPack describes them.
// Tensors in memory of the device that runs the kernel are not copied.
//
//     const void* const tensors[] = {&a->dl_tensor, &b->dl_tensor, &c->dl_tensor};
//     TW_RETURN_IF_ERROR(call_dlpack(kernel, tensors, stream));
//
// A tensor is a DLTensor*, of a DLManagedTensor or, since DLPack 1.0, a DLManagedTensorVersioned.
// It is borrowed: the caller keeps it until the work has run and deletes it. There is one tensor
// for each argument, inputs first; one that does not fit its argument is a Usage error that names
// it. Outputs must be writable, which a DLTensor does not state. Thread-safe.

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "runtime/devices/device_kernel.h"
#include "runtime/kernel.h"
#include "runtime/model.h"
#include "runtime/thread_pool.h"

namespace tw::runtime {

/// The type of a DLDataType of one lane with these members; nullopt: there is none here.
std::optional<DType> dlpack_dtype(uint8_t code, uint8_t bits);

/// Like Kernel::call(), for tensors in memory that the processor can access: its own, and pinned or
/// managed memory of CUDA.
Status call_dlpack(const Kernel& kernel, std::span<const void* const> tensors, ThreadPool& pool,
                   int threads = 0);

/// The same for a network, like Model::call().
Status call_dlpack(const Model& model, std::span<const void* const> tensors, ThreadPool& pool,
                   int threads = 0);

/// Like DeviceKernel::call_on(). With CUDA the tensors lie in memory of the kernel's device, pinned
/// or managed memory; with OpenCL in memory of the device. `stream` is as in Python's array API:
/// dlpack_own_queue; with CUDA also 1 (the legacy default stream), 2 (the stream of the calling
/// thread) or the address of a CUstream; with OpenCL also the address of a cl_command_queue.
Status call_dlpack(const DeviceKernel& kernel, std::span<const void* const> tensors,
                   int64_t stream);

/// The device's own queue, synchronised with no stream: the tensors are ready, and the caller waits
/// for the queue.
inline constexpr int64_t dlpack_own_queue = -1;

}  // namespace tw::runtime
