// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks the outputs of two contenders before they are timed. The outputs of each contender are
// compared with the interpreter's, and with the outputs of the other contender. Thread-safe.

#include <cstdint>

#include "base/result.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"

namespace tw::bench {

struct Agreement {
  double ours = 0;   ///< our largest error of a sampled element, relative to the largest output
  double peer = 0;   ///< the peer's largest error, measured in the same way
  double apart = 0;  ///< largest difference between the outputs of both, over all elements
};

/// Compares the outputs of both contenders with each other, element by element. Also compares
/// `samples` random elements of each output with the interpreter, which computes in f64.
///
/// Fails with Invalid if an error exceeds the tolerance; the message names the output and the
/// contender that is wrong. The tolerance is that of the workload's accuracy class. It is raised to
/// the rounding error that the declared loops have in their declared types, if that error is
/// larger. The outputs of the two contenders may differ from each other by twice the tolerance. The
/// peer's errors may be larger by `own_rounding` (Contender::own_rounding()). Integers that are
/// rounded from floats may differ by one, in one of ten thousand elements.
Result<Agreement> check_agreement(const dsl::Workload& workload, const dsl::Arrays& inputs,
                                  const dsl::Arrays& ours, const dsl::Arrays& peer, int samples,
                                  uint64_t seed, double own_rounding = 0);

}  // namespace tw::bench
