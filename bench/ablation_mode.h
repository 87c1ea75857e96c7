// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mode --ablation of tilewright-bench: it times, for each network of --model, the plans that
// different ways of choosing layouts make. Not thread-safe.

#include "bench/mode.h"

namespace tw::bench {

/// Runs the mode and returns the exit code, which is 6 if a plan was not timed. On an error, the
/// networks that were measured before it are published.
Result<int> run_ablation(const Call& call);

}  // namespace tw::bench
