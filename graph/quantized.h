// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arithmetic on constants of quantized networks. Pure functions; thread-safe.

#include <cstddef>
#include <optional>
#include <vector>

#include "dsl/array.h"

namespace tw::graph {

/// Subtracts zero points from an array of 8-bit numbers. `zeros` has one element for all numbers,
/// or one element for each index of dimension `axis`. The result is i8 if all differences fit i8,
/// else i16; nullopt if they do not fit i16. For example, the u8 numbers 130 and 90 with the zero
/// point 128 become the i8 numbers 2 and -38.
std::optional<dsl::Array> without_zero_points(const dsl::Array& numbers, const dsl::Array& zeros,
                                              size_t axis);

/// Sums an array of integers over all dimensions except `dimensions`. The sums are i32. For an
/// array of shape [2, 3, 4] and dimensions {1}, the result has the shape [3]. Requires: the sums
/// fit 32 bits; `dimensions` are dimensions of the array, in increasing order.
dsl::Array sums_along(const dsl::Array& numbers, const std::vector<size_t>& dimensions);

}  // namespace tw::graph
