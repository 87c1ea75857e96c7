// SPDX-License-Identifier: Apache-2.0
#pragma once
// A DeviceKernel is an artifact that is loaded on a GPU and can be called there. For the processor
// this class is Kernel (runtime/kernel.h).
//
//     TW_TRY(const DeviceKernel kernel, DeviceKernel::load(artifact, device));
//     TW_RETURN_IF_ERROR(kernel.call(arrays));  // of the processor's memory: copied in and out
//     TW_RETURN_IF_ERROR(kernel.call_on(on_device, stream));  // queued, nothing is copied
//
// Both calls run the preparation (PreparationInfo) before the kernel. Kernels of GPUs have no code
// that converts layouts. So for an argument that has a layout, call_on() expects the storage, as an
// array of one dimension. If it gets a logical array for this argument, it fails with Unsupported;
// so does call() always.
//
// The functions of the code have a pointer parameter for each argument, in order, then one for
// scratch, and then a parameter for each tensor map. Copies of a DeviceKernel share the code and
// the scratch memory. Thread-safe. A DeviceKernel must outlive the work that it queued.

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
  /// Loads an artifact. If its cubin is not for this GPU, the driver compiles its PTX. Fails with
  /// Invalid if the code is for another device or lacks functions that the artifact lists. Fails
  /// with Usage if the artifact is for a processor, and with the errors of Device::load().
  static Result<DeviceKernel> load(Artifact artifact, const std::shared_ptr<Device>& device);

  const KernelInfo& info() const;
  const std::shared_ptr<Device>& device() const;

  /// Calls the kernel on arrays in the processor's memory, like Kernel::call(): checks the arrays,
  /// copies them to the device, runs the kernel, and copies the outputs back. Returns when the call
  /// is done.
  Status call(std::span<const Buffer> arrays) const;

  /// Enqueues a call on arrays in the device's memory, on the caller's queue or the device's own.
  /// Returns before the kernel has run; nothing is copied. Fails with the errors of
  /// borrow_arrays(), for example if an array is not contiguous. Does not check whether CUDA memory
  /// is as large as the array.
  Status call_on(std::span<const DeviceArray> arrays, DeviceStream stream = {}) const;

  /// Returns the launches of one call, without those of the preparation. `buffers` has a device
  /// address for each of call_buffers(), with storage_bytes() bytes there. Requires: `scratch` has
  /// KernelInfo::scratch_bytes bytes.
  std::vector<Launch> launches(std::span<const DeviceAddress> buffers, DeviceAddress scratch) const;
  /// Returns the launches that compute the buffers of the preparation; empty if the kernel has no
  /// preparation. `buffers` is the same list of addresses as for launches(). Requires: `scratch`
  /// has PreparationInfo::scratch_bytes bytes.
  std::vector<Launch> preparation(std::span<const DeviceAddress> buffers,
                                  DeviceAddress scratch) const;

 private:
  struct State;
  Status queue(std::span<const DeviceAddress> addresses, DeviceStream stream) const;
  explicit DeviceKernel(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace tw::runtime
