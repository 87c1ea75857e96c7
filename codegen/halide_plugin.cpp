// SPDX-License-Identifier: Apache-2.0
//
// The one file that knows Halide: translates a Program, statement by statement, to Halide's IR,
// runs the passes that its back end needs, and compiles. Halide::Internal is no stable interface;
// the wheel's version is pinned. Everything here is reached through the functions at the end.
//
//   Loop Serial, Unrolled, Vector    For Serial; Unrolled, then unroll_loops; Vectorized
//   Allocate                         Allocate on the stack, in registers once unrolled
//   buffer[i, j] op= value           Store to one linear index, op written out
//   buffer[i] = value if c else 0.0  two IfThenElse, on c and on its negation
//   phase                            LoweredFunc(buffers, scratch, task), pointers bound at its top

#include <Halide.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numbers>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "codegen/abi.h"
#include "codegen/cpu_codegen.h"
#include "codegen/ranges.h"
#include "schedules/affine.h"
#include "schedules/bounds.h"
#include "schedules/dot_products.h"
#include "schedules/simplify.h"

namespace tw::codegen {
namespace {

using dsl::BinaryOp;
using dsl::UnaryOp;
using schedules::Affine;
using schedules::Allocate;
using schedules::Assign;
using schedules::Barrier;
using schedules::Block;
using schedules::Buffer;
using schedules::Combine;
using schedules::Commit;
using schedules::DotProduct;
using schedules::Expr;
using schedules::If;
using schedules::Loop;
using schedules::LoopKind;
using schedules::Phase;
using schedules::PrefetchLines;
using schedules::Program;
using schedules::Scope;
using schedules::Stmt;
using schedules::Wait;
using HExpr = Halide::Expr;
using HStmt = Halide::Internal::Stmt;
namespace hi = Halide::Internal;

const Halide::Type index32 = Halide::Int(32), index64 = Halide::Int(64);

/// The type of elements in memory. Bool is a byte.
Halide::Type storage_type(DType type) {
  const int bits = 8 * size_bytes(type);
  switch (info_of(type).kind) {
    case NumberKind::Float:
      return Halide::Float(bits);
    case NumberKind::BFloat:
      return Halide::BFloat(bits);
    case NumberKind::Int:
      return Halide::Int(bits);
    case NumberKind::UInt:
    case NumberKind::Bool:
      return Halide::UInt(bits);
  }
  TW_CHECK(false);
}

/// The type in which values are computed.
Halide::Type value_type(DType type) {
  if (is_float(type)) return Halide::Float(type == Float64 ? 64 : 32);
  return type == Bool ? Halide::Bool() : storage_type(type);
}

HExpr handle_variable(const std::string& name) {
  return hi::Variable::make(Halide::type_of<void*>(), name);
}

// ---- arithmetic that Halide does not have ---------------------------------------------------

/// Truncated, and saturated at the type's limits. The clamp keeps the conversion itself defined.
HExpr truncated(Halide::Type type, const HExpr& a) {
  const double top = std::ldexp(1.0, type.bits() - (type.is_int() ? 1 : 0));
  const bool wide = a.type().bits() == 64;
  const auto number = [&](double value) { return hi::make_const(a.type(), value); };
  const HExpr low = number(type.is_int() ? -top : 0);
  if (type.bits() < (wide ? 53 : 24))
    return Halide::cast(type, hi::Max::make(hi::Min::make(a, number(top - 1)), low));
  const double below_top =
      wide ? std::nextafter(top, 0.0) : std::nextafter(static_cast<float>(top), 0.0f);
  const HExpr inside = hi::Max::make(hi::Min::make(a, number(below_top)), low);
  return Halide::select(a >= number(top), type.max(), Halide::cast(type, inside));
}

/// Cephes' tanhf: a polynomial near 0, where 1 - 2 / (exp(2x) + 1) loses digits.
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

HExpr erf_f32(const HExpr& x) { return hi::halide_erf(x); }

/// The argument is bounded so that exp() stays finite: 1 + exp(88) is 1.7e38.
HExpr sigmoid_f32(const HExpr& x) {
  return 1.0f / (1.0f + hi::halide_exp(hi::Min::make(-x, 88.0f)));
}

/// The value of a polynomial; the coefficient of the highest power comes first.
HExpr polynomial(const HExpr& x, const std::vector<double>& coefficients) {
  HExpr sum = hi::make_const(x.type(), coefficients[0]);
  for (size_t i = 1; i < coefficients.size(); ++i)
    sum = sum * x + hi::make_const(x.type(), coefficients[i]);
  return sum;
}

HExpr f64(double value) { return hi::make_const(Halide::Float(64), value); }

/// sin(x + quarters * pi / 2). The nearest multiple of pi / 2 is taken off in double, which leaves
/// an error of |x| * 2^-52 in [-pi / 4, pi / 4]; there, Cephes' polynomials of sinf and cosf.
/// Beyond 2^52 nothing is left of the argument, and the result is some number in [-1, 1].
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

/// log2(x) in double with an error of 2^-40, for x >= 0 that is a normal number of double. Of 0 it
/// is so small, and of infinity so large, that every product with an f32 leaves the exponents.
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
  // A comparison of bits: LLVM may assume that no float is infinite.
  const HExpr infinity = hi::make_const(word, std::bit_cast<uint64_t>(HUGE_VAL));
  return Halide::select(bits == hi::make_zero(word), f64(-1e200), bits == infinity, f64(1e200),
                        sum);
}

/// 2^x in double with an error of 2^-32; 0 and numbers beyond f32 outside of the exponents.
HExpr exp2_f64(const HExpr& x) {
  const HExpr inside = hi::Max::make(hi::Min::make(x, f64(1023)), f64(-1022));
  const HExpr whole = Halide::round(inside);
  std::vector<double> series = {1};  // exp(ln2 (inside - whole)), to the 8th power
  for (int k = 1; k <= 8; ++k)
    series.insert(series.begin(), series.front() * std::numbers::ln2 / k);
  const HExpr exponent = Halide::cast(Halide::UInt(64), Halide::cast(index32, whole) + 1023) << 52;
  return polynomial(inside - whole, series) * Halide::reinterpret(x.type(), exponent);
}

/// A negative base has powers with whole exponents only. NaN is chosen among bits, as LLVM may
/// assume that a chosen float is a number.
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

// ---- functions of f64 -------------------------------------------------------------------------

// Their errors are at most 4 units of 2^-53 of the value, as measured against the C library; that
// of pow is at most 8.

const Halide::Type word64 = Halide::UInt(64);

HExpr bits_of(const HExpr& x) { return Halide::reinterpret(word64, x); }
HExpr word(uint64_t value) { return hi::make_const(word64, value); }

/// LLVM may reassociate other sums and differences, which takes errors for 0.
HExpr strict(hi::Call::IntrinsicOp op, const HExpr& a, const HExpr& b) {
  return hi::Call::make(a.type(), op, {a, b}, hi::Call::PureIntrinsic);
}
HExpr strict_sum(const HExpr& a, const HExpr& b) { return strict(hi::Call::strict_add, a, b); }
HExpr strict_difference(const HExpr& a, const HExpr& b) {
  return strict(hi::Call::strict_sub, a, b);
}

/// The number with the first 26 bits of its significand: products of two such numbers are exact.
HExpr first_half(const HExpr& x) {
  return Halide::reinterpret(x.type(), bits_of(x) & word(~uint64_t{0x7ffffff}));
}

// Comparisons of bits: LLVM may assume that no float is NaN or infinite.
HExpr magnitude_bits(const HExpr& x) { return bits_of(x) & word(~uint64_t{0} >> 1); }
HExpr is_nan_f64(const HExpr& x) {
  return magnitude_bits(x) > word(std::bit_cast<uint64_t>(HUGE_VAL));
}

HExpr clamped_f64(const HExpr& x, double low, double high) {
  return hi::Max::make(hi::Min::make(x, f64(high)), f64(low));
}

/// 2^whole for -1022 <= whole <= 1023.
HExpr power_of_two(const HExpr& whole) {
  return Halide::reinterpret(whole.type(), Halide::cast(word64, Halide::cast(index32, whole) + 1023)
                                               << 52);
}

/// exp(x) * 2^whole for |x| < 0.35: in two factors, since 2^whole may be no normal number.
HExpr scaled_exp(const HExpr& x, const HExpr& whole) {
  std::vector<double> series = {1};
  for (int k = 1; k <= 13; ++k) series.insert(series.begin(), series.front() / k);
  const HExpr half = Halide::floor(whole * f64(0.5));
  return strict(hi::Call::strict_mul, polynomial(x, series) * power_of_two(half),
                power_of_two(whole - half));
}

HExpr exp_f64(const HExpr& x) {
  const HExpr inside = clamped_f64(x, -746, 710);
  const HExpr whole = Halide::round(inside * f64(std::numbers::log2e));
  // ln 2 in two parts, of which products of the first with whole numbers are exact.
  const HExpr rest = strict_difference(strict_difference(inside, whole * f64(0x1.62e42feep-1)),
                                       whole * f64(0x1.a39ef35793c76p-33));
  return Halide::select(is_nan_f64(x), x, scaled_exp(rest, whole));
}

/// x = mantissa * 2^exponent with the mantissa in [sqrt(1/2), sqrt(2)), for positive numbers.
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

/// 2 + 2 x / 3 + 2 x^2 / 5 + ..., without the first terms: log(m) = s * (2 + 2 s^2 / 3 + ...) with
/// s = (m - 1) / (m + 1).
std::vector<double> atanh_series(int first) {
  std::vector<double> series;
  for (int k = 21; k >= first; k -= 2) series.push_back(2.0 / k);
  return series;
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

/// Cephes' tanh: a rational function near 0, where 1 - 2 / (exp(2x) + 1) loses digits.
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

/// Cephes' erf: a rational function near 0, and 1 - erfc(x) beyond 1.
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

/// The argument is bounded so that exp() stays finite.
HExpr sigmoid_f64(const HExpr& x) {
  return f64(1) / (f64(1) + exp_f64(hi::Min::make(-x, f64(709))));
}

/// sin(x + quarters * pi / 2), as sin_f32 does it, with Cephes' polynomials of sin and cos. pi / 2
/// is taken off in three parts, of which products of the first two with up to 2^20 are exact.
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

/// A number as the sum of two, of which the first has 26 bits.
struct Halves {
  HExpr high, low;
};

/// log2(x) of a positive number with an error of 2^-60, as the C library of FreeBSD (e_pow.c) does
/// it. Of 0 and infinity it leaves the exponents with every factor.
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

/// |x|^y
HExpr magnitude_of_power(const HExpr& x, const HExpr& y) {
  const auto [first, second] = log2_in_halves(Halide::abs(x));
  const HExpr bounded = clamped_f64(y, -0x1p100, 0x1p100), y_high = first_half(bounded);
  const HExpr y_low = strict_difference(bounded, y_high);
  const HExpr high = clamped_f64(y_high * first, -4096, 4096);
  const HExpr low = clamped_f64(strict_sum(y_low * first, bounded * second), -4096, 4096);
  const HExpr whole = Halide::round(clamped_f64(high + low, -1100, 1100));
  const HExpr rest = clamped_f64(strict_sum(strict_difference(high, whole), low), -0.51, 0.51);
  return scaled_exp(rest * f64(std::numbers::ln2), whole);
}

/// A negative base has powers with whole exponents only.
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

/// f64 with the first 14 bits of its significand, the last of which is 1 where bits are lost:
/// rounding that by way of f32 to f16 or bf16 gives what rounding the number itself once would. No
/// NaN becomes infinite.
HExpr rounded_to_odd(const HExpr& x) {
  constexpr uint64_t lost = (uint64_t{1} << 39) - 1;
  const HExpr bits = bits_of(x);
  const HExpr sticky = Halide::select((bits & word(lost)) != word(0), word(lost + 1), word(0));
  return Halide::reinterpret(x.type(), (bits & word(~lost)) | sticky);
}

HExpr is_nan_f32(const HExpr& bits) {
  return (bits & hi::make_const(bits.type(), 0x7fffffff)) > hi::make_const(bits.type(), 0x7f800000);
}

/// f64 as an f32 that rounds to f16 and bf16 as the f64 would. Every NaN becomes one that survives
/// rounding; that also keeps LLVM from joining this conversion with the next one, to f16, for which
/// it would call a function of the compiler's library.
HExpr to_odd_f32(const HExpr& x) {
  const Halide::Type narrow = Halide::Float(32), word = Halide::UInt(32);
  const HExpr bits = Halide::reinterpret(word, Halide::cast(narrow, rounded_to_odd(x)));
  const HExpr quiet = hi::make_const(word, 0x7fc00000);
  return Halide::reinterpret(narrow, Halide::select(is_nan_f32(bits), quiet, bits));
}

/// f32 to f16 by Halide's integer arithmetic, which makes an infinity of NaN.
HExpr to_f16_with_nan(const HExpr& x) {
  const Halide::Type half = Halide::Float(16), word = Halide::UInt(16);
  const HExpr bits = Halide::reinterpret(word, Halide::cast(half, x));
  const HExpr is_nan = is_nan_f32(Halide::reinterpret(Halide::UInt(32), x));
  return Halide::reinterpret(half, Halide::select(is_nan, hi::make_const(word, 0x7e00), bits));
}

bool is_double(const HExpr& x) { return x.type().bits() == 64; }

/// Division of integers, rounded towards minus infinity, by any number: 0 where that is 0. Halide's
/// has remainders that are never negative, and traps on the least number over -1.
HExpr floor_division(BinaryOp op, const HExpr& a, const HExpr& b) {
  const Halide::Type type = a.type();
  const HExpr zero = hi::make_zero(type), one = hi::make_one(type);
  const HExpr by_zero = b == zero;
  HExpr inverts = hi::const_false();
  if (type.is_int()) inverts = b == hi::make_const(type, -1);
  const HExpr divisor = Halide::select(by_zero || inverts, one, b);
  const HExpr rest = Halide::mod_round_to_zero(a, divisor);
  const HExpr rounds = rest != zero && ((rest < zero) != (divisor < zero));
  if (op == BinaryOp::Mod) return Halide::select(rounds, rest + divisor, rest);
  const HExpr quotient = Halide::div_round_to_zero(a, divisor);
  const Halide::Type modular = type.with_code(halide_type_uint);
  const HExpr negated = Halide::cast(type, hi::make_zero(modular) - Halide::cast(modular, a));
  return Halide::select(by_zero, zero, inverts, negated, rounds, quotient - one, quotient);
}

/// A call with this name wraps the value of a let to keep it from being inlined into every use: the
/// simplifier does not change calls.
const char* const kept_name = "tw_kept";

HExpr kept(const HExpr& value) {
  return hi::Call::make(value.type(), kept_name, {value}, hi::Call::PureExtern);
}

struct DropKept : hi::IRMutator {
  using hi::IRMutator::visit;
  HExpr visit(const hi::Call* call) override {
    return call->name == kept_name ? mutate(call->args[0]) : hi::IRMutator::visit(call);
  }
};

/// Accesses whose first lanes are outside of the buffer, and masked off, start at a variable:
/// Halide 21 takes a constant for an offset into the buffer and asserts that it is not negative.
struct NameNegativeStarts : hi::IRMutator {
  using hi::IRMutator::visit;
  HExpr visit(const hi::Load* load) override {
    const auto* ramp = negative_start(load->index);
    if (!ramp) return hi::IRMutator::visit(load);
    return hi::Let::make(name, ramp->base,
                         hi::Load::make(load->type, load->name, from_variable(*ramp), load->image,
                                        load->param, mutate(load->predicate), load->alignment));
  }
  HStmt visit(const hi::Store* store) override {
    const auto* ramp = negative_start(store->index);
    if (!ramp) return hi::IRMutator::visit(store);
    return hi::LetStmt::make(
        name, ramp->base,
        hi::Store::make(store->name, mutate(store->value), from_variable(*ramp), store->param,
                        mutate(store->predicate), store->alignment));
  }

 private:
  static constexpr const char* name = "start";

  static const hi::Ramp* negative_start(const HExpr& index) {
    const auto* ramp = index.as<hi::Ramp>();
    return ramp && hi::is_negative_const(ramp->base) ? ramp : nullptr;
  }
  static HExpr from_variable(const hi::Ramp& ramp) {
    return hi::Ramp::make(hi::Variable::make(ramp.base.type(), name), ramp.stride, ramp.lanes);
  }
};

/// When accesses are counted, a call with this name marks the version of a branch for vectors with
/// masked lanes, to tell it from the `else` cases that the simplifier makes of branches that
/// exclude each other. Code is compiled without the mark, which would keep the simplifier from
/// sharing subexpressions between versions.
const char* const fallback_name = "tw_fallback";

HStmt as_fallback(const HStmt& body) {
  const HExpr mark = hi::Call::make(index32, fallback_name, {}, hi::Call::Extern);
  return hi::Block::make(hi::Evaluate::make(mark), body);
}

bool is_fallback(const HStmt& body) {
  const auto* block = body.as<hi::Block>();
  const auto* first = block ? block->first.as<hi::Evaluate>() : nullptr;
  const auto* mark = first ? first->value.as<hi::Call>() : nullptr;
  return mark && mark->name == fallback_name;
}

enum class Fallbacks { Plain, Marked };

// ---- literals of products and sums ------------------------------------------------------------

// Halide and LLVM gather the literals of a product, x * 1e38 * 10 becomes x * (1e38 * 10), and
// those of a sum, x - 3e38 - 3e38 becomes x - (3e38 + 3e38). Where that is no normal number of the
// type computed in, or, of a sum, may be none in some order, the operation is kept as it is
// declared.

/// The value in the type that values of `type` are computed in.
double computed(DType type, double value) {
  return type == Float64 ? value : static_cast<float>(value);
}

bool is_normal(DType type, double value) {
  return value == 0 ||
         (type == Float64 ? std::isnormal(value) : std::isnormal(static_cast<float>(value)));
}

double gathered(const Expr& expr);

/// The literals of a product or a quotient together; nullopt where they are no normal number.
std::optional<double> gathered_by(const dsl::Binary& b) {
  const double x = gathered(b.a), y = gathered(b.b);
  const double together = b.op == BinaryOp::Mul ? x * y : x / y;
  const DType type = b.a.type();
  const bool may_invert = b.op == BinaryOp::Mul || is_normal(type, 1 / y);
  if (!may_invert || !is_normal(type, together)) return std::nullopt;
  return together;
}

/// The product of the literals that may be gathered from an expression.
double gathered(const Expr& expr) {
  if (const auto* c = expr.as<dsl::Const>()) return c->float_value;
  if (const auto* u = expr.as<dsl::Unary>()) return u->op == UnaryOp::Neg ? gathered(u->a) : 1;
  const auto* b = expr.as<dsl::Binary>();
  if (!b || (b->op != BinaryOp::Mul && b->op != BinaryOp::Div)) return 1;
  return gathered_by(*b).value_or(1);
}

/// The sum of the magnitudes of what is added in an expression, literals and literal factors of the
/// terms: no order of them exceeds it.
double magnitude(const Expr& expr) {
  if (const auto* u = expr.as<dsl::Unary>(); u && u->op == UnaryOp::Neg) return magnitude(u->a);
  const auto* b = expr.as<dsl::Binary>();
  if (b && (b->op == BinaryOp::Add || b->op == BinaryOp::Sub))
    return magnitude(b->a) + magnitude(b->b);
  return std::fabs(gathered(expr));
}

/// LLVM gathers literals from operands that are kept apart too, so all sums above are as well.
bool may_gather_terms(const dsl::Binary& b) {
  return std::isfinite(computed(b.a.type(), magnitude(b.a) + magnitude(b.b)));
}

/// True if the expression can be an infinite literal for some operands, as an attention mask can:
/// select(k <= j, 0, -inf).
bool may_be_infinite_literal(const Expr& expr) {
  if (const auto* c = expr.as<dsl::Const>()) return is_float(c->type) && std::isinf(c->float_value);
  if (const auto* s = expr.as<dsl::Select>())
    return may_be_infinite_literal(s->a) || may_be_infinite_literal(s->b);
  if (const auto* c = expr.as<dsl::Cast>())
    return is_float(expr.type()) && may_be_infinite_literal(c->a);
  const auto* u = expr.as<dsl::Unary>();
  return u && u->op == UnaryOp::Neg && may_be_infinite_literal(u->a);
}

bool compares(BinaryOp op) {
  return op == BinaryOp::Eq || op == BinaryOp::Lt || op == BinaryOp::Le;
}

/// The operation without LLVM's assumption that no float is infinite, under which a literal operand
/// that is infinite is undefined: LLVM makes x of x + select(c, 0, -inf).
std::optional<hi::Call::IntrinsicOp> strict_operation(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
      return hi::Call::strict_add;
    case BinaryOp::Sub:
      return hi::Call::strict_sub;
    case BinaryOp::Mul:
      return hi::Call::strict_mul;
    case BinaryOp::Div:
      return hi::Call::strict_div;
    case BinaryOp::Eq:
      return hi::Call::strict_eq;
    case BinaryOp::Lt:
      return hi::Call::strict_lt;
    case BinaryOp::Le:
      return hi::Call::strict_le;
    default:
      return std::nullopt;
  }
}

/// The operation that keeps what it is declared to be where its literals must not be gathered;
/// nullopt where they may.
std::optional<hi::Call::IntrinsicOp> kept_apart(const dsl::Binary& b) {
  if (!is_float(b.a.type())) return std::nullopt;
  if (may_be_infinite_literal(b.a) || may_be_infinite_literal(b.b)) return strict_operation(b.op);
  switch (b.op) {
    case BinaryOp::Mul:
      return gathered_by(b) ? std::nullopt : std::optional(hi::Call::strict_mul);
    case BinaryOp::Div:
      return gathered_by(b) ? std::nullopt : std::optional(hi::Call::strict_div);
    case BinaryOp::Add:
      return may_gather_terms(b) ? std::nullopt : std::optional(hi::Call::strict_add);
    case BinaryOp::Sub:
      return may_gather_terms(b) ? std::nullopt : std::optional(hi::Call::strict_sub);
    default:
      return std::nullopt;
  }
}

class FindStrict : public hi::IRVisitor {
 public:
  bool found = false;

