// SPDX-License-Identifier: Apache-2.0
#pragma once
// Expressions for quantised products: reading unsigned numbers of few bits that are packed in
// bytes, and rounding floats to 8-bit integers. Pure functions; thread-safe.

#include <cstdint>

#include "dsl/expr.h"

namespace tw::dsl {

/// The largest magnitude of a number that round_to_byte() returns.
inline constexpr int64_t largest_rounded = 127;

/// Extracts a number of `bits` bits from a byte, as an unsigned value in an i32. Position 0 is the
/// lowest bits: with 4 bits, position 1 of the byte 0xA3 is 10.
Expr digit_of_byte(const Expr& byte, const Expr& position, int64_t bits);

/// Rounds a float to an i8: round(value * 127 / peak). `peak` is the largest magnitude in the block
/// of floats that share a scale, so the results lie in [-127, 127]. If `peak` is 0, all floats of
/// the block are 0, and so are the results.
Expr round_to_byte(const Expr& value, const Expr& peak);

/// Returns the expression round(x) + zero, saturated to the type of `zero`. `zero` is the zero
/// point of a quantised tensor. Ties round to even.
Expr saturated(const Expr& x, const Expr& zero);

}  // namespace tw::dsl
