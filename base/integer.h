// SPDX-License-Identifier: Apache-2.0
#pragma once
// Integer arithmetic for shapes and indices: division that rounds down or up, and sums and products
// that return nullopt on overflow instead of wrapping.

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace tw {

constexpr int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}
constexpr int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
constexpr int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}
inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// Returns the product of all extents, or nullopt if it overflows int64. The product is 0 if any
/// extent is 0, even if the product of the other extents would overflow.
inline std::optional<int64_t> checked_product(const std::vector<int64_t>& extents) {
  int64_t product = 1;
  for (const int64_t extent : extents)
    if (extent == 0) return 0;
  for (const int64_t extent : extents) {
    const auto next = checked_mul(product, extent);
    if (!next) return std::nullopt;
    product = *next;
  }
  return product;
}

}  // namespace tw
