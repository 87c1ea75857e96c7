// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the corpus on which the pretrained model is trained: a file of recordings
// (tuner/search/replay.h) with trials of random workloads.

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Tunes random workloads until --budget is spent, and appends a recording of each to the file of
/// --record. For each number 0, 1, 2, ... there is a workload of each of --kinds. Workloads whose
/// number is a multiple of 3 are recorded with hot caches. The others are recorded with caches as
/// between the operators of a network. Workloads of which the file already has a recording for this
/// target are skipped, so a second run continues the first. After an interrupt it returns
/// Interrupted, and the workload that it was tuning is not recorded.
Result<int> run_corpus(const Call& call);

}  // namespace tw::bench
