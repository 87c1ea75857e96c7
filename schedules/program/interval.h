// SPDX-License-Identifier: Apache-2.0
#pragma once
// Interval arithmetic in which the variables of outer loops stay symbolic. It finds the region of a
// tensor that a set of reads accesses for fixed values of the outer variables. The lower end of an
// interval is an expression of the outer variables, and its extent is a constant.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "dsl/expr.h"

namespace tw::schedules {

struct Interval {
  dsl::Expr low;
  int64_t extent = 1;  ///< the values are low, low + 1, ..., low + extent - 1
};

/// Returns an interval that contains all values of `index` while each variable in `inner` runs from
/// 0 to below its extent there. For y.0 * 4 + y.1 + r and inner = {y.1: 4, r: 3}, it begins at y.0
/// * 4 and has the extent 6. nullopt if the index depends on these variables in a way that this
/// analysis does not handle, for example through data.
std::optional<Interval> interval_of(const dsl::Expr& index,
                                    const std::map<std::string, int64_t>& inner);

/// Returns the smallest interval that contains both. For intervals of extent 3 that begin at x and
/// x + 2, it begins at x and has the extent 5. nullopt if the distance between the two lower ends
/// is not a constant.
std::optional<Interval> cover(const Interval& a, const Interval& b);

}  // namespace tw::schedules