 private:
  using hi::IRVisitor::visit;
  void visit(const hi::Call* call) override {
    found |= call->is_strict_float_intrinsic();
    hi::IRVisitor::visit(call);
  }
};

bool has_strict(const HStmt& body) {
  FindStrict strict;
  body.accept(&strict);
  return strict.found;
}

// ---- one phase ------------------------------------------------------------------------------

/// The vectors that the target can load and store under a mask. LLVM makes a branch for each lane
/// of the others.
struct Masks {
  bool words = false;   ///< lanes of 32 and 64 bits
  bool narrow = false;  ///< lanes of 8 and 16 bits
  int vector_bits = 128;
  bool has_f16 = true;  ///< an instruction rounds f32 to f16

  bool cover(Halide::Type lane) const { return lane.bits() >= 32 ? words : narrow; }
};

Masks masks_of(const Target& target) {
  return {target.has("avx2") || target.has("avx512f"),
          target.has("avx512bw") && target.has("avx512vl"),
          target.has("avx512f") ? 512
          : target.has("avx")   ? 256
                                : 128,
          target.architecture != Architecture::X86_64 || target.has("f16c")};
}

struct Access {
  Buffer buffer;
  std::string name;  ///< unique in the function
  Halide::Parameter
      external;      ///< defined for arguments: no alignment beyond the element's is assumed
  bool own = false;  ///< private to the thread: it may be rewritten with its old value
};

class PhaseTranslator {
 public:
  PhaseTranslator(const Program& program, const Phase& phase, const Target& target,
                  Fallbacks fallbacks)
      : program_(program),
        phase_(phase),
        target_(target),
        masks_(masks_of(target)),
        fallbacks_(fallbacks) {}

