// SPDX-License-Identifier: Apache-2.0
#pragma once
// Observes the machine while contenders are timed. Not thread-safe; one at a time in a process.

#include <functional>
#include <string>

#include "base/result.h"
#include "bench/interleave.h"
#include "runtime/device.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

struct Observed {
  double peak_gflops = 0;  ///< peak of the machine, f32; the larger of before and after
  std::string disturbed;   ///< what disturbed the timing; empty: nothing
};

/// Runs `timing` under a watch, with this thread bound to its first core.
Result<Observed> observe(int threads, const tuner::Clock& clock,
                         const std::function<Status(tuner::Watch&)>& timing);

/// The same on a GPU, whose clock counts our work only: a disturbance shows in its peak alone.
/// Tensor cores at work reach the power limit, which lowers the clock of the chip until some time
/// after, so the peak after the timing is measured again until it equals the one before, for a
/// second at most.
Result<Observed> observe_device(runtime::Device& device, const std::function<Status()>& timing);

/// Options for so many rounds, with a pause between contenders if they have threads that poll
/// before they sleep.
Rounds rounds_for(int rounds, int threads);

}  // namespace tw::bench
