// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of few bits in products: unsigned ones that are packed in bytes, and floats that are
// rounded to integers. Pure functions; thread-safe.

#include <cstdint>

#include "dsl/expr.h"

namespace tw::dsl {

/// The largest magnitude of numbers that round_to_byte() gives.
inline constexpr int64_t largest_rounded = 127;

/// The number of `bits` bits at a position of a byte, as an i32. Position 0 has the lowest bits.
Expr digit_of_byte(const Expr& byte, const Expr& position, int64_t bits);

/// The float as an i8, in units of peak / largest_rounded, rounded to the nearest. `peak` is the
/// largest magnitude of the block that the float belongs to; all numbers of a block of zeros are 0.
Expr round_to_byte(const Expr& value, const Expr& peak);

/// round(x) + zero, ties to even, saturated to the type of `zero`.
Expr saturated(const Expr& x, const Expr& zero);

}  // namespace tw::dsl
