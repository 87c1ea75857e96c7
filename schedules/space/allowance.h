// SPDX-License-Identifier: Apache-2.0
#pragma once
// A bound of the work of a search in a space. Private to schedules/space.

#include <algorithm>

#include "base/stop.h"

namespace tw::schedules {

/// The number of points that a search may still construct. It is a count and not a time, so that
/// the result is the same on every machine. A space of weight 1 has `most` points; the heavier the
/// points of a space, the fewer, but at least a few. A stop ends the allowance. The token must
/// outlive it.
class Allowance {
 public:
  Allowance(double most, double weight, const StopToken& stop)
      : left_(std::max(most / weight, least)), stop_(stop) {}
  bool takes_one() { return --left_ >= 0 && !stop_.is_stopped(); }

 private:
  static constexpr double least = 16;

  double left_;
  const StopToken& stop_;
};

}  // namespace tw::schedules
