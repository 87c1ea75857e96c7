// SPDX-License-Identifier: Apache-2.0
#pragma once
// The analytic model: a closed formula for the time of a program, from its facts and the machine
// alone. All expected times begin with it, and its time is also a feature. docs/cost_model.md
// derives the formula. The order of candidates is the aim; the nanoseconds are within a factor of
// two. Pure functions.

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

/// Parts of the predicted time, in ns of the whole kernel. The parts overlap, so total_ns is not
/// their sum.
struct AnalyticCost {
  double compute_ns = 0;   ///< ports, latency, spills and loop overhead
  double l2_ns = 0;        ///< moving data from L2 into L1
  double l3_ns = 0;        ///< from L3 into L2; GPUs have none
  double memory_ns = 0;    ///< from memory into the last cache
  double dispatch_ns = 0;  ///< starting tasks, barriers between phases; on a GPU, launches
  double total_ns = 0;
  Spent spent;  ///< total_ns by resource
};

/// Cycles of one execution of a block on one core, by what they are spent on. All but
/// spills and tests overlap.
struct BlockCost {
  double arithmetic = 0;  ///< multiply-add ports
  double divider = 0;     ///< divisions and roots
  double loads = 0;       ///< load ports
  double stores = 0;      ///< store ports
  double issue = 0;       ///< instructions, whatever they are
  double latency = 0;     ///< updates of a sum that wait for one another
  double spills = 0;
  double tests = 0;
  Spent spent() const;
  double cycles() const { return spent().total(); }
};
BlockCost block_cost(const BlockFacts& block, const Core& core);

/// The analytic model's time by resource, most first: what a kernel is limited by, in its opinion.
/// They overlap, so the sum exceeds the analytic model's time. Requires: threads >= 1.
struct ResourceTime {
  std::string resource;  ///< "multiply-add ports", "L2 to L1", ...
  double ns;
};
std::vector<ResourceTime> resource_times(const KernelFacts& facts, const Machine& machine,
                                         int threads);

/// Predicted cost of a program. For GPUs it is computed by gpu_analytic.h and does not depend on
/// `threads`. Requires: threads >= 1.
AnalyticCost analytic_cost(const KernelFacts& facts, const Machine& machine, int threads);

/// total_ns of the program; fails as extract_facts does, or on threads < 1.
Result<double> analytic_cost_ns(const schedules::Program& program, const Target& target,
                                int threads, dsl::CacheState state = dsl::CacheState::Hot);

}  // namespace tw::cost_model
