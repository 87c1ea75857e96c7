// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mode --search of tilewright-bench, which measures how soon searches find fast kernels. With
// --replay it replays recorded trials; with --record it records trials. Not thread-safe.

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

Result<int> run_search(const Call& call);

}  // namespace tw::bench
