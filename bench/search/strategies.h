// SPDX-License-Identifier: Apache-2.0
#pragma once
// The searches that --search compares: ours, each from an empty database, and other systems'.
// Not thread-safe; one at a time in a process.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "bench/peers/contender.h"
#include "bench/search/curves.h"
#include "bench/suite.h"
#include "runtime/artifact.h"
#include "tuner/tune.h"

namespace tw::bench {

/// A search of one workload.
struct SearchTask {
  const Item* item = nullptr;
  const dsl::Arrays* inputs = nullptr;
  Target target;
  tuner::TuneOptions tuning;  ///< budget, trials, seed and threads; its `search` is ignored
  std::string known;          ///< database with records of other workloads; empty: none
  const tuner::Environment* environment = nullptr;
  /// Called when a strategy begins; returns the callback for its progress.
  std::function<tuner::OnProgress(std::string_view strategy)> watch;
};

/// A search's trace and its winner: a kernel of ours, a contender of another system that runs in
/// this process, or neither if it was timed in a process of its own.
struct Searched {
  Trace trace;
  std::optional<runtime::Artifact> artifact = {};
  std::unique_ptr<Contender> contender = {};
};

struct Strategy {
  std::string_view name, summary;
  bool by_default;  ///< it runs where no strategy is named
  Result<Searched> (*run)(std::string_view name, const SearchTask& task,
                          const tuner::OnProgress& on_progress);
  /// The reason why the strategy cannot run here; empty: it can.
  std::string (*missing)(const SearchTask& task);
};

/// All strategies in the order of reports: evolution, taught, analytic, blind, random, adams2019,
/// tvm.
const std::vector<Strategy>& strategies();

/// The strategies in `names` (comma-separated); for an empty text those that run by default, since
/// others take minutes per workload. Fails with Usage for an unknown name, with Environment for one
/// that cannot run here.
Result<std::vector<const Strategy*>> choose_strategies(std::string_view names,
                                                       const SearchTask& task);

/// Runs a strategy. A failure is stored in the trace's `error`; only an interrupt is returned as an
/// error.
Result<Searched> run_strategy(const Strategy& strategy, const SearchTask& task);

/// Copies to `to` the records in `path` of other workloads of the task's operator on its target.
Status copy_known(const std::string& path, const SearchTask& task, db::Store& to);

}  // namespace tw::bench
