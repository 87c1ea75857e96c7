// SPDX-License-Identifier: Apache-2.0
#pragma once
// Networks on their way from ONNX to a file (tune --model), and what is printed of them. Values;
// not thread-safe.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "db/store.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "runtime/model_file.h"
#include "tools/imported_model.h"
#include "tools/surroundings.h"
#include "tools/tuning.h"
#include "tuner/network.h"

namespace tw::tools {

/// Whether a network is faster with a pass or without it, by the measured kernels of both.
struct FusionChoice {
  std::string pass;
  double with_ns = 0, without_ns = 0;  ///< sums of the cheapest plans
  /// Whether all kernels of both plans were measured; if not, the pass stays.
  bool is_measured = false;
  bool is_left_out = false;
};

/// A variant of a network on its way to the file.
struct ModelRun {
  std::string name;
  Dimensions dimensions;
  std::shared_ptr<const graph::Graph> graph;  ///< `tuned` refers to it
  std::vector<graph::PassRun> passes;
  std::vector<std::string> left_out;  ///< passes that were not applied
  std::vector<FusionChoice> fusions;
  tuner::TunedNetwork tuned;
  size_t written = 0;               ///< number of the plan in `model`
  std::vector<double> measured_ns;  ///< of plans as wholes; empty: none was measured
  size_t measured = 0;              ///< which of these is that of `model`
  double importing_s = 0, building_s = 0;
  runtime::ModelFile model;
  size_t bands = 0;                ///< that steps of `model` may run in (tuner/bands.h)
  std::vector<size_t> unverified;  ///< of each plan that was built: kernels that were never run
};

/// A tuned network: its variants, and the file that they are joined in.
struct TunedModel {
  std::vector<ModelRun> runs;  ///< one for each variant
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
