// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interpreter: what a Compute means, evaluated the slow obvious way. It is every test's oracle.
//
// Floats are computed in double and rounded to a stage's type when stored, and at casts; sums of
// f64 are compensated, so that they are as exact as those of f32 are. Integers wrap. `select`, `&&`
// and `||` evaluate only what they need; an evaluated read outside of its tensor is an error. min
// and max ignore a NaN operand. A float cast to an integer is truncated and saturates. Thread-safe.

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

/// One element of the tensor `name`, an input or a stage, computing only what it depends on:
/// samples of shapes that are too large to interpret. Elements of stages in between are computed
/// once, but for some of those that are no reductions where there are more than a million.
Result<double> evaluate_at(const Compute& compute, const Arrays& inputs, const std::string& name,
                           const std::vector<int64_t>& indices);

}  // namespace tw::dsl
