// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks by the compiler that a chosen schedule keeps its values in registers. The cost model only
// estimates registers, and a choice without trials is not measured. Thread-safe.

#include <string>
#include <vector>

#include "base/target.h"
#include "dsl/workload.h"
#include "tuner/search/scoring.h"

namespace tw::tuner {

/// Returns a function that accepts a schedule of the workload if NVRTC compiles its kernel for the
/// target and ptxas spills no registers. If NVRTC is not installed or does not know the target, the
/// function accepts all schedules. Empty for targets other than CUDA. NVRTC is searched for in
/// `cuda_directories` first.
Accepts accepts_without_spills(const dsl::Workload& workload, const Target& target,
                               std::vector<std::string> cuda_directories);

}  // namespace tw::tuner
