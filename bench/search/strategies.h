// SPDX-License-Identifier: Apache-2.0
#pragma once
// The searches that --search compares: ours and those of other systems. Each of our searches begins
// with an empty database, except for `taught`: its database has records of other workloads, from
// the database of --known. Not thread-safe; only one search may run at a time in a process.

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
  std::string known;          ///< path of a database with records of other workloads; empty: none
  const tuner::Environment* environment = nullptr;
  /// Called with the name of a strategy when its search begins. Returns the function to which the
  /// search reports its progress.
  std::function<tuner::OnProgress(std::string_view strategy)> watch;
};

/// The trace of a search, and its winner. The winner is one of our kernels (`artifact`), or a
/// kernel of another system that this process can run (`contender`). If neither is set, the winner
/// was already timed in a process of its own.
struct Searched {
  Trace trace;
  std::optional<runtime::Artifact> artifact = {};
  std::unique_ptr<Contender> contender = {};
};

struct Strategy {
  std::string_view name, summary;
  bool by_default;  ///< true if the strategy runs when the command line names no strategy
  Result<Searched> (*run)(std::string_view name, const SearchTask& task,
                          const tuner::OnProgress& on_progress);
  /// Returns the reason why the strategy cannot run here; empty if it can.
  std::string (*missing)(const SearchTask& task);
};

/// Returns all strategies in the order of reports: evolution, taught, analytic, blind, random,
/// adams2019, tvm.
const std::vector<Strategy>& strategies();

/// Returns the strategies whose names are in `names`, separated by commas. If the text is empty,
/// returns the strategies with `by_default` set that can run here. Fails with Usage if a name is
/// unknown, and with Environment if a named strategy cannot run here.
Result<std::vector<const Strategy*>> choose_strategies(std::string_view names,
                                                       const SearchTask& task);

/// Runs a strategy. If the strategy fails, the message is in the `error` of the trace. The function
/// itself fails only with Interrupted.
Result<Searched> run_strategy(const Strategy& strategy, const SearchTask& task);

/// Copies records of other workloads from the database at `path` to `to`. A record is copied if it
/// has the operator, the target and the number of threads of the task and the current codegen_abi,
/// and is not of the task's own workload.
Status copy_known(const std::string& path, const SearchTask& task, db::Store& to);

}  // namespace tw::bench
