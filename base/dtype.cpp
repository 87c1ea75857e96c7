// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace tw {
namespace {

/// Rounds to f32 by the rule "round to odd": if `value` lies between two f32, the result is the one
/// whose last bit is 1. If the result is then rounded to fewer bits, such as to bf16, it gives the
/// number to which `value` rounds directly. Rounding to the nearest twice would not.
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (nearest == value || std::isnan(value)) return nearest;
  const auto bits = std::bit_cast<uint32_t>(nearest);
  if (bits & 1) return nearest;
  return std::bit_cast<float>(std::fabs(nearest) > std::fabs(value) ? bits - 1 : bits + 1);
}

uint16_t to_bf16_bits(double value) {
  const auto bits = std::bit_cast<uint32_t>(round_to_odd(value));
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

double from_bf16_bits(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// g++ 12 has _Float16 on x86-64 with SSE2 and on AArch64: the compiler knows the rounding.
uint16_t to_f16_bits(double value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }

double from_f16_bits(uint16_t bits) { return static_cast<double>(std::bit_cast<_Float16>(bits)); }

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

/// Wraps `value` to an integer type of n bits, that is modulo 2^n; for bool the result is value !=
/// 0.
template <NumberKind kind, typename Element>
int64_t wrapped(int64_t value) {
  TW_CHECK(kind != NumberKind::Float && kind != NumberKind::BFloat, "a float is no integer");
  return kind == NumberKind::Bool ? value != 0 : static_cast<int64_t>(static_cast<Element>(value));
}

}  // namespace

Result<DType> parse_dtype(std::string_view name) {
  if (const auto type = find_dtype(&DTypeInfo::name, name)) return *type;
  return fail(ErrorCode::Usage,
              fmt::format("[dtype] '{}' is no data type: use one of {}", name, known_dtypes()));
}

std::string known_dtypes() {
  std::vector<std::string_view> names;
  for (const DType type : all_dtypes) names.push_back(to_string(type));
  return fmt::format("{}", fmt::join(names, ", "));
}

double round_to(DType type, double value) {
  switch (type) {
    case Float64:
      return value;
    case Float32:
      return static_cast<float>(value);
    case Float16:
      return from_f16_bits(to_f16_bits(value));
    case BFloat16:
      return from_bf16_bits(to_bf16_bits(value));
    default:
      TW_CHECK(false, "round_to of an integer type");
  }
}

int64_t wrap_to(DType type, int64_t value) {
  switch (type) {
#define X(enumerator, name, kind, in_c, ...) \
  case enumerator:                           \
    return wrapped<NumberKind::kind, in_c>(value);
    TW_DTYPES(X)
#undef X
  }
  TW_CHECK(false);
}

double load_float(DType type, const void* data, int64_t index) {
  switch (type) {
    case Float64:
      return read<double>(data, index);
    case Float32:
      return read<float>(data, index);
    case Float16:
      return from_f16_bits(read<uint16_t>(data, index));
    case BFloat16:
      return from_bf16_bits(read<uint16_t>(data, index));
    default:
      return static_cast<double>(load_int(type, data, index));
  }
}

void store_float(DType type, void* data, int64_t index, double value) {
  switch (type) {
    case Float64:
      return write(data, index, value);
    case Float32:
      return write(data, index, static_cast<float>(value));
    case Float16:
      return write(data, index, to_f16_bits(value));
    case BFloat16:
      return write(data, index, to_bf16_bits(value));
    default:
      TW_CHECK(false, "store_float to an integer type");
  }
}

int64_t load_int(DType type, const void* data, int64_t index) {
  switch (type) {
#define X(enumerator, name, kind, in_c, ...) \
  case enumerator:                           \
    return wrapped<NumberKind::kind, in_c>(static_cast<int64_t>(read<in_c>(data, index)));
    TW_DTYPES(X)
#undef X
  }
  TW_CHECK(false);
}

void store_int(DType type, void* data, int64_t index, int64_t value) {
  switch (type) {
#define X(enumerator, name, kind, in_c, ...) \
  case enumerator:                           \
    return write(data, index, static_cast<in_c>(wrapped<NumberKind::kind, in_c>(value)));
    TW_DTYPES(X)
#undef X
  }
}

}  // namespace tw
