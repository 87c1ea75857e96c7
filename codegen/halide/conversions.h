// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversions between types that Halide's casts do not give: floats to integers, and roundings of
// floats to 16 bits. Private to codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// A float as an integer: truncated, and saturated at the type's limits.
HExpr truncated(Halide::Type type, const HExpr& a);

/// f64 as an f32 that rounds to f16 and bf16 as the f64 would.
HExpr to_odd_f32(const HExpr& x);

/// An element of a buffer in the type that it is computed in.
HExpr to_value(DType type, const HExpr& stored);

/// A value as an element of a buffer. `has_f16`: the target has an instruction that rounds f32 to
/// f16.
HExpr to_storage(DType type, const HExpr& value, bool has_f16);

}  // namespace tw::codegen::halide
