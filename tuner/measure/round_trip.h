// SPDX-License-Identifier: Apache-2.0
#pragma once
// The distance of two cores. Threads that work on one kernel read what the other one wrote.
// Virtual processors may lie on cores with a cache in common at one moment, and on others at the
// next. On a Zen 3 that was seen to change within minutes: round trips of 100 ns became 490, and a
// network on two threads took 46 ms instead of 39, while each core by itself was as fast as before.

#include <cstdint>

#include "base/result.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Time in ns in which a cache line goes from one core to another and back, on two threads where
/// the system puts them. Takes twice budget_ns at most. Environment when the system refuses a
/// thread, TryLater where the two never ran at the same time. Requires two usable cores.
Result<double> measure_round_trip_ns(const Clock& clock, int64_t budget_ns = 20'000'000);

}  // namespace tw::tuner
