// SPDX-License-Identifier: Apache-2.0
#pragma once
// The clock by which the tuner measures and sets deadlines. It is passed in, so that a test may
// stop the clock or make it jump. No part of the tuner measures by the wall clock, so a jump of the
// wall clock changes no duration.

#include <chrono>
#include <cstdint>
#include <functional>

namespace tw::tuner {

/// Returns nanoseconds since an arbitrary start, and never goes back. Called from one thread at a
/// time.
using Clock = std::function<int64_t()>;

/// The machine's monotonic clock, which programs pass in.
inline Clock monotonic_clock() {
  return [] {
    const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
    return int64_t{std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count()};
  };
}

}  // namespace tw::tuner