  HStmt translate() {
    for (const auto& argument : program_.arguments) {
      Access access{argument.buffer, fresh(argument.buffer.name), {}};
      access.external = Halide::Parameter(storage_type(argument.buffer.type), true, 1, access.name);
      accesses_[argument.buffer.name] = access;
    }
    for (const Buffer& buffer : program_.scratch)
      accesses_[buffer.name] = {buffer, fresh(buffer.name), {}};
    for (const auto& axis : phase_.axes)
      enter(axis.variable, 0, axis.extent, fresh(axis.variable), LoopKind::Serial);
    bodies_.push_back({depth_ - 1, {}, {}});
    const Block body = schedules::with_branches(*phase_.body);
    return with_pointers(with_task_axes(leave_body(statements(body))));
  }

 private:
  // ---- scope --------------------------------------------------------------------------------

  std::string fresh(const std::string& name) { return name + "$" + std::to_string(names_++); }

  void enter(const std::string& variable, const Expr& begin, const Expr& end,
             const std::string& name, LoopKind kind) {
    ranges_.set(variable, begin, end);
    bounds_.push_loop(variable, begin, end);
    variables_[variable] = {hi::Variable::make(index32, name), depth_++, kind};
  }

  HStmt leave_body(HStmt body) {
    for (const auto& [name, value] : bodies_.back().lets)
      body = hi::LetStmt::make(name, value, body);
    bodies_.pop_back();
    return body;
  }

  HStmt with_task_axes(HStmt body) const {
    int64_t stride = 1;
    for (size_t i = phase_.axes.size(); i > 0; --i) {
      const auto& axis = phase_.axes[i - 1];
      HExpr value = hi::Variable::make(index32, "task") / static_cast<int>(stride);
      if (i > 1) value = value % static_cast<int>(axis.extent);
      const auto* name = variables_.at(axis.variable).value.as<hi::Variable>();
      body = hi::LetStmt::make(name->name, value, body);
      stride *= axis.extent;
    }
    return body;
  }

  HStmt with_pointers(HStmt body) const {
    const Halide::Type handle = Halide::type_of<void*>();
    const ScratchLayout layout = scratch_layout(program_);
    for (size_t i = 0; i < program_.scratch.size(); ++i) {
      const HExpr address = Halide::reinterpret(Halide::UInt(64), handle_variable("scratch")) +
                            hi::make_const(Halide::UInt(64), layout.offsets[i]);
      body = hi::LetStmt::make(accesses_.at(program_.scratch[i].name).name,
                               Halide::reinterpret(handle, address), body);
    }
    for (size_t i = 0; i < program_.arguments.size(); ++i) {
      const HExpr pointer = hi::Load::make(handle, "buffers", static_cast<int>(i), {}, {},
                                           hi::const_true(), hi::ModulusRemainder());
      body = hi::LetStmt::make(accesses_.at(program_.arguments[i].buffer.name).name, pointer, body);
    }
    return body;
  }

  // ---- statements ---------------------------------------------------------------------------

  HStmt statements(const Block& block) {
    std::vector<HStmt> result;
    for (const Stmt& stmt : block) result.push_back(statement(stmt));
    return result.empty() ? hi::Evaluate::make(0) : hi::Block::make(result);
  }

  HStmt statement(const Stmt& stmt) {
    return schedules::visit(
        stmt, [&](const Loop& loop) { return translate_loop(loop); },
        [&](const If& branch) { return translate_if(branch); },
        [&](const Allocate& allocate) { return translate_allocate(allocate); },
        [&](const Assign& assign) { return translate_assign(assign); },
        [&](const PrefetchLines& prefetch) { return translate_prefetch(prefetch); },
        // One thread runs a task: there is nothing to order.
        always<Barrier, Commit, Wait>(hi::Evaluate::make(0)));
  }

  /// Halide's prefetch of one line each. Its hint is set afterwards (prefetch_hints.h).
  HStmt translate_prefetch(const PrefetchLines& prefetch) {
    const Access& access = accesses_.at(prefetch.buffer);
    const Halide::Type type = storage_type(access.buffer.type);
    const Expr first = schedules::simplify(prefetch.offset, bounds_);
    std::vector<HStmt> lines;
    for (int64_t i = 0; i < prefetch.lines; ++i) {
      const Expr offset = first + Expr(i * schedules::prefetched_line_bytes / type.bytes());
      lines.push_back(hi::Evaluate::make(
          hi::Call::make(type, hi::Call::prefetch,
                         {handle_variable(access.name), integer(offset, width(offset)), 1, 1},
                         hi::Call::Intrinsic)));
    }
    return hi::Block::make(lines);
  }

  HStmt translate_loop(const Loop& loop) {
    if (const auto dot = schedules::dot_product(loop)) return translate_dot_product(*dot);
    auto [begin, end] = loop_bounds(loop.begin, loop.end);
    // Threads of a task run one after the other, and warp operations run as their loops.
    const bool is_plain = loop.kind != LoopKind::Unrolled && loop.kind != LoopKind::Vector;
    const LoopKind kind = is_plain                   ? LoopKind::Serial
                          : leaves_masked_lane(loop) ? LoopKind::Unrolled
                                                     : loop.kind;
    const std::string name = fresh(loop.variable);
    const auto mark = bounds_.mark();
    const auto whole = whole_vector(loop);
    enter(loop.variable, whole ? whole->begin : loop.begin, whole ? whole->end : loop.end, name,
          kind);
    const bool is_masked = whole && can_be_masked(*loop.body, false);
    if (is_masked) {
      std::tie(begin, end) = loop_bounds(whole->begin, whole->end);
    } else if (whole) {
      --depth_;
      bounds_.restore(mark);
      enter(loop.variable, loop.begin, loop.end, name, kind);
    }
    if (kind == LoopKind::Serial) bodies_.push_back({depth_ - 1, {}, {}});
    HStmt body = is_masked ? masked(lane_exists(loop), *loop.body) : statements(*loop.body);
    if (kind == LoopKind::Serial) body = leave_body(body);
    --depth_;
    bounds_.restore(mark);
    constexpr hi::ForType kinds[] = {hi::ForType::Serial, hi::ForType::Unrolled,
                                     hi::ForType::Vectorized};
    return hi::For::make(name, begin, hi::simplify(end - begin), kinds[static_cast<int>(kind)],
                         Halide::Partition::Never, Halide::DeviceAPI::None, body);
  }

