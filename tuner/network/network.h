// SPDX-License-Identifier: Apache-2.0
#pragma once
// tune_network(): chooses layouts and kernels for a whole network together, and tunes the kernels
// on which that choice or its time depends.
//
//   TW_TRY(TunedNetwork tuned, tune_network(graph, target, options, store, environment, progress));
//   BuiltKernels kernels;
//   TW_TRY(const BuiltModel built,
//          build_model(graph, tuned, 0, name, target, 1, environment, kernels));
//   TW_RETURN_IF_ERROR(runtime::write_model("net.twart", built.file));
//
// First the times of all schemes of all operators are predicted; with Effort::None only those that
// a plan may need, and the plan is the cheapest one among these. Then each round of tuning finds
// the cheapest plan, tunes its kernels, and replaces predictions by measurements. Once all kernels
// of the plan are measured, rounds also tune contenders: schemes outside of the plan that would
// change it if they turned out as fast as the luckiest kernel of their operator, against its
// prediction. Finally the kernels of the last plan that were never measured are tuned, so that the
// whole plan can be run. Every trial is stored, so a second run continues where an interrupted one
// ended. Not thread-safe; one run at a time in a process.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"
#include "graph/plan.h"
#include "runtime/model_file.h"
#include "tuner/network/assemble.h"
#include "tuner/network/scheme_costs.h"
#include "tuner/tune.h"
#include "tuner/workers/build_kernels.h"
#include "tuner/workers/workers.h"

namespace tw::tuner {

struct NetworkOptions {
  /// Options and budget of all rounds together. With Effort::None nothing is measured, and records
  /// and predictions decide.
  TuneOptions tuning = {};
  /// Most rounds of tuning. They share evenly the budget that closing_share leaves.
  int rounds = 3;
  size_t plans = 3;  ///< number of plans to return, cheapest first
  /// A private file that keeps predictions for the next run (prediction_cache.h); empty: none.
  std::string predictions = {};
  graph::PlanOptions plan = {};
  /// Ways of choosing layouts that the caller compares. The rounds also tune the kernels of their
  /// plans. Requires: none with Effort::None.
  std::vector<graph::Choice> choices = {};
  /// Starts the workers of all rounds; empty: those of this machine.
  std::function<Result<Workers>(const TuneOptions& tuning)> start_workers = {};
};

/// Share of the budget that the rounds leave for kernels that the last plan turns out to need, and
/// that one more round uses where it needs none; twice as much if ways of choosing are compared,
/// because their plans have more such kernels.
inline constexpr double closing_share = 0.1;

/// Seconds that a round has for each of its tasks at the least, if the budget has them: a shorter
/// round would end before the turn of the last task.
inline constexpr double least_task_s = 0.5;

/// A round of tuning and its result.
struct NetworkRound {
  size_t tasks = 0;         ///< number of kernels and transforms of plans that were tuned
  size_t contenders = 0;    ///< number of schemes outside of the plan that were tuned too
  double seconds = 0;       ///< duration
  double predicted_ns = 0;  ///< time to be expected of the cheapest plan after the round
};

struct TunedNetwork {
  /// The cheapest plans by the measurements and predictions of the end; at least one. Their times
  /// are those to be expected (Stance::Expected), which need not have the same order. So are those
  /// of `schemes` and `choices`.
  std::vector<PlannedNetwork> plans;
  /// For each operator, the schemes that the plans chose from.
  std::vector<std::vector<graph::Scheme>> schemes;
  /// For each of NetworkOptions::choices its plan, or the reason why there is none. Measured
  /// schemes are preferred, so a plan has unmeasured kernels only if the budget ended before they
  /// were tuned.
  std::vector<Result<PlannedNetwork>> choices;
  std::vector<NetworkRound> rounds;
  /// The state of the caches for which kernels are predicted and timed (working_set.h).
  dsl::CacheState state = dsl::CacheState::Hot;
  size_t groups = 0;    ///< number of distinct operators
  size_t kernels = 0;   ///< number of schemes of all groups
  size_t measured = 0;  ///< number of schemes that were measured on this device
  double predicting_s = 0, planning_s = 0;
  Ended ended = Ended::FromDatabase;
  /// The kernels that the last round could not measure: texts of workloads by the reason.
  std::map<std::string, std::vector<std::string>> failures;
  std::optional<Error> unstored = {};  ///< Tuned::unstored of a kernel
  /// TaskSpec::most_error of the kernels.
  double most_error = std::numeric_limits<double>::infinity();
  /// The fastest kernels of tuned tasks, as trials built them; build_model() takes them from here.
  BuiltKernels built = {};
};

/// The prediction and the tuning of kernels, as functions, so that tests can answer from tables.
struct NetworkServices {
  Predict predict;
  TuneAll tune_all;
  /// TaskSpec::most_error of all kernels (search/network_error.h).
  double most_error = std::numeric_limits<double>::infinity();
};

/// Plans and tunes the network. Errors: Unsupported if an operator cannot be scheduled; Interrupted
/// before there was a plan; as tune_all() if workers cannot be started; Runner::lost() once they
/// are lost, with what was measured in the store. A later interrupt ends the run with the plans of
/// what is known by then (Ended::Interrupted). The graph must outlive the result.
Result<TunedNetwork> tune_network(const graph::Graph& graph, const Target& target,
                                  const NetworkOptions& options, db::Store& store,
                                  const Environment& environment, const OnProgress& on_progress);
/// The same with services of the caller's.
Result<TunedNetwork> tune_network(const graph::Graph& graph, const Target& target,
                                  const NetworkOptions& options, db::Store& store,
                                  const Environment& environment, const OnProgress& on_progress,
                                  const NetworkServices& services);

/// A model whose kernels are built.
struct BuiltModel {
  runtime::ModelFile file;
  /// Number of kernels that were chosen by prediction and were neither run nor verified on this
  /// device.
  size_t unverified = 0;
  size_t bands = 0;  ///< number of bands that steps may run in (tuner/network/bands.h)
};
/// Builds the kernels of tuned.plans[plan], except those in `kernels` and tuned.built, and
/// assembles the model. The new ones are added to `kernels`. Errors as build_kernels().
///
/// On processors with several threads the steps stand in the order of their bands. The file has the
/// bands for which `side_by_side` is true; a band without a value there is left out, and its steps
/// run in the same order one after another.
Result<BuiltModel> build_model(const graph::Graph& graph, const TunedNetwork& tuned, size_t plan,
                               const std::string& name, const Target& target, int threads,
                               const Environment& environment, BuiltKernels& kernels,
                               const std::vector<bool>& side_by_side = {});
/// The same for a plan that was chosen from tuned.schemes.
Result<BuiltModel> build_model(const graph::Graph& graph, const TunedNetwork& tuned,
                               const PlannedNetwork& planned, const std::string& name,
                               const Target& target, int threads, const Environment& environment,
                               BuiltKernels& kernels, const std::vector<bool>& side_by_side = {});

}  // namespace tw::tuner
