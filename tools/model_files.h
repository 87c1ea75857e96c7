// SPDX-License-Identifier: Apache-2.0
#pragma once
// The verbs that run, explain and show the file of a network, and descriptions of networks as
// tables, JSON and drawings. No compiler is involved. Not thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/model_file.h"
#include "tools/reports/report.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// True if the operand of a verb names a file; false if it is the beginning of a record's hash.
bool is_file_operand(const std::string& operand);

struct ModelRunFlags {
  std::string path;
  std::string target;  ///< the device of a network for GPUs, such as "opencl:1"
  /// Files of inputs, "x.npy" or "name=x.npy"; other inputs are random.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;  ///< files to write, "y.npy" or "name=y.npy"
  int64_t variant = -1;  ///< number of the variant to run; -1: the first one that takes the inputs
  bool profile = false;  ///< also prints the time of each step
  std::string trace;     ///< file for the trace of one call; empty: none
  int64_t seed = 1;      ///< seed of random inputs
  Format format = Format::Table;
};

/// Runs a network and times it. A network for a processor runs on the number of threads for which
/// its kernels were chosen; a network for a GPU runs on the GPU.
Result<int> run_model(const ModelRunFlags& flags, const Surroundings& here);
/// The form of a drawing of a network's steps. Dot is text in the language of Graphviz; Svg is a
/// picture that Graphviz makes from it.
enum class Drawing { None, Dot, Svg };
/// Prints a drawing of the steps of a network. If `drawing` is None, prints the plan of the network
/// instead; in CSV, the plan is only the table of steps. Environment if the drawing needs Graphviz
/// and Graphviz is not installed.
Result<int> explain_model(const std::string& path, Drawing drawing, Format format,
                          const Surroundings& here);
/// Prints the contents of the file of a network.
Result<int> show_model(const std::string& path, Format format, const Surroundings& here);

// Descriptions of one variant of a model. `variant` is its index in the file.

/// Number of runs of a step in one call: the trip count of its loop, or 1 outside of loops.
int64_t runs_of(const runtime::ModelVariant& variant, size_t step);
/// The name of a step, followed by the number of its runs if it runs several times.
std::string name_with_runs(const runtime::ModelVariant& variant, size_t step);

/// Facts about a variant: inputs, outputs, steps, loops, memory, threads and target.
Facts facts_of(const runtime::ModelFile& model, size_t variant);
/// One row for each step: its operator, its predicted or measured time, its share of the sum, and
/// its arguments.
Table table_of_steps(const runtime::ModelFile& model, size_t variant);
/// A table of the steps of all variants, to be read by programs: numbers have no units. If there
/// are several variants, the first column has the number of the variant.
Table sheet_of_steps(const runtime::ModelFile& model);
/// One row for each kind of operator: the number of its steps and the sum of their times. The kind
/// that takes the most time comes first.
Table table_of_costs(const runtime::ModelFile& model, size_t variant);
/// A drawing of the steps in the language of Graphviz (dot). Nodes are steps, edges are arrays with
/// their layouts, and each variant is a cluster if there are several.
std::string dot_of(const runtime::ModelFile& model);

/// The model as JSON. The top level describes the first variant; if there are several, the field
/// "variants" describes all of them.
nlohmann::json as_json(const runtime::ModelFile& model);
/// The heading of a variant's description, such as "variant 1: x [8, 3, 224, 224]".
std::string variant_heading(const runtime::ModelFile& model, size_t variant);

}  // namespace tw::tools
