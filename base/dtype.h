// SPDX-License-Identifier: Apache-2.0
#pragma once
// Element types of tensors. A closed set: one row of TW_DTYPES is all that a new type needs here.

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace tw {

// enumerator, name in text, bytes, is a float, is signed
#define TW_DTYPES(X)                 \
  X(Float32, "f32", 4, true, true)   \
  X(Float16, "f16", 2, true, true)   \
  X(BFloat16, "bf16", 2, true, true) \
  X(Int8, "i8", 1, false, true)      \
  X(UInt8, "u8", 1, false, false)    \
  X(Int32, "i32", 4, false, true)    \
  X(Int64, "i64", 8, false, true)    \
  X(Bool, "bool", 1, false, false)   \
  X(Float64, "f64", 8, true, true)

enum class DType : uint8_t {
#define X(enumerator, name, bytes, is_float, is_signed) enumerator,
  TW_DTYPES(X)
#undef X
};

using enum DType;

std::string_view to_string(DType type);
Result<DType> parse_dtype(std::string_view name);

namespace detail {
struct DTypeTraits {
  int bytes;
  bool is_float, is_signed;
};
inline constexpr DTypeTraits dtype_traits[] = {
#define X(enumerator, name, bytes, is_float, is_signed) {bytes, is_float, is_signed},
    TW_DTYPES(X)
#undef X
};
}  // namespace detail

constexpr int size_bytes(DType type) {
  return detail::dtype_traits[static_cast<size_t>(type)].bytes;
}
constexpr bool is_float(DType type) {
  return detail::dtype_traits[static_cast<size_t>(type)].is_float;
}
constexpr bool is_signed(DType type) {
  return detail::dtype_traits[static_cast<size_t>(type)].is_signed;
}

/// The nearest value of `type`: floats round to nearest even, integers wrap, bool is (value != 0).
double round_to(DType type, double value);
int64_t wrap_to(DType type, int64_t value);

/// Reads or writes element `index` of an array of `type`, converting from or to double (floats) or
/// int64 (the others).
double load_float(DType type, const void* data, int64_t index);
void store_float(DType type, void* data, int64_t index, double value);
int64_t load_int(DType type, const void* data, int64_t index);
void store_int(DType type, void* data, int64_t index, int64_t value);

}  // namespace tw
