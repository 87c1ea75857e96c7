// SPDX-License-Identifier: Apache-2.0
#pragma once
// The targets that a device runs kernels of. Free functions; thread-safe.

#include <string>
#include <vector>

#include "base/target.h"
#include "runtime/device.h"

namespace tw::runtime {

/// Targets whose kernels a device runs, the closest first: of sm_90 "cuda:sm_90a", "cuda:sm_90",
/// "cuda:sm_89" and so on, the older ones by their PTX. Empty: no kernels are made for it.
std::vector<Target> targets_of(const DeviceFacts& facts);

/// The target of a GPU as the device at hand is one. Its identity and what kernels may use stay.
Target with_facts(Target target, const DeviceFacts& facts);

/// A GPU as records name it: "NVIDIA H200; 132 multiprocessors; 143771 MiB; L2 51200 KiB".
std::string gpu_text(const Target& target);

}  // namespace tw::runtime
