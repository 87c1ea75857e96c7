// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares the outputs of two networks. A pure function; thread-safe.

#include <vector>

#include "dsl/array.h"

namespace tw::tuner {

/// The largest difference between an element and its expected value, relative to the largest finite
/// element of the output. Infinite if an element is NaN or infinite and the other is not the same,
/// or if an element differs from an expected output of zeros. Requires: arrays of the same shapes.
double largest_difference(const std::vector<dsl::Array>& outputs,
                          const std::vector<dsl::Array>& expected);

}  // namespace tw::tuner
