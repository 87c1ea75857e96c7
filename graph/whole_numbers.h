// SPDX-License-Identifier: Apache-2.0
#pragma once
// Removes conversions of floats to integers and back where the floats hold whole numbers already:
//
//   f32(i32(u8(clamp(round(x) + 3.0, 0.0, 255.0))) - 3)
//   becomes
//   clamp(round(x) + 3.0, 0.0, 255.0) - 3.0
//
// Such conversions arise when an operator that quantizes is fused with one that dequantizes. They
// would cost more than the arithmetic, since vectors of bytes have four times as many lanes as
// vectors of floats. Pure functions; thread-safe.

#include "dsl/expr.h"

namespace tw::graph {

/// Returns the expression without conversions of whole numbers to integers and back. The values are
/// the same, except that a -0.0 may remain where the conversion to an integer would have made it 0.
dsl::Expr without_round_trips(const dsl::Expr& expr);

}  // namespace tw::graph
