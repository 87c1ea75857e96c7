// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs, explains and shows the file of a network (a .twart file that `tune --model` writes), and
// describes networks as tables, JSON and drawings. Nothing is compiled. Not thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/model_file.h"
#include "tools/reports/report.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// True if the operand of a verb is the path of a file; false if it is the beginning of a record's
/// hash.
bool is_file_operand(const std::string& operand);

struct ModelRunFlags {
  std::string path;
  std::string target;  ///< the device of a network for GPUs, such as "opencl:1"
  /// Files of inputs, "x.npy" or "name=x.npy"; other inputs are random.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;  ///< files to write, "y.npy" or "name=y.npy"
  /// Index of the variant to run; -1: the first variant whose input shapes fit.
  int64_t variant = -1;
  bool profile = false;  ///< true: also prints the time of each step
  std::string trace;     ///< file for the trace of one call; empty: none
  int64_t seed = 1;      ///< seed of random inputs
  Format format = Format::Table;
};

/// Runs a network and times it. A network for a processor runs on the number of threads for which
/// its kernels were chosen; a network for a GPU runs on the GPU.
Result<int> run_model(const ModelRunFlags& flags, const Surroundings& here);
/// The form of a drawing of a network's steps. Dot is text in the language of Graphviz. Svg is a
/// picture that Graphviz makes from this text.
enum class Drawing { None, Dot, Svg };
/// Prints a drawing of the steps of a network. If `drawing` is None, prints the plan of the network
/// instead; in CSV, only the table of steps. Fails with Environment if an Svg is asked for and
/// Graphviz is not installed.
Result<int> explain_model(const std::string& path, Drawing drawing, Format format,
                          const Surroundings& here);
/// Prints the contents of the file of a network.
Result<int> show_model(const std::string& path, Format format, const Surroundings& here);

// Descriptions of one variant of a model. `variant` is its index in the file.

/// Returns how often a call of the network runs the step: the trip count of the step's loop, or 1
/// if the step is outside of loops.
int64_t runs_of(const runtime::ModelVariant& variant, size_t step);
/// Returns the name of a step, followed by the number of its runs if it runs several times: "add,
/// 12 times".
std::string name_with_runs(const runtime::ModelVariant& variant, size_t step);

/// Returns facts about a variant: inputs, outputs, steps, loops, memory, threads and target.
Facts facts_of(const runtime::ModelFile& model, size_t variant);
/// Returns a table with a row for each step: its name, its operator, its time (measured or
/// predicted when the network was tuned), the share of this time in the sum over all steps, and its
/// arguments.
Table table_of_steps(const runtime::ModelFile& model, size_t variant);
/// Returns a table of the steps of all variants for programs to read: numbers have no units. If
/// there are several variants, the first column has the index of the variant.
Table sheet_of_steps(const runtime::ModelFile& model);
/// Returns a table with a row for each kind of operator: the number of its steps and the sum of
/// their times. The kind with the largest sum comes first.
Table table_of_costs(const runtime::ModelFile& model, size_t variant);
/// Returns a drawing of the steps in the language of Graphviz (dot). Nodes are the inputs of the
/// network and its steps, edges are arrays with their layouts. If there are several variants, each
/// is a cluster.
std::string dot_of(const runtime::ModelFile& model);

/// Returns the model as JSON. The top level describes the first variant. If there are several
/// variants, the field "variants" describes all of them.
nlohmann::json as_json(const runtime::ModelFile& model);
/// Returns the heading of a variant's description, such as "variant 1: x [8, 3, 224, 224]".
std::string variant_heading(const runtime::ModelFile& model, size_t variant);

}  // namespace tw::tools
