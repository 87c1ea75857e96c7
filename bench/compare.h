// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes one row of a benchmark: finds our kernel, makes the peer's, checks that both are right, and
// times them by turns. Not thread-safe; one comparison at a time in a process.

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
  tuner::TuneOptions tuning;  ///< tuning options; `threads` is also the row's
  int rounds = 10;
  CacheState cache = CacheState::Hot;
  const DeviceSetup* gpu = nullptr;  ///< set for targets that are GPUs
  int samples = 300;                 ///< elements of each output that are compared with f64
  uint64_t seed = 1;                 ///< seed of the input data
};

/// The workload that the tuner gets for an item. On processors, its constants come from memory
/// (dsl::CacheState::NetworkMemory) if the state is Cold or Network. On GPUs its state is always
/// hot.
dsl::Workload tuned_workload(const Item& item, const CompareOptions& options);

/// Checks our contender and every form of the peer, then times ours against the peer's fastest
/// form. Forms with wrong results are left out and listed in the row. Fails if no form is left.
Status compare_contenders(const Item& item, const dsl::Arrays& inputs, Contender& ours,
                          std::vector<std::unique_ptr<Contender>> forms,
                          const CompareOptions& options, const tuner::Clock& clock, Row& row);

/// Makes one row. A failure is stored in the row's `error`. The only error that is returned is
/// Interrupted.
Result<Row> compare(const Item& item, const CompareOptions& options,
                    std::shared_ptr<runtime::ThreadPool> pool, db::Store& store,
                    const tuner::Environment& environment, const tuner::OnProgress& on_progress);

}  // namespace tw::bench
