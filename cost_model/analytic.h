// SPDX-License-Identifier: Apache-2.0
#pragma once
// The analytic model: a closed formula for the time of a program, from the program's facts and the
// machine alone. It aims at the order of candidates; its nanoseconds are within a factor of two.
// Expected times (expected.h) start from its time, which is also a feature. docs/cost_model.md
// derives the formula. Pure functions.

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

/// The predicted time of a whole kernel and its parts, in ns. The parts overlap, so total_ns is not
/// their sum.
struct AnalyticCost {
  double compute_ns = 0;   ///< ports, latency, spills and loop overhead
  double l2_ns = 0;        ///< moving data from L2 into L1
  double l3_ns = 0;        ///< moving data from L3 into L2; 0 on GPUs
  double memory_ns = 0;    ///< moving data from memory into the last cache
  double dispatch_ns = 0;  ///< starting tasks, barriers between phases; on a GPU, launches
  double total_ns = 0;
  Spent spent;  ///< total_ns by resource
};

/// Cycles of one execution of a block on one core, by resource. All but spills and tests overlap.
struct BlockCost {
  double arithmetic = 0;  ///< multiply-add ports
  double divider = 0;     ///< divisions and roots
  double loads = 0;       ///< load ports
  double stores = 0;      ///< store ports
  double issue = 0;       ///< issue slots of all instructions
  double latency = 0;     ///< waits of updates of a sum for the update before
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
/// Returns the analytic model's times by resource, the longest first: they show what limits a
/// kernel according to the model. Resources overlap, so the sum exceeds the predicted time.
/// Requires: threads >= 1.
std::vector<ResourceTime> resource_times(const KernelFacts& facts, const Machine& machine,
                                         int threads);

/// Predicts the cost of a program. For GPUs, gpu_analytic.h computes the cost, which does not
/// depend on `threads`. Requires: threads >= 1.
AnalyticCost analytic_cost(const KernelFacts& facts, const Machine& machine, int threads);

/// Predicts the time of a program: total_ns. Fails as extract_facts(), or if threads < 1.
Result<double> analytic_cost_ns(const schedules::Program& program, const Target& target,
                                int threads, dsl::CacheState state = dsl::CacheState::Hot);

}  // namespace tw::cost_model
