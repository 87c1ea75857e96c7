// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "codegen/halide/float_bits.h"
#include "codegen/halide/functions.h"

namespace tw::codegen::halide {
namespace {

/// Makes an operation that LLVM must not reassociate. Reassociating a sum or difference would make
/// the errors that are computed here 0.
HExpr strict(hi::Call::IntrinsicOp op, const HExpr& a, const HExpr& b) {
  return hi::Call::make(a.type(), op, {a, b}, hi::Call::PureIntrinsic);
}
HExpr strict_sum(const HExpr& a, const HExpr& b) { return strict(hi::Call::strict_add, a, b); }
HExpr strict_difference(const HExpr& a, const HExpr& b) {
  return strict(hi::Call::strict_sub, a, b);
}

/// Returns the number with only the first 26 bits of its significand. Products of two such numbers
/// are exact.
HExpr first_half(const HExpr& x) {
  return Halide::reinterpret(x.type(), bits_of(x) & word(~uint64_t{0x7ffffff}));
}

HExpr clamped_f64(const HExpr& x, double low, double high) {
  return hi::Max::make(hi::Min::make(x, f64(high)), f64(low));
}

/// Returns 2^whole. Requires: -1022 <= whole <= 1023.
HExpr power_of_two(const HExpr& whole) {
  return Halide::reinterpret(whole.type(), Halide::cast(word64, Halide::cast(index32, whole) + 1023)
                                               << 52);
}

/// Returns exp(x) * 2^whole for |x| < 0.35. It multiplies by 2^whole in two factors, because
/// 2^whole may be no normal number.
HExpr scaled_exp(const HExpr& x, const HExpr& whole) {
  std::vector<double> series = {1};
  for (int k = 1; k <= 13; ++k) series.insert(series.begin(), series.front() / k);
  const HExpr half = Halide::floor(whole * f64(0.5));
  return strict(hi::Call::strict_mul, polynomial(x, series) * power_of_two(half),
                power_of_two(whole - half));
}

/// The parts of a positive number x = mantissa * 2^exponent, with the mantissa in [sqrt(1/2),
/// sqrt(2)).
struct Split {
  HExpr mantissa, exponent;
};
Split split_f64(const HExpr& x) {
  const HExpr is_small = bits_of(x) < word(uint64_t{1} << 52);  // a subnormal number
  const HExpr bits = bits_of(Halide::select(is_small, x * f64(0x1p54), x));
  const HExpr one = word(uint64_t{0x3ff} << 52);
  const uint64_t half_root = std::bit_cast<uint64_t>(std::numbers::sqrt2 / 2);
  const HExpr biased = (bits + (one - word(half_root))) >> 52;
  const HExpr exponent = Halide::cast(x.type(), Halide::cast(index32, biased) - 1023);
  return {Halide::reinterpret(x.type(), bits + one - (biased << 52)),
          exponent - Halide::select(is_small, f64(54), f64(0))};
}

/// Returns the coefficients 2 / k for odd k from 21 down to `first`. For first = 1 they are those
/// of the series 2 + 2 x / 3 + 2 x^2 / 5 + ..., highest power first; for first = 3 the term 2 is
/// left out. With s = (m - 1) / (m + 1), log(m) is s * (2 + 2 s^2 / 3 + ...).
std::vector<double> atanh_series(int first) {
  std::vector<double> series;
  for (int k = 21; k >= first; k -= 2) series.push_back(2.0 / k);
  return series;
}

/// A number as the sum of two numbers. The significand of `high` has 26 bits.
struct Halves {
  HExpr high, low;
};

/// Returns log2(x) of a positive number with an error of 2^-60, by the method of FreeBSD's C
/// library (e_pow.c). For 0 and infinity the result is so large in magnitude that its product with
/// any nonzero factor exceeds the range of exponents.
Halves log2_in_halves(const HExpr& x) {
  const auto [mantissa, exponent] = split_f64(x);
  // s = (mantissa - 1) / (mantissa + 1)
  const HExpr numerator = mantissa - f64(1), inverse = f64(1) / (mantissa + f64(1));
  const HExpr divisor = first_half(mantissa + f64(1));
  const HExpr divisor_rest = strict_difference(mantissa, strict_difference(divisor, f64(1)));
  const HExpr s = first_half(numerator * inverse);
  const HExpr s_rest =
      inverse * strict_difference(strict_difference(numerator, s * divisor), s * divisor_rest);
  // log2(mantissa) = (s + tail) * 2 / ln 2
  const HExpr whole_s = strict_sum(s, s_rest), z = whole_s * whole_s;
  const HExpr tail = strict_sum(s_rest, polynomial(z, atanh_series(3)) * f64(0.5) * z * whole_s);
  constexpr double factor = 2 / std::numbers::ln2;
  constexpr double factor_high = 0x1.71547640p1, factor_low = 0x1.2b82fe1777d1p-27;
  const HExpr high = s * f64(factor_high);
  const HExpr low = strict_sum(s * f64(factor_low), tail * f64(factor));
  // exponent + high + low
  const HExpr sum = strict_sum(exponent, high);
  const HExpr lost = strict_difference(high, strict_difference(sum, exponent));
  const HExpr rest = strict_sum(lost, low);
  const HExpr first = first_half(strict_sum(sum, rest));
  const HExpr second = strict_sum(strict_difference(sum, first), rest);
  const HExpr is_zero = bits_of(x) == word(0);
  const HExpr is_infinite = bits_of(x) == word(std::bit_cast<uint64_t>(HUGE_VAL));
  return {Halide::select(is_zero, f64(-0x1p600), is_infinite, f64(0x1p600), first),
          Halide::select(is_zero || is_infinite, f64(0), second)};
}

/// Returns |x|^y. The sign of x is removed from its bits, because Halide's abs(0.0) may be -0.0.
HExpr magnitude_of_power(const HExpr& x, const HExpr& y) {
  const HExpr magnitude = Halide::reinterpret(x.type(), magnitude_bits(x));
  const auto [first, second] = log2_in_halves(magnitude);
  const HExpr bounded = clamped_f64(y, -0x1p100, 0x1p100), y_high = first_half(bounded);
  const HExpr y_low = strict_difference(bounded, y_high);
  const HExpr high = clamped_f64(y_high * first, -4096, 4096);
  const HExpr low = clamped_f64(strict_sum(y_low * first, bounded * second), -4096, 4096);
  const HExpr whole = Halide::round(clamped_f64(high + low, -1100, 1100));
  const HExpr rest = clamped_f64(strict_sum(strict_difference(high, whole), low), -0.51, 0.51);
  return scaled_exp(rest * f64(std::numbers::ln2), whole);
}

}  // namespace

HExpr exp_f64(const HExpr& x) {
  const HExpr inside = clamped_f64(x, -746, 710);
  const HExpr whole = Halide::round(inside * f64(std::numbers::log2e));
  // ln 2 is split in two parts, such that products of the first part with whole numbers are exact.
  const HExpr rest = strict_difference(strict_difference(inside, whole * f64(0x1.62e42feep-1)),
                                       whole * f64(0x1.a39ef35793c76p-33));
  return Halide::select(is_nan_f64(x), x, scaled_exp(rest, whole));
}

HExpr log_f64(const HExpr& x) {
  const auto [mantissa, exponent] = split_f64(x);
  const HExpr s = (mantissa - f64(1)) / (mantissa + f64(1));
  const HExpr sum = exponent * f64(std::numbers::ln2) + polynomial(s * s, atanh_series(1)) * s;
  const HExpr bits = bits_of(x);
  return Halide::select(magnitude_bits(x) == word(0), f64(-HUGE_VAL),
                        bits == word(std::bit_cast<uint64_t>(HUGE_VAL)) || is_nan_f64(x), x,
                        bits >= word(uint64_t{1} << 63),
                        f64(std::numeric_limits<double>::quiet_NaN()), sum);
}

/// Returns tanh(x) as Cephes does: by a rational function near 0, because 1 - 2 / (exp(2x) + 1)
/// loses digits there.
HExpr tanh_f64(const HExpr& x) {
  const HExpr z = x * x;
  const HExpr p = polynomial(
      z, {-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3});
  const HExpr q = polynomial(
      z, {1, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3});
  const HExpr magnitude = hi::Min::make(Halide::abs(x), f64(22));  // tanh(22) rounds to 1
  const HExpr large = f64(1) - f64(2) / (exp_f64(magnitude * f64(2)) + f64(1));
  const HExpr value = Halide::select(Halide::abs(x) < f64(0.625), x * z * (p / q) + x,
                                     Halide::select(x < f64(0), -large, large));
  return Halide::select(is_nan_f64(x), x, value);
}

/// Returns erf(x) as Cephes does: by a rational function near 0, and as 1 - erfc(x) beyond 1.
HExpr erf_f64(const HExpr& x) {
  const HExpr z = x * x, a = hi::Min::make(Halide::abs(x), f64(6));  // erf(6) rounds to 1
  const HExpr near =
      x *
      polynomial(z, {9.60497373987051638749, 9.00260197203842689217e1, 2.23200534594684319226e3,
                     7.00332514112805075473e3, 5.55923013010394962768e4}) /
      polynomial(z, {1, 3.35617141647503099647e1, 5.21357949780152679795e2,
                     4.59432382970980127987e3, 2.26290000613890934246e4, 4.92673942608635921086e4});
  const HExpr complement =
      exp_f64(-(a * a)) *
      polynomial(a,
                 {2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687,
                  4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
                  9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369393327526e2}) /
      polynomial(a, {1, 1.32281951154744992508e1, 8.67072140885989742329e1,
                     3.54937778887819891062e2, 9.75708501743205489753e2, 1.82390916687909736289e3,
                     2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2});
  const HExpr far = f64(1) - complement;
  const HExpr value =
      Halide::select(Halide::abs(x) < f64(1), near, Halide::select(x < f64(0), -far, far));
  return Halide::select(is_nan_f64(x), x, value);
}

/// Returns 1 / (1 + exp(-x)). -x is limited to 709, so that exp() stays finite.
HExpr sigmoid_f64(const HExpr& x) {
  return f64(1) / (f64(1) + exp_f64(hi::Min::make(-x, f64(709))));
}

/// Returns sin(x + quarters * pi / 2) by the method of sin_f32(), with Cephes' polynomials of sin
/// and cos. pi / 2 is subtracted in three parts; products of the first two parts with numbers up to
/// 2^20 are exact.
HExpr sin_f64(const HExpr& x, int quarters) {
  const HExpr multiple = Halide::round(x * f64(2 * std::numbers::inv_pi));
  HExpr rest = x;
  for (const double part : {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69})
    rest = strict_difference(rest, multiple * f64(part));
  const HExpr r = clamped_f64(rest, -1, 1), z = r * r;
  const HExpr sine = polynomial(z, {1.58962301576546568060e-10, -2.50507477628578072866e-8,
                                    2.75573136213857245213e-6, -1.98412698295895385996e-4,
                                    8.33333333332211858878e-3, -1.66666666666666307295e-1}) *
                         z * r +
                     r;
  const HExpr cosine =
      polynomial(z, {-1.13585365213876817300e-11, 2.08757008419747316778e-9,
                     -2.75573141792967388112e-7, 2.48015872888517045348e-5,
                     -1.38888888888730564116e-3, 4.16666666666665929218e-2, -0.5, 1});
  const HExpr turned = multiple + f64(quarters);
  const HExpr quadrant = Halide::cast(index32, turned - f64(4) * Halide::floor(turned * f64(0.25)));
  const HExpr value = Halide::select((quadrant & 1) == 0, sine, cosine);
  return Halide::select((quadrant & 2) == 0, value, -value);
}

/// Returns x to the power y. A negative x gives a number only if y is whole.
HExpr pow_f64(const HExpr& x, const HExpr& y) {
  const HExpr magnitude = magnitude_of_power(x, y);
  const HExpr half = y * f64(0.5);
  const HExpr of_negative =
      Halide::select(Halide::floor(y) != y, f64(std::numeric_limits<double>::quiet_NaN()),
                     Halide::floor(half) != half, -magnitude, magnitude);
  const HExpr is_one = magnitude_bits(y) == word(0) || bits_of(x) == bits_of(f64(1));
  const HExpr power = Halide::select(x < f64(0), of_negative, magnitude);
  return Halide::select(is_one, f64(1), is_nan_f64(x), x, is_nan_f64(y), y, power);
}

}  // namespace tw::codegen::halide