  /// Makes a dot product one instruction if the target has it and the factors lie as it reads them.
  /// Else each of the products that a lane sums is a vector.
  HStmt translate_dot_product(const DotProduct& dot) {
    const auto mark = bounds_.mark();
    const std::string lane = fresh(dot.lanes->variable), product = fresh(dot.depth->variable);
    enter(dot.lanes->variable, dot.lanes->begin, dot.lanes->end, lane, LoopKind::Vector);
    enter(dot.depth->variable, dot.depth->begin, dot.depth->end, product, LoopKind::Unrolled);
    HStmt result = as_instruction(dot);
    if (!result.defined()) {
      const auto loop_over = [](const std::string& name, const Loop& loop, hi::ForType type,
                                const HStmt& body) {
        const auto begin = static_cast<int>(*dsl::as_int(loop.begin));
        const auto end = static_cast<int>(*dsl::as_int(loop.end));
        return hi::For::make(name, begin, end - begin, type, Halide::Partition::Never,
                             Halide::DeviceAPI::None, body);
      };
      result = loop_over(
          product, *dot.depth, hi::ForType::Unrolled,
          loop_over(lane, *dot.lanes, hi::ForType::Vectorized, translate_assign(*dot.sum)));
    }
    depth_ -= 2;
    bounds_.restore(mark);
    return result;
  }

  /// The dot product as a reduction of a vector. Undefined where no instruction computes it.
  HStmt as_instruction(const DotProduct& dot) {
    const int64_t products = *dsl::as_int(dot.depth->end);
    const DType type = accesses_.at(dot.sum->buffer).buffer.type;
    const schedules::DotInstruction* instruction =
        schedules::find_dot_instruction(target_, dot, type, products);
    const bool lies_so = strides_are(dot, dot.sum->buffer, dot.sum->indices, {1, 0}) &&
                         strides_are(dot, dot.shared->tensor, dot.shared->indices, {0, 1}) &&
                         strides_are(dot, dot.own->tensor, dot.own->indices, {products, 1});
    TW_CHECK(!mask_.defined() && !guard_.defined(), "loops have no masks");
    if (!instruction || !lies_so || (dot.digit && !is_defined(*dot.digit))) return {};
    const auto lanes =
        static_cast<int>(*dsl::as_int(dot.lanes->end) - *dsl::as_int(dot.lanes->begin));
    const auto depth = static_cast<int>(products);
    const HExpr own = second_factor(dot, *instruction, lanes * depth);
    // Halide 21 fails ("Cast may not change vector widths") where it narrows a Broadcast of a
    // vector.
    const HExpr shared = hi::Shuffle::make_broadcast(
        neighbours(dot, dot.shared->tensor, dot.shared->indices, depth), lanes);
    const HExpr sums = instruction->by_pairs ? sums_by_pairs(own, shared, value_type(type), lanes)
                                             : sums_of(own, shared, value_type(type), lanes);
    const HExpr old = neighbours(dot, dot.sum->buffer, dot.sum->indices, lanes);
    const Access& target = accesses_.at(dot.sum->buffer);
    return hi::Store::make(
        target.name, instruction->accumulates ? old + sums : wrapping(BinaryOp::Add, old, sums),
        indices_of(dot, dot.sum->buffer, dot.sum->indices, lanes), target.external,
        hi::const_true(lanes), hi::ModulusRemainder());
  }

  /// Halide's simplifier narrows factors by their values, and then no instruction matches. An
  /// explicit product of 8 bits prevents that.
  static HExpr sums_of(const HExpr& own, const HExpr& shared, Halide::Type type, int lanes) {
    const Halide::Type wide = type.with_lanes(own.type().lanes());
    const bool are_bytes = own.type().bits() == 8 && shared.type().bits() == 8;
    const HExpr products = are_bytes ? hi::Cast::make(wide, Halide::widening_mul(shared, own))
                                     : hi::Cast::make(wide, shared) * hi::Cast::make(wide, own);
    return hi::VectorReduce::make(hi::VectorReduce::Add, products, lanes);
  }

  /// Halide selects `vpmaddubsw` for saturating sums of two products. No sum saturates, since
  /// digits are at most 127.
  static HExpr sums_by_pairs(const HExpr& own, const HExpr& shared, Halide::Type type, int lanes) {
    const HExpr pairs = hi::VectorReduce::make(
        hi::VectorReduce::SaturatingAdd, Halide::widening_mul(own, shared), own.type().lanes() / 2);
    const Halide::Type wide = type.with_lanes(pairs.type().lanes());
    return hi::VectorReduce::make(hi::VectorReduce::Add, hi::Cast::make(wide, pairs), lanes);
  }

  bool is_defined(const schedules::Digit& digit) const {
    const auto least = bounds_.lower(digit.shift), most = bounds_.upper(digit.shift);
    return least && most && *least >= 0 && *most < 8;
  }

  HExpr second_factor(const DotProduct& dot, const schedules::DotInstruction& instruction,
                      int count) {
    const HExpr elements = neighbours(dot, dot.own->tensor, dot.own->indices, count);
    if (!dot.digit) return elements;
    const HExpr digits = digit_of(elements, *dot.digit);
    return instruction.own == DType::Int8 ? hi::Cast::make(Halide::Int(8, count), digits) : digits;
  }

  /// Digits of elements of 8 bits.
  HExpr digit_of(const HExpr& elements, const schedules::Digit& digit) {
    const Halide::Type type = elements.type();
    const HExpr count = Halide::cast(type.element_of(), integer(digit.shift, Halide::Int(64)));
    const HExpr shift = hi::Broadcast::make(count, type.lanes());
    return (elements >> shift) & hi::make_const(type, digit.mask);
  }

  /// The distances in memory, in elements, of the lanes and of the products of a dot product.
  struct DotStrides {
    int64_t lane, product;
  };
  bool strides_are(const DotProduct& dot, const std::string& buffer,
                   const std::vector<Expr>& indices, DotStrides expected) const {
    const Affine affine = schedules::to_affine(
        schedules::simplify(linear_index(accesses_.at(buffer).buffer, indices), bounds_));
    for (const Affine::Term& term : affine.terms) {
      const dsl::Var* v = term.atom.as<dsl::Var>();
      const bool is_own = v && (v->name == dot.lanes->variable || v->name == dot.depth->variable);
      const bool uses_own = dsl::uses_var(term.atom, dot.lanes->variable) ||
                            dsl::uses_var(term.atom, dot.depth->variable);
      if (uses_own && !is_own) return false;
    }
    return affine.coefficient(dsl::var(dot.lanes->variable)) == expected.lane &&
           affine.coefficient(dsl::var(dot.depth->variable)) == expected.product;
  }

  /// The indices of neighbours in memory, from the first lane's first element on.
  HExpr indices_of(const DotProduct& dot, const std::string& buffer, std::vector<Expr> indices,
                   int count) {
    for (Expr& index : indices) {
      index = dsl::substitute(index, dot.lanes->variable, dot.lanes->begin);
      index = dsl::substitute(index, dot.depth->variable, dot.depth->begin);
    }
    const HExpr first = linear(accesses_.at(buffer).buffer, indices);
    return hi::Ramp::make(first, hi::make_one(first.type()), count);
  }

  HExpr neighbours(const DotProduct& dot, const std::string& buffer,
                   const std::vector<Expr>& indices, int count) {
    const Access& access = accesses_.at(buffer);
    return hi::Load::make(storage_type(access.buffer.type).with_lanes(count), access.name,
                          indices_of(dot, buffer, indices, count), {}, access.external,
                          hi::const_true(count), hi::ModulusRemainder());
  }

  /// True if the loop is a vector loop with a branch in it, and the lanes of an access fill whole
  /// native vectors with one lane left over. Halide 21 masks the loads and stores of vectors under
  /// a branch, and fails for that lane.
  bool leaves_masked_lane(const Loop& loop) const {
    const auto begin = dsl::as_int(loop.begin), end = dsl::as_int(loop.end);
    if (loop.kind != LoopKind::Vector || !begin || !end) return false;
    const int64_t lanes = *end - *begin;
    bool branches = false, leaves_one = false;
    schedules::for_each(*loop.body, [&](const Stmt& stmt) {
      branches |= stmt.as<If>() != nullptr;
      schedules::for_each_access(stmt, [&](const schedules::BufferAccess& access) {
        const auto found = accesses_.find(access.buffer);
        if (found == accesses_.end()) return;
        const int64_t native = masks_.vector_bits / storage_type(found->second.buffer.type).bits();
        leaves_one |= lanes > native && lanes % native == 1;
      });
    });
    return branches && leaves_one;
  }

  // LLVM splits vectors of 12 lanes and keeps them in memory, so they become vectors of 16, of
  // which 4 lanes are masked. Lanes 1 to 15 become 0 to 15, since their arrays probably begin at 0.

  struct WholeVector {
    Expr begin, end;
  };

