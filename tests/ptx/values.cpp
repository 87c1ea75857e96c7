// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx/values.h"

#include <algorithm>
#include <limits>

namespace tw::ptx {
namespace {

/// Converts in the rounding mode that is set. `volatile` keeps the compiler from converting
/// earlier.
float as_f32(double value) {
  const volatile double input = value;
  const volatile float result = static_cast<float>(input);
  return result;
}

/// Rounds to a binary format with `digits` bits after the point and this least exponent of normal
/// numbers.
double rounded_to(double value, int digits, int least_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), least_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(value, digits - exponent)), exponent - digits);
}

}  // namespace

double f16_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31)
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

uint16_t f16_bits(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7fff;
  const double rounded = std::fabs(rounded_to(value, 10, -14));
  if (rounded >= 65520) return sign | 0x7c00;
  if (rounded < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<int>(rounded * 0x1p24));
  const int exponent = std::ilogb(rounded);
  const int fraction = static_cast<int>(std::ldexp(rounded, 10 - exponent)) - 1024;
  return static_cast<uint16_t>(sign | (exponent + 15) << 10 | fraction);
}

uint16_t bf16_bits(double value) {
  if (std::isnan(value)) return 0x7fff;
  const double rounded = rounded_to(value, 7, -126);
  return static_cast<uint16_t>(float_bits(static_cast<float>(rounded)) >> 16);
}

double float_value(uint64_t bits, Type type, int part) {
  const auto half = static_cast<uint16_t>(bits >> (16 * part));
  switch (type) {
    case Type::F16:
    case Type::F16x2:
      return f16_value(half);
    case Type::BF16:
    case Type::BF16x2:
      return bf16_value(half);
    case Type::TF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits) & 0xffffe000u);
    case Type::F64:
      return std::bit_cast<double>(bits);
    default:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
  }
}

void write_float(Thread& t, const Operand& to, Type type, int part, double value,
                 const Instruction&) {
  if (type == Type::F32) return t.write(to, type, float_bits(as_f32(value)));
  if (type == Type::F64) return t.write(to, type, std::bit_cast<uint64_t>(value));
  const bool is_f16 = type == Type::F16 || type == Type::F16x2;
  const uint64_t half = is_f16 ? f16_bits(value) : bf16_bits(value);
  if (parts_of(type) == 1) return t.write(to, type, half);
  const uint64_t others =
      t.registers[static_cast<size_t>(to.reg)] & ~(uint64_t{0xffff} << 16 * part);
  t.write(to, type, others | half << 16 * part);
}

void write_integer_as_float(Thread& t, const Operand& to, Type type, int64_t value,
                            bool is_signed_value, const Instruction& i) {
  if (type != Type::F32) {
    const double wide = is_signed_value ? static_cast<double>(value)
                                        : static_cast<double>(static_cast<uint64_t>(value));
    return write_float(t, to, type, 0, wide, i);
  }
  const volatile int64_t input = value;
  const volatile float result = is_signed_value ? static_cast<float>(input)
                                                : static_cast<float>(static_cast<uint64_t>(input));
  t.write(to, type, float_bits(result));
}

double rounded_fma(const Instruction& i, double a, double b, double c) {
  if (i.type != Type::F32) return std::fma(a, b, c);
  const volatile float x = static_cast<float>(a), y = static_cast<float>(b),
                       z = static_cast<float>(c);
  const volatile float result = std::fmaf(x, y, z);
  return result;
}

double least(double a, double b, bool nan_stays) {
  if (nan_stays && (std::isnan(a) || std::isnan(b)))
    return std::numeric_limits<double>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return std::fmin(a, b);
}

}  // namespace tw::ptx
