// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gathers the corpus for training the cost model: trials of random workloads, in a file of
// recordings (tuner/search/replay.h).

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Appends recordings of random workloads to the file of --record until --budget is spent. For each
/// number 0, 1, 2, ... it takes one workload of each of --kinds. Workloads whose number is a
/// multiple of 3 are recorded in hot caches, the others in a state between the operators of a
/// network. Workloads that the file already has for this target are left out, so that a run
/// continues where an earlier run was stopped. After an interrupt, the workload under way is not
/// recorded and the result is Interrupted.
Result<int> run_corpus(const Call& call);

}  // namespace tw::bench