  /// The range of the loop as a whole vector; nullopt if the loop stays as it is.
  std::optional<WholeVector> whole_vector(const Loop& loop) const {
    const auto begin = dsl::as_int(loop.begin), end = dsl::as_int(loop.end);
    if (!masks_.words || loop.kind != LoopKind::Vector || !begin || !end) return std::nullopt;
    if (*begin < 0 || *end - *begin < 3) return std::nullopt;
    if (std::has_single_bit(static_cast<uint64_t>(*end - *begin))) return std::nullopt;
    auto lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(*end - *begin)));
    while (*begin / lanes != (*end - 1) / lanes) lanes *= 2;
    const int64_t first = *begin / lanes * lanes;
    for (const Stmt& stmt : *loop.body) {
      const Assign* assign = stmt.as<Assign>();
      if (!assign || !is_word(assign->buffer)) return std::nullopt;
      bool words = true;
      dsl::for_each(assign->value, [&](const Expr& e) {
        const auto* read = e.as<dsl::Read>();
        words &= !read || is_word(read->tensor);
      });
      if (!words) return std::nullopt;
    }
    return WholeVector{dsl::constant_int(Int64, first), dsl::constant_int(Int64, first + lanes)};
  }

  /// The buffer with rows of whole vectors where whole_vector() widens the loops over its rows.
  /// Else the added lanes would be the next row's: stores would need masks, which keep accumulators
  /// in memory, and each load would wait for two stores.
  ///
  ///   acc[13][14], vector x in 0..14 of 16 lanes   ->   acc[13][16]
  Buffer with_whole_rows(const Buffer& buffer, const Block& body) const {
    int64_t lanes = buffer.extents.back();
    schedules::for_each(body, [&](const Stmt& stmt) {
      const Loop* loop = stmt.as<Loop>();
      const auto whole = loop ? whole_vector(*loop) : std::nullopt;
      if (!whole || dsl::as_int(loop->end) > buffer.extents.back()) return;
      for (const Stmt& inner : *loop->body) {
        const Assign* assign = inner.as<Assign>();
        const dsl::Var* lane =
            assign->buffer == buffer.name ? assign->indices.back().as<dsl::Var>() : nullptr;
        if (lane && lane->name == loop->variable) lanes = std::max(lanes, *dsl::as_int(whole->end));
      }
    });
    Buffer whole_rows = buffer;
    whole_rows.extents.back() = lanes;
    return whole_rows;
  }

  /// True for elements of 32 bits: not every target can mask narrower lanes. False for buffers of
  /// inner blocks, which are not translated yet.
  bool is_word(const std::string& buffer) const {
    const auto access = accesses_.find(buffer);
    return access != accesses_.end() && size_bytes(access->second.buffer.type) == 4;
  }

  /// The condition that a lane exists. LLVM would turn a constant mask into shuffles, so the limits
  /// contain the task number, whose range LLVM does not know.
  HExpr lane_exists(const Loop& loop) const {
    const HExpr begin = static_cast<int>(*dsl::as_int(loop.begin));
    const HExpr end = static_cast<int>(*dsl::as_int(loop.end));
    const HExpr task = hi::Variable::make(index32, "task");
    const HExpr lane = variables_.at(loop.variable).value;
    const HExpr is_below = lane < hi::Min::make(task + end, end);
    return hi::is_const_zero(begin) ? is_below
                                    : hi::Max::make(begin - task, begin) <= lane && is_below;
  }

  /// The bounds of a loop in 32 bits. A bound that was trimmed by a comparison with data, as in
  /// `for v in max(0, ids[i])..min(1000, ids[i] + 1)`, may have any value; both are then clamped to
  /// a range outside of which the loop is empty.
  std::pair<HExpr, HExpr> loop_bounds(const Expr& begin, const Expr& end) {
    const Expr first = schedules::simplify(begin, bounds_),
               last = schedules::simplify(end, bounds_);
    if (ranges_.all_fit_int32(first) && ranges_.all_fit_int32(last))
      return {integer(first, index32), integer(last, index32)};
    const Range range{ranges_.of(first).low, ranges_.of(last).high};
    if (!range.fits_int32() || !Range{0, range.high - range.low}.fits_int32())
      throw Halide::CompileError("the loop from " + dsl::to_string(begin) + " to " +
                                 dsl::to_string(end) + " may exceed 32 bits");
    const auto cut = [&](const Expr& bound) {
      return Halide::cast(index32,
                          Halide::clamp(integer(bound, index64), hi::make_const(index64, range.low),
                                        hi::make_const(index64, range.high)));
    };
    return {cut(first), cut(last)};
  }

  HStmt translate_if(const If& branch) {
    const Expr simple = schedules::simplify(branch.condition, bounds_);
    const HExpr condition = mask_.defined() ? guarded(mask_, simple) : value(simple);
    const bool differs = mask_.defined() || uses_vector_variable({branch.condition});
    if (!differs) return hi::IfThenElse::make(condition, taken(branch));
    if (are_masks_cheap(*branch.body)) return masked(condition, *branch.body);
    const auto all = mask_.defined() ? std::nullopt : in_all_lanes(simple);
    if (all && can_be_masked(*branch.body, true))
      return hi::IfThenElse::make(value(*all), taken(branch),
                                  fallback(masked(condition, *branch.body)));
    if (can_be_masked(*branch.body, false)) return masked(condition, *branch.body);
    return hi::IfThenElse::make(condition, taken(branch));
  }

  HStmt fallback(const HStmt& body) const {
    return fallbacks_ == Fallbacks::Marked ? as_fallback(body) : body;
  }

  /// The statements of a branch for lanes that all satisfy its condition.
  HStmt taken(const If& branch) {
    const auto mark = bounds_.mark();
    bounds_.push_condition(branch.condition);
    const HStmt body = statements(*branch.body);
    bounds_.restore(mark);
    return body;
  }

  // Scalarising a divergent branch would make one branch per lane. Instead, lanes that do not take
  // it keep their old values: by a select in memory of the thread's own, so that accumulators stay
  // in registers, and by a masked store elsewhere. If the target has no such store or load, vectors
  // all of whose lanes take the branch get a version without a mask:
  //
  //   vector v in 0..8:  if x * 8 + v < n: s
  //     ->  if x * 8 + 7 < n: vector v in 0..8: s
  //         else: vector v in 0..8, under the mask x * 8 + v < n: s

  /// True if every statement can run under a mask. With `anywhere`, lanes need not be contiguous in
  /// memory.
  bool can_be_masked(const Block& body, bool anywhere) const {
    return std::all_of(body.begin(), body.end(), [&](const Stmt& stmt) {
      return schedules::visit(
          stmt,
          [&](const If& branch) {
            return reads_can_be_masked(branch.condition, anywhere) &&
                   can_be_masked(*branch.body, anywhere);
          },
          [&](const Assign& assign) {
            return uses_vector_variable(assign.indices) &&
                   (anywhere || is_dense(assign.buffer, assign.indices)) &&
                   reads_can_be_masked(assign.value, anywhere);
          },
          always<Loop, Allocate, Barrier, Commit, Wait, PrefetchLines>(false));
    });
  }

  /// True if every access that may need a mask is contiguous and of a type that the target can
  /// mask.
  bool are_masks_cheap(const Block& body) const {
    const auto are_covered = [&](const Expr& expr) {
      bool covered = true;
      dsl::for_each(expr, [&](const Expr& e) {
        const auto* read = e.as<dsl::Read>();
        covered &= !read || is_covered(read->tensor, read->indices, false);
      });
      return covered;
    };
    return can_be_masked(body, false) &&
           std::all_of(body.begin(), body.end(), [&](const Stmt& stmt) {
             return schedules::visit(
                 stmt,
                 [&](const If& branch) {
                   return are_covered(branch.condition) && are_masks_cheap(*branch.body);
                 },
                 [&](const Assign& assign) {
                   return is_covered(assign.buffer, assign.indices, true) &&
                          are_covered(assign.value);
                 },
                 always<Loop, Allocate, Barrier, Commit, Wait, PrefetchLines>(false));
           });
  }

  bool is_covered(const std::string& buffer, const std::vector<Expr>& indices,
                  bool is_store) const {
    const Access& access = accesses_.at(buffer);
    return masks_.cover(storage_type(access.buffer.type)) ||
           ((!is_store || access.own) && is_always_inside(access.buffer, indices));
  }

  /// A condition of the other variables under which all lanes meet this one. Inequalities of a
  /// lane's number hold for all lanes when they hold for the first and the last.
  std::optional<Expr> in_all_lanes(const Expr& condition) const {
    const auto lanes = std::find_if(variables_.begin(), variables_.end(), [&](const auto& entry) {
      return entry.second.kind == LoopKind::Vector && dsl::uses_var(condition, entry.first);
    });
    if (lanes == variables_.end()) return std::nullopt;
    const schedules::Constraints constraints = schedules::split_condition(condition);
    Expr all = dsl::constant_int(Bool, 1);
    for (const Expr& opaque : constraints.opaque) {
      if (uses_vector_variable(opaque)) return std::nullopt;
      all = all && opaque;
    }
    for (Affine affine : constraints.affine) {
      const Expr lane = dsl::var(lanes->first);
      const int64_t step = affine.coefficient(lane);
      const Range range = ranges_.of(lane);
      affine.add(lane, -step);
      if (uses_vector_variable(schedules::to_expr(affine))) return std::nullopt;
      affine.constant += step * (step > 0 ? range.low : range.high);
      all = all && schedules::to_condition(affine);
    }
    return schedules::simplify(all, bounds_);
  }

  /// True if the lanes access contiguous elements, or all the same one.
  bool is_dense(const std::string& buffer, const std::vector<Expr>& indices) const {
    const Buffer& accessed = accesses_.at(buffer).buffer;
    return !needs_index_vector(
        schedules::to_affine(schedules::simplify(linear_index(accessed, indices), bounds_)));
  }

  /// True if the reads of an expression can run under a mask: a read without a mask must be legal
  /// for lanes that do not take the branch, too.
  bool reads_can_be_masked(const Expr& expr, bool anywhere) const {
    bool can = true;
    dsl::for_each(expr, [&](const Expr& e) {
      if (const auto* read = e.as<dsl::Read>())
        can &= uses_vector_variable(read->indices)
                   ? anywhere || is_dense(read->tensor, read->indices)
                   : is_always_inside(accesses_.at(read->tensor).buffer, read->indices);
    });
    return can;
  }

  HStmt masked(const HExpr& condition, const Block& body) {
    const HExpr outer = mask_;
    mask_ = both(outer, condition);
    const HStmt result = statements(body);
    mask_ = outer;
    return result;
  }

  HStmt translate_allocate(const Allocate& allocate) {
    const std::string& name = allocate.buffer.name;
    const auto outer = accesses_.find(name);
    const std::optional<Access> shadowed =
        outer == accesses_.end() ? std::nullopt : std::optional(outer->second);
    Access& entry = accesses_[name] = {allocate.buffer, fresh(name), {}, true};
    entry.buffer = with_whole_rows(allocate.buffer, *allocate.body);
    const Access access = entry;
    const Buffer& buffer = access.buffer;
    const HStmt body = statements(*allocate.body);
    if (shadowed) accesses_[name] = *shadowed;
    const auto elements = static_cast<int>(std::max<int64_t>(1, buffer.elements()));
    // Register: always a plain stack array. Stack turns to calls of a runtime above 16 KiB.
    return hi::Allocate::make(access.name, storage_type(buffer.type), Halide::MemoryType::Register,
                              {elements}, hi::const_true(), body);
  }

  HStmt translate_assign(const Assign& assign) {
    TW_CHECK(!assign.guard, "guards have become branches");
    const Access& access = accesses_.at(assign.buffer);
    const DType type = access.buffer.type;
    const HExpr index = linear(access.buffer, assign.indices);
    const HExpr always = hi::const_true();
    const bool inside = !mask_.defined() || is_always_inside(access.buffer, assign.indices);
    const HExpr old = to_value(type, inside ? load(access, index, always)
                                            : load_under(mask_, access, assign.indices, index));
    HExpr result = mask_.defined() ? guarded(mask_, assign.value) : value(assign.value);
    if (assign.combine != Combine::None) result = combine(assign.combine, old, result);
    const bool keeps = mask_.defined() && access.own && inside;
    if (keeps) result = Halide::select(mask_, result, old);
    return hi::Store::make(access.name, to_storage(type, result), index, access.external,
                           keeps || !mask_.defined() ? always : mask_, hi::ModulusRemainder());
  }

  static HExpr combine(Combine combine, const HExpr& old, const HExpr& value) {
    switch (combine) {
      case Combine::None:
        return value;
      case Combine::Sum:
        return wrapping(BinaryOp::Add, old, value);
      case Combine::Prod:
        return wrapping(BinaryOp::Mul, old, value);
      case Combine::Min:
        return hi::Min::make(old, value);
      case Combine::Max:
        return hi::Max::make(old, value);
    }
    TW_CHECK(false);
  }

  // ---- memory -------------------------------------------------------------------------------

  static HExpr load(const Access& access, const HExpr& index, const HExpr& predicate) {
    return hi::Load::make(storage_type(access.buffer.type), access.name, index, {}, access.external,
                          predicate, hi::ModulusRemainder());
  }

  static HExpr to_value(DType type, const HExpr& stored) {
    if (type == Bool) return stored != hi::make_zero(stored.type());
    return Halide::cast(value_type(type), stored);
  }
  HExpr to_storage(DType type, const HExpr& value) const {
    if (type == Float16 && !masks_.has_f16) return to_f16_with_nan(value);
    return Halide::cast(storage_type(type), value);
  }

  /// The linear index as a base, computed once where its variables are known, plus what differs
  /// between unrolled copies and lanes: LLVM's time goes with the number of instructions it is
  /// given.
  HExpr linear(const Buffer& buffer, const std::vector<Expr>& indices) {
    const Expr simple = schedules::simplify(linear_index(buffer, indices), bounds_);
    const Affine affine = schedules::to_affine(simple);
    const Halide::Type type =
        needs_index_vector(affine) && ranges_.all_fit_int32(affine) ? index32 : index64;
    Affine base, rest;
    for (const Affine::Term& term : affine.terms)
      (is_same_in_copies(term.atom) ? base : rest).add(term.atom, term.coefficient);
    HExpr index = hi::make_const(type, affine.constant);
    if (!rest.terms.empty()) index = sum_of(rest, type) + index;
    if (!base.terms.empty()) index = named_base(base, type) + index;
    return hi::simplify(index);
  }

  /// Lanes that are not next to each other: one index a lane, half as many instructions in 32 bits.
  bool needs_index_vector(const Affine& affine) const {
    return std::any_of(affine.terms.begin(), affine.terms.end(), [&](const Affine::Term& term) {
      return uses_vector_variable({term.atom}) &&
             (term.coefficient != 1 || !term.atom.as<dsl::Var>());
    });
  }

  /// The outermost variables first, so that what does not change in inner loops stands together.
  HExpr sum_of(Affine affine, Halide::Type type) {
    std::stable_sort(affine.terms.begin(), affine.terms.end(),
                     [&](const Affine::Term& a, const Affine::Term& b) {
                       return depth(a.atom) < depth(b.atom);
                     });
    HExpr sum;
    for (const Affine::Term& term : affine.terms) {
      const HExpr part = integer(term.atom, type) * hi::make_const(type, term.coefficient);
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }

  bool is_same_in_copies(const Expr& atom) const {
    bool same = true;
    dsl::for_each(atom, [&](const Expr& e) {
      const auto* v = e.as<dsl::Var>();
      same &= !e.as<dsl::Read>() && !(v && variables_.at(v->name).kind != LoopKind::Serial);
    });
    return same;
  }

  /// A variable for the sum, bound at the top of the innermost loop that it depends on.
  HExpr named_base(const Affine& base, Halide::Type type) {
    int deepest = -1;
    for (const Affine::Term& term : base.terms) deepest = std::max(deepest, depth(term.atom));
    size_t at = bodies_.size() - 1;
    while (at > 0 && bodies_[at].depth > deepest) --at;
    const auto [found, is_new] =
        bodies_[at].names.try_emplace({dsl::to_string(schedules::to_expr(base)), type.bits()});
    if (is_new) {
      found->second = fresh("base");
      const HExpr value = sum_of(base, type);
      bodies_[at].lets.emplace_back(found->second, kept(value));
    }
    return hi::Variable::make(type, found->second);
  }

  int depth(const Expr& atom) const {
    int deepest = -1;
    dsl::for_each(atom, [&](const Expr& e) {
      if (const auto* v = e.as<dsl::Var>())
        deepest = std::max(deepest, variables_.at(v->name).depth);
    });
    return deepest;
  }

  /// Every index is in its extent whether or not the conditions around the read hold.
  bool is_always_inside(const Buffer& buffer, const std::vector<Expr>& indices) const {
    for (size_t i = 0; i < indices.size(); ++i) {
      const Range range = ranges_.of(indices[i]);
      if (range.low >= 0 && range.high < buffer.extents[i]) continue;
      if (!bounds_.proves_inside(indices[i], buffer.extents[i])) return false;
    }
    return true;
  }

  /// Selects are computed on both sides, so a read that only its condition keeps inside must not
  /// happen, or happen elsewhere.
  HExpr read(const dsl::Read& r) {
    const Access& access = accesses_.at(r.tensor);
    const HExpr index = linear(access.buffer, r.indices);
    if (!guard_.defined() || is_always_inside(access.buffer, r.indices))
      return load(access, index, hi::const_true());
    if (access.buffer.elements() == 0) return hi::make_zero(storage_type(r.type));
    return load_under(guard_, access, r.indices, index);
  }

  /// A load that happens only where the condition holds: masked where lanes are neighbours in
  /// memory, and Halide can; elsewhere lanes that fail the condition read element 0.
  HExpr load_under(const HExpr& condition, const Access& access, const std::vector<Expr>& indices,
                   const HExpr& index) const {
    if (uses_vector_variable(indices) && is_dense(access.buffer.name, indices) &&
        !leaves_one_lane(access.buffer.type, indices))
      return load(access, index, condition);
    return load(access, Halide::select(condition, index, hi::make_zero(index.type())),
                hi::const_true());
  }

  /// Halide 21 fails at a masked load of one lane, which is what is left of seven lanes of f64
  /// where native vectors have two.
  bool leaves_one_lane(DType type, const std::vector<Expr>& indices) const {
    const int64_t native = masks_.vector_bits / storage_type(type).bits();
    bool leaves = false;
    for (const Expr& index : indices)
      dsl::for_each(index, [&](const Expr& e) {
        const auto* v = e.as<dsl::Var>();
        if (!v || variables_.at(v->name).kind != LoopKind::Vector) return;
        const Range range = ranges_.of(e);
        const int64_t lanes = range.high - range.low + 1;
        leaves |= lanes > native && lanes % native == 1;
      });
    return leaves;
  }

  bool uses_vector_variable(const Expr& expr) const {
    bool uses = false;
    dsl::for_each(expr, [&](const Expr& e) {
      const auto* v = e.as<dsl::Var>();
      uses |= v && variables_.at(v->name).kind == LoopKind::Vector;
    });
    return uses;
  }
  bool uses_vector_variable(const std::vector<Expr>& indices) const {
    return std::any_of(indices.begin(), indices.end(),
                       [&](const Expr& index) { return uses_vector_variable(index); });
  }

  static HExpr both(const HExpr& outer, const HExpr& condition) {
    return outer.defined() ? outer && condition : condition;
  }

  HExpr guarded(const HExpr& condition, const Expr& expr) {
    const HExpr outer = guard_;
    guard_ = both(outer, condition);
    const HExpr result = value(expr);
    guard_ = outer;
    return result;
  }

  // ---- expressions --------------------------------------------------------------------------

  HExpr value(const Expr& expr) {
    if (expr.type() == Int64) return Halide::cast(index64, integer(expr, width(expr)));
    return dsl::visit(
        expr, [&](const dsl::Const& c) { return constant(c); },
        [&](const dsl::Var&) { return HExpr(); },  // none: variables are Int64
        [&](const dsl::Read& r) { return to_value(r.type, read(r)); },
        [&](const dsl::Unary& u) { return unary(u); },
        [&](const dsl::Binary& b) { return binary(b); },
        [&](const dsl::Cast& c) { return converted(c); },
        [&](const dsl::Select& s) {
          const HExpr condition = value(s.condition);
          const HExpr a = guarded(condition, s.a), b = guarded(!condition, s.b);
          return is_branch(s, condition) ? branch(condition, a, b)
                                         : Halide::select(condition, a, b);
        });
  }

  /// A concatenation of many tensors is a tree of selects, of which all lanes take the same side
  /// unless it is along the vector's axis. Computing all sides would load from each tensor for each
  /// vector; a single select is cheaper than a jump.
  static bool is_branch(const dsl::Select& s, const HExpr& condition) {
    const auto is_tree = [](const Expr& side) { return side.as<dsl::Select>() != nullptr; };
    return condition.type().is_scalar() && (is_tree(s.a) || is_tree(s.b));
  }

  /// Only one side is computed. Its loads keep their masks all the same, because the elimination of
  /// common subexpressions may move them in front of the branch.
  static HExpr branch(const HExpr& condition, const HExpr& a, const HExpr& b) {
    const int lanes = std::max(a.type().lanes(), b.type().lanes());
    const auto as_vector = [&](const HExpr& side) {
      return side.type().lanes() == lanes ? side : hi::Broadcast::make(side, lanes);
    };
    return hi::Call::make(a.type().with_lanes(lanes), hi::Call::if_then_else,
                          {condition, as_vector(a), as_vector(b)}, hi::Call::PureIntrinsic);
  }

  static HExpr constant(const dsl::Const& c) {
    if (c.type == Bool) return hi::make_bool(c.int_value != 0);
    if (!is_float(c.type)) return hi::make_const(value_type(c.type), c.int_value);
    return hi::make_const(value_type(c.type), c.float_value);
  }

  Halide::Type width(const Expr& expr) const {
    return ranges_.all_fit_int32(expr) ? index32 : index64;
  }

  /// An Int64 expression computed in `type`, which is 32 bits only where all of it fits.
  HExpr integer(const Expr& expr, Halide::Type type) {
    return dsl::visit(
        expr, [&](const dsl::Const& c) { return hi::make_const(type, c.int_value); },
        [&](const dsl::Var& v) { return Halide::cast(type, variables_.at(v.name).value); },
        [&](const dsl::Read& r) { return Halide::cast(type, read(r)); },
        [&](const dsl::Cast& c) {
          return is_float(c.a.type()) ? truncated(type, value(c.a))
                                      : Halide::cast(type, value(c.a));
        },
        [&](const dsl::Unary& u) {
          const HExpr a = integer(u.a, type);
          return u.op == UnaryOp::Neg ? -a : Halide::cast(type, Halide::abs(a));
        },
        [&](const dsl::Select& s) {
          const HExpr condition = value(s.condition);
          return Halide::select(condition, Halide::cast(type, guarded(condition, s.a)),
                                Halide::cast(type, guarded(!condition, s.b)));
        },
        [&](const dsl::Binary& b) {
          const HExpr x = integer(b.a, type), y = integer(b.b, type);
          return type == index64 && ranges_.may_overflow(b.op, b.a, b.b) ? wrapping(b.op, x, y)
                                                                         : arithmetic(b.op, x, y);
        });
  }

  /// Halide leaves signed overflow of 32 and 64 bits undefined; unsigned arithmetic wraps.
  static HExpr wrapping(BinaryOp op, const HExpr& a, const HExpr& b) {
    const Halide::Type type = a.type();
    const bool can_wrap = op == BinaryOp::Add || op == BinaryOp::Sub || op == BinaryOp::Mul;
    if (!can_wrap || !type.is_int() || type.bits() < 32) return arithmetic(op, a, b);
    const Halide::Type modular = type.with_code(halide_type_uint);
    return Halide::cast(type, arithmetic(op, Halide::cast(modular, a), Halide::cast(modular, b)));
  }

  static bool divides_as_halide(const HExpr& divisor) {
    return divisor.type().is_float() || hi::is_positive_const(divisor);
  }

  static HExpr arithmetic(BinaryOp op, const HExpr& a, const HExpr& b) {
    switch (op) {
      case BinaryOp::Add:
        return a + b;
      case BinaryOp::Sub:
        return a - b;
      case BinaryOp::Mul:
        return a * b;
      case BinaryOp::Div:
        return divides_as_halide(b) ? a / b : floor_division(op, a, b);
      case BinaryOp::Mod:
        return divides_as_halide(b) ? a % b : floor_division(op, a, b);
      case BinaryOp::Pow:
        return is_double(a) ? pow_f64(a, b) : pow_f32(a, b);
      case BinaryOp::Min:
        return hi::Min::make(a, b);
      case BinaryOp::Max:
        return hi::Max::make(a, b);
      case BinaryOp::Lt:
        return a < b;
      case BinaryOp::Le:
        return a <= b;
      case BinaryOp::Eq:
        return a == b;
      case BinaryOp::Ne:
        return a != b;
      case BinaryOp::And:
        return a && b;
      case BinaryOp::Or:
        return a || b;
      case BinaryOp::Shl:
      case BinaryOp::Shr:
        return shifted(op, a, b);
      case BinaryOp::BitAnd:
        return a & b;
      case BinaryOp::BitOr:
        return a | b;
      case BinaryOp::BitXor:
        return a ^ b;
    }
    TW_CHECK(false);
  }

  /// Counts are reduced modulo the bits: Halide shifts to the other side by a negative count, and
  /// leaves large counts undefined.
  static HExpr shifted(BinaryOp op, const HExpr& a, const HExpr& b) {
    const Halide::Type modular = a.type().with_code(halide_type_uint);
    const Halide::Type counts = b.type().with_code(halide_type_uint);
    const HExpr count = Halide::cast(counts, b) & hi::make_const(counts, counts.bits() - 1);
    if (op == BinaryOp::Shr) return a >> count;
    return Halide::cast(a.type(), Halide::cast(modular, a) << count);
  }

  /// `x <= inf` as a comparison of bits: LLVM may assume that no float is NaN, and would fold it.
  static HExpr is_number(const HExpr& x) {
    const Halide::Type bits = x.type().with_code(halide_type_uint);
    if (is_double(x)) return !is_nan_f64(x);
    const HExpr magnitude = Halide::reinterpret(bits, x) & hi::make_const(bits, 0x7fffffff);
    return magnitude <= hi::make_const(bits, 0x7f800000);
  }

  HExpr binary(const dsl::Binary& b) {
    if (b.a.type() == Int64) {  // a comparison: both sides as narrow as they fit
      const Halide::Type type =
          ranges_.all_fit_int32(b.a) && ranges_.all_fit_int32(b.b) ? index32 : index64;
      return arithmetic(b.op, integer(b.a, type), integer(b.b, type));
    }
    const HExpr a = value(b.a);
    if (const auto* limit = b.b.as<dsl::Const>();
        b.op == BinaryOp::Le && limit && limit->float_value == HUGE_VAL)
      return is_number(a);
    if (b.op == BinaryOp::And) return a && guarded(a, b.b);
    if (b.op == BinaryOp::Or) return a || guarded(!a, b.b);
    const HExpr c = value(b.b);
    if (const auto strict = kept_apart(b))
      return hi::Call::make(compares(b.op) ? Halide::Bool(a.type().lanes()) : a.type(), *strict,
                            {a, c}, hi::Call::PureIntrinsic);
    const bool wraps = !is_float(b.a.type()) && ranges_.may_overflow(b.op, b.a, b.b);
    return wraps ? wrapping(b.op, a, c) : arithmetic(b.op, a, c);
  }

  HExpr unary(const dsl::Unary& u) {
    const HExpr a = value(u.a);
    switch (u.op) {
      case UnaryOp::Neg:
        return wrapping(BinaryOp::Sub, hi::make_zero(a.type()), a);
      case UnaryOp::Not:
        return !a;
      case UnaryOp::Abs:
        return Halide::cast(a.type(), Halide::abs(a));
      case UnaryOp::Exp:
        return is_double(a) ? exp_f64(a) : hi::halide_exp(a);
      case UnaryOp::Log:
        return is_double(a) ? log_f64(a) : hi::halide_log(a);
      case UnaryOp::Sqrt:
        return Halide::sqrt(a);
      case UnaryOp::Tanh:
        return is_double(a) ? tanh_f64(a) : tanh_f32(a);
      case UnaryOp::Erf:
        return is_double(a) ? erf_f64(a) : erf_f32(a);
      case UnaryOp::Floor:
        return Halide::floor(a);
      case UnaryOp::Sin:
        return is_double(a) ? sin_f64(a, 0) : sin_f32(a, 0);
      case UnaryOp::Cos:
        return is_double(a) ? sin_f64(a, 1) : sin_f32(a, 1);
      case UnaryOp::Sigmoid:
        return is_double(a) ? sigmoid_f64(a) : sigmoid_f32(a);
      case UnaryOp::Round:
        return Halide::round(a);
    }
    TW_CHECK(false);
  }

  HExpr converted(const dsl::Cast& c) {
    const DType from = c.a.type();
    const HExpr a = from == Int64 ? integer(c.a, width(c.a)) : value(c.a);
    if (c.type == Bool) return a != hi::make_zero(a.type());
    if (c.type == Float16 || c.type == BFloat16) {  // rounded here, computed on in 32 bits
      const HExpr in_32_bits = from == Float64 ? to_odd_f32(a) : Halide::cast(Halide::Float(32), a);
      return Halide::cast(Halide::Float(32), to_storage(c.type, in_32_bits));
    }
    if (is_float(from) && !is_float(c.type)) return truncated(value_type(c.type), a);
    return Halide::cast(value_type(c.type), a);
  }

  struct Variable {
    HExpr value;
    int depth = 0;
    LoopKind kind = LoopKind::Serial;
  };
  /// The body of a serial loop, or of the phase: where bases of addresses are bound.
  struct Body {
    int depth;  ///< depth of the innermost variable in scope
    std::map<std::pair<std::string, int>, std::string> names;  ///< names of bases, by text and bits
    std::vector<std::pair<std::string, HExpr>> lets;
  };

  const Program& program_;
  const Phase& phase_;
  const Target& target_;
  Masks masks_;
  Fallbacks fallbacks_;
  Ranges ranges_;
  schedules::Bounds bounds_;
  std::map<std::string, Variable> variables_;
  std::map<std::string, Access> accesses_;
  std::vector<Body> bodies_;
  HExpr mask_;   ///< conjunction of the masked branches around; undefined: none
  HExpr guard_;  ///< mask_ and the select conditions around; undefined: none
  int depth_ = 0;
  int names_ = 0;
};

