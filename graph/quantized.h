// SPDX-License-Identifier: Apache-2.0
#pragma once
// Constants of quantized networks. Pure functions; thread-safe.

#include <cstddef>
#include <optional>
#include <vector>

#include "dsl/array.h"

namespace tw::graph {

/// Subtracts zero points from numbers of 8 bits. The result is i8 if all differences fit i8, else
/// i16; nullopt if they do not fit i16. `zeros` has one element, or one for each index of `axis`.
std::optional<dsl::Array> without_zero_points(const dsl::Array& numbers, const dsl::Array& zeros,
                                              size_t axis);

/// Sums an array of integers over all dimensions except `dimensions`; the sums are i32. Requires:
/// the sums fit 32 bits; `dimensions` are dimensions of the array, in increasing order.
dsl::Array sums_along(const dsl::Array& numbers, const std::vector<size_t>& dimensions);

}  // namespace tw::graph
