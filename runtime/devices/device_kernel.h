// SPDX-License-Identifier: Apache-2.0
#pragma once
// A DeviceKernel is an artifact for a GPU, loaded on a device. It corresponds to Kernel for the
// processor.
//
//     TW_TRY(const DeviceKernel kernel, DeviceKernel::load(artifact, device));
//     TW_RETURN_IF_ERROR(kernel.call(arrays));  // of the processor's memory: copied in and out
//     TW_RETURN_IF_ERROR(kernel.call_on(on_device, stream));  // queued, nothing is copied
//
// Both calls prepare before they run (PreparationInfo). Kernels of GPUs have no packing code. If an
// argument's storage has another layout than its logical array, call_on() takes the storage, as an
// array of one dimension; a logical array of it is Unsupported in both calls.
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
#include "runtime/devices/device_arrays.h"

namespace tw::runtime {

class DeviceKernel {
 public:
  /// Loads an artifact. Invalid: the code is for another device, or lacks functions that the
  /// artifact lists; Usage: the artifact is for a processor. If the cubin is not for this GPU, the
  /// driver compiles the PTX.
  static Result<DeviceKernel> load(Artifact artifact, const std::shared_ptr<Device>& device);

  const KernelInfo& info() const;
  const std::shared_ptr<Device>& device() const;

  /// One call on arrays in the processor's memory, like Kernel::call(): checks them, copies them to
  /// the device, runs, and copies the outputs back. Returns when it is done.
  Status call(std::span<const Buffer> arrays) const;

  /// Enqueues one call on arrays in the device's memory, on a queue of the caller's or the device's
  /// own. Returns before the kernel has run; nothing is copied. Fails with Usage, naming the
  /// argument, for arrays that call() refuses, that are not contiguous, or that are not aligned to
  /// device_alignment. It cannot check whether CUDA memory is as large as the array.
  Status call_on(std::span<const DeviceArray> arrays, DeviceStream stream = {}) const;

  /// The launches of one call. Requires: an address for each of call_buffers(), of storage_bytes()
  /// bytes, and scratch_bytes bytes of scratch memory.
  std::vector<Launch> launches(std::span<const DeviceAddress> buffers, DeviceAddress scratch) const;
  /// The launches that compute the buffers of the preparation; none if there is none. Takes the
  /// same addresses, and scratch memory of the preparation's size.
  std::vector<Launch> preparation(std::span<const DeviceAddress> buffers,
                                  DeviceAddress scratch) const;

 private:
  struct State;
  Status queue(std::span<const DeviceAddress> addresses, DeviceStream stream) const;
  explicit DeviceKernel(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace tw::runtime
