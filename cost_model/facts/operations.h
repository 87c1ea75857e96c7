// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts the operations and the reads of one evaluation of a statement. Values.

#include <functional>
#include <vector>

#include "cost_model/facts/iteration_space.h"
#include "dsl/expr.h"
#include "schedules/program/program.h"

namespace tw::cost_model::facts {

/// Scalar operations of one evaluation of a statement's value. An operation that n copies of the
/// statement share counts 1/n in each: the unrolled loops that make them do not change its value.
/// `hoisted` and `flops` count whole.
struct Operations {
  double fma = 0, arithmetic = 0, calls = 0, selects = 0;
  double divisions = 0;  ///< divisions of floats; `arithmetic` counts them too
  double roots = 0;
  /// Roots and calls whose operands no loop of the block changes, so that they are computed once
  /// before the block.
  double hoisted = 0;
  /// Operations on floats and integers as the expression has them, shared or not: 2 for `fma`,
  /// none for selects.
  double flops = 0;
  double useful = 1;  ///< the fraction of evaluations whose product is not a select's constant
  std::vector<const dsl::Read*> reads;        ///< different reads of values
  std::vector<const dsl::Read*> index_reads;  ///< reads in indices and in conditions of selects
};

/// True if iterations of the loop, an index into the levels, store to the buffer that is read.
using IsStoredIn = std::function<bool(const dsl::Read&, size_t)>;

/// Counts the operations of the statement. `levels` are the loops around it, of which those from
/// `first_inner` on belong to its block. The result points into the statement.
Operations count_operations(const schedules::Assign& assign, const std::vector<Level>& levels,
                            size_t first_inner, const IsStoredIn& is_stored_in);

}  // namespace tw::cost_model::facts
