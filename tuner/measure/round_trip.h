// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the distance of two cores, as the time that a cache line needs to move between them. The
// distance matters because threads of a kernel read what other threads wrote. Virtual processors
// may share a cache at one moment and not at the next. On a Zen 3 the distance was seen to change
// within minutes: round trips of 100 ns became 490 ns, and a network on two threads took 46 ms
// instead of 39 ms, while each core by itself was as fast as before.

#include <cstdint>

#include "base/result.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Returns the time in ns for a cache line to move from one core to another and back. The two
/// threads run where the system puts them. The call takes at most twice budget_ns. Fails with
/// Environment if the system refuses a thread, and with TryLater if the two threads never ran at
/// the same time. Requires: two usable cores.
Result<double> measure_round_trip_ns(const Clock& clock, int64_t budget_ns = 20'000'000);

}  // namespace tw::tuner
