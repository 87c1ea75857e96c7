// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interpreter defines the values of a Compute. It evaluates each expression directly and
// slowly, and tests compare all other results with it.
//
// Floats are computed in double, and rounded when a stage of a smaller type stores them and at
// casts. Sums of f64 are compensated, so that they are as exact, relative to their type, as sums of
// f32. Integers wrap. `select`, `&&` and `||` evaluate only the operands that they need; a read
// outside of its tensor is an error if it is evaluated. min and max ignore a NaN operand. A float
// cast to an integer is truncated and saturates. Thread-safe.

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/array.h"
#include "dsl/compute.h"

namespace tw::dsl {

using Arrays = std::map<std::string, Array>;

/// Evaluates all outputs and returns them by name. `inputs` must hold each input with its type and
/// shape; other arrays are ignored.
Result<Arrays> interpret(const Compute& compute, const Arrays& inputs);

/// Evaluates one element of the input or stage `name`, and of other stages only the elements that
/// it depends on. Used to sample shapes that are too large for interpret(). An element of an
/// intermediate stage is computed once and kept, but of a stage without a reduction at most 2^20
/// elements are kept.
Result<double> evaluate_at(const Compute& compute, const Arrays& inputs, const std::string& name,
                           const std::vector<int64_t>& indices);

}  // namespace tw::dsl
