// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions of floats that Halide does not have, as expressions of its IR: those of 32 bits
// (functions_f32.cpp) and those of 64 bits (functions_f64.cpp). Arguments may be vectors. Private
// to codegen/halide; thread-safe.

#include <vector>

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

HExpr tanh_f32(const HExpr& x);
HExpr erf_f32(const HExpr& x);
HExpr sigmoid_f32(const HExpr& x);
/// sin(x + quarters * pi / 2)
HExpr sin_f32(const HExpr& x, int quarters);
/// A negative base has powers with whole exponents only; others are NaN.
HExpr pow_f32(const HExpr& x, const HExpr& y);

// Errors of these are at most 4 units of 2^-53 of the value, as measured against the C library;
// those of pow are at most 8.
HExpr exp_f64(const HExpr& x);
HExpr log_f64(const HExpr& x);
HExpr tanh_f64(const HExpr& x);
HExpr erf_f64(const HExpr& x);
HExpr sigmoid_f64(const HExpr& x);
/// sin(x + quarters * pi / 2)
HExpr sin_f64(const HExpr& x, int quarters);
/// A negative base has powers with whole exponents only; others are NaN.
HExpr pow_f64(const HExpr& x, const HExpr& y);

/// The value of a polynomial; the coefficient of the highest power comes first.
HExpr polynomial(const HExpr& x, const std::vector<double>& coefficients);

}  // namespace tw::codegen::halide