HStmt run_passes(HStmt body) {
  // Vectorized before it is unrolled: once a statement instead of once a copy.
  body = hi::vectorize_loops(body, {});
  body = hi::unroll_loops(body);
  body = hi::simplify(body);
  body = hi::flatten_nested_ramps(body);
  body = hi::find_intrinsics(body);
  // Indices are not lifted: a ramp that a load and a store share would become a variable, and
  // Halide no longer sees that such an access is contiguous.
  body = hi::common_subexpression_elimination(DropKept().mutate(body));
  return NameNegativeStarts().mutate(body);
}

/// Counts how a statement, as the back end receives it, accesses each buffer; fallbacks are left
/// out.
class CountAccesses : public hi::IRVisitor {
 public:
  CountAccesses(const Target& target, std::map<std::string, AccessCounts>& counts)
      : masks_(masks_of(target)), counts_(counts) {}

 private:
  using hi::IRVisitor::visit;
  void visit(const hi::Load* load) override {
    hi::IRVisitor::visit(load);
    count(load->name, load->type, load->index, load->predicate);
  }
  void visit(const hi::Store* store) override {
    hi::IRVisitor::visit(store);
    count(store->name, store->value.type(), store->index, store->predicate);
  }
  void visit(const hi::IfThenElse* branch) override {
    branch->condition.accept(this);
    for (const HStmt& taken : {branch->then_case, branch->else_case})
      if (taken.defined() && !is_fallback(taken)) taken.accept(this);
  }

