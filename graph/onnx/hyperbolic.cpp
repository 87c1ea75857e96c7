// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/hyperbolic.h"

#include <numbers>

#include "graph/onnx/declaration.h"

namespace tw::graph::onnx {
namespace {

using dsl::Expr;

/// Returns the value with the sign of x. Requires: the value is not negative.
Expr with_sign_of(const Expr& x, const Expr& value) {
  return select(x < number(x, 0), -value, value);
}

/// Returns the inverse hyperbolic tangent of s by its series, s + s^3 / 3 + s^5 / 5 + ... Requires:
/// |s| is at most 1/3. The terms that are left out are below 2^-26 of the sum in f32, and 2^-61 in
/// f64.
Expr inverse_tangent_series(const Expr& s) {
  const Expr z = s * s;
  const int highest = s.type() == Float64 ? 35 : 13;
  Expr sum = number(s, 1.0 / highest);
  for (int power = highest - 2; power > 0; power -= 2) sum = sum * z + number(s, 1.0 / power);
  return sum * s;
}

/// log(1 + u). Requires: u is in [0, 1].
Expr log_1_plus_fraction(const Expr& u) {
  const Expr two = number(u, 2);
  return two * inverse_tangent_series(u / (two + u));
}

/// log(1 + u). Requires: u is not negative.
Expr log_1_plus(const Expr& u) {
  const Expr one = number(u, 1);
  return select(u < one, log_1_plus_fraction(min(u, one)), log(one + u));
}

/// Returns log(2 x) for x above 1e5, in f64 above 1e9, where sqrt(x * x + 1) rounds to x. Returns
/// otherwise(x) for smaller x, and NaN for NaN.
Expr log_or(const Expr& x, Expr (*otherwise)(const Expr& x)) {
  const Expr large = number(x, x.type() == Float64 ? 1e9 : 1e5);
  return select(x <= large, otherwise(min(x, large)), log(x) + number(x, std::numbers::ln2));
}

}  // namespace

Expr softplus(const Expr& x) { return max(x, number(x, 0)) + log_1_plus_fraction(exp(-abs(x))); }

Expr hyperbolic_sine(const Expr& x) {
  const Expr one = number(x, 1), a = abs(x), small = min(a, one), z = small * small;
  Expr sum = one;  // 1 + z / 3! + z^2 / 5! + ...
  for (int power = x.type() == Float64 ? 18 : 12; power > 0; power -= 2)
    sum = sum * z / number(x, power * (power + 1)) + one;
  return with_sign_of(x, select(a < one, sum * small, number(x, 0.5) * (exp(a) - exp(-a))));
}

Expr inverse_hyperbolic_sine(const Expr& x) {
  return with_sign_of(x, log_or(abs(x), [](const Expr& a) {
                        const Expr one = number(a, 1), square = a * a;
                        return log_1_plus(a + square / (one + sqrt(square + one)));
                      }));
}

Expr inverse_hyperbolic_cosine(const Expr& x) {
  return log_or(x, [](const Expr& a) {
    const Expr one = number(a, 1), middle = number(a, 1.5);
    const Expr t = max(min(a, middle), one) - one, root = sqrt(t);
    // t + sqrt(t * (t + 2)) would lose digits, because compilers may subtract the 1 last.
    const Expr near_one = log_1_plus(root * (root + sqrt(t + number(a, 2))));
    const Expr inside = select(a < middle, near_one, log(a + sqrt(a * a - one)));
    return select(one <= a, inside, log(a - one));  // the logarithm of a negative number is NaN
  });
}

Expr inverse_hyperbolic_tangent(const Expr& x) {
  const Expr one = number(x, 1), third = number(x, 1.0 / 3), a = abs(x);
  const Expr logarithm = number(x, 0.5) * log((one + a) / (one - a));
  return with_sign_of(x, select(a < third, inverse_tangent_series(min(a, third)), logarithm));
}

}  // namespace tw::graph::onnx
