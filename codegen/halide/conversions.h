// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversions between types that Halide's casts do not give: floats to integers, and roundings of
// floats to 16 bits. Private to codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Converts a float to an integer: truncates, and saturates at the limits of the type.
HExpr truncated(Halide::Type type, const HExpr& a);

/// Converts an f64 to an f32 that rounds to f16 and bf16 as the f64 itself would.
HExpr to_odd_f32(const HExpr& x);

/// Converts an element of a buffer to the type in which it is computed.
HExpr to_value(DType type, const HExpr& stored);

/// Converts a value to an element of a buffer. `has_f16`: the target has an instruction that rounds
/// f32 to f16.
HExpr to_storage(DType type, const HExpr& value, bool has_f16);

}  // namespace tw::codegen::halide
