// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mode --ablation of tilewright-bench: for each network of --model the plans that different
// ways of choosing make. Not thread-safe.

#include "bench/mode.h"

namespace tw::bench {

/// Exit code 6 where a plan was not timed. Networks that were measured before an error are
/// published.
Result<int> run_ablation(const Call& call);

}  // namespace tw::bench
