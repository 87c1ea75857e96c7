// SPDX-License-Identifier: Apache-2.0
#pragma once
// Floats that hold whole numbers need not become integers to be floats again:
//
//   f32(i32(u8(clamp(round(x) + 3.0, 0.0, 255.0))) - 3)   is   clamp(round(x) + 3.0, 0.0, 255.0)
//   - 3.0
//
// Fusions join an operator that quantizes with one that dequantizes. The conversions between them
// would cost more than the arithmetic, since vectors of bytes have four times as many lanes as
// those of floats. Pure functions; thread-safe.

#include "dsl/expr.h"

namespace tw::graph {

/// The expression without such conversions. Its value is the same, but that a -0.0 may stay one
/// where an integer would make it 0.
dsl::Expr without_round_trips(const dsl::Expr& expr);

}  // namespace tw::graph
