// SPDX-License-Identifier: Apache-2.0
#pragma once
// Literals of 64 bits, and tests of floats by their bits. The tests do not compare the floats
// themselves, because LLVM may assume that no float is NaN or infinite, and would then replace the
// results of such comparisons by constants. If the float is the result of an operation that LLVM
// takes to be finite, LLVM also sees through the conversion to bits; only hidden_bits() prevents
// that. Private to codegen/halide; thread-safe.

#include <bit>
#include <cmath>
#include <cstdint>

#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

inline const Halide::Type word64 = Halide::UInt(64);

inline HExpr f64(double value) { return hi::make_const(Halide::Float(64), value); }
inline HExpr word(uint64_t value) { return hi::make_const(word64, value); }

inline bool is_double(const HExpr& x) { return x.type().bits() == 64; }

// ---- floats whose computation LLVM does not see ----------------------------------------------

/// Returns the bits of a float in combination with a zero that LLVM does not know: the sign of the
/// task's number.
inline HExpr hidden_bits(const HExpr& x) {
  const Halide::Type type = x.type().with_code(halide_type_uint);
  return Halide::reinterpret(type, x) ^
         Halide::cast(type, hi::Variable::make(index32, "task") >> 31);
}

/// Returns the float itself. LLVM does not know how it was computed.
inline HExpr hidden(const HExpr& x) { return Halide::reinterpret(x.type(), hidden_bits(x)); }

// ---- floats of 64 bits ----------------------------------------------------------------------

inline HExpr bits_of(const HExpr& x) { return Halide::reinterpret(word64, x); }
inline HExpr magnitude_bits(const HExpr& x) { return bits_of(x) & word(~uint64_t{0} >> 1); }
inline HExpr is_nan_f64(const HExpr& x) {
  return magnitude_bits(x) > word(std::bit_cast<uint64_t>(HUGE_VAL));
}

// ---- floats of 32 bits ----------------------------------------------------------------------

/// True if the f32 with these bits is NaN.
inline HExpr is_nan_f32(const HExpr& bits) {
  return (bits & hi::make_const(bits.type(), 0x7fffffff)) > hi::make_const(bits.type(), 0x7f800000);
}

}  // namespace tw::codegen::halide
