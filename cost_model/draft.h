// SPDX-License-Identifier: Apache-2.0
#pragma once
// The draft model: a closed formula for the time of a program, from its facts and the target alone.
// It orders candidates before anything has been measured, and whenever the learned model is no
// better than it; its time is also a feature that the learned model starts from. docs/cost_model.md
// derives the formula. The constants describe a current x86-64 core: the order of candidates is the
// aim, the nanoseconds are within a factor of two. Pure functions.

#include "base/result.h"
#include "base/target.h"
#include "cost_model/facts.h"
#include "schedules/program.h"

namespace tw::cost_model {

/// Where the time goes, in ns of the whole kernel; the parts overlap, so total_ns is no sum.
struct DraftCost {
  double compute_ns = 0;   ///< ports, latency, spills and loop overhead
  double l2_ns = 0;        ///< moving data from L2 into L1
  double l3_ns = 0;        ///< from L3 into L2
  double memory_ns = 0;    ///< from memory into L3
  double dispatch_ns = 0;  ///< starting tasks, barriers between phases
  double total_ns = 0;
};

/// Cycles of one execution of the block on one core.
double block_cycles(const BlockFacts& block);

/// Requires: threads >= 1.
DraftCost draft_cost(const KernelFacts& facts, int threads);

/// total_ns of the program; fails as extract_facts does, or on threads < 1.
Result<double> draft_cost_ns(const schedules::Program& program, const Target& target, int threads);

}  // namespace tw::cost_model