  void count(const std::string& name, Halide::Type type, const HExpr& index,
             const HExpr& predicate) {
    if (type.is_handle()) return;
    AccessCounts& counts = counts_[name.substr(0, name.rfind('$'))];
    const auto* ramp = index.as<hi::Ramp>();
    const bool is_contiguous =
        ramp && ramp->base.type().is_scalar() && hi::is_const_one(ramp->stride);
    ++(type.is_scalar() ? counts.scalar : is_contiguous ? counts.contiguous : counts.lanewise);
    counts.branching += type.is_vector() && !hi::is_const_one(predicate) &&
                        !(is_contiguous && masks_.cover(type.element_of()));
  }

  Masks masks_;
  std::map<std::string, AccessCounts>& counts_;
};

HStmt translate(const Program& program, const Phase& phase, const Target& target,
                Fallbacks fallbacks) {
  return run_passes(PhaseTranslator(program, phase, target, fallbacks).translate());
}

hi::LoweredFunc function_of(const std::string& symbol, const HStmt& body) {
  const auto argument = [](const char* name, Halide::Type type) {
    return hi::LoweredArgument(name, Halide::Argument::InputScalar, type, 0,
                               Halide::ArgumentEstimates{});
  };
  const Halide::Type pointer = Halide::type_of<void*>();
  const std::vector<hi::LoweredArgument> arguments = {
      argument("buffers", pointer), argument("scratch", pointer), argument("task", index32)};
  return {symbol, arguments, body, Halide::LinkageType::External, Halide::NameMangling::C};
}

