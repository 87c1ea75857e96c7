// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/gpu_facts.h"

#include "cost_model/facts/gpu_phase_walk.h"

namespace tw::cost_model {

void WarpInstructions::add(const WarpInstructions& other, double times) {
  fma += times * other.fma;
  tensor += times * other.tensor;
  arithmetic += times * other.arithmetic;
  calls += times * other.calls;
  integer += times * other.integer;
  global_loads += times * other.global_loads;
  global_stores += times * other.global_stores;
  shared += times * other.shared;
  local += times * other.local;
}

Result<GpuFacts> extract_gpu_facts(const schedules::Program& program, const Target& target) {
  TW_CHECK(target.machine.gpu);
  GpuFacts kernel;
  for (const schedules::Phase& phase : program.phases) {
    TW_TRY(GpuPhaseFacts phase_facts, facts::GpuPhaseWalk(program, target).walk(phase));
    kernel.phases.push_back(std::move(phase_facts));
  }
  return kernel;
}

}  // namespace tw::cost_model
