// SPDX-License-Identifier: Apache-2.0
#pragma once
// Networks that were written as files: running them on arrays of NumPy, and what can be said of
// them. No compiler is involved. Not thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/model_file.h"
#include "tools/report.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Whether an operand means a file and not the beginning of a record's hash.
bool is_file_operand(const std::string& operand);

struct ModelRunFlags {
  std::string path;
  std::string target;                ///< "opencl:1": which device of a network for GPUs
  std::vector<std::string> inputs;   ///< "x.npy" or "name=x.npy"; what is not given is random
  std::vector<std::string> outputs;  ///< likewise, to be written
  int64_t variant = -1;              ///< -1: the first one that takes the inputs
  bool profile = false;              ///< a table of the steps' times
  std::string trace;                 ///< file for the trace of one call; empty: none
  int64_t seed = 1;                  ///< of random inputs
  std::string format = "table";
};

/// Runs a network on as many threads as its kernels were chosen for, or on its device, and times
/// it.
Result<int> run_model(const ModelRunFlags& flags, const Surroundings& here);
/// Prints the plan of a network, or its steps as a graph in the language of Graphviz' dot.
Result<int> explain_model(const std::string& path, bool as_dot, const std::string& format,
                          const Surroundings& here);
/// Prints what is in the file.
Result<int> show_model(const std::string& path, const std::string& format,
                       const Surroundings& here);

// What follows is about one variant of a model, by its number.

/// Sizes, kernels and arrays.
Facts facts_of(const runtime::ModelFile& model, size_t variant);
/// A step a row: what it computes, its time as predicted or measured ahead, its share.
Table table_of_steps(const runtime::ModelFile& model, size_t variant);
/// The same for all variants, which a column tells apart where there are several.
Table table_of_all_steps(const runtime::ModelFile& model);
/// The steps of a variant summed up by what steps compute, most first.
Table table_of_costs(const runtime::ModelFile& model, size_t variant);
/// Steps as nodes; arrays, with their layouts, as edges.
std::string dot_of(const runtime::ModelFile& model, size_t variant);

/// The model with its first variant; where there are several, "variants" lists all.
nlohmann::json as_json(const runtime::ModelFile& model);
/// "variant 1: x [8, 3, 224, 224]", over what is said of each of several variants.
std::string variant_heading(const runtime::ModelFile& model, size_t variant);

}  // namespace tw::tools
