// SPDX-License-Identifier: Apache-2.0
#pragma once
// Spearman's rank correlation, a measure of how well scores order candidates that were measured.
// Pure function.

#include <optional>
#include <span>

namespace tw::cost_model {

/// Returns the correlation of the ranks of `a` and `b`: 1 for the same order, -1 for the opposite
/// order, about 0 for a random order. Equal values have the mean of their ranks. nullopt if all
/// values of `a` or of `b` are equal, or if a value is NaN. Requires: equal sizes.
std::optional<double> spearman(std::span<const double> a, std::span<const double> b);

}  // namespace tw::cost_model