// ---- target ---------------------------------------------------------------------------------

struct FeatureRow {
  std::vector<std::string_view> needs;  ///< all of these features of ours
  Halide::Target::Feature gives;
};

Halide::Target halide_target(const Target& target) {
  using T = Halide::Target;
  static const std::vector<FeatureRow> rows = {
      {{"sse4_1"}, T::SSE41},
      {{"avx"}, T::AVX},
      {{"avx2"}, T::AVX2},
      {{"fma"}, T::FMA},
      {{"f16c"}, T::F16C},
      {{"avx512f", "avx512cd"}, T::AVX512},
      {{"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}, T::AVX512_Skylake},
      {{"avx512bw", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi"}, T::AVX512_Cannonlake},
      {{"avx512vbmi", "avx512ifma", "avx512_bf16", "avx512_vnni", "avx512_bitalg",
        "avx512_vpopcntdq", "avx512_vbmi2"},
       T::AVX512_Zen4},
      // LLVM then compiles for Sapphire Rapids, and else for Zen 4, with instructions of SSE4A that
      // no processor of Intel has.
      {{"avx512_fp16", "avx_vnni", "amx_bf16", "amx_int8", "amx_tile"}, T::AVX512_SapphireRapids},
      {{"asimddp"}, T::ARMDotProd},
      {{"asimdhp"}, T::ARMFp16}};
  const bool is_x86 = target.architecture == Architecture::X86_64;
  T result(T::Linux, is_x86 ? T::X86 : T::ARM, 64, {T::NoRuntime, T::NoAsserts, T::NoBoundsQuery});
  for (const FeatureRow& row : rows) {
    bool has_all = true;
    for (const std::string_view feature : row.needs) has_all &= target.has(feature);
    if (has_all) result.set_feature(row.gives);
  }
  return result;
}

// ---- batches --------------------------------------------------------------------------------

tl::unexpected<Error> rejected(const std::string& what, const char* message) {
  return fail(ErrorCode::Unsupported,
              "[codegen] the compiler rejects " + what + ": " + first_lines(message, 4));
}

/// Halide warns on standard error, of which workers' parents keep the tail: nothing there is ours
/// to fix.
class QuietReporter final : public Halide::CompileTimeErrorReporter {
 public:
  void warning(const char*) override {}
  void error(const char* message) override { throw Halide::CompileError(message); }
};

void report_quietly() {
  static QuietReporter reporter;
  static const bool once = [] {
    Halide::set_custom_compile_time_error_reporter(&reporter);
    return true;
  }();
  (void)once;
}

/// Appends all phases of a program, or none if one fails.
Status append(const NamedProgram& named, const Target& target, Halide::Module& module) try {
  TW_RETURN_IF_ERROR(check_limits(*named.program));
  std::vector<hi::LoweredFunc> functions;
  for (size_t i = 0; i < named.program->phases.size(); ++i)
    functions.push_back(
        function_of(phase_symbol(named.prefix, i),
                    translate(*named.program, named.program->phases[i], target, Fallbacks::Plain)));
  for (const hi::LoweredFunc& function : functions) {
    if (has_strict(function.body)) module.set_any_strict_float(true);
    module.append(function);
  }
  return {};
} catch (const Halide::Error& error) {
  return rejected("kernel " + named.prefix, error.what());
}

/// Loop strength reduction takes a quarter of all compile time; over 66 tuned kernels the code was
/// as fast without it (0.25 % in the geometric mean), as addresses are bases plus constants
/// already. Halide passes this variable on to LLVM, once a process; what the user set is left
/// alone.
void configure_llvm() { setenv("HL_LLVM_ARGS", "-disable-lsr", 0); }

Result<CompiledObjects> compile(std::span<const NamedProgram> programs, const Target& target) try {
  report_quietly();
  configure_llvm();
  Halide::Module module("tilewright", halide_target(target));
  CompiledObjects result;
  for (const NamedProgram& program : programs)
    result.programs.push_back(append(program, target, module));
  const auto object = module.compile_to_buffer();
  result.object.assign(reinterpret_cast<const char*>(object.data()), object.number_of_elements());
  return result;
} catch (const Halide::Error& error) {
  return rejected("a batch", error.what());
} catch (const std::exception& error) {
  return rejected("a batch", error.what());
}

Result<std::map<std::string, AccessCounts>> count(const Program& program,
                                                  const Target& target) try {
  report_quietly();
  std::map<std::string, AccessCounts> counts;
  CountAccesses visitor(target, counts);
  for (const Phase& phase : program.phases)
    translate(program, phase, target, Fallbacks::Marked).accept(&visitor);
  return counts;
} catch (const Halide::Error& error) {
  return rejected("a program", error.what());
} catch (const std::exception& error) {
  return rejected("a program", error.what());
}

}  // namespace
}  // namespace tw::codegen

extern "C" __attribute__((visibility("default"))) const char* tw_halide_toolchain() {
  static const std::string toolchain = "halide-" + std::to_string(HALIDE_VERSION_MAJOR) + "." +
                                       std::to_string(HALIDE_VERSION_MINOR) + "." +
                                       std::to_string(HALIDE_VERSION_PATCH);
  return toolchain.c_str();
}

extern "C" __attribute__((visibility("default"))) void tw_halide_count(
    const tw::schedules::Program* program, const tw::Target* target,
    tw::Result<std::map<std::string, tw::codegen::AccessCounts>>* result) {
  *result = tw::codegen::count(*program, *target);
}

extern "C" __attribute__((visibility("default"))) int tw_halide_version() {
  return tw::codegen::plugin_version;
}

extern "C" __attribute__((visibility("default"))) void tw_halide_compile(
    const tw::codegen::NamedProgram* programs, size_t count, const tw::Target* target,
    tw::Result<tw::codegen::CompiledObjects>* result) {
  *result = tw::codegen::compile({programs, count}, *target);
}
