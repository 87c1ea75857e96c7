// SPDX-License-Identifier: Apache-2.0
#pragma once
// Spearman's rank correlation: how well scores order candidates that were measured. Pure.

#include <optional>
#include <span>

namespace tw::cost_model {

/// Correlation of ranks, where ties share their mean rank: 1 for the same order, about 0 for a
/// random order. nullopt if either side is constant or contains a NaN. Requires: equal sizes.
std::optional<double> spearman(std::span<const double> a, std::span<const double> b);

}  // namespace tw::cost_model
