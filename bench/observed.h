// SPDX-License-Identifier: Apache-2.0
#pragma once
// Observes the machine while contenders are timed. Not thread-safe; only one observation may run at
// a time in a process.

#include <functional>
#include <string>

#include "base/result.h"
#include "bench/interleave.h"
#include "runtime/device.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

struct Observed {
  /// The f32 peak of the machine: the largest of those that were measured before, during and after
  /// the timing.
  double peak_gflops = 0;
  std::string disturbed;  ///< what disturbed the timing; empty: nothing
};

/// Calls `timing` with a watch that observes the processor. The calling thread is bound to its
/// first core while `timing` runs. The result also says if other processes used the cores or the
/// peak changed in this time. Returns the first error.
Result<Observed> observe(int threads, const tuner::Clock& clock,
                         const std::function<Status(tuner::Watch&)>& timing);

/// Calls `timing`, which times contenders on a GPU, and observes the GPU. The clock of a GPU counts
/// only our own work, so a disturbance shows only as a difference of the peaks before and after the
/// timing. Busy tensor cores reach the power limit, which lowers the chip's clock for some time. So
/// if the peak after the timing is lower, it is measured again for about a second, until it is near
/// the peak before the timing. Returns the first error.
Result<Observed> observe_device(runtime::Device& device, const std::function<Status()>& timing);

/// Returns options for `rounds` rounds. If the contenders have several threads, the options have a
/// pause between turns, because threads poll before they sleep.
Rounds rounds_for(int rounds, int threads);

}  // namespace tw::bench
