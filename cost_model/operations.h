// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one evaluation of a statement computes and reads. Values.

#include <vector>

#include "cost_model/iteration_space.h"
#include "dsl/expr.h"
#include "schedules/program.h"

namespace tw::cost_model {

/// Scalar operations of one evaluation of a statement's value.
struct Operations {
  double fma = 0, arithmetic = 0, calls = 0, selects = 0;
  double useful = 1;  ///< the fraction of evaluations whose product is not a select's constant
  std::vector<const dsl::Read*> reads;  ///< different ones, and those of tables in indices

  double flops() const { return 2 * fma + arithmetic + calls; }
};

/// `levels` are the loops around the statement. The result points into the statement.
Operations count_operations(const schedules::Assign& assign, const std::vector<Level>& levels);

}  // namespace tw::cost_model
