// SPDX-License-Identifier: Apache-2.0
#pragma once
// The draft model of GPU programs: the time of each phase from its facts alone. A phase takes as
// long as its slowest resource, or, where too few warps are there to hide latencies, as long as its
// blocks take one after another. docs/cost_model.md has the formula; the order of candidates is the
// aim. Pure functions.

#include "cost_model/gpu_facts.h"
#include "cost_model/resources.h"

namespace tw::cost_model {

/// Of one phase, in ns. All but the launch overlap.
struct GpuPhaseCost {
  double arithmetic = 0;  ///< lanes that multiply and add, and those of integers; tensor cores
  double issue = 0;       ///< instructions, whatever they are
  double shared = 0;      ///< shared memory and L1, which are one memory
  double latency = 0;     ///< of blocks that run one after another: memory, sums, barriers
  double l2 = 0;          ///< between L1 and L2
  double dram = 0;
  double launch = 0;
  Spent spent() const;                                          ///< total() by resource
  Spent spent_computing() const;                                ///< compute() by resource
  double compute() const { return spent_computing().total(); }  ///< of the last multiprocessor
  double total() const { return spent().total(); }
};
/// Requires: a GPU.
GpuPhaseCost gpu_phase_cost(const GpuPhaseFacts& phase, const Machine& machine);

}  // namespace tw::cost_model
