// SPDX-License-Identifier: Apache-2.0
#pragma once
// The analytic model: a closed formula for the time of a program. The formula reads only the facts
// of the program (facts/facts.h: instructions, registers, bytes) and the machine. It is meant to
// order candidates; the predicted times are within a factor of two of measured times. The expected
// times of expected.h start from these predictions. docs/cost_model.md derives the formula. Pure
// functions.

#include <string>
#include <vector>

#include "base/machine.h"
#include "base/result.h"
#include "base/target.h"
#include "cost_model/facts/facts.h"
#include "cost_model/resources.h"
#include "dsl/cache_state.h"
#include "schedules/program/program.h"

namespace tw::cost_model {

/// The predicted time of a whole kernel (total_ns) and of its parts, in ns. The parts overlap, so
/// total_ns is not their sum.
struct AnalyticCost {
  double compute_ns = 0;   ///< ports, latency, spills and loop overhead
  double l2_ns = 0;        ///< moving data from L2 into L1
  double l3_ns = 0;        ///< moving data from L3 into L2; 0 on GPUs
  double memory_ns = 0;    ///< moving data from memory into the last cache
  double dispatch_ns = 0;  ///< starting tasks, barriers between phases; on a GPU, launches
  double total_ns = 0;
  Spent spent;  ///< total_ns by resource
};

/// Cycles of one execution of a block of straight-line code on one core, by resource. Resources
/// work at the same time, so the longest of their times counts most. The times of spills and of
/// tests (branches around statements) are added to it in full.
struct BlockCost {
  double arithmetic = 0;  ///< multiply-add ports
  double divider = 0;     ///< divisions and roots
  double loads = 0;       ///< load ports
  double stores = 0;      ///< store ports
  double issue = 0;       ///< issue slots of all instructions
  double latency = 0;     ///< updates of a sum that wait for the previous update of this sum
  double spills = 0;
  double tests = 0;
  Spent spent() const;
  double cycles() const { return spent().total(); }
};
BlockCost block_cost(const BlockFacts& block, const Core& core);

/// The time that the analytic model attributes to one resource.
struct ResourceTime {
  std::string resource;  ///< "multiply-add ports", "L2 to L1", ...
  double ns;
};
/// Returns the predicted time of each resource, the longest first. This shows which resource limits
/// a kernel according to the analytic model. Resources work at the same time, so the sum of these
/// times exceeds the predicted time of the kernel. Requires: threads >= 1.
std::vector<ResourceTime> resource_times(const KernelFacts& facts, const Machine& machine,
                                         int threads);

/// Predicts the cost of a program. For GPUs, gpu_analytic.h computes the cost, which does not
/// depend on `threads`. Requires: threads >= 1.
AnalyticCost analytic_cost(const KernelFacts& facts, const Machine& machine, int threads);

/// Predicts the time in ns of a program that is called with the caches in the given state: total_ns
/// of analytic_cost(). Fails with Usage if threads < 1, and with the errors of extract_facts() if
/// the program is not well formed.
Result<double> analytic_cost_ns(const schedules::Program& program, const Target& target,
                                int threads, dsl::CacheState state = dsl::CacheState::Hot);

}  // namespace tw::cost_model
