// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/kernel_limits.h"

#include "schedules/problem.h"
#include "schedules/program/pack.h"
#include "schedules/schedule.h"

namespace tw::tools {

double KernelLimits::memory_bytes() const {
  double bytes = 0;
  if (facts.gpu)
    for (const cost_model::GpuPhaseFacts& phase : facts.gpu->phases) bytes += phase.dram_bytes;
  else
    for (const cost_model::PhaseFacts& phase : facts.phases) bytes += phase.traffic[2];
  return bytes;
}

Result<schedules::Program> program_of(const dsl::Workload& workload, const std::string& schedule,
                                      const Target& target) {
  TW_TRY(const schedules::Schedule parsed, schedules::parse_schedule(workload.compute, schedule));
  return parsed.program(schedules::limits_of(target));
}

Result<KernelLimits> kernel_limits(const schedules::Program& kernel, const dsl::Workload& workload,
                                   const Target& target, int threads) {
  KernelLimits limits;
  const schedules::Program call =
      schedules::program_of_call(kernel, schedules::problem_of(workload), target);
  TW_TRY(limits.facts, cost_model::extract_facts(call, target, workload.state));
  const auto cost = cost_model::analytic_cost(limits.facts, target.machine, threads);
  limits.analytic_ns = cost.total_ns;
  limits.dispatch_ns = cost.dispatch_ns;
  limits.resources = cost_model::resource_times(limits.facts, target.machine, threads);
  return limits;
}

}  // namespace tw::tools
