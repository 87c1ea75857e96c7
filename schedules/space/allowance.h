// SPDX-License-Identifier: Apache-2.0
#pragma once
// A bound of the work of a search in a space. Private to schedules/space.

#include <algorithm>

#include "base/stop.h"

namespace tw::schedules {

/// The number of points that a search may construct, fewer the heavier they are, so that its result
/// is the same on every machine: `most` of weight 1, but never fewer than a few. A stop ends the
/// allowance. The token must outlive it.
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
