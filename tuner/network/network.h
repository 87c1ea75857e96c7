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
// of all schemes of all operators are predicted. With Effort::None only the schemes that a plan may
// need are predicted, and the result is the cheapest plan among them. Otherwise each round of
// tuning finds the cheapest plan, tunes its kernels, and replaces predictions by measurements. Once
// all kernels of the plan are measured, rounds also tune contenders. A contender is a scheme that
// the plan would use if its time were as far below its prediction as that of some measured kernel
// of the same kind of operator. For example, if one convolution took 0.7 of its predicted time,
// contenders are the schemes of convolutions that would be chosen at 0.7 of their predictions.
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
  /// Options and budget of all rounds together. With Effort::None nothing is measured, and plans
  /// are chosen by records and predictions.
  TuneOptions tuning = {};
  /// Largest number of rounds of tuning. The rounds share the budget evenly, except for the part
  /// closing_share.
  int rounds = 3;
  size_t plans = 3;  ///< number of plans to return, cheapest first
  /// Path of a private file that keeps predictions for the next run (prediction_cache.h). If the
  /// path is empty, predictions are not kept.
  std::string predictions = {};
  graph::PlanOptions plan = {};
  /// Other ways of choosing layouts (graph::Choice), such as row-major for all tensors, which the
  /// caller wants to compare with the cheapest plan. Each way gives a plan, and the rounds also
  /// tune the kernels of these plans. Must be empty with Effort::None.
  std::vector<graph::Choice> choices = {};
  /// Starts the workers of all rounds. If empty, the workers of this machine are used.
  std::function<Result<Workers>(const TuneOptions& tuning)> start_workers = {};
};

/// Share of the budget that is reserved for unmeasured kernels of the last plan. If all kernels of
/// the last plan are measured, one more round uses this time. The share is doubled if
/// NetworkOptions::choices is not empty, because the plans of the choices have more unmeasured
/// kernels.
inline constexpr double closing_share = 0.1;

/// Least length of a round in seconds for each of its tasks, if the budget allows it: a round with
/// 20 tasks takes at least 10 s. A shorter round would end before the turn of the last task.
inline constexpr double least_task_s = 0.5;

/// A round of tuning and its result.
struct NetworkRound {
  size_t tasks = 0;         ///< number of kernels and transforms of plans that were tuned
  size_t contenders = 0;    ///< number of contenders that were tuned
  double seconds = 0;       ///< duration
  double predicted_ns = 0;  ///< expected time of the cheapest plan after the round
};

struct TunedNetwork {
  /// The cheapest plans by the final measurements and predictions, cheapest first; at least one.
  /// The plans are sorted by the costs of Stance::Cautious. The times in `plans`, `schemes` and
  /// `choices` are expected times (Stance::Expected), so they need not ascend from plan to plan.
  std::vector<PlannedNetwork> plans;
  /// For each operator, the schemes from which the plans were chosen.
  std::vector<std::vector<graph::Scheme>> schemes;
  /// For each of NetworkOptions::choices, its plan, or the reason why there is none. Measured
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
  /// The workloads that the last round could not measure: the texts of the workloads for each error
  /// message.
  std::map<std::string, std::vector<std::string>> failures;
  /// The error if records could not be stored (Tuned::unstored).
  std::optional<Error> unstored = {};
  /// TaskSpec::most_error for all kernels.
  double most_error = std::numeric_limits<double>::infinity();
  /// The fastest kernels of tuned tasks, as their trials built them. build_model() need not build
  /// them again.
  BuiltKernels built = {};
};

/// Prediction and tuning of kernels as functions, which tests can replace.
struct NetworkServices {
  Predict predict;
  TuneAll tune_all;
  /// TaskSpec::most_error for all kernels (search/network_error.h).
  double most_error = std::numeric_limits<double>::infinity();
};

/// Plans and tunes the network. An interrupt after the first plan ends the run with plans from what
/// is known by then (Ended::Interrupted). The graph must outlive the result. Errors:
/// - Unsupported if an operator cannot be scheduled;
/// - Interrupted if the user stopped the run before it had a plan;
/// - the errors of tune_all() if workers cannot be started;
/// - Runner::lost() if the workers are lost. Measurements that were made before are stored.
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
  /// Number of kernels that were chosen by prediction, and were neither run nor verified on this
  /// device.
  size_t unverified = 0;
  size_t bands = 0;  ///< number of bands whose chains may run side by side (bands.h)
};
/// The properties of a model that is built from a plan.
struct ModelSpec {
  std::string name;
  Target target;
  int threads = 1;  ///< number of threads for which the kernels were chosen
  /// For each band of the plan's steps (tuner/network/bands.h), true if the chains of the band run
  /// side by side; missing elements are false. The steps of all other bands run one after another,
  /// in the same order. Ignored on GPUs and with one thread.
  std::vector<bool> side_by_side = {};
};
/// Builds the kernels of tuned.plans[plan] and assembles the model. Kernels in `kernels` and
/// tuned.built are not built again; new ones are added to `kernels`. Errors as check_assemblable()
/// and build_kernels().
Result<BuiltModel> build_model(const graph::Graph& graph, const TunedNetwork& tuned, size_t plan,
                               const ModelSpec& spec, const Environment& environment,
                               BuiltKernels& kernels);
/// As build_model() above, for a plan that was chosen from tuned.schemes.
Result<BuiltModel> build_model(const graph::Graph& graph, const TunedNetwork& tuned,
                               const PlannedNetwork& planned, const ModelSpec& spec,
                               const Environment& environment, BuiltKernels& kernels);

}  // namespace tw::tuner
