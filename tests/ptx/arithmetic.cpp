// SPDX-License-Identifier: Apache-2.0
// Instructions that use only the registers of one thread.
#include <fenv.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/ptx/instructions.h"
#include "tests/ptx/values.h"

namespace tw::ptx {
namespace {

using I = const Instruction&;
using enum Modifier;

// Integers. Operands are extended to 64 bits by their type. Results keep only the bits of their
// type.

using Binary = int64_t (*)(int64_t a, int64_t b, Type type);

template <Binary f>
void integers(Thread& t, I i) {
  t.write(i[0], i.type,
          static_cast<uint64_t>(f(integer(t, i[1], i.type), integer(t, i[2], i.type), i.type)));
}

uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

int64_t sum_of(int64_t a, int64_t b, Type) { return static_cast<int64_t>(bits(a) + bits(b)); }
int64_t difference_of(int64_t a, int64_t b, Type) {
  return static_cast<int64_t>(bits(a) - bits(b));
}
int64_t and_of(int64_t a, int64_t b, Type) { return a & b; }
int64_t or_of(int64_t a, int64_t b, Type) { return a | b; }
int64_t xor_of(int64_t a, int64_t b, Type) { return a ^ b; }
int64_t quotient_of(int64_t a, int64_t b, Type type) {
  if (b == 0) return -1;
  if (!is_signed(type)) return static_cast<int64_t>(bits(a) / bits(b));
  return b == -1 ? static_cast<int64_t>(0 - bits(a)) : a / b;
}
int64_t remainder_of(int64_t a, int64_t b, Type type) {
  if (b == 0) return a;
  if (!is_signed(type)) return static_cast<int64_t>(bits(a) % bits(b));
  return b == -1 ? 0 : a % b;
}
bool is_less(int64_t a, int64_t b, Type type) {
  return is_signed(type) ? a < b : bits(a) < bits(b);
}
int64_t least_of(int64_t a, int64_t b, Type type) { return is_less(b, a, type) ? b : a; }
int64_t most_of(int64_t a, int64_t b, Type type) { return is_less(a, b, type) ? b : a; }

__extension__ using Wide128 = __int128;
__extension__ using UnsignedWide128 = unsigned __int128;

/// Returns the product of integers. For .hi it is the high half. Otherwise it is the whole product,
/// of which the caller writes as many bits as its type has.
uint64_t product_of(Thread& t, I i) {
  const int64_t a = integer(t, i[1], i.type), b = integer(t, i[2], i.type);
  if (!i.has(Hi)) return bits(a) * bits(b);
  if (is_signed(i.type)) return static_cast<uint64_t>(Wide128{a} * b >> bits_of(i.type));
  return static_cast<uint64_t>(UnsignedWide128{bits(a)} * bits(b) >> bits_of(i.type));
}
Type type_of_product(I i) {
  if (!i.has(Wide)) return i.type;
  return bits_of(i.type) == 16 ? Type::B32 : Type::B64;
}

// Floating-point numbers. They are computed in double, which is wide enough for sums and products
// of all narrower types: rounding twice then gives the same as rounding once.

template <typename F>
void floats(Thread& t, I i, F&& f) {
  const RoundingMode mode(i);
  for (int part = 0; part < parts_of(i.type); ++part) {
    double result = f(part);
    if (i.has(Sat)) result = std::isnan(result) ? 0 : std::clamp(result, 0.0, 1.0);
    write_float(t, i[0], i.type, part, result, i);
  }
}

double a_of(Thread& t, I i, int part) { return read_float(t, i[1], i.type, part); }
double b_of(Thread& t, I i, int part) { return read_float(t, i[2], i.type, part); }
double c_of(Thread& t, I i, int part) { return read_float(t, i[3], i.type, part); }

void add(Thread& t, I i) {
  if (!is_float(i.type)) return integers<sum_of>(t, i);
  floats(t, i, [&](int p) { return a_of(t, i, p) + b_of(t, i, p); });
}
void sub(Thread& t, I i) {
  if (!is_float(i.type)) return integers<difference_of>(t, i);
  floats(t, i, [&](int p) { return a_of(t, i, p) - b_of(t, i, p); });
}
void mul(Thread& t, I i) {
  if (!is_float(i.type)) return t.write(i[0], type_of_product(i), product_of(t, i));
  floats(t, i, [&](int p) { return a_of(t, i, p) * b_of(t, i, p); });
}
void fma(Thread& t, I i) {
  if (i.type == Type::F32 && !i.has(Rz) && !i.has(Rm) && !i.has(Rp) && !i.has(Sat))
    return t.write(i[0], i.type,
                   float_bits(std::fmaf(read_f32(t, i[1]), read_f32(t, i[2]), read_f32(t, i[3]))));
  floats(t, i, [&](int p) { return rounded_fma(i, a_of(t, i, p), b_of(t, i, p), c_of(t, i, p)); });
}
void mad(Thread& t, I i) {
  if (is_float(i.type)) return fma(t, i);
  const Type type = type_of_product(i);
  t.write(i[0], type, product_of(t, i) + t.read(i[3]));
}
void div(Thread& t, I i) {
  if (!is_float(i.type)) return integers<quotient_of>(t, i);
  floats(t, i, [&](int p) { return a_of(t, i, p) / b_of(t, i, p); });
}
void min(Thread& t, I i) {
  if (!is_float(i.type)) return integers<least_of>(t, i);
  floats(t, i, [&](int p) { return least(a_of(t, i, p), b_of(t, i, p), i.has(Nan)); });
}
void max(Thread& t, I i) {
  if (!is_float(i.type)) return integers<most_of>(t, i);
  floats(t, i, [&](int p) { return -least(-a_of(t, i, p), -b_of(t, i, p), i.has(Nan)); });
}
void neg(Thread& t, I i) {
  if (!is_float(i.type)) return t.write(i[0], i.type, 0 - bits(integer(t, i[1], i.type)));
  floats(t, i, [&](int p) { return -a_of(t, i, p); });
}
void abs(Thread& t, I i) {
  if (is_float(i.type)) return floats(t, i, [&](int p) { return std::fabs(a_of(t, i, p)); });
  const int64_t value = integer(t, i[1], i.type);
  t.write(i[0], i.type, value < 0 ? 0 - bits(value) : bits(value));
}
void copysign(Thread& t, I i) {
  floats(t, i, [&](int p) { return std::copysign(b_of(t, i, p), a_of(t, i, p)); });
}

using Function = double (*)(double);
template <Function f>
void function(Thread& t, I i) {
  floats(t, i, [&](int p) { return f(a_of(t, i, p)); });
}
double reciprocal(double x) { return 1 / x; }
double reciprocal_root(double x) { return 1 / std::sqrt(x); }
double root(double x) { return std::sqrt(x); }
double power_of_two(double x) { return std::exp2(x); }
double logarithm(double x) { return std::log2(x); }
double sine(double x) { return std::sin(x); }
double cosine(double x) { return std::cos(x); }
double hyperbolic_tangent(double x) { return std::tanh(x); }

// Bits.

void not_(Thread& t, I i) { t.write(i[0], i.type, ~t.read(i[1])); }
void bitwise_not(Thread& t, I i) {
  if (i.type == Type::Pred) return t.write(i[0], i.type, t.read(i[1]) == 0);
  not_(t, i);
}
void shl(Thread& t, I i) {
  const uint64_t by = t.read(i[2]) & 0xffffffff;
  t.write(i[0], i.type, by >= 64 ? 0 : t.read(i[1]) << by);
}
void shr(Thread& t, I i) {
  const uint64_t by = std::min<uint64_t>(t.read(i[2]) & 0xffffffff, 63);
  const int64_t value = integer(t, i[1], i.type);
  const auto limit = static_cast<uint64_t>(bits_of(i.type));
  if (is_signed(i.type)) return t.write(i[0], i.type, bits(value >> by));
  t.write(i[0], i.type, (t.read(i[2]) & 0xffffffff) >= limit ? 0 : bits(value) >> by);
}
/// A funnel shift takes two words as one of 64 bits. A shift to the left gives the high word of the
/// result, a shift to the right the low word.
void shf(Thread& t, I i) {
  const uint64_t both = (t.read(i[2]) & 0xffffffff) << 32 | (t.read(i[1]) & 0xffffffff);
  uint64_t by = t.read(i[3]) & 0xffffffff;
  by = i.has(Wrap) ? by & 31 : std::min<uint64_t>(by, 32);
  t.write(i[0], i.type, i.has(Left) ? both << by >> 32 : both >> by);
}
void bfe(Thread& t, I i) {
  const int width = bits_of(i.type), first = static_cast<int>(t.read(i[2]) & 0xff),
            count = static_cast<int>(t.read(i[3]) & 0xff);
  const int64_t value = integer(t, i[1], i.type);
  const int last = std::min(first + count - 1, width - 1);
  uint64_t result = first < 64 ? bits(value) >> first : 0;
  if (count < 64) result &= (uint64_t{1} << count) - 1;
  if (is_signed(i.type) && count > 0 && (bits(value) >> last & 1) != 0 && last - first + 1 < 64)
    result |= ~uint64_t{0} << (last - first + 1);
  t.write(i[0], i.type, result);
}
void bfi(Thread& t, I i) {
  const int first = static_cast<int>(t.read(i[3]) & 0xff),
            count = static_cast<int>(t.read(i[4]) & 0xff);
  const uint64_t ones = count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  const uint64_t mask = first >= 64 ? 0 : ones << first;
  const uint64_t moved = first >= 64 ? 0 : t.read(i[1]) << first;
  t.write(i[0], i.type, (t.read(i[2]) & ~mask) | (moved & mask));
}
void prmt(Thread& t, I i) {
  const uint64_t both = (t.read(i[2]) & 0xffffffff) << 32 | (t.read(i[1]) & 0xffffffff);
  const uint64_t selector = t.read(i[3]);
  uint64_t result = 0;
  for (int byte = 0; byte < 4; ++byte) {
    const uint64_t chosen = selector >> (4 * byte) & 15;
    uint64_t value = both >> (8 * (chosen & 7)) & 0xff;
    if (chosen & 8) value = value & 0x80 ? 0xff : 0;
    result |= value << (8 * byte);
  }
  t.write(i[0], i.type, result);
}
void lop3(Thread& t, I i) {
  const uint64_t a = t.read(i[1]), b = t.read(i[2]), c = t.read(i[3]), table = t.read(i[4]);
  uint64_t result = 0;
  for (int bit = 0; bit < 32; ++bit) {
    const uint64_t entry = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
    result |= (table >> entry & 1) << bit;
  }
  t.write(i[0], i.type, result);
}
uint64_t unsigned_of(Thread& t, I i) { return bits(integer(t, i[1], i.type)); }
void popc(Thread& t, I i) {
  t.write(i[0], Type::B32, static_cast<uint64_t>(std::popcount(unsigned_of(t, i))));
}
void clz(Thread& t, I i) {
  t.write(i[0], Type::B32,
          static_cast<uint64_t>(std::countl_zero(unsigned_of(t, i)) - (64 - bits_of(i.type))));
}
void brev(Thread& t, I i) {
  uint64_t result = 0;
  for (int bit = 0; bit < bits_of(i.type); ++bit) result = result << 1 | (t.read(i[1]) >> bit & 1);
  t.write(i[0], i.type, result);
}
int64_t byte_of(uint64_t word, int at, Type type) {
  const auto value = static_cast<uint8_t>(word >> (8 * at));
  return type == Type::S32 ? static_cast<int8_t>(value) : value;
}
/// Computes the sum of four products of bytes and a third operand.
void dp4a(Thread& t, I i) {
  int64_t sum = static_cast<int32_t>(t.read(i[3]));
  for (int at = 0; at < 4; ++at)
    sum += byte_of(t.read(i[1]), at, i.type) * byte_of(t.read(i[2]), at, i.second);
  t.write(i[0], Type::B32, bits(sum));
}
/// Multiplies the two 16-bit halves of the first operand by two bytes of the second, the low two or
/// the high two, and adds both products to the third operand.
void dp2a(Thread& t, I i) {
  int64_t sum = static_cast<int32_t>(t.read(i[3]));
  for (int at = 0; at < 2; ++at) {
    const auto half = static_cast<uint16_t>(t.read(i[1]) >> (16 * at));
    sum += (i.type == Type::S32 ? int64_t{static_cast<int16_t>(half)} : half) *
           byte_of(t.read(i[2]), at + (i.has(Hi) ? 2 : 0), i.second);
  }
  t.write(i[0], Type::B32, bits(sum));
}

// Comparisons and moves.

bool compared(I i, double a, double b) {
  const bool unordered = std::isnan(a) || std::isnan(b);
  if (i.has(Num)) return !unordered;
  if (i.has(IsNan)) return unordered;
  if (unordered)
    return i.has(Equ) || i.has(Neu) || i.has(Ltu) || i.has(Leu) || i.has(Gtu) || i.has(Geu);
  if (i.has(Eq) || i.has(Equ)) return a == b;
  if (i.has(Ne) || i.has(Neu)) return a != b;
  if (i.has(Lt) || i.has(Ltu)) return a < b;
  if (i.has(Le) || i.has(Leu)) return a <= b;
  if (i.has(Gt) || i.has(Gtu)) return a > b;
  return a >= b;
}
bool compared(I i, int64_t a, int64_t b) {
  if (i.has(Eq)) return a == b;
  if (i.has(Ne)) return a != b;
  if (i.has(Lt)) return is_less(a, b, i.type);
  if (i.has(Le)) return !is_less(b, a, i.type);
  if (i.has(Gt)) return is_less(b, a, i.type);
  return !is_less(a, b, i.type);
}
bool combined(Thread& t, I i, bool value, size_t with) {
  if (i.operands.size() <= with) return value;
  const bool other = t.read_predicate(i[with]);
  return i.has(And) ? value && other : i.has(Or) ? value || other : value != other;
}
void setp(Thread& t, I i) {
  const bool value =
      is_float(i.type) ? compared(i, read_float(t, i[1], i.type, 0), read_float(t, i[2], i.type, 0))
                       : compared(i, integer(t, i[1], i.type), integer(t, i[2], i.type));
  if (i[0].kind != Operand::Kind::Vector)
    return t.write(i[0], Type::Pred, combined(t, i, value, 3));
  t.write(i[0].elements[0], Type::Pred, combined(t, i, value, 3));
  t.write(i[0].elements[1], Type::Pred, combined(t, i, !value, 3));
}
void selp(Thread& t, I i) {
  t.write(i[0], i.type, t.read_predicate(i[3]) ? t.read(i[1]) : t.read(i[2]));
}
/// Moves a value between registers, or between a register and the registers of its parts.
void mov(Thread& t, I i) {
  const int width = bits_of(i.type);
  if (i[0].kind == Operand::Kind::Vector) {
    const uint64_t value = t.read(i[1]);
    const int part = width / static_cast<int>(i[0].elements.size());
    for (size_t e = 0; e < i[0].elements.size(); ++e)
      t.write(i[0].elements[e],
              part == 16   ? Type::B16
              : part == 32 ? Type::B32
                           : Type::B8,
              value >> (static_cast<size_t>(part) * e));
    return;
  }
  if (i[1].kind != Operand::Kind::Vector) return t.write(i[0], i.type, t.read(i[1]));
  uint64_t value = 0;
  const int part = width / static_cast<int>(i[1].elements.size());
  const uint64_t mask = (uint64_t{1} << part) - 1;
  for (size_t e = 0; e < i[1].elements.size(); ++e)
    value |= (t.read(i[1].elements[e]) & mask) << (static_cast<size_t>(part) * e);
  t.write(i[0], i.type, value);
}

double to_integral(I i, double value) {
  if (i.has(Rzi)) return std::trunc(value);
  if (i.has(Rmi)) return std::floor(value);
  if (i.has(Rpi)) return std::ceil(value);
  return std::nearbyint(value);
}
bool rounds_to_integral(I i) { return i.has(Rni) || i.has(Rzi) || i.has(Rmi) || i.has(Rpi); }

uint64_t integer_of_float(Type type, double value) {
  if (std::isnan(value)) return 0;
  const int width = bits_of(type);
  const double least = is_signed(type) ? -std::ldexp(1, width - 1) : 0;
  const double beyond = std::ldexp(1, is_signed(type) ? width - 1 : width);
  if (value <= least) return is_signed(type) ? uint64_t{1} << (width - 1) : 0;
  if (value >= beyond)
    return is_signed(type) ? (uint64_t{1} << (width - 1)) - 1
                           : (width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1);
  return is_signed(type) ? bits(static_cast<int64_t>(value)) : static_cast<uint64_t>(value);
}

int64_t saturated(Type to, int64_t value, Type from) {
  const int width = bits_of(to);
  if (width == 64) return value;
  const int64_t most = is_signed(to) ? (int64_t{1} << (width - 1)) - 1 : (int64_t{1} << width) - 1;
  const int64_t least = is_signed(to) ? -most - 1 : 0;
  if (!is_signed(from) && value < 0) return most;
  return std::clamp(value, least, most);
}

void cvt(Thread& t, I i) {
  const Type to = i.type, from = i.second;
  if (is_float(to) && parts_of(to) == 2) {  // packs two numbers, the first high
    write_float(t, i[0], to, 1, read_float(t, i[1], from, 0), i);
    return write_float(t, i[0], to, 0, read_float(t, i[2], from, 0), i);
  }
  const RoundingMode mode(i);
  if (is_float(from)) {
    double value = read_float(t, i[1], from, 0);
    if (!is_float(to)) return t.write(i[0], to, integer_of_float(to, to_integral(i, value)));
    if (rounds_to_integral(i)) value = to_integral(i, value);
    if (i.has(Sat)) value = std::isnan(value) ? 0 : std::clamp(value, 0.0, 1.0);
    return write_float(t, i[0], to, 0, value, i);
  }
  const int64_t value = integer(t, i[1], from);
  if (is_float(to)) return write_integer_as_float(t, i[0], to, value, is_signed(from), i);
  t.write(i[0], to, bits(i.has(Sat) ? saturated(to, value, from) : value));
}

void testp(Thread& t, I i) {
  t.write(i[0], Type::Pred, std::isnan(read_float(t, i[1], i.type, 0)));
}

#define TW_ROUNDING "rn rz rm rp ftz sat"

constexpr Row rows[] = {
    {"add", TW_ROUNDING, add},
    {"sub", TW_ROUNDING, sub},
    {"mul", "lo hi wide " TW_ROUNDING, mul},
    {"mad", "lo hi wide " TW_ROUNDING, mad},
    {"fma", TW_ROUNDING, fma},
    {"div", "full approx " TW_ROUNDING, div},
    {"rem", "", integers<remainder_of>},
    {"min", "NaN ftz", min},
    {"max", "NaN ftz", max},
    {"neg", "ftz", neg},
    {"abs", "ftz", abs},
    {"copysign", "", copysign},
    {"rcp", "approx " TW_ROUNDING, function<reciprocal>},
    {"sqrt", "approx " TW_ROUNDING, function<root>},
    {"rsqrt", "approx ftz", function<reciprocal_root>},
    {"ex2", "approx ftz", function<power_of_two>},
    {"lg2", "approx ftz", function<logarithm>},
    {"sin", "approx ftz", function<sine>},
    {"cos", "approx ftz", function<cosine>},
    {"tanh", "approx", function<hyperbolic_tangent>},
    {"and", "", integers<and_of>},
    {"or", "", integers<or_of>},
    {"xor", "", integers<xor_of>},
    {"not", "", bitwise_not},
    {"shl", "", shl},
    {"shr", "", shr},
    {"shf", "l r wrap clamp", shf},
    {"bfe", "", bfe},
    {"bfi", "", bfi},
    {"prmt", "", prmt},
    {"lop3", "", lop3},
    {"popc", "", popc},
    {"clz", "", clz},
    {"brev", "", brev},
    {"dp4a", "", dp4a},
    {"dp2a", "lo hi", dp2a},
    {"setp", "eq ne lt le gt ge equ neu ltu leu gtu geu num nan and or xor ftz", setp},
    {"selp", "", selp},
    {"mov", "", mov},
    {"cvt", "rni rzi rmi rpi " TW_ROUNDING, cvt},
    {"testp.notanumber", "", testp},
};

}  // namespace

std::span<const Row> arithmetic_rows() { return rows; }

}  // namespace tw::ptx
