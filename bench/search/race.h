// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes one row of --search. Every strategy searches the workload; then the winners of all searches
// and oneDNN are timed by turns. Not thread-safe; only one race may run at a time in a process.

#include <memory>
#include <vector>

#include "base/result.h"
#include "bench/search/curves.h"
#include "bench/search/strategies.h"
#include "runtime/thread_pool.h"

namespace tw::bench {

/// Runs each strategy on the task, and returns the comparison as one row of the table of searches.
/// Before kernels are timed, their outputs are compared. If something fails, the message is in the
/// `error` of the row, or of the trace of a strategy. The function itself fails only with
/// Interrupted. task.inputs need not be set, because the function makes random inputs.
Result<SearchRow> race(SearchTask task, const std::vector<const Strategy*>& strategies, int rounds,
                       std::shared_ptr<runtime::ThreadPool> pool);

}  // namespace tw::bench
