// SPDX-License-Identifier: Apache-2.0
#pragma once
// The time that resources take which are used at once, as both draft models see it. Pure.

#include <algorithm>
#include <initializer_list>

namespace tw::cost_model {

/// The share of their time that resources cost which are in use beside the busiest one.
inline constexpr double usual_overlap_loss = 0.15;

/// The longest time, and a share of the others, as overlap is imperfect.
inline double bottleneck(std::initializer_list<double> times,
                         double overlap_loss = usual_overlap_loss) {
  double sum = 0, most = 0;
  for (const double time : times) {
    sum += time;
    most = std::max(most, time);
  }
  return most + overlap_loss * (sum - most);
}

}  // namespace tw::cost_model
