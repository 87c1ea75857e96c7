// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks that two contenders compute the workload, before they are timed. Thread-safe.

#include <cstdint>

#include "base/result.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"

namespace tw::bench {

struct Agreement {
  double ours = 0;   ///< our largest error on sampled elements, relative to the largest output
  double peer = 0;   ///< the peer's largest error, likewise
  double apart = 0;  ///< largest difference between the two, over all elements
};

/// Compares `samples` random elements of each output with the interpreter, which computes in f64,
/// and all elements of the two contenders with each other. Invalid, naming the output and the wrong
/// contender, for an error beyond the tolerance. The tolerance is that of the workload's accuracy
/// class; for the peer, `own_rounding` is added (Contender::own_rounding). Integers that are
/// rounded from floats may differ by one in one of ten thousand elements.
Result<Agreement> check_agreement(const dsl::Workload& workload, const dsl::Arrays& inputs,
                                  const dsl::Arrays& ours, const dsl::Arrays& peer, int samples,
                                  uint64_t seed, double own_rounding = 0);

}  // namespace tw::bench
