// SPDX-License-Identifier: Apache-2.0
#pragma once
// One row of a benchmark: finds our kernel, makes the peer's, checks that both are right, times
// them in turn. Not thread-safe; one at a time in a process.

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
  std::string schedule = {};  ///< of the kernel instead of the best known one; empty: that one
  tuner::TuneOptions tuning;  ///< tuning options; `threads` is also the row's
  int rounds = 10;
  CacheState cache = CacheState::Hot;
  const DeviceSetup* gpu = nullptr;  ///< set for targets that are GPUs
  int samples = 300;                 ///< elements of each output that are compared with f64
  uint64_t seed = 1;                 ///< seed of the input data
};

/// The workload given to the tuner. On processors that of CacheState::Cold and Network has its
/// constants in memory (dsl::CacheState::NetworkMemory); on GPUs all are hot.
dsl::Workload tuned_workload(const Item& item, const CompareOptions& options);

/// Checks ours and every form of the peer, then times ours against the fastest form. Forms with
/// wrong results are left out and named; fails if none is left.
Status compare_contenders(const Item& item, const dsl::Arrays& inputs, Contender& ours,
                          std::vector<std::unique_ptr<Contender>> forms,
                          const CompareOptions& options, const tuner::Clock& clock, Row& row);

/// Makes one row. A failure is stored in the row's `error`; only an interrupt is returned as an
/// error.
Result<Row> compare(const Item& item, const CompareOptions& options,
                    std::shared_ptr<runtime::ThreadPool> pool, db::Store& store,
                    const tuner::Environment& environment, const tuner::OnProgress& on_progress);

}  // namespace tw::bench
