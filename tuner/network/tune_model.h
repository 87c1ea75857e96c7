// SPDX-License-Identifier: Apache-2.0
#pragma once
// tune_model(): takes a network from its graph to a model that the runtime loads. It rewrites the
// graph for the target, chooses layouts and kernels (network.h), builds them, and times the best
// plans as wholes.
//
//   TW_TRY(graph::OnnxModel read, graph::read_onnx("net.onnx"));
//   const NetworkSource source{"net", {{.graph = std::move(read.graph)}}};
//   TW_TRY(const TunedModel tuned,
//          tune_model(source, target, {.tuning = {.budget_s = 60}}, store, environment));
//   TW_RETURN_IF_ERROR(db::keep_demand(store, tuned.demands.front()));
//   TW_TRY(const runtime::Model model, runtime::Model::load(tuned.file));
//
// A network may have several variants, one for each set of values of its dimensions. They are tuned
// one after the other and share the file. Not thread-safe; one run at a time in a process.

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

/// Values of the dimensions that a network leaves open, by name.
using Dimensions = std::map<std::string, int64_t>;
/// The dimensions as text: "batch=1 length=128".
std::string dimensions_text(const Dimensions& dimensions);

/// A network for one set of dimensions, before any pass rewrites its graph.
struct NetworkVariant {
  Dimensions dimensions = {};
  graph::Graph graph;
  double reading_s = 0;  ///< time that reading it took, which is part of the budget
};

struct NetworkSource {
  std::string name;
  std::vector<NetworkVariant> variants;  ///< at least one
};

/// Comparison of a network with and without an optional pass over its graph.
struct FusionChoice {
  std::string pass;
  double with_ns = 0, without_ns = 0;  ///< summed kernel times of the cheapest plans
  /// True if all kernels of both plans were measured. Otherwise the pass is kept.
  bool is_measured = false;
  bool is_left_out = false;
};

/// State of one variant of a network, from its graph to the file.
struct ModelRun {
  std::string name;
  /// SHA-256 that names the network in its demand: of its name, and of what its operators compute
  /// with all passes.
  std::string source;
  Dimensions dimensions;
  std::shared_ptr<const graph::Graph> graph;  ///< `tuned` refers to it
  std::vector<graph::PassRun> passes;
  std::vector<std::string> left_out;  ///< passes that were not applied
  std::vector<FusionChoice> fusions;
  TunedNetwork tuned;
  size_t written = 0;               ///< index in `tuned.plans` of the plan in `model`
  std::vector<double> measured_ns;  ///< latencies of whole plans; empty: none was measured
  size_t measured = 0;              ///< index in `measured_ns` of the latency of `model`
  double importing_s = 0, building_s = 0;
  runtime::ModelFile model;
  size_t bands = 0;  ///< number of bands that steps of `model` may run in (bands.h)
  /// The largest difference of an output from that of the model in f32, relative to its largest
  /// element; nullopt without ModelOptions::precision, and where the network was not run.
  std::optional<double> rounding_error;
  std::vector<size_t> unverified;  ///< number of kernels that were never run, for each built plan
};

/// The comparison of a network that was planned again with the one that its file holds.
struct Refresh {
  double former_ns = 0;      ///< of a call of the network in the file
  double latency_ns = 0;     ///< of a call of the new one
  bool is_measured = false;  ///< both were timed as wholes, by turns; else they are plans' times
  bool is_kept = false;      ///< the file stays as it is
  std::string reason = {};   ///< why the file is kept; empty: the times say it
};

/// A tuned network: its variants, and the model that they are joined in.
struct TunedModel {
  std::vector<ModelRun> runs;  ///< one for each variant
  /// The network that the file held before a refresh, and how the new one compares. nullopt where
  /// there was none.
  std::optional<runtime::ModelFile> former = {};
  std::optional<Refresh> refresh = {};
  runtime::ModelFile file;  ///< empty with ModelOptions::only_plans
  std::string path = {};    ///< ModelOptions::path
  /// The kernels of the plan of each variant, for db::keep_demand(). Empty with
  /// ModelOptions::only_plans and where a refresh kept the file, whose kernels are in the demand
  /// that it left.
  std::vector<db::Demand> demands = {};
};

struct ModelOptions {
  /// The budget is for all variants, with reading, building and timing whole networks. With
  /// Effort::None nothing is measured but what `refresh` times.
  TuneOptions tuning = {};
  dsl::Accuracy accuracy = dsl::Accuracy::Fast;  ///< of the kernel of each operator
  /// Products of f32 read floats of this type of 16 bits where the target gains by that; nullopt:
  /// they read f32.
  std::optional<DType> precision = {};
  std::vector<std::string> left_out = {};  ///< names of optional passes to leave out
  /// The file of the model. It is written as soon as there is a model, and again when a better one
  /// is found: a kernel that crashes this process takes no result with it. Empty: none is written.
  std::string path = {};
  std::string predictions = {};  ///< NetworkOptions::predictions
  /// Plans the network from what is known, tunes nothing, and replaces the one in `path` only where
  /// the new one is faster. Requires: Effort::None and a path.
  bool refresh = false;
  bool only_plans = false;  ///< ends with the plans; nothing is built. Requires: Effort::None
  bool runs_here = true;    ///< false: this machine cannot run the kernels, and nothing is timed
  /// The farm that measures kernels; whole networks are not timed then. nullptr: this machine
  /// measures. It must outlive the run.
  const Farm* farm = nullptr;
  /// Called before the kernels of a variant are tuned; returns the listener to that tuning, which
  /// may be empty. The listener is destroyed when that tuning ends.
  std::function<OnProgress(const ModelRun& run)> listen = {};
};

/// Environment::interrupts ends measuring: the network is then built from what is known by then.
/// The interrupts after it (Environment::later_interrupts) end the run with an error.
///
/// Errors: those of runtime::check_output(), before anything is done; Interrupted; those of
/// graph::apply_passes(), tune_network() and build_model(); Unsupported and Environment where a
/// network cannot be run for timing; Environment where the file cannot be written; and of a refresh
/// Invalid where the file holds another network, or one for another target or number of threads.
/// Notes of the environment say what a run went on without.
Result<TunedModel> tune_model(const NetworkSource& source, const Target& target,
                              const ModelOptions& options, db::Store& store,
                              const Environment& environment);

}  // namespace tw::tuner
