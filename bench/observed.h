// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the machine did while contenders were timed. Not thread-safe; one at a time in a process.

#include <functional>
#include <string>

#include "base/result.h"
#include "bench/interleave.h"
#include "runtime/device.h"
#include "tuner/clock.h"

namespace tw::bench {

struct Observed {
  double peak_gflops = 0;  ///< of the machine, f32, the larger of before and after
  std::string disturbed;   ///< by what the timing was; empty: it was not
};

/// Runs `timing`, with a watch over it, with this thread bound to its first core.
Result<Observed> observe(int threads, const tuner::Clock& clock,
                         const std::function<Status(tuner::Watch&)>& timing);

/// The same on a GPU, whose clock counts what it ran of ours: only its own peak tells of a change.
Result<Observed> observe_device(runtime::Device& device, const std::function<Status()>& timing);

/// With a pause between contenders where there are threads that poll before they sleep.
Rounds rounds_for(int rounds, int threads);

}  // namespace tw::bench
