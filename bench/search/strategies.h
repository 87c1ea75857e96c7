// SPDX-License-Identifier: Apache-2.0
#pragma once
// The searches that --search compares: our searches, each from an empty database, and those of
// other systems. Not thread-safe; one search at a time in a process.

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
  tuner::TuneOptions tuning;  ///< budget, trials, seed and threads; the member `search` is ignored
  std::string known;          ///< database with records of other workloads; empty: none
  const tuner::Environment* environment = nullptr;
  /// Called when a strategy begins; returns the callback for its progress.
  std::function<tuner::OnProgress(std::string_view strategy)> watch;
};

/// The trace of a search and its winner. The winner is a kernel of ours (`artifact`), or a kernel
/// of another system that runs in this process (`contender`), or neither if it was timed in a
/// separate process.
struct Searched {
  Trace trace;
  std::optional<runtime::Artifact> artifact = {};
  std::unique_ptr<Contender> contender = {};
};

struct Strategy {
  std::string_view name, summary;
  bool by_default;  ///< runs if the command line names no strategy
  Result<Searched> (*run)(std::string_view name, const SearchTask& task,
                          const tuner::OnProgress& on_progress);
  /// Returns the reason why the strategy cannot run here; empty if it can.
  std::string (*missing)(const SearchTask& task);
};

/// All strategies in the order of reports: evolution, taught, analytic, blind, random, adams2019,
/// tvm.
const std::vector<Strategy>& strategies();

/// The strategies in `names` (comma-separated). For an empty text, those that run by default; the
/// others take minutes per workload. Usage for an unknown name, Environment for a strategy that
/// cannot run here.
Result<std::vector<const Strategy*>> choose_strategies(std::string_view names,
                                                       const SearchTask& task);

/// Runs a strategy. A failure is stored in the trace's `error`; the only error that is returned is
/// Interrupted.
Result<Searched> run_strategy(const Strategy& strategy, const SearchTask& task);

/// Copies records from the database at `path` to `to`: those of the task's operator and target,
/// except those of the task's workload.
Status copy_known(const std::string& path, const SearchTask& task, db::Store& to);

}  // namespace tw::bench
