// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gathers the corpus that the cost model is trained on: trials of random workloads, in a file of
// recordings (tuner/replay.h).

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Appends recordings of random workloads to the file of --record until --budget is spent: for each
/// number one workload of each of --kinds, half of them in hot caches and half in the state between
/// the operators of a network. Workloads that the file has for this target are left out, so that a
/// run goes on where the one before was stopped. A recording that was cut short is removed first.
Result<int> run_corpus(const Call& call);

}  // namespace tw::bench
