// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gathers the corpus that the cost model is trained on: trials of random workloads, in a file of
// recordings (tuner/search/replay.h).

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Appends recordings of random workloads to the file of --record until --budget is spent: for each
/// number one workload of each of --kinds, even numbers in hot caches and odd ones in the state
/// between the operators of a network. Workloads that the file has for this target are left out, so
/// that a run goes on where the one before was stopped. Interrupted by the user, without the
/// workload that was under way.
Result<int> run_corpus(const Call& call);

}  // namespace tw::bench
