// SPDX-License-Identifier: Apache-2.0
#include "dsl/array.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>

#include "base/integer.h"

namespace tw::dsl {
namespace {

int64_t small_integer(DType type, Random& random) {
  if (type == Bool) return random.below(2);
  return is_signed(type) ? random.below(9) - 4 : random.below(5);
}

/// Returns two values of N(0, 1) (Box and Muller).
std::pair<double, double> two_normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
  const double angle = 2 * std::numbers::pi * random.unit();
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// Returns a quarter of the smallest normal number.
double denormal_of(DType type) { return std::ldexp(1.0, -1 - format_of(type).bias()); }

double special_float(DType type, Random& random) {
  const double inf = std::numeric_limits<double>::infinity();
  switch (random.below(40)) {
    case 0:
      return std::numeric_limits<double>::quiet_NaN();
    case 1:
      return inf;
    case 2:
      return -inf;
    case 3:
      return denormal_of(type);
    case 4:
      return -0.0;
    default:
      return two_normal(random).first;
  }
}

int64_t special_int(DType type, Random& random) {
  const int bits = 8 * size_bytes(type);
  const int64_t top = std::numeric_limits<int64_t>::max() >> (64 - bits);
  switch (random.below(16)) {
    case 0:
      return wrap_to(type, -1);
    case 1:
      return wrap_to(type, top);
    case 2:
      return wrap_to(type, -top - 1);
    default:
      return small_integer(type, random);
  }
}

}  // namespace

Result<Array> Array::make(DType type, std::vector<int64_t> shape) {
  for (const int64_t extent : shape)
    if (extent < 0)
      return fail(ErrorCode::Usage,
                  fmt::format("[array] an extent of {}: expected 0 or more", extent));
  const auto elements = checked_product(shape);
  const auto bytes = elements ? checked_mul(*elements, size_bytes(type)) : std::nullopt;
  if (!bytes)
    return fail(ErrorCode::Unsupported,
                fmt::format("[array] extent overflow: {} leaves 64 bits", fmt::join(shape, " x ")));
  Array array{type, std::move(shape), {}};
  array.data.resize(static_cast<size_t>(*bytes));
  return array;
}

int64_t Array::offset(const std::vector<int64_t>& indices) const {
  TW_CHECK(indices.size() == shape.size(), "indices of another rank");
  int64_t position = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    TW_CHECK(indices[i] >= 0 && indices[i] < shape[i], "an index outside of the array");
    position = position * shape[i] + indices[i];
  }
  return position;
}

void Array::set(const std::vector<int64_t>& indices, double value) {
  const int64_t position = offset(indices);
  if (is_float(type)) {
    set_float(position, value);
  } else {
    set_int(position, static_cast<int64_t>(value));
  }
}

void fill_integers(Array& array, Random& random) {
  for (int64_t i = 0; i < array.size(); ++i) {
    const int64_t value = small_integer(array.type, random);
    if (is_float(array.type)) {
      array.set_float(i, static_cast<double>(value));
    } else {
      array.set_int(i, value);
    }
  }
}

void fill_normal(Array& array, Random& random) {
  if (!is_float(array.type)) return fill_integers(array, random);
  for (int64_t i = 0; i < array.size(); i += 2) {
    const auto [first, second] = two_normal(random);
    array.set_float(i, first);
    if (i + 1 < array.size()) array.set_float(i + 1, second);
  }
}

void fill_special(Array& array, Random& random) {
  for (int64_t i = 0; i < array.size(); ++i) {
    if (is_float(array.type)) {
      array.set_float(i, special_float(array.type, random));
    } else {
      array.set_int(i, special_int(array.type, random));
    }
  }
}

}  // namespace tw::dsl
