// SPDX-License-Identifier: Apache-2.0
#include "graph/quantized.h"

#include <algorithm>
#include <utility>

#include "base/dtype.h"

namespace tw::graph {

using dsl::Array;

namespace {

/// Returns a zero-filled array. Requires: another array of this shape exists, which shows that the
/// size is valid.
Array integers(DType type, const std::vector<int64_t>& shape) {
  auto array = Array::make(type, shape);
  TW_CHECK(array.has_value(), "an array of the shape exists");
  return std::move(*array);
}

bool holds(DType type, int64_t value) {
  const IntegerLimits limits = integer_limits(type);
  return value >= limits.least && value <= limits.largest;
}

/// Returns the array converted to i8 if i8 holds all numbers, else unchanged.
Array narrowed(Array numbers) {
  for (int64_t i = 0; i < numbers.size(); ++i)
    if (!holds(Int8, numbers.get_int(i))) return numbers;
  Array narrow = integers(Int8, numbers.shape);
  for (int64_t i = 0; i < numbers.size(); ++i) narrow.set_int(i, numbers.get_int(i));
  return narrow;
}

}  // namespace

std::optional<Array> without_zero_points(const Array& numbers, const Array& zeros, size_t axis) {
  int64_t slice = 1;  // number of consecutive elements with the same index along the axis
  for (size_t i = axis + 1; i < numbers.shape.size(); ++i) slice *= numbers.shape[i];
  Array differences = integers(Int16, numbers.shape);
  for (int64_t i = 0; i < numbers.size(); ++i) {
    const int64_t zero = zeros.get_int(i / slice % zeros.size());
    const int64_t difference = numbers.get_int(i) - zero;
    if (!holds(Int16, difference)) return std::nullopt;
    differences.set_int(i, difference);
  }
  return narrowed(std::move(differences));
}

Array sums_along(const Array& numbers, const std::vector<size_t>& dimensions) {
  // `strides` are those of each dimension in `sums`; 0 for the dimensions that are summed.
  std::vector<int64_t> shape, strides(numbers.shape.size(), 0), point(numbers.shape.size(), 0);
  int64_t stride = 1;
  for (size_t i = dimensions.size(); i-- > 0;) {
    strides[dimensions[i]] = stride;
    stride *= numbers.shape[dimensions[i]];
  }
  for (const size_t dimension : dimensions) shape.push_back(numbers.shape[dimension]);
  Array sums = integers(Int32, shape);
  int64_t at = 0;
  for (int64_t i = 0; i < numbers.size(); ++i) {
    sums.set_int(at, sums.get_int(at) + numbers.get_int(i));
    for (size_t d = point.size(); d-- > 0;) {
      at += strides[d];
      if (++point[d] < numbers.shape[d]) break;
      at -= strides[d] * point[d];
      point[d] = 0;
    }
  }
  return sums;
}

}  // namespace tw::graph
