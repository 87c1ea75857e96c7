// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares a kernel with the limits of its machine: the time that each resource takes by the
// analytic model. `explain` uses it for the kernel of a workload and for the kernels in the file of
// a network. Nothing is compiled or run. Thread-safe.

#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "cost_model/analytic.h"
#include "cost_model/facts/facts.h"
#include "dsl/workload.h"
#include "schedules/program/program.h"

namespace tw::tools {

struct KernelLimits {
  cost_model::KernelFacts facts;
  double analytic_ns = 0;
  /// The part of `analytic_ns` that starts the kernel. On a processor it is the time for tasks and
  /// barriers, on a GPU the time for launches.
  double dispatch_ns = 0;
  std::vector<cost_model::ResourceTime> resources;  ///< longest time first

  /// Returns the resource that takes the longest time.
  const std::string& limited_by() const { return resources.front().resource; }
  /// Returns the bytes that move between the last cache and memory in one call.
  double memory_bytes() const;
};

/// Returns the program of a schedule (tw1 text) of the workload. Fails with the errors of
/// parse_schedule() and Schedule::program().
Result<schedules::Program> program_of(const dsl::Workload& workload, const std::string& schedule,
                                      const Target& target);

/// Returns the resources that bound the time of one call of a kernel of the workload. Fails with
/// the errors of extract_facts(). Requires: threads >= 1.
Result<KernelLimits> kernel_limits(const schedules::Program& kernel, const dsl::Workload& workload,
                                   const Target& target, int threads);

}  // namespace tw::tools
