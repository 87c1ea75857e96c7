// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares the outputs of two networks. A pure function; thread-safe.

#include <vector>

#include "dsl/array.h"

namespace tw::tuner {

/// Returns the largest difference between an element of `outputs` and the element of `expected` at
/// the same position. The difference is divided by the largest finite magnitude in that array of
/// `expected`. Two NaNs do not differ. The result is infinite if only one of two elements is NaN,
/// if an infinite element differs from the other element, or if an array of `expected` has only
/// zeros and an element of `outputs` differs from them. Requires: outputs[i] and expected[i] have
/// the same shape.
double largest_difference(const std::vector<dsl::Array>& outputs,
                          const std::vector<dsl::Array>& expected);

}  // namespace tw::tuner
