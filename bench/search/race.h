// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes one row of --search: every strategy searches the workload, then all winners and oneDNN are
// timed by turns. Not thread-safe; one race at a time in a process.

#include <memory>
#include <vector>

#include "base/result.h"
#include "bench/search/curves.h"
#include "bench/search/strategies.h"
#include "runtime/thread_pool.h"

namespace tw::bench {

/// Makes one row. Outputs are compared before kernels are timed. A failure is stored in the `error`
/// of the row or of a trace; the only error that is returned is Interrupted. The function makes the
/// inputs of the task itself.
Result<SearchRow> race(SearchTask task, const std::vector<const Strategy*>& strategies, int rounds,
                       std::shared_ptr<runtime::ThreadPool> pool);

}  // namespace tw::bench
