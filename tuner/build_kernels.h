// SPDX-License-Identifier: Apache-2.0
#pragma once
// Many kernels built at once, on all cores: those of a network. Not thread-safe.

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"
#include "tuner/environment.h"
#include "tuner/worker_pool.h"

namespace tw::tuner {

/// A schedule (tw1 text) of a workload.
struct KernelRequest {
  dsl::Workload workload;
  std::string schedule;
};

/// The kernels of these schedules, in order, without packing kernels where they are not part of
/// what is called. They are not verified. Invalid for a schedule that does not apply, naming the
/// workload; Environment where the compiler is missing or fails; Interrupted where the user stops
/// it.
Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment);
/// The same with builders of the caller's.
Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment,
                                                     const Builders& builders);

}  // namespace tw::tuner
