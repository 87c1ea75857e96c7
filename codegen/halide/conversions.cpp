// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/conversions.h"

#include <cstdint>

#include "codegen/halide/float_bits.h"

namespace tw::codegen::halide {
namespace {

/// Returns the f64 with only the first 14 bits of its significand. If nonzero bits are lost, the
/// last of the 14 bits is set to 1 (rounding to odd). Rounding this value by way of f32 to f16 or
/// bf16 gives the same result as rounding the original number once. No NaN becomes infinite.
HExpr rounded_to_odd(const HExpr& x) {
  constexpr uint64_t lost = (uint64_t{1} << 39) - 1;
  const HExpr bits = bits_of(x);
  const HExpr sticky = Halide::select((bits & word(lost)) != word(0), word(lost + 1), word(0));
  return Halide::reinterpret(x.type(), (bits & word(~lost)) | sticky);
}

/// Converts f32 to f16. Halide's integer arithmetic would turn a NaN into an infinity, so NaN is
/// selected separately.
HExpr to_f16_with_nan(const HExpr& x) {
  const Halide::Type half = Halide::Float(16), word = Halide::UInt(16);
  const HExpr bits = Halide::reinterpret(word, Halide::cast(half, x));
  const HExpr is_nan = is_nan_f32(Halide::reinterpret(Halide::UInt(32), x));
  return Halide::reinterpret(half, Halide::select(is_nan, hi::make_const(word, 0x7e00), bits));
}

}  // namespace

// A clamp and a cast would be wrong: Halide simplifies u32(i32(f)) to u32(f), which is undefined
// for f < 0. Halide does not simplify a saturating cast in this way.
HExpr truncated(Halide::Type type, const HExpr& a) { return Halide::saturating_cast(type, a); }

// Every NaN becomes a NaN that rounding to 16 bits preserves. This step also keeps LLVM from
// joining the conversion to f32 with the next one, to f16: for both together it would call a
// function of the compiler's library.
HExpr to_odd_f32(const HExpr& x) {
  const Halide::Type narrow = Halide::Float(32), word = Halide::UInt(32);
  const HExpr bits = Halide::reinterpret(word, Halide::cast(narrow, rounded_to_odd(x)));
  const HExpr quiet = hi::make_const(word, 0x7fc00000);
  return Halide::reinterpret(narrow, Halide::select(is_nan_f32(bits), quiet, bits));
}

HExpr to_value(DType type, const HExpr& stored) {
  if (type == Bool) return stored != hi::make_zero(stored.type());
  return Halide::cast(value_type(type), stored);
}

HExpr to_storage(DType type, const HExpr& value, bool has_f16) {
  if (type == Float16 && !has_f16) return to_f16_with_nan(value);
  return Halide::cast(storage_type(type), value);
}

}  // namespace tw::codegen::halide
