// SPDX-License-Identifier: Apache-2.0
#pragma once
// Element types of tensors. TW_DTYPES is the table of all element types; each row has the names of
// one type in text, C, NumPy and ONNX.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw {

/// The meaning of an element's bits. The values are DLPack's type codes.
enum class NumberKind : uint8_t { Int = 0, UInt = 1, Float = 2, BFloat = 4, Bool = 6 };

// Columns: enumerator; name in text; kind; type of an element in C; name in NumPy and PyTorch; name
// in ONNX; enumerator of the C interface (runtime/tilewright.h). The values of the C enumerators
// are the indices of the rows, so new types must be appended at the end.
#define TW_DTYPES(X)                                                         \
  X(Float32, "f32", Float, float, "float32", "float", TW_FLOAT32)            \
  X(Float16, "f16", Float, uint16_t, "float16", "float16", TW_FLOAT16)       \
  X(BFloat16, "bf16", BFloat, uint16_t, "bfloat16", "bfloat16", TW_BFLOAT16) \
  X(Int8, "i8", Int, int8_t, "int8", "int8", TW_INT8)                        \
  X(UInt8, "u8", UInt, uint8_t, "uint8", "uint8", TW_UINT8)                  \
  X(Int32, "i32", Int, int32_t, "int32", "int32", TW_INT32)                  \
  X(Int64, "i64", Int, int64_t, "int64", "int64", TW_INT64)                  \
  X(Bool, "bool", Bool, uint8_t, "bool", "bool", TW_BOOL)                    \
  X(Float64, "f64", Float, double, "float64", "double", TW_FLOAT64)          \
  X(Int16, "i16", Int, int16_t, "int16", "int16", TW_INT16)                  \
  X(UInt16, "u16", UInt, uint16_t, "uint16", "uint16", TW_UINT16)            \
  X(UInt32, "u32", UInt, uint32_t, "uint32", "uint32", TW_UINT32)

enum class DType : uint8_t {
#define X(enumerator, ...) enumerator,
  TW_DTYPES(X)
#undef X
};

using enum DType;

inline constexpr DType all_dtypes[] = {
#define X(enumerator, ...) DType::enumerator,
    TW_DTYPES(X)
#undef X
};

/// A row of TW_DTYPES.
struct DTypeInfo {
  std::string_view name;
  NumberKind kind;
  int bytes;
  std::string_view in_c, in_numpy, in_onnx;
};
inline constexpr DTypeInfo dtype_infos[] = {
#define X(enumerator, name, kind, in_c, in_numpy, in_onnx, ...) \
  {name, NumberKind::kind, sizeof(in_c), #in_c, in_numpy, in_onnx},
    TW_DTYPES(X)
#undef X
};
constexpr const DTypeInfo& info_of(DType type) { return dtype_infos[static_cast<size_t>(type)]; }

constexpr std::string_view to_string(DType type) { return info_of(type).name; }
Result<DType> parse_dtype(std::string_view name);
/// Returns the names of all types, separated by commas: "f32, f16, ...".
std::string known_dtypes();

/// Finds a type by its name in C, NumPy or ONNX. The member pointer `in` selects the language, as
/// in find_dtype(&DTypeInfo::in_numpy, "int8"), which is Int8. Returns nullopt if no type has the
/// name.
constexpr std::optional<DType> find_dtype(std::string_view DTypeInfo::*in, std::string_view name) {
  for (const DType type : all_dtypes)
    if (info_of(type).*in == name) return type;
  return std::nullopt;
}

constexpr int size_bytes(DType type) { return info_of(type).bytes; }
constexpr bool is_float(DType type) {
  return info_of(type).kind == NumberKind::Float || info_of(type).kind == NumberKind::BFloat;
}
/// Numbers of bits below the sign of a float type. In memory the exponent is above the fraction, as
/// in IEEE 754.
struct FloatFormat {
  int exponent_bits, fraction_bits;

  /// Returns the number that is added to an exponent before it is stored: 15 for f16, 127 for f32.
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
/// Requires: a float type.
constexpr FloatFormat format_of(DType type) {
  if (info_of(type).kind == NumberKind::BFloat) return {8, 7};
  if (size_bytes(type) == 8) return {11, 52};
  if (size_bytes(type) == 4) return {8, 23};
  TW_CHECK(size_bytes(type) == 2, "a type without a format");
  return {5, 10};
}
/// Returns the largest finite number: 65504 for f16. Requires: a float type.
double largest_number(DType type);

/// True for f16 and bf16, whose values are computed in f32 and stored in 16 bits.
constexpr bool is_narrow_float(DType type) { return is_float(type) && size_bytes(type) < 4; }
constexpr bool is_signed(DType type) {
  return is_float(type) || info_of(type).kind == NumberKind::Int;
}

/// The smallest and the largest value of an integer type or of bool.
struct IntegerLimits {
  int64_t least, largest;
};
constexpr IntegerLimits integer_limits(DType type) {
  const int bits = 8 * size_bytes(type);
  if (type == DType::Bool) return {0, 1};
  if (!is_signed(type)) return {0, (int64_t{1} << bits) - 1};
  const int64_t largest = INT64_MAX >> (64 - bits);
  return {-largest - 1, largest};
}

/// round_to() rounds to the nearest number of a float type; ties go to the even one. wrap_to()
/// requires an integer type or bool. Integers wrap modulo 2^bits, and a bool becomes (value != 0).
double round_to(DType type, double value);
int64_t wrap_to(DType type, int64_t value);

/// Read or write element `index` of an array of `type`. load_float() converts an element of any
/// type to double; store_float() rounds a double and requires a float type. load_int() and
/// store_int() require an integer type or bool; store_int() wraps as wrap_to() does.
double load_float(DType type, const void* data, int64_t index);
void store_float(DType type, void* data, int64_t index, double value);
int64_t load_int(DType type, const void* data, int64_t index);
void store_int(DType type, void* data, int64_t index, int64_t value);

}  // namespace tw
