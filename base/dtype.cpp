// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace tw {
namespace {

constexpr FloatFormat f32 = format_of(Float32);

/// Rounds to f32 by the rule "round to odd": if `value` lies between two f32 numbers, the result is
/// the one whose last bit is 1. Rounding this result again, to a type with fewer bits such as bf16,
/// gives the number to which `value` rounds directly. Rounding to the nearest twice would not.
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (nearest == value || std::isnan(value)) return nearest;
  const auto bits = std::bit_cast<uint32_t>(nearest);
  if (bits & 1) return nearest;
  return std::bit_cast<float>(std::fabs(nearest) > std::fabs(value) ? bits - 1 : bits + 1);
}

/// Returns the bits of the number of a narrow format (f16 or bf16) that is nearest to `value`. Ties
/// go to the number whose last bit is 0; a number that is too large becomes infinite. A NaN becomes
/// quiet and keeps its sign and the leading bits of its fraction.
template <FloatFormat format>
uint32_t narrow_bits(double value) {
  constexpr uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.fraction_bits;
  constexpr int dropped = f32.fraction_bits - format.fraction_bits;
  constexpr int rebias = f32.bias() - format.bias();
  const auto bits = std::bit_cast<uint32_t>(round_to_odd(value));
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t sign = (bits >> 31) << (format.exponent_bits + format.fraction_bits);
  if (std::isnan(value)) {
    constexpr uint32_t quiet = 1u << (format.fraction_bits - 1);
    return sign | infinity | quiet | ((magnitude >> dropped) & (2 * quiet - 1));
  }
  // A number that is subnormal in the format loses more bits: all subnormals have the same
  // exponent.
  const int exponent = static_cast<int>(magnitude >> f32.fraction_bits);
  const bool is_normal = exponent > rebias || rebias == 0;
  const uint32_t source = is_normal
                              ? magnitude - (static_cast<uint32_t>(rebias) << f32.fraction_bits)
                              : (magnitude & 0x7fffff) | 0x800000;
  const int shift = is_normal ? dropped : dropped + rebias + 1 - exponent;
  if (shift > 31) return sign;
  const uint32_t kept = source >> shift, rest = source & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  const bool is_up = rest > half || (rest == half && kept % 2 == 1);
  return sign | std::min(kept + (is_up ? 1 : 0), infinity);
}

/// Returns the number that the bits of a narrow format stand for.
template <FloatFormat format>
double from_narrow_bits(uint32_t bits) {
  constexpr int width = format.exponent_bits + format.fraction_bits;
  constexpr uint32_t one = 1u << f32.fraction_bits;  // adding it to the bits of an f32 doubles it
  constexpr uint32_t rebias = static_cast<uint32_t>(f32.bias() - format.bias()) * one;
  const uint32_t sign = (bits >> width) << 31, magnitude = bits & ((1u << width) - 1);
  const uint32_t exponent = magnitude >> format.fraction_bits;
  const uint32_t shifted = magnitude << (f32.fraction_bits - format.fraction_bits);
  if (exponent == 0 && rebias != 0) {  // subnormal, fraction f: 0.f * 2^e = 1.f * 2^e - 2^e
    const float value =
        std::bit_cast<float>(shifted + rebias + one) - std::bit_cast<float>(rebias + one);
    return sign != 0 ? -value : value;
  }
  const bool is_finite = exponent != (1u << format.exponent_bits) - 1;
  return std::bit_cast<float>(sign | (is_finite ? shifted + rebias : shifted | 0x7f800000));
}

template <typename T>
T read(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

template <typename T>
void write(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value,
              sizeof(T));
}

/// Wraps `value` to an integer type of n bits, i.e. modulo 2^n. For bool the result is value != 0.
template <DType type, typename Element>
int64_t wrapped(int64_t value) {
  TW_CHECK(!is_float(type), "a float is no integer");
  return type == Bool ? value != 0 : static_cast<int64_t>(static_cast<Element>(value));
}

/// encoded() converts a number to an array element of `type`, which must be a float type. decoded()
/// converts an element of any type back to its number. Element is the C type of the array's
/// elements.
template <DType type, typename Element>
Element encoded(double value) {
  TW_CHECK(is_float(type), "an integer takes no double");
  if constexpr (is_narrow_float(type))
    return static_cast<Element>(narrow_bits<format_of(type)>(value));
  return static_cast<Element>(value);
}
template <DType type, typename Element>
double decoded(Element element) {
  if constexpr (is_narrow_float(type)) return from_narrow_bits<format_of(type)>(element);
  if constexpr (!is_float(type))
    return static_cast<double>(wrapped<type, Element>(static_cast<int64_t>(element)));
  return static_cast<double>(element);
}

}  // namespace

Result<DType> parse_dtype(std::string_view name) {
  if (const auto type = find_dtype(&DTypeInfo::name, name)) return *type;
  return fail(ErrorCode::Usage,
              fmt::format("[dtype] '{}' is no data type: use one of {}", name, known_dtypes()));
}

double largest_number(DType type) {
  const FloatFormat format = format_of(type);
  return std::ldexp(2 - std::ldexp(1.0, -format.fraction_bits), format.bias());
}

std::string known_dtypes() {
  std::vector<std::string_view> names;
  for (const DType type : all_dtypes) names.push_back(to_string(type));
  return fmt::format("{}", fmt::join(names, ", "));
}

double round_to(DType type, double value) {
  switch (type) {
#define X(enumerator, name, kind, in_c, ...) \
  case enumerator:                           \
    return decoded<enumerator, in_c>(encoded<enumerator, in_c>(value));
    TW_DTYPES(X)
#undef X
  }
  TW_CHECK(false);
}

int64_t wrap_to(DType type, int64_t value) {
  switch (type) {
#define X(enumerator, name, kind, in_c, ...) \
  case enumerator:                           \
    return wrapped<enumerator, in_c>(value);
    TW_DTYPES(X)
#undef X
  }
  TW_CHECK(false);
}

double load_float(DType type, const void* data, int64_t index) {
  switch (type) {
#define X(enumerator, name, kind, in_c, ...) \
  case enumerator:                           \
    return decoded<enumerator, in_c>(read<in_c>(data, index));
    TW_DTYPES(X)
#undef X
  }
  TW_CHECK(false);
}

void store_float(DType type, void* data, int64_t index, double value) {
  switch (type) {
#define X(enumerator, name, kind, in_c, ...) \
  case enumerator:                           \
    return write(data, index, encoded<enumerator, in_c>(value));
    TW_DTYPES(X)
#undef X
  }
}

int64_t load_int(DType type, const void* data, int64_t index) {
  switch (type) {
#define X(enumerator, name, kind, in_c, ...) \
  case enumerator:                           \
    return wrapped<enumerator, in_c>(static_cast<int64_t>(read<in_c>(data, index)));
    TW_DTYPES(X)
#undef X
  }
  TW_CHECK(false);
}

void store_int(DType type, void* data, int64_t index, int64_t value) {
  switch (type) {
#define X(enumerator, name, kind, in_c, ...) \
  case enumerator:                           \
    return write(data, index, static_cast<in_c>(wrapped<enumerator, in_c>(value)));
    TW_DTYPES(X)
#undef X
  }
}

}  // namespace tw
