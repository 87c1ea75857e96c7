// SPDX-License-Identifier: Apache-2.0
#pragma once
// Constants of quantized networks. Pure functions; thread-safe.

#include <cstddef>
#include <optional>

#include "dsl/array.h"

namespace tw::graph {

/// The integers in i8 where that holds all of them, else as they are.
dsl::Array narrowed(dsl::Array numbers);

/// Numbers of 8 bits less their zero points, narrowed(). There is one zero point, or one for each
/// index of `axis`. nullopt where 16 bits do not hold a difference.
std::optional<dsl::Array> without_zero_points(const dsl::Array& numbers, const dsl::Array& zeros,
                                              size_t axis);

}  // namespace tw::graph
