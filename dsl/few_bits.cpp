// SPDX-License-Identifier: Apache-2.0
#include "dsl/few_bits.h"

#include "dsl/compute.h"

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

Expr saturated(const Expr& x, const Expr& zero) {
  const auto limit = [&](Combine combine) {
    return constant(x.type(), static_cast<double>(*as_int(identity(combine, zero.type()))));
  };
  const Expr shifted = round(x) + cast(x.type(), zero);
  return cast(zero.type(), clamp(shifted, limit(Combine::Max), limit(Combine::Min)));
}

}  // namespace tw::dsl
