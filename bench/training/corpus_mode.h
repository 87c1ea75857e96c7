// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the corpus on which the pretrained model is trained: a file of recordings
// (tuner/search/replay.h) with trials of random workloads.

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

/// Tunes random workloads until --budget is spent, and appends a recording of each to the file of
/// --record. For each of the numbers 0, 1, 2, ... there is one workload of each of --kinds.
/// Workloads whose number is a multiple of 3 are recorded with hot caches, the others with caches
/// as between the operators of a network. If the file already has a recording of a workload for
/// this target, the workload is skipped, so a second run continues the first. Fails with
/// Interrupted after an interrupt; the workload that was being tuned is not recorded.
Result<int> run_corpus(const Call& call);

}  // namespace tw::bench
