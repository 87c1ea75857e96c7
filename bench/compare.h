// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes one row of a benchmark: finds our kernel, makes the contenders of the peer, checks that the
// outputs of all are right, and times our kernel and the peer's fastest contender by turns. Not
// thread-safe; only one comparison may run at a time in a process.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/target.h"
#include "bench/ours.h"
#include "bench/peers/device_contender.h"
#include "bench/peers/peer.h"
#include "bench/report.h"
#include "bench/suite.h"
#include "db/store.h"
#include "runtime/thread_pool.h"
#include "tuner/tune.h"

namespace tw::bench {

struct CompareOptions {
  Peer peer;
  Target target;
  Search search = Search::Missing;
  std::string schedule = {};  ///< schedule of our kernel; empty: the best known one
  tuner::TuneOptions tuning;  ///< options of tuning; their number of threads is that of the row
  int rounds = 10;
  CacheState cache = CacheState::Hot;
  const DeviceSetup* gpu = nullptr;  ///< set for targets that are GPUs
  /// Number of elements of each output that are compared with the interpreter, which computes in
  /// f64.
  int samples = 300;
  uint64_t seed = 1;  ///< seed of the input data
};

/// Returns the workload for which our kernel is tuned. It is the item's workload with the state of
/// the caches (dsl::CacheState) that corresponds to options.cache. On processors, Cold and Network
/// give NetworkMemory, in which constants come from memory. For Hot, and on GPUs, the item's state
/// is not changed.
dsl::Workload tuned_workload(const Item& item, const CompareOptions& options);

/// Checks our contender and every form of the peer, then times our contender against the peer's
/// fastest form. Forms with wrong outputs are left out and listed in row.wrong_forms. If all forms
/// are wrong, the error of the last one is returned.
Status compare_contenders(const Item& item, const dsl::Arrays& inputs, Contender& ours,
                          std::vector<std::unique_ptr<Contender>> forms,
                          const CompareOptions& options, const tuner::Clock& clock, Row& row);

/// Makes one row. If something fails, the message is in the `error` of the row. The function itself
/// fails only with Interrupted.
Result<Row> compare(const Item& item, const CompareOptions& options,
                    std::shared_ptr<runtime::ThreadPool> pool, db::Store& store,
                    const tuner::Environment& environment, const tuner::OnProgress& on_progress);

}  // namespace tw::bench
