// SPDX-License-Identifier: Apache-2.0
#pragma once
// Quantised numbers as factors of products: unsigned numbers of few bits that are packed in bytes,
// and floats that are rounded to 8-bit integers. Pure functions; thread-safe.

#include <cstdint>

#include "dsl/expr.h"

namespace tw::dsl {

/// The largest magnitude of a number that round_to_byte() returns.
inline constexpr int64_t largest_rounded = 127;

/// The unsigned number of `bits` bits at a position of a byte, as an i32. Position 0 has the lowest
/// bits.
Expr digit_of_byte(const Expr& byte, const Expr& position, int64_t bits);

/// Rounds a float to an i8 in units of peak / largest_rounded. `peak` is the largest magnitude in
/// the block that the float belongs to. If all floats of a block are 0, all results are 0.
Expr round_to_byte(const Expr& value, const Expr& peak);

/// round(x) + zero, ties to even, saturated to the type of `zero`.
Expr saturated(const Expr& x, const Expr& zero);

}  // namespace tw::dsl
