// SPDX-License-Identifier: Apache-2.0
#pragma once
// tune_model(): turns the graph of a network into a model that the runtime can load. It applies the
// passes for the target to the graph, chooses layouts and kernels (network.h), builds them, and
// times the best plans as whole networks.
//
//   TW_TRY(graph::OnnxModel read, graph::read_onnx("net.onnx"));
//   const NetworkSource source{"net", {{.graph = std::move(read.graph)}}};
//   TW_TRY(const TunedModel tuned,
//          tune_model(source, target, {.tuning = {.budget_s = 60}}, store, environment));
//   TW_RETURN_IF_ERROR(db::keep_demand(store, tuned.demands.front()));
//   TW_TRY(const runtime::Model model, runtime::Model::load(tuned.file));
//
// A network may have several variants, one for each set of values of its dimensions. They are tuned
// one after the other and are stored in one file. Not thread-safe; one run at a time in a process.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/target.h"
#include "db/demand.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "runtime/model_file.h"
#include "tuner/network/network.h"
#include "tuner/tune.h"
#include "tuner/workers/environment.h"

namespace tw::tuner {

struct Farm;

/// The values of the dimensions whose size a network leaves open, by the names of the dimensions.
using Dimensions = std::map<std::string, int64_t>;
/// Returns the dimensions as text: "batch=1 length=128".
std::string dimensions_text(const Dimensions& dimensions);

/// A network for one set of dimensions, before any pass changes its graph.
struct NetworkVariant {
  Dimensions dimensions = {};
  graph::Graph graph;
  double reading_s = 0;  ///< time spent reading the graph, which is part of the budget
};

struct NetworkSource {
  std::string name;
  std::vector<NetworkVariant> variants;  ///< at least one
};

/// Comparison of the network with and without one optional pass over its graph.
struct FusionChoice {
  std::string pass;
  /// Expected times of the cheapest plans with and without the pass.
  double with_ns = 0, without_ns = 0;
  /// True if all kernels of both plans were measured. If false, the pass is kept.
  bool is_measured = false;
  bool is_left_out = false;
};

/// The state of one variant of a network while its graph becomes a model.
struct ModelRun {
  std::string name;
  /// SHA-256 that identifies the network in its demand. It is computed from the network's name, its
  /// dimensions and the workloads of its operators after all passes. Weights do not change it.
  std::string source;
  Dimensions dimensions;
  std::shared_ptr<const graph::Graph> graph;  ///< must live as long as `tuned`
  std::vector<graph::PassRun> passes;
  std::vector<std::string> left_out;  ///< names of the passes that were not applied
  std::vector<FusionChoice> fusions;
  TunedNetwork tuned;
  bool has_measured = false;  ///< true if this run has measured a kernel of the variant
  /// Index in `tuned.plans` of the plan from which `model` was built.
  size_t written = 0;
  /// Latencies of the plans that were timed as whole networks; empty: no plan was timed.
  std::vector<double> measured_ns;
  size_t measured = 0;  ///< index in `measured_ns` of the latency of `model`
  double importing_s = 0, building_s = 0;
  runtime::ModelFile model;
  /// Number of bands of `model`, the groups of steps that may run side by side (bands.h).
  size_t bands = 0;
  /// The largest difference between an output of `model` and the output of the same network in f32,
  /// relative to the largest element of that output. 0 if the reduced precision did not change the
  /// graph. nullopt without ModelOptions::precision, and if the networks could not be compared.
  std::optional<double> rounding_error;
  /// For each built plan, the number of its kernels that were never run.
  std::vector<size_t> unverified;
};

/// Comparison of a network that was planned again (ModelOptions::refresh) with the network in the
/// file.
struct Refresh {
  double former_ns = 0;   ///< time of a call of the network in the file
  double latency_ns = 0;  ///< time of a call of the new network
  /// True if both times were measured by running whole networks by turns; false if they are the
  /// sums of the planned times of steps.
  bool is_measured = false;
  bool is_kept = false;     ///< true if the file was not replaced
  std::string reason = {};  ///< reason why the file was kept; empty if the times are the reason
};

/// A tuned network: its variants, and the model that contains all variants.
struct TunedModel {
  std::vector<ModelRun> runs;  ///< one for each variant
  /// `former` is the network that the file held before a refresh, and `refresh` compares it with
  /// the new network. Both are nullopt if nothing was refreshed or there was no file.
  std::optional<runtime::ModelFile> former = {};
  std::optional<Refresh> refresh = {};
  runtime::ModelFile file;  ///< empty with ModelOptions::only_plans
  std::string path = {};    ///< ModelOptions::path
  /// The demand of each variant's plan, for db::keep_demand(). Empty with ModelOptions::only_plans.
  /// Also empty if a refresh kept the file, since the demand for the kernels in the file was stored
  /// earlier.
  std::vector<db::Demand> demands = {};
};

struct ModelOptions {
  /// The options and the budget of the tuning. The budget is for all variants together, and
  /// includes reading and building networks and timing whole networks. With Effort::None nothing is
  /// measured, except that `refresh` times whole networks.
  TuneOptions tuning = {};
  dsl::Accuracy accuracy = dsl::Accuracy::Fast;  ///< accuracy class of each operator's kernel
  /// The 16-bit float type in which inputs of f32 products are stored, if this makes the products
  /// faster on the target. nullopt: these inputs stay f32.
  std::optional<DType> precision = {};
  std::vector<std::string> left_out = {};  ///< names of optional passes to leave out
  /// Path of the model's file; if empty, no file is written. The file is written as soon as there
  /// is a model, and again when a better model is found. So a result is kept if a kernel crashes
  /// this process.
  std::string path = {};
  std::string predictions = {};  ///< NetworkOptions::predictions
  /// True to plan the network from the records in the database, without tuning, and to replace the
  /// file in `path` only if the new network is faster. Requires: Effort::None and a path.
  bool refresh = false;
  bool only_plans = false;  ///< stop after planning, and build nothing. Requires: Effort::None
  bool runs_here = true;    ///< false if this machine cannot run the kernels; then nothing is timed
  /// The farm that measures kernels; nullptr: this machine measures. The farm must outlive the run.
  /// With a farm, whole networks are not timed.
  const Farm* farm = nullptr;
  /// Called before the kernels of a variant are tuned. Returns a listener, a function that receives
  /// the progress of this tuning; it may be empty. The listener is destroyed when this tuning ends.
  std::function<OnProgress(const ModelRun& run)> listen = {};
};

/// Tunes a network. An interrupt (Environment::interrupts) ends measuring; the network is then
/// built from the records and predictions so far. But if the file ModelOptions::path exists and
/// this run has measured no kernel yet, the run ends with the error Interrupted and leaves the file
/// as it is. A second interrupt (Environment::later_interrupts) ends the run with an error.
///
/// Errors before anything is tuned:
/// - Usage if options contradict each other or are out of range, or if the network has no variant;
/// - the errors of runtime::check_output() for the path, of graph::apply_passes() and of
///   check_assemblable();
/// - Invalid for a refresh if the file holds another network, or a network for another target or
///   number of threads.
///
/// Later errors:
/// - the errors of tune_network() and build_model();
/// - the errors of load_all() (whole_networks.h), such as Unsupported or Environment, if a network
///   cannot be run for timing;
/// - Environment if the file cannot be written;
/// - Interrupted.
///
/// Failures that do not end the run are reported as notes of the environment (notes.h).
Result<TunedModel> tune_model(const NetworkSource& source, const Target& target,
                              const ModelOptions& options, db::Store& store,
                              const Environment& environment);

}  // namespace tw::tuner
