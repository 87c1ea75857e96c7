// SPDX-License-Identifier: Apache-2.0
#include "dsl/few_bits.h"

namespace tw::dsl {

Expr digit_of_byte(const Expr& byte, const Expr& position, int64_t bits) {
  const Expr shift = cast(Int32, position * Expr(bits));
  return cast(Int32, byte) >> shift & constant_int(Int32, (int64_t{1} << bits) - 1);
}

Expr round_to_byte(const Expr& value, const Expr& peak) {
  const Expr zero = constant(peak.type(), 0), one = constant(peak.type(), 1);
  const Expr units = constant(peak.type(), largest_rounded) / select(eq(peak, zero), one, peak);
  return cast(Int8, round(value * units));
}

}  // namespace tw::dsl
