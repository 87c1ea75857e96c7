// SPDX-License-Identifier: Apache-2.0
#pragma once
// Math functions on floats that Halide lacks, or has for normal numbers only, as expressions of its
// IR: for 32 bits (functions_f32.cpp) and for 64 bits (functions_f64.cpp). Arguments may be
// vectors. Private to codegen/halide; thread-safe.

#include <vector>

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

HExpr exp_f32(const HExpr& x);
HExpr log_f32(const HExpr& x);
HExpr tanh_f32(const HExpr& x);
HExpr erf_f32(const HExpr& x);
HExpr sigmoid_f32(const HExpr& x);
/// Returns sin(x + quarters * pi / 2), which is sin(x) for 0 quarters and cos(x) for 1 quarter.
HExpr sin_f32(const HExpr& x, int quarters);
/// Returns x to the power y. If x is negative and y is not a whole number, the result is NaN.
HExpr pow_f32(const HExpr& x, const HExpr& y);

// The following functions were measured against the C library. Their errors relative to the value
// are at most 4 * 2^-53. The error of pow_f64 is at most 8 * 2^-53.
HExpr exp_f64(const HExpr& x);
HExpr log_f64(const HExpr& x);
HExpr tanh_f64(const HExpr& x);
HExpr erf_f64(const HExpr& x);
HExpr sigmoid_f64(const HExpr& x);
/// Returns sin(x + quarters * pi / 2), which is sin(x) for 0 quarters and cos(x) for 1 quarter.
HExpr sin_f64(const HExpr& x, int quarters);
/// Returns x to the power y. If x is negative and y is not a whole number, the result is NaN.
HExpr pow_f64(const HExpr& x, const HExpr& y);

/// Returns the value of a polynomial at x. The coefficient of the highest power comes first.
HExpr polynomial(const HExpr& x, const std::vector<double>& coefficients);

}  // namespace tw::codegen::halide
