// SPDX-License-Identifier: Apache-2.0
#pragma once
// Interval arithmetic in which the variables of outer loops stay symbolic. It finds the region of a
// tensor that a set of reads accesses for fixed values of the outer variables. Offsets are
// expressions, extents are constants.

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

/// The values of `index` while each variable in `inner` runs over [0, extent). nullopt if the index
/// depends on these variables in a way that this analysis does not handle, for example through
/// data.
std::optional<Interval> interval_of(const dsl::Expr& index,
                                    const std::map<std::string, int64_t>& inner);

/// The smallest interval that covers both; nullopt if the distance between their ends is not a
/// constant.
std::optional<Interval> cover(const Interval& a, const Interval& b);

}  // namespace tw::schedules
