// SPDX-License-Identifier: Apache-2.0
#pragma once
// The difference of what two networks compute. A pure function; thread-safe.

#include <vector>

#include "dsl/array.h"

namespace tw::tuner {

/// The largest difference of an element, relative to the largest finite element of its output.
/// Infinite where an element is NaN or infinite and the other one is not the same, and where an
/// element differs from an output of zeros. Requires: arrays of the same shapes.
double largest_difference(const std::vector<dsl::Array>& outputs,
                          const std::vector<dsl::Array>& expected);

}  // namespace tw::tuner
