// SPDX-License-Identifier: Apache-2.0
#pragma once
// tune_network(): chooses layouts and kernels for a whole network together, and tunes the kernels
// on which this choice or the network's time depends.
//
//   TW_TRY(TunedNetwork tuned, tune_network(graph, target, options, store, environment, progress));
//   BuiltKernels kernels;
//   TW_TRY(const BuiltModel built,
//          build_model(graph, tuned, 0, {name, target}, environment, kernels));
//   TW_RETURN_IF_ERROR(runtime::write_model("net.twart", built.file));
//
// A scheme is one way to run an operator, with a layout for each of its tensors. First, the times
// of all schemes of all operators are predicted. With Effort::None on a processor, only the schemes
// that a plan may need are predicted. With Effort::None the result is the cheapest plan by these
// predictions. Otherwise each round of tuning finds the cheapest plan, tunes its kernels, and
// replaces predictions by measurements. Once all kernels of the plan are measured, rounds also tune
// contenders. A contender is an unmeasured scheme that the cheapest plan does not use, but would
// use if the scheme were faster than predicted by the same factor as some measured kernel of the
// same kind of operator. For example, if one convolution took 0.7 of its predicted time, contenders
// are the convolutions' schemes that a plan would use if they took 0.7 of their predicted times.
// Finally, kernels of the last plan that were never measured are tuned, so that the whole plan can
// run. Every trial is stored, so a second run continues where an interrupted run ended. Not
// thread-safe; one run at a time in a process.

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
  /// Options of the tuning. The budget is for all rounds together. With Effort::None nothing is
  /// measured, and plans are chosen by records and predictions.
  TuneOptions tuning = {};
  /// Largest number of rounds of tuning. A part of the budget (closing_share) is reserved for the
  /// time after the rounds; the rounds share the rest evenly.
  int rounds = 3;
  size_t plans = 3;  ///< number of plans to return, cheapest first
  /// Path of a private file that keeps predictions for the next run (prediction_cache.h). If the
  /// path is empty, predictions are not kept.
  std::string predictions = {};
  graph::PlanOptions plan = {};
  /// Other ways of choosing layouts (graph::Choice), such as row-major for all tensors. The caller
  /// wants to compare the plans of these ways with the cheapest plan. Each way gives one plan, and
  /// the rounds also tune the kernels of that plan. Must be empty with Effort::None.
  std::vector<graph::Choice> choices = {};
  /// Starts the workers of all rounds. If empty, the workers of this machine are used.
  std::function<Result<Workers>(const TuneOptions& tuning)> start_workers = {};
};

/// Share of the budget that is reserved for tuning the unmeasured kernels of the last plan after
/// all rounds. If that plan has no unmeasured kernels and the rounds ended for lack of time, one
/// more round uses this time. The share is doubled if NetworkOptions::choices is not empty, because
/// the plans of the choices have more unmeasured kernels.
inline constexpr double closing_share = 0.1;

/// Shortest length of a round, in seconds for each task of the round, if the budget allows it. For
/// example, a round with 20 tasks takes at least 10 s. A shorter round would end before the turn of
/// the last task.
inline constexpr double least_task_s = 0.5;

/// A round of tuning and its result.
struct NetworkRound {
  size_t tasks = 0;         ///< number of kernels and transforms of plans that were tuned
  size_t contenders = 0;    ///< number of contenders that were tuned
  double seconds = 0;       ///< duration
  double predicted_ns = 0;  ///< expected time of the cheapest plan after the round
};

