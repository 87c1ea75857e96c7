// SPDX-License-Identifier: Apache-2.0
#pragma once
// Builds many kernels at once on all cores, for example all kernels of a network. Not thread-safe.

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"
#include "tuner/workers/environment.h"
#include "tuner/workers/worker_pool.h"

namespace tw::tuner {

/// A kernel to build: a workload and its schedule (tw1 text).
struct KernelRequest {
  dsl::Workload workload;
  std::string schedule;
  /// True if the cost model chose the schedule. The model only estimates registers, so ptxas may
  /// spill registers of this kernel to memory. The workload's default schedule is then built
  /// instead.
  bool is_predicted = false;
};

/// The kernels built so far for one target. The plans of a network share most of their kernels.
using BuiltKernels = std::map<KernelSource, runtime::Artifact>;

/// Builds the kernels of these schedules and returns them in order. Packing kernels, which copy
/// arrays of the caller into other layouts, are built only if calling the kernel needs them. The
/// kernels are not verified. Kernels in `built` are not built again. Newly built kernels are added
/// to `built`, even if other kernels fail. Fails with Invalid if a schedule does not apply or the
/// registers of a default schedule spill; the message names the workload. Fails with Environment if
/// the compiler is missing or fails, and with Interrupted if the user stops the call.
Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment,
                                                     BuiltKernels& built);
/// As build_kernels() above, with builders that the caller has started.
Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment,
                                                     const Builders& builders, BuiltKernels& built);

}  // namespace tw::tuner
