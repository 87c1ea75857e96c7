// SPDX-License-Identifier: Apache-2.0
#pragma once
// One row of --search: every strategy searches the workload, then their winners are timed in turn
// with each other and with oneDNN. Not thread-safe; one at a time in a process.

#include <memory>
#include <vector>

#include "base/result.h"
#include "bench/search_curves.h"
#include "bench/search_strategies.h"
#include "runtime/thread_pool.h"

namespace tw::bench {

/// Outputs are compared before anything is timed. A failure is the `error` of the row or of a
/// trace; only an interrupt is an error of its own. The task needs no inputs: they are made here.
Result<SearchRow> race(SearchTask task, const std::vector<const Strategy*>& strategies, int rounds,
                       std::shared_ptr<runtime::ThreadPool> pool);

}  // namespace tw::bench
