// SPDX-License-Identifier: Apache-2.0
#pragma once
// An artifact for a GPU, loaded on a device: what Kernel is for the processor.
//
//     TW_TRY(const DeviceKernel kernel, DeviceKernel::load(artifact, device));
//     TW_RETURN_IF_ERROR(kernel.call(arrays));  // of the processor's memory: copied in and out
//     TW_RETURN_IF_ERROR(kernel.call_on(on_device, stream));  // queued, nothing is copied
//
// Kernels of GPUs have no code that packs: of an argument that is stored in another layout than its
// logical one call_on() takes the storage, as an array of one dimension; a logical array of it is
// Unsupported in both calls.
//
// The functions of the code have a parameter for each argument, in order, then scratch, and then
// one for each tensor map. A value whose copies share the code and the scratch memory; thread-safe.
// It must outlive the work that it queued.

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/arguments.h"
#include "runtime/artifact.h"
#include "runtime/device.h"

namespace tw::runtime {

/// A logical array in memory of a device.
struct DeviceArray {
  DeviceAddress memory = nullptr;
  DType dtype = Float32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides = {};  ///< of elements; empty: row-major
  int64_t offset = 0;                 ///< bytes from `memory` to the first element
};

class DeviceKernel {
 public:
  /// Invalid where the code is for another device, or has not the functions that it should have;
  /// Usage where the artifact is for a processor. A cubin that is not for this GPU gives way to its
  /// PTX, which the driver compiles.
  static Result<DeviceKernel> load(Artifact artifact, const std::shared_ptr<Device>& device);

  const KernelInfo& info() const;
  const std::shared_ptr<Device>& device() const;

  /// One call on arrays of the processor's memory, as Kernel::call(): checked, copied to the
  /// device, and the outputs back. Returns when it is done.
  Status call(std::span<const Buffer> arrays) const;

  /// One call on arrays of the device's memory, on a queue of the caller's or the device's own.
  /// Returns before it has run; nothing is copied. Usage, naming the argument: what call() refuses,
  /// strides of an array that is not contiguous, and memory that is not aligned to
  /// device_alignment. Whether CUDA's memory is as large as the array is not known here.
  Status call_on(std::span<const DeviceArray> arrays, DeviceStream stream = {}) const;

  /// One call. Requires: an address for each argument, of storage_bytes(), and scratch_bytes of
  /// scratch.
  std::vector<Launch> launches(std::span<const DeviceAddress> arguments,
                               DeviceAddress scratch) const;

  /// Kernels load and store as many bytes at once.
  static constexpr int64_t device_alignment = 16;

 private:
  struct State;
  Status queue(std::span<const DeviceAddress> addresses, DeviceStream stream) const;
  explicit DeviceKernel(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace tw::runtime
