// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "codegen/halide/float_bits.h"
#include "codegen/halide/functions.h"

namespace tw::codegen::halide {
namespace {

/// Returns log2(x) in double, with an error of 2^-40. Requires: x is 0, infinite, or a positive
/// normal number of double. For 0 the result is -1e200, and for infinity 1e200: the product with
/// any nonzero f32 then exceeds the range of exponents.
HExpr log2_f64(const HExpr& x) {
  const Halide::Type word = Halide::UInt(64);
  const HExpr one = hi::make_const(word, uint64_t{0x3ff} << 52);
  const HExpr bits = Halide::reinterpret(word, x);
  // x = mantissa * 2^(biased - 1023) with the mantissa in [sqrt(1/2), sqrt(2)).
  const uint64_t half_root = std::bit_cast<uint64_t>(std::numbers::sqrt2 / 2);
  const HExpr biased = (bits + (one - hi::make_const(word, half_root))) >> 52;
  const HExpr mantissa = Halide::reinterpret(x.type(), bits + one - (biased << 52));
  const HExpr exponent = Halide::cast(x.type(), Halide::cast(index32, biased) - 1023);
  const HExpr s = (mantissa - f64(1)) / (mantissa + f64(1));
  std::vector<double> series;  // log(mantissa) = 2 (s + s^3 / 3 + s^5 / 5 + ...)
  for (int k = 13; k > 0; k -= 2) series.push_back(2 / (k * std::numbers::ln2));
  const HExpr sum = exponent + polynomial(s * s, series) * s;
  // The bits are compared, because LLVM may assume that no float is infinite.
  const HExpr infinity = hi::make_const(word, std::bit_cast<uint64_t>(HUGE_VAL));
  return Halide::select(bits == hi::make_zero(word), f64(-1e200), bits == infinity, f64(1e200),
                        sum);
}

/// Returns 2^x in double with an error of 2^-32. x is first limited to the exponents of double. So
/// a result that is too small rounds to 0 in f32, and a result that is too large to infinity.
HExpr exp2_f64(const HExpr& x) {
  const HExpr inside = hi::Max::make(hi::Min::make(x, f64(1023)), f64(-1022));
  const HExpr whole = Halide::round(inside);
  std::vector<double> series = {1};  // series of exp(ln 2 * (inside - whole)) up to the 8th power
  for (int k = 1; k <= 8; ++k)
    series.insert(series.begin(), series.front() * std::numbers::ln2 / k);
  const HExpr exponent = Halide::cast(Halide::UInt(64), Halide::cast(index32, whole) + 1023) << 52;
  return polynomial(inside - whole, series) * Halide::reinterpret(x.type(), exponent);
}

}  // namespace

HExpr polynomial(const HExpr& x, const std::vector<double>& coefficients) {
  HExpr sum = hi::make_const(x.type(), coefficients[0]);
  for (size_t i = 1; i < coefficients.size(); ++i)
    sum = sum * x + hi::make_const(x.type(), coefficients[i]);
  return sum;
}

/// Returns 2^whole * exp(rest), where rest = x - whole * ln 2 is in [-0.35, 0.35]. The polynomial
/// has a relative error of 3.3e-9. If the result is subnormal, 2^whole is below the least normal
/// number, so it is multiplied in two parts. exp(-104) is 0 and exp(89) is infinite.
HExpr exp_f32(const HExpr& x) {
  const Halide::Type word = Halide::UInt(32);
  const auto shifted = [&](const HExpr& exponent) {
    return Halide::cast(word, exponent) << hi::make_const(word, 23);
  };
  const HExpr inside = hi::Max::make(hi::Min::make(x, 89.0f), -104.0f);
  const HExpr whole = Halide::round(inside * static_cast<float>(std::numbers::log2e));
  const HExpr rest = inside - whole * static_cast<float>(std::numbers::ln2);
  const HExpr exponent = Halide::cast(index32, whole);
  const HExpr half = exponent >> hi::make_const(index32, 1);
  const HExpr power = polynomial(
      rest, {1.381314439e-3, 8.369418847e-3, 4.166845679e-2, 1.666651479e-1, 4.999999305e-1, 1, 1});
  const HExpr first = Halide::reinterpret(word, power) + shifted(half);
  return Halide::reinterpret(x.type(), first) *
         Halide::reinterpret(x.type(), shifted(exponent - half + 127));
}

/// Returns log(x) by Cephes' logf: a polynomial of mantissa - 1, where x = mantissa * 2^exponent
/// and the mantissa is in [sqrt(1/2), sqrt(2)). Special numbers are recognised by their bits,
/// because LLVM may assume that no float is infinite or NaN. The logarithm of infinity is 128 ln 2.
HExpr log_f32(const HExpr& x) {
  const Halide::Type word = Halide::UInt(32);
  const auto constant = [&](auto value) {
    return hi::make_const(word, std::bit_cast<uint32_t>(value));
  };
  const HExpr given = Halide::reinterpret(word, x);
  const HExpr less_1 = given - constant(1u);  // wraps to the largest number if x is 0
  const HExpr is_subnormal = less_1 < constant(0x7fffffu);
  const HExpr bits = Halide::select(is_subnormal, Halide::reinterpret(word, x * 0x1p23f), given);
  const uint32_t half_root = std::bit_cast<uint32_t>(static_cast<float>(std::numbers::sqrt2 / 2));
  const HExpr above = bits - constant(half_root);
  const HExpr exponent =
      Halide::cast(x.type(), Halide::reinterpret(index32, above) >> hi::make_const(index32, 23));
  const HExpr mantissa =
      Halide::reinterpret(x.type(), (above & constant(0x7fffffu)) + constant(half_root));
  const HExpr m = mantissa - 1.0f, z = m * m;
  const HExpr series = polynomial(
      m, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
          -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  const HExpr whole = Halide::select(is_subnormal, exponent - 23.0f, exponent);
  const HExpr sum = m + (series * m - 0.5f) * z + whole * static_cast<float>(std::numbers::ln2);
  const HExpr of_zero_or_negative =
      Halide::select(given + given == constant(0u), constant(-HUGE_VALF), constant(0x7fc00000u));
  return Halide::reinterpret(
      x.type(), Halide::select(less_1 < constant(0x7f800000u), Halide::reinterpret(word, sum),
                               of_zero_or_negative));
}

/// Returns tanh(x) by Cephes' tanhf: a polynomial near 0, because 1 - 2 / (exp(2x) + 1) loses
/// digits there.
HExpr tanh_f32(const HExpr& x) {
  const HExpr z = x * x;
  const HExpr polynomial =
      ((((-5.70498872745e-3f * z + 2.06390887954e-2f) * z - 5.37397155531e-2f) * z +
        1.33314422036e-1f) *
           z -
       3.33332819422e-1f) *
          z * x +
      x;
  const HExpr magnitude = Halide::min(Halide::abs(x), 10.0f);  // tanh(10) rounds to 1
  const HExpr large = 1.0f - 2.0f / (hi::halide_exp(magnitude * 2.0f) + 1.0f);
  return Halide::select(Halide::abs(x) < 0.625f, polynomial,
                        Halide::select(x < 0.0f, -large, large));
}

/// Returns erf(x). The argument is limited to [-10, 10], so that its square, which halide_erf()
/// computes, stays finite; erf(10) rounds to 1.
HExpr erf_f32(const HExpr& x) {
  return hi::halide_erf(hi::Max::make(hi::Min::make(x, 10.0f), -10.0f));
}

/// Returns 1 / (1 + exp(-x)). -x is limited to 88, so that exp() stays finite: 1 + exp(88) is
/// 1.7e38.
HExpr sigmoid_f32(const HExpr& x) {
  return 1.0f / (1.0f + hi::halide_exp(hi::Min::make(-x, 88.0f)));
}

/// Returns sin(x + quarters * pi / 2). The nearest multiple of pi / 2 is subtracted in double. This
/// leaves an argument in [-pi / 4, pi / 4] with an error of |x| * 2^-52. Cephes' polynomials of
/// sinf and cosf apply to this argument. If |x| exceeds 2^52, the error exceeds the argument, and
/// the result is an arbitrary number in [-1, 1].
HExpr sin_f32(const HExpr& x, int quarters) {
  const HExpr wide = Halide::cast(Halide::Float(64), x);
  const HExpr multiple = Halide::round(wide * f64(2 * std::numbers::inv_pi));
  const HExpr rest = Halide::cast(Halide::Float(32), wide - multiple * f64(std::numbers::pi / 2));
  const HExpr r = hi::Max::make(hi::Min::make(rest, 1.0f), -1.0f), z = r * r;
  const HExpr sine =
      polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1}) * z * r + r;
  const HExpr cosine =
      polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5, 1});
  const HExpr turned = multiple + f64(quarters);
  const HExpr quadrant = Halide::cast(index32, turned - f64(4) * Halide::floor(turned * f64(0.25)));
  const HExpr value = Halide::select((quadrant & 1) == 0, sine, cosine);
  return Halide::select((quadrant & 2) == 0, value, -value);
}

/// Returns x to the power y; NaN if x is negative and y is not whole. NaN is selected as bits,
/// because LLVM may assume that a selected float is a number.
HExpr pow_f32(const HExpr& x, const HExpr& y) {
  const Halide::Type wide = Halide::Float(64), word = Halide::UInt(32);
  const HExpr magnitude =
      Halide::cast(Halide::Float(32),
                   exp2_f64(Halide::cast(wide, y) * log2_f64(Halide::cast(wide, Halide::abs(x)))));
  const HExpr half = y * 0.5f;
  const HExpr is_odd = Halide::floor(half) != half, is_broken = Halide::floor(y) != y;
  const HExpr of_whole = Halide::select(x < 0.0f && is_odd, -magnitude, magnitude);
  const HExpr nan = hi::make_const(word, 0x7fc00000);
  return Halide::reinterpret(
      Halide::Float(32),
      Halide::select(x < 0.0f && is_broken, nan, Halide::reinterpret(word, of_whole)));
}

}  // namespace tw::codegen::halide
