// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversions that Halide's casts do not provide: from floats to integers, and to 16-bit floats.
// Private to codegen/halide; thread-safe.

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

/// Converts a float to an integer of this type. It truncates, and saturates at the limits of the
/// type.
HExpr truncated(Halide::Type type, const HExpr& a);

/// Converts an f64 to an f32 such that rounding the f32 to f16 or bf16 gives the same as rounding
/// the f64 directly.
HExpr to_odd_f32(const HExpr& x);

/// Converts an element, as it is stored in a buffer, to the type in which it is computed.
HExpr to_value(DType type, const HExpr& stored);

/// Converts a computed value to an element as it is stored in a buffer. `has_f16` is true if the
/// target has an instruction that rounds f32 to f16.
HExpr to_storage(DType type, const HExpr& value, bool has_f16);

}  // namespace tw::codegen::halide
