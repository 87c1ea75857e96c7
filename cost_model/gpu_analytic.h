// SPDX-License-Identifier: Apache-2.0
#pragma once
// The analytic model of programs for GPUs: it predicts the time of each phase from the facts of the
// phase (facts/gpu_facts.h) and the machine alone. A phase takes about as long as its slowest
// resource. If there are too few warps to hide latencies, the phase takes as long as its blocks
// take one after another. The model is meant to order candidates, not to predict their times
// exactly. docs/cost_model.md has the formula. Pure functions.

#include "cost_model/facts/gpu_facts.h"
#include "cost_model/resources.h"

namespace tw::cost_model {

/// Cost of one phase in ns, by resource. Resources work at the same time, so the longest of their
/// times counts most. Only the time of the launch is added to it in full.
struct GpuPhaseCost {
  double arithmetic = 0;  ///< the busiest of floating-point units, integer units and tensor cores
  double issue = 0;       ///< issue slots of all instructions
  double shared = 0;      ///< shared memory and L1, which are one memory on GPUs
  double latency = 0;  ///< latencies of memory, sums and barriers, summed over the blocks that run
                       ///< one after another
  double l2 = 0;       ///< traffic between L1 and L2
  double dram = 0;
  double launch = 0;
  bool has_pipeline = false;
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
