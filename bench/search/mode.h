// SPDX-License-Identifier: Apache-2.0
#pragma once
// The modes of tilewright-bench that measure searches. --search measures how soon searches find
// fast kernels; with --replay it replays recorded trials, and with --record it records trials.
// --optimum compares the choices of the cost model with random samples (optimum.h). Not
// thread-safe.

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

Result<int> run_search(const Call& call);
Result<int> run_optimum(const Call& call);

}  // namespace tw::bench
