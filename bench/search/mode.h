// SPDX-License-Identifier: Apache-2.0
#pragma once
// tilewright-bench --search: measures how soon searches find fast kernels. With --replay it uses
// recorded trials, with --record it records them. Not thread-safe.

#include "base/result.h"
#include "bench/mode.h"

namespace tw::bench {

Result<int> run_search(const Call& call);

}  // namespace tw::bench
