// SPDX-License-Identifier: Apache-2.0
#pragma once
// Observes the machine while contenders are timed. Not thread-safe; one observation at a time in a
// process.

#include <functional>
#include <string>

#include "base/result.h"
#include "bench/interleave.h"
#include "runtime/device.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

struct Observed {
  /// F32 peak of the machine, the larger of those before and after the timing.
  double peak_gflops = 0;
  std::string disturbed;  ///< what disturbed the timing; empty: nothing
};

/// Runs `timing` under a watch, which it gets as its argument. The calling thread is bound to its
/// first core meanwhile. Returns the first error.
Result<Observed> observe(int threads, const tuner::Clock& clock,
                         const std::function<Status(tuner::Watch&)>& timing);

/// As observe(), for a timing on a GPU. The clock of a GPU counts our work only, so a disturbance
/// shows only as a change of the peak. Busy tensor cores reach the power limit, which lowers the
/// chip's clock for some time. So the peak after the timing is measured again until it equals the
/// peak before, for a second at most.
Result<Observed> observe_device(runtime::Device& device, const std::function<Status()>& timing);

/// Options for `rounds` rounds. If the contenders have several threads, which poll before they
/// sleep, the options have a pause between contenders.
Rounds rounds_for(int rounds, int threads);

}  // namespace tw::bench
