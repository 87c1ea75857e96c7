// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hyperbolic functions, their inverses and softplus, as expressions of f32 or f64 that keep their
// relative accuracy for small and large arguments. The textbook formulas lose this accuracy: log(1
// + exp(x)) is 0 for all x below -17 in f32, and log(x + sqrt(x * x + 1)) overflows. Thread-safe.

#include "dsl/expr.h"

namespace tw::graph::onnx {

/// log(1 + exp(x))
dsl::Expr softplus(const dsl::Expr& x);
/// Infinite where exp(|x|) is, in f32 for |x| above 88.72.
dsl::Expr hyperbolic_sine(const dsl::Expr& x);
dsl::Expr inverse_hyperbolic_sine(const dsl::Expr& x);
/// NaN for x < 1.
dsl::Expr inverse_hyperbolic_cosine(const dsl::Expr& x);
/// NaN for |x| > 1.
dsl::Expr inverse_hyperbolic_tangent(const dsl::Expr& x);

}  // namespace tw::graph::onnx
