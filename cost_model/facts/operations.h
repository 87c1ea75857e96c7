// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts the operations and the reads of one evaluation of a statement. Values.

#include <functional>
#include <vector>

#include "cost_model/facts/iteration_space.h"
#include "dsl/expr.h"
#include "schedules/program/program.h"

namespace tw::cost_model::facts {

/// Scalar operations of one evaluation of a statement's value. If n copies of the statement share
/// an operation, because the unrolled loops that make the copies do not change its value, it counts
/// 1/n in each copy. `hoisted` and `flops` are not divided.
struct Operations {
  double fma = 0, arithmetic = 0, calls = 0, selects = 0;
  double divisions = 0;  ///< divisions of floats; `arithmetic` counts them too
  double roots = 0;
  /// Roots and calls that are computed once before the block, because no loop of the block changes
  /// their operands.
  double hoisted = 0;
  /// Operations on floats and integers as the expression has them, shared or not. An `fma` counts
  /// 2, selects count 0.
  double flops = 0;
  /// Fraction of evaluations whose product is not replaced by a select's constant.
  double useful = 1;
  std::vector<const dsl::Read*> reads;        ///< distinct reads of values
  std::vector<const dsl::Read*> index_reads;  ///< reads in indices and in conditions of selects
};

/// A function that returns true if iterations of the loop, given as an index into the levels, store
/// to the buffer that is read.
using IsStoredIn = std::function<bool(const dsl::Read&, size_t)>;

/// Counts the operations of the statement. `levels` are the loops around the statement; those from
/// `first_inner` on belong to its block. The result points into the statement.
Operations count_operations(const schedules::Assign& assign, const std::vector<Level>& levels,
                            size_t first_inner, const IsStoredIn& is_stored_in);

}  // namespace tw::cost_model::facts
