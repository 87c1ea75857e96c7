// SPDX-License-Identifier: Apache-2.0
#pragma once
// Many kernels built at once, on all cores: those of a network. Not thread-safe.

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

/// A schedule (tw1 text) of a workload.
struct KernelRequest {
  dsl::Workload workload;
  std::string schedule;
  /// The cost model chose it, which only estimates registers: where ptxas spills some, the default
  /// schedule is built in its place.
  bool is_predicted = false;
};

/// Kernels that were built for one target: plans of one network share most of theirs.
using BuiltKernels = std::map<KernelSource, runtime::Artifact>;

/// The kernels of these schedules, in order, without packing kernels where they are not part of
/// what is called. They are not verified. Invalid for a schedule that does not apply, naming the
/// workload, or a default schedule whose registers spill; Environment where the compiler is missing
/// or fails; Interrupted where the user stops it. Those in `built` are taken from there, and those
/// that are built are added to it, also if others fail.
Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment,
                                                     BuiltKernels& built);
/// The same with builders of the caller's.
Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment,
                                                     const Builders& builders, BuiltKernels& built);

}  // namespace tw::tuner
