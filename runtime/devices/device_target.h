// SPDX-License-Identifier: Apache-2.0
#pragma once
// The targets whose kernels a device can run. Free functions; thread-safe.

#include <string>
#include <vector>

#include "base/target.h"
#include "runtime/device.h"

namespace tw::runtime {

/// Targets whose kernels a device can run, the closest first: for sm_90 "cuda:sm_90a",
/// "cuda:sm_90", "cuda:sm_89" and so on, the older ones by their PTX. Empty: the project makes no
/// kernels for it.
std::vector<Target> targets_of(const DeviceFacts& facts);

/// The target with the numbers of the device at hand. Its identity and the limits of kernels stay.
Target with_facts(Target target, const DeviceFacts& facts);

/// The name of a GPU in records: "NVIDIA H200; 132 multiprocessors; 143771 MiB; L2 51200 KiB".
std::string gpu_text(const Target& target);

}  // namespace tw::runtime
