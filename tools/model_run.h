// SPDX-License-Identifier: Apache-2.0
#pragma once
// State of networks in `tune --model`, from the ONNX file to the file for the runtime, and the
// output about them. Values; not thread-safe.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "db/store.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "runtime/model_file.h"
#include "tools/imported_model.h"
#include "tools/model_refresh.h"
#include "tools/surroundings.h"
#include "tools/tuning.h"
#include "tuner/network/network.h"

namespace tw::tools {

/// Comparison of a network with and without an optional pass over its graph.
struct FusionChoice {
  std::string pass;
  double with_ns = 0, without_ns = 0;  ///< summed kernel times of the cheapest plans
  /// True if all kernels of both plans were measured. Otherwise the pass is kept.
  bool is_measured = false;
  bool is_left_out = false;
};

/// State of one variant of a network, from the import to the file.
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
  tuner::TunedNetwork tuned;
  size_t written = 0;               ///< index in `tuned.plans` of the plan in `model`
  std::vector<double> measured_ns;  ///< latencies of whole plans; empty: none was measured
  size_t measured = 0;              ///< index in `measured_ns` of the latency of `model`
  double importing_s = 0, building_s = 0;
  runtime::ModelFile model;
  size_t bands = 0;  ///< number of bands that steps of `model` may run in (tuner/network/bands.h)
  /// The largest difference of an output from that of the model in f32, relative to its largest
  /// element; nullopt without --precision, and where the network was not run.
  std::optional<double> rounding_error;
  std::vector<size_t> unverified;  ///< number of kernels that were never run, for each built plan
};

/// A tuned network: its variants, and the file that they are joined in.
struct TunedModel {
  std::vector<ModelRun> runs;  ///< one for each variant
  /// The network that the file held before --refresh, and how the new one compares. nullopt where
  /// there was none.
  std::optional<runtime::ModelFile> former = {};
  std::optional<Refresh> refresh = {};
  runtime::ModelFile file;
  std::string path;
};

/// The dimensions as text: "batch=1 length=128".
std::string dimensions_text(const Dimensions& dimensions);

/// Prints results in the format of the flags: table, json or csv. Of several variants JSON has the
/// first one, and all of them in "variants". Environment if stdout cannot be written.
Status print_model(const TunedModel& tuned, const TuneFlags& flags, const Surroundings& here);

/// Prints the plans that tuning would begin with, and what is known of their kernels. Of several
/// variants JSON has the first one, and all of them in "variants". Requires: each run has a plan.
Status print_dry_run(const TunedModel& tuned, const TuneFlags& flags, const Surroundings& here,
                     const Target& target, db::Store& store);

}  // namespace tw::tools
