// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mode --ablation of tilewright-bench. For each network of --model, it times the plans that
// result from different ways of choosing layouts. Not thread-safe.

#include "bench/mode.h"

namespace tw::bench {

/// Runs the mode and returns the exit code, which is 6 if a plan was not timed. If an error occurs,
/// the results of the networks before it are published first.
Result<int> run_ablation(const Call& call);

}  // namespace tw::bench
