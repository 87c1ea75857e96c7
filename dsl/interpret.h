// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interpreter defines which values a Compute has. It evaluates each expression directly and
// slowly; tests compare the results of kernels with its results.
//
// Floats are computed in double. They are rounded to a smaller type by casts, and when a stage of
// that type stores them. Sums of f32 lose almost nothing in double. Sums of f64 would lose digits,
// so they are compensated (CompensatedSum in value.h). Integers wrap. `select`, `&&` and `||`
// evaluate only the operands that they need. A read outside of its tensor is an error only if it is
// evaluated. If one operand of min or max is NaN, the result is the other operand. A cast from
// float to integer truncates and saturates; NaN becomes 0. Thread-safe.

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/array.h"
#include "dsl/compute.h"

namespace tw::dsl {

using Arrays = std::map<std::string, Array>;

/// Evaluates all outputs and returns them by name. Fails with Usage if `inputs` lacks an input or
/// has it with another type or shape. Fails with Invalid if an expression reads outside of a
/// tensor, and with the errors of validate() and Array::make(). Ignores arrays in `inputs` that are
/// no inputs of the compute.
Result<Arrays> interpret(const Compute& compute, const Arrays& inputs);

/// Evaluates one element of the tensor `name` (an input or a stage), and only those elements of
/// other stages on which it depends. So single elements can be checked where a compute is too large
/// for interpret(). An element of an intermediate stage is computed once and kept; a stage without
/// a reduction keeps at most 2^20 elements. Fails as interpret() does, and with Usage if there is
/// no such tensor.
Result<double> evaluate_at(const Compute& compute, const Arrays& inputs, const std::string& name,
                           const std::vector<int64_t>& indices);

}  // namespace tw::dsl
