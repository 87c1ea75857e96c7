// SPDX-License-Identifier: Apache-2.0
#pragma once
// The analytic model of GPU programs: the time of each phase from its facts alone. A phase takes as
// long as its slowest resource. If there are too few warps to hide latencies, it takes as long as
// its blocks take one after another. The model aims at the order of candidates, not at their times.
// docs/cost_model.md has the formula. Pure functions.

#include "cost_model/facts/gpu_facts.h"
#include "cost_model/resources.h"

namespace tw::cost_model {

/// Cost of one phase in ns, by resource. All costs except the launch overlap.
struct GpuPhaseCost {
  double arithmetic = 0;  ///< the busiest of floating-point units, integer units and tensor cores
  double issue = 0;       ///< issue slots of all instructions
  double shared = 0;      ///< shared memory and L1, which are one memory on GPUs
  double latency = 0;     ///< latencies of memory, sums and barriers, over successive blocks
  double l2 = 0;          ///< traffic between L1 and L2
  double dram = 0;
  double launch = 0;
  Spent spent() const;            ///< total() by resource
  Spent spent_computing() const;  ///< compute() by resource
  double compute() const {
    return spent_computing().total();
  }  ///< time without transfers and launch, of the multiprocessor that ends last
  double total() const { return spent().total(); }
};
/// Computes the cost of a phase. Requires: the machine is a GPU.
GpuPhaseCost gpu_phase_cost(const GpuPhaseFacts& phase, const Machine& machine);

}  // namespace tw::cost_model
