// SPDX-License-Identifier: Apache-2.0
#pragma once
// Do two contenders compute the workload? Nothing is timed before they do. Thread-safe.

#include <cstdint>

#include "base/result.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"

namespace tw::bench {

/// Inputs of N(0, 1), small integers where the type is one.
Result<dsl::Arrays> make_inputs(const dsl::Workload& workload, uint64_t seed);

struct Agreement {
  double ours = 0;   ///< our largest error on sampled elements, relative to the largest output
  double peer = 0;   ///< the peer's
  double apart = 0;  ///< between all elements of the two
};

/// Compares `samples` random elements of each output with the interpreter, which computes in f64,
/// and all elements with each other. Invalid, naming the output and who is wrong, beyond the
/// tolerance of the workload's accuracy class; integers that are rounded from floats may differ by
/// one in one of ten thousand elements.
Result<Agreement> check_agreement(const dsl::Workload& workload, const dsl::Arrays& inputs,
                                  const dsl::Arrays& ours, const dsl::Arrays& peer, int samples,
                                  uint64_t seed);

}  // namespace tw::bench
