// SPDX-License-Identifier: Apache-2.0
#pragma once
// A bound on the work of a search in a space. Private to schedules/space.

#include <algorithm>

#include "base/stop.h"

namespace tw::schedules {

/// Counts the points that a search may still construct. A count, unlike a time, gives the same
/// result on every machine. The search may construct most / weight points, but at least 16: with
/// most = 1,000, these are 1,000 points in a space of weight 1 and 250 in a space of weight 4.
/// takes_one() counts one point; it returns false if no points are left or the token has stopped.
/// Requires: the token outlives the allowance.
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
