// SPDX-License-Identifier: Apache-2.0
#pragma once
// Constants of quantized networks. Pure functions; thread-safe.

#include <cstddef>
#include <optional>
#include <vector>

#include "dsl/array.h"

namespace tw::graph {

/// Numbers of 8 bits less their zero points: in i8 where that holds all differences, else in i16.
/// There is one zero point, or one for each index of `axis`. nullopt where i16 does not hold them.
std::optional<dsl::Array> without_zero_points(const dsl::Array& numbers, const dsl::Array& zeros,
                                              size_t axis);

/// Sums of integers over all dimensions but these, in i32. Requires: 32 bits hold them; dimensions
/// of the array, in increasing order.
dsl::Array sums_along(const dsl::Array& numbers, const std::vector<size_t>& dimensions);

}  // namespace tw::graph
