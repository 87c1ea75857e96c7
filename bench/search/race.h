// SPDX-License-Identifier: Apache-2.0
#pragma once
// One row of --search: every strategy searches the workload, then their winners are timed in turn
// with each other and with oneDNN. Not thread-safe; one at a time in a process.

#include <memory>
#include <vector>

#include "base/result.h"
#include "bench/search/curves.h"
#include "bench/search/strategies.h"
#include "runtime/thread_pool.h"

namespace tw::bench {

/// Runs one row. Outputs are compared before kernels are timed. A failure is stored in the `error`
/// of the row or of a trace; only an interrupt is returned as an error. The inputs of the task are
/// made here.
Result<SearchRow> race(SearchTask task, const std::vector<const Strategy*>& strategies, int rounds,
                       std::shared_ptr<runtime::ThreadPool> pool);

}  // namespace tw::bench
