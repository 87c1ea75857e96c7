// SPDX-License-Identifier: Apache-2.0
#pragma once
// Networks in files: the verbs that run, explain and show them, and their descriptions as tables,
// JSON and drawings. No compiler is involved. Not thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/model_file.h"
#include "tools/reports/report.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// True if the operand of a verb names a file, and not the beginning of a record's hash.
bool is_file_operand(const std::string& operand);

struct ModelRunFlags {
  std::string path;
  std::string target;                ///< "opencl:1": the device for a network for GPUs
  std::vector<std::string> inputs;   ///< "x.npy" or "name=x.npy"; other inputs are random
  std::vector<std::string> outputs;  ///< files to write, "y.npy" or "name=y.npy"
  int64_t variant = -1;              ///< -1: the first one that takes the inputs
  bool profile = false;              ///< a table of the steps' times
  std::string trace;                 ///< file for the trace of one call; empty: none
  int64_t seed = 1;                  ///< seed of random inputs
  Format format = Format::Table;
};

/// Runs a network on as many threads as its kernels were chosen for, or on its device, and times
/// it.
Result<int> run_model(const ModelRunFlags& flags, const Surroundings& here);
/// A drawing of the steps of a network: in the language of Graphviz, or made by Graphviz.
enum class Drawing { None, Dot, Svg };
/// Prints the plan of a network (as CSV its steps) or a drawing of its steps. Environment if
/// Graphviz is not installed.
Result<int> explain_model(const std::string& path, Drawing drawing, Format format,
                          const Surroundings& here);
/// Prints what is in the file.
Result<int> show_model(const std::string& path, Format format, const Surroundings& here);

// Descriptions of one variant of a model, by its number.

/// Number of runs of a step in one call: the trip count of its loop, or 1 outside of loops.
int64_t runs_of(const runtime::ModelVariant& variant, size_t step);
/// The name of a step, and the number of its runs if there are several.
std::string name_with_runs(const runtime::ModelVariant& variant, size_t step);

/// Inputs, outputs, steps, loops, memory, threads and target.
Facts facts_of(const runtime::ModelFile& model, size_t variant);
/// One row for each step: its operator, its predicted or measured time, its share of the sum, and
/// its arguments.
Table table_of_steps(const runtime::ModelFile& model, size_t variant);
/// The steps of all variants as numbers without units; if there are several, the first column is
/// the variant.
Table sheet_of_steps(const runtime::ModelFile& model);
/// The number of steps and their time by operator, the one that takes the most time first.
Table table_of_costs(const runtime::ModelFile& model, size_t variant);
/// The steps in the language of Graphviz' dot: steps are nodes, arrays with their layouts edges,
/// and variants, if there are several, clusters.
std::string dot_of(const runtime::ModelFile& model);

/// The model with its first variant; if there are several, the field "variants" lists all.
nlohmann::json as_json(const runtime::ModelFile& model);
/// The heading of a variant's description, such as "variant 1: x [8, 3, 224, 224]".
std::string variant_heading(const runtime::ModelFile& model, size_t variant);

}  // namespace tw::tools
