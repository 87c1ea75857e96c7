// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts the operations and the reads that one evaluation of a statement takes. Plain values.

#include <functional>
#include <vector>

#include "cost_model/facts/iteration_space.h"
#include "dsl/expr.h"
#include "schedules/program/program.h"

namespace tw::cost_model::facts {

/// The scalar operations that one copy of a statement takes to evaluate its value. Unrolled loops
/// copy the statement. If these loops do not change the operands of an operation, n copies compute
/// it only once, and it counts 1/n in each copy. `hoisted` and `flops` are not divided in this way.
struct Operations {
  double fma = 0, arithmetic = 0, calls = 0, selects = 0;
  double divisions = 0;  ///< divisions of floats; `arithmetic` counts them too
  double roots = 0;
  /// Roots and calls that are computed once before the block, because no loop of the block changes
  /// their operands.
  double hoisted = 0;
  /// All operations of the expression on floats and integers, including those that copies share. A
  /// multiply-add counts as 2, a select as 0.
  double flops = 0;
  /// Fraction of the evaluations that use computed values. In the other evaluations a select
  /// chooses a constant instead, as `select(inside, a * b, 0)` does where `inside` is false.
  double useful = 1;
  std::vector<const dsl::Read*> reads;        ///< distinct reads of values
  std::vector<const dsl::Read*> index_reads;  ///< reads in indices and in conditions of selects
};

/// A function that returns true if the buffer of the read may hold other values in each iteration
/// of a loop, because the loop stores to the buffer or allocates it. The second argument is the
/// index of the loop in the levels.
using IsStoredIn = std::function<bool(const dsl::Read&, size_t)>;

/// Counts the operations of a statement. `levels` are the loops around the statement, outermost
/// first. The levels from the index `first_inner` on are the loops that repeat the block of
/// straight-line code that contains the statement: the innermost serial loop, and the unrolled and
/// vector loops inside of it. If `first_inner` is levels.size(), no operation is shared by copies
/// or hoisted. The result holds pointers to reads of the statement.
Operations count_operations(const schedules::Assign& assign, const std::vector<Level>& levels,
                            size_t first_inner, const IsStoredIn& is_stored_in);

}  // namespace tw::cost_model::facts
