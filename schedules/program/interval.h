// SPDX-License-Identifier: Apache-2.0
#pragma once
// Interval arithmetic that keeps the outer loops symbolic. It finds the region of a tensor that a
// set of reads accesses for fixed values of the outer variables. Offsets are expressions, extents
// are constants.

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

/// The values that `index` takes while each variable in `inner` runs over [0, extent); nullopt if
/// it depends on them in a way that this analysis does not handle (a data-dependent index).
std::optional<Interval> interval_of(const dsl::Expr& index,
                                    const std::map<std::string, int64_t>& inner);

/// The smallest interval that covers both; nullopt when the distance of their ends is not a
/// constant.
std::optional<Interval> cover(const Interval& a, const Interval& b);

}  // namespace tw::schedules
