// SPDX-License-Identifier: Apache-2.0
#pragma once
// tune_network(): chooses layouts and kernels for a whole network together, and tunes where that
// choice, or its time, depends on it.
//
//   TW_TRY(TunedNetwork tuned, tune_network(graph, target, options, store, environment, progress));
//   TW_TRY(const BuiltModel built, build_model(graph, tuned, 0, name, target, 1, environment));
//   TW_RETURN_IF_ERROR(runtime::write_model("net.twart", built.file));
//
// All schemes of all operators are predicted, the cheapest plan is found, its kernels are tuned,
// and so in rounds: what was measured replaces what was predicted, and the plan is solved again.
// Later rounds also tune schemes that the plan does not use, where they could be so much faster
// than predicted that the plan would change. In the end the kernels of the plan that were never
// measured are, so that the plan can be run as a whole. Every trial is stored, so an interrupted
// run goes on where it was. Not thread-safe; one run at a time in a process.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"
#include "graph/plan.h"
#include "runtime/model_file.h"
#include "tuner/assemble.h"
#include "tuner/scheme_costs.h"
#include "tuner/tune.h"

namespace tw::tuner {

struct NetworkOptions {
  /// Of all rounds together. Effort None measures nothing: records and predictions decide.
  TuneOptions tuning = {};
  /// Most rounds of tuning, which share evenly what closing_share leaves of the budget.
  int rounds = 3;
  size_t plans = 3;  ///< number of plans to return, cheapest first
  /// A private file in which predictions stay for the next run (prediction_cache.h); empty: none.
  std::string predictions = {};
  graph::PlanOptions plan = {};
  /// Ways of choosing that are to be compared. The rounds tune the kernels of all their plans
  /// beside those of the cheapest plan; effort None does not go with it.
  std::vector<graph::Choice> choices = {};
};

/// Share of the budget that rounds of tuning leave for kernels that the last plan turns out to
/// need; twice as much where ways of choosing are compared, as their plans lack more.
inline constexpr double closing_share = 0.1;

/// What a round of tuning was for, and what came of it.
struct NetworkRound {
  size_t tasks = 0;       ///< kernels and transforms of the plans that were tuned
  size_t contenders = 0;  ///< schemes outside of the plan that were tuned too
  double seconds = 0;
  double predicted_ns = 0;  ///< of the cheapest plan afterwards
};

struct TunedNetwork {
  /// The cheapest plans by what is known at the end; at least one.
  std::vector<PlannedNetwork> plans;
  std::vector<std::vector<graph::Scheme>> schemes;  ///< for each operator, what plans chose from
  /// For each of NetworkOptions::choices its plan among the schemes that were measured, or why
  /// there is none. Kernels that are in it all the same were not measured because of the budget.
  std::vector<Result<PlannedNetwork>> choices;
  std::vector<NetworkRound> rounds;
  dsl::CacheState state = dsl::CacheState::Hot;  ///< in which its kernels are timed and predicted
  size_t groups = 0;                             ///< distinct operators
  size_t kernels = 0;                            ///< schemes of all groups
  size_t measured = 0;                           ///< of these, on this device
  double predicting_s = 0, planning_s = 0;
  Ended ended = Ended::FromDatabase;
  /// Kernels that the last round could not measure: texts of workloads by the reason.
  std::map<std::string, std::vector<std::string>> failures;
};

/// What a run asks others for; the tests of the rounds answer from tables.
struct NetworkServices {
  using TuneAll = std::function<Result<std::vector<Result<Tuned>>>(
      const std::vector<TaskSpec>& tasks, const TuneOptions& options,
      const OnProgress& on_progress)>;
  Predict predict;
  TuneAll tune_all;
};

/// Errors: Unsupported where an operator cannot be scheduled; Interrupted before there was a plan;
/// as tune_all() where workers cannot be started. An interrupt after that ends the run with what is
/// known (Ended::Interrupted). The graph must outlive the result.
Result<TunedNetwork> tune_network(const graph::Graph& graph, const Target& target,
                                  const NetworkOptions& options, db::Store& store,
                                  const Environment& environment, const OnProgress& on_progress);
/// The same with services of the caller's.
Result<TunedNetwork> tune_network(const graph::Graph& graph, const Target& target,
                                  const NetworkOptions& options, db::Store& store,
                                  const Environment& environment, const OnProgress& on_progress,
                                  const NetworkServices& services);

/// A model, and the number of its kernels that no record of this device vouches for: predictions
/// are built, and never run.
struct BuiltModel {
  runtime::ModelFile file;
  size_t unverified = 0;
};
/// Builds the kernels of plan number `plan` and assembles its model. Errors as build_kernels().
Result<BuiltModel> build_model(const graph::Graph& graph, const TunedNetwork& tuned, size_t plan,
                               const std::string& name, const Target& target, int threads,
                               const Environment& environment);
/// The same for a plan that was chosen from tuned.schemes.
Result<BuiltModel> build_model(const graph::Graph& graph, const TunedNetwork& tuned,
                               const PlannedNetwork& planned, const std::string& name,
                               const Target& target, int threads, const Environment& environment);

}  // namespace tw::tuner