struct TunedNetwork {
  /// The cheapest plans by the final measurements and predictions; at least one. They are sorted by
  /// the costs of Stance::Cautious, cheapest first. The times in `plans`, `schemes` and `choices`
  /// are expected times (Stance::Expected) instead, so the time of a plan may be below that of the
  /// plan before it.
  std::vector<PlannedNetwork> plans;
  /// For each operator, the schemes from which the plans were chosen.
  std::vector<std::vector<graph::Scheme>> schemes;
  /// For each element of NetworkOptions::choices, the plan of this choice, or the reason why it has
  /// no plan. These plans prefer measured schemes. So a plan has unmeasured kernels only if the
  /// budget ended before they were tuned.
  std::vector<Result<PlannedNetwork>> choices;
  std::vector<NetworkRound> rounds;
  /// The state of the caches for which kernels are predicted and timed (working_set.h).
  dsl::CacheState state = dsl::CacheState::Hot;
  size_t groups = 0;    ///< number of distinct operators
  size_t kernels = 0;   ///< number of schemes of all groups
  size_t measured = 0;  ///< number of schemes that were measured on this device
  double predicting_s = 0, planning_s = 0;
  Ended ended = Ended::FromDatabase;
  /// The workloads that the last round could not measure. Maps each error message to the texts of
  /// the workloads that failed with it.
  std::map<std::string, std::vector<std::string>> failures;
  /// The error if records could not be stored (Tuned::unstored).
  std::optional<Error> unstored = {};
  /// TaskSpec::most_error for all kernels.
  double most_error = std::numeric_limits<double>::infinity();
  /// The fastest kernels of tuned tasks, as their trials built them. build_model() need not build
  /// them again.
  BuiltKernels built = {};
};

/// The prediction and the tuning of kernels, as functions that tests can replace.
struct NetworkServices {
  Predict predict;
  TuneAll tune_all;
  /// TaskSpec::most_error for all kernels (search/network_error.h).
  double most_error = std::numeric_limits<double>::infinity();
};

/// Plans and tunes the network. If the user interrupts after the first plan was made, the result
/// has the plans that follow from the measurements and predictions so far (Ended::Interrupted). The
/// graph must outlive the result. Fails with
/// - Usage if an option is out of range;
/// - Unsupported if an operator cannot be scheduled;
/// - Interrupted if the user stopped the run before it had a plan;
/// - the errors of tune_all() if workers cannot be started;
/// - the error of Runner::lost() if the workers are lost. Measurements that were made before are
///   stored.
Result<TunedNetwork> tune_network(const graph::Graph& graph, const Target& target,
                                  const NetworkOptions& options, db::Store& store,
                                  const Environment& environment, const OnProgress& on_progress);
/// As tune_network() above, with services that the caller provides.
Result<TunedNetwork> tune_network(const graph::Graph& graph, const Target& target,
                                  const NetworkOptions& options, db::Store& store,
                                  const Environment& environment, const OnProgress& on_progress,
                                  const NetworkServices& services);

/// A model whose kernels are built.
struct BuiltModel {
  runtime::ModelFile file;
  /// Number of distinct kernels that were chosen by prediction, so that they were neither run nor
  /// verified on this device.
  size_t unverified = 0;
  /// Number of bands of the plan, the groups of steps that may run side by side (bands.h).
  size_t bands = 0;
};
/// The properties of a model that is built from a plan.
struct ModelSpec {
  std::string name;
  Target target;
  int threads = 1;  ///< number of threads for which the kernels were chosen
  /// For each band of the plan's steps (bands.h), true if the chains of the band run side by side.
  /// Elements that are missing count as false. The steps of bands with the value false run one
  /// after another, in the order of the steps. Ignored on GPUs and with one thread.
  std::vector<bool> side_by_side = {};
};
/// Builds the kernels of tuned.plans[plan] and assembles the model. Kernels in `kernels` and in
/// tuned.built are not built again; newly built kernels are added to `kernels`. Fails with the
/// errors of check_assemblable(), make_script(), build_kernels() and assemble().
Result<BuiltModel> build_model(const graph::Graph& graph, const TunedNetwork& tuned, size_t plan,
                               const ModelSpec& spec, const Environment& environment,
                               BuiltKernels& kernels);
/// As build_model() above, for a given plan, such as one of tuned.choices. Requires: the plan was
/// chosen from tuned.schemes.
Result<BuiltModel> build_model(const graph::Graph& graph, const TunedNetwork& tuned,
                               const PlannedNetwork& planned, const ModelSpec& spec,
                               const Environment& environment, BuiltKernels& kernels);

}  // namespace tw::tuner
