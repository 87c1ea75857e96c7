// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks the outputs of two contenders before they are timed: each contender's against the
// interpreter's, and those of both against each other. Thread-safe.

#include <cstdint>

#include "base/result.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"

namespace tw::bench {

struct Agreement {
  double ours = 0;   ///< our largest error on sampled elements, relative to the largest output
  double peer = 0;   ///< the peer's largest error, measured in the same way
  double apart = 0;  ///< largest difference between the two, over all elements
};

/// Compares the outputs of both contenders with each other, element by element, and `samples`
/// random elements of each output with the interpreter, which computes in f64.
///
/// Invalid if an error exceeds the tolerance; the message names the output and the contender that
/// is wrong. The tolerance is that of the workload's accuracy class. If the loops as they are
/// declared, in their declared types, have a larger rounding error, the tolerance is this error.
/// The two contenders may differ from each other by twice the tolerance. The peer's errors may be
/// larger by `own_rounding` (Contender::own_rounding()). Integers that are rounded from floats may
/// differ by one, in one of ten thousand elements.
Result<Agreement> check_agreement(const dsl::Workload& workload, const dsl::Arrays& inputs,
                                  const dsl::Arrays& ours, const dsl::Arrays& peer, int samples,
                                  uint64_t seed, double own_rounding = 0);

}  // namespace tw::bench
