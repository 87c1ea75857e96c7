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
  /// The f32 peak of the machine in GFLOP/s: the largest of the peaks measured before, during and
  /// after the timing.
  double peak_gflops = 0;
  std::string disturbed;  ///< the disturbance of the timing; empty: it was not disturbed
};

/// Calls `timing` with a watch that observes the processor. The calling thread is bound to its
/// first core while `timing` runs. The result says if other processes used the cores in this time,
/// or if the peak changed. Fails with the first error.
Result<Observed> observe(int threads, const tuner::Clock& clock,
                         const std::function<Status(tuner::Watch&)>& timing);

/// Calls `timing`, which times contenders on a GPU, and observes the GPU. The clock of a GPU counts
/// only our own work, so a disturbance shows only as a difference of the peaks before and after the
/// timing. If the tensor cores are busy, the GPU reaches its power limit, which lowers its clock
/// rate for some time. So if the peak after the timing is lower, the peak is measured again, for
/// about a second or until it stops rising. Fails with the first error.
Result<Observed> observe_device(runtime::Device& device, const std::function<Status()>& timing);

/// Returns options for `rounds` rounds. If the contenders have several threads, the options have a
/// pause between turns, because idle threads poll for a while before they sleep.
Rounds rounds_for(int rounds, int threads);

}  // namespace tw::bench
