// SPDX-License-Identifier: Apache-2.0
#pragma once
// The targets whose kernels a device can run. Free functions; thread-safe.

#include <string>
#include <vector>

#include "base/target.h"
#include "runtime/device.h"

namespace tw::runtime {

/// Returns the targets whose kernels a device can run, the closest first: for sm_90 "cuda:sm_90a",
/// "cuda:sm_90", "cuda:sm_89" and so on. Kernels for older GPUs can run because the driver compiles
/// their PTX. Empty if this project makes no kernels for the device.
std::vector<Target> targets_of(const DeviceFacts& facts);

/// Returns `target` with the name of this device, its number of multiprocessors, and its sizes of
/// L2 cache and memory, as the driver reports them. The architecture and the limits of kernels
/// remain those of `target`.
Target with_facts(Target target, const DeviceFacts& facts);

/// Returns the name of a GPU in database records, such as "NVIDIA H200; 132 multiprocessors; 143771
/// MiB; L2 51200 KiB".
std::string gpu_text(const Target& target);

}  // namespace tw::runtime
