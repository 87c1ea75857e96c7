// SPDX-License-Identifier: Apache-2.0
#pragma once
// An artifact for a GPU, loaded on a device: what Kernel is for the processor. A call is a list of
// launches, one a phase, on memory of the device.
//
//     TW_TRY(const DeviceKernel kernel, DeviceKernel::load(artifact, device));
//     TW_TRY(const DeviceBuffer scratch, device->allocate(kernel.info().scratch_bytes));
//     const auto launches = kernel.launches({{a.address(), b.address(), c.address()}},
//     scratch.address()); TW_RETURN_IF_ERROR(device->launch(launches));
//
// The functions of the code have a parameter for each argument, in order, then scratch, and then
// one for each tensor map.
// A value whose copies share the code; thread-safe.

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/artifact.h"
#include "runtime/device.h"

namespace tw::runtime {

class DeviceKernel {
 public:
  /// Invalid where the code is for another device, or has not the functions that it should have;
  /// Usage where the artifact is for a processor.
  static Result<DeviceKernel> load(Artifact artifact, const std::shared_ptr<Device>& device);

  const KernelInfo& info() const { return *info_; }

  /// One call. Requires: an address for each argument, of storage_bytes(), and scratch_bytes of
  /// scratch.
  std::vector<Launch> launches(std::span<const DeviceAddress> arguments,
                               DeviceAddress scratch) const;

 private:
  DeviceKernel() = default;

  std::shared_ptr<const KernelInfo> info_;
  std::vector<DeviceFunction> functions_;  ///< one a phase
};

}  // namespace tw::runtime
