// SPDX-License-Identifier: Apache-2.0
// What can be said of a network that was written as a file.
#include "tools/model_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/gpu_targets.h"

namespace tw::tools {
namespace {

using runtime::ModelFile;
using runtime::ModelStep;
using runtime::ModelTensor;

/// What a step computes: the operator of its kernel, or "transform" for copies between layouts.
std::string kind_of(const ModelFile& model, const ModelStep& step) {
  const std::string& workload = model.kernels[static_cast<size_t>(step.kernel)].info.workload;
  if (step.name.find(" -> ") != std::string::npos) return "transform";
  return workload.substr(0, workload.find(' '));
}

double total_ns(const ModelFile& model) {
  double total = 0;
  for (const ModelStep& step : model.steps) total += step.predicted_ns;
  return total;
}

std::string type_text(const ModelTensor& tensor) {
  return fmt::format("{}[{}]{}", to_string(tensor.dtype), fmt::join(tensor.shape, ", "),
                     tensor.layout.empty() ? "" : " " + tensor.layout);
}

std::string ports(const ModelFile& model, const std::vector<int>& tensors) {
  std::vector<std::string> texts;
  for (const int tensor : tensors) {
    const ModelTensor& port = model.tensors[static_cast<size_t>(tensor)];
    texts.push_back(port.name + ": " + type_text(port));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}", 100 * part / whole) : "-";
}

std::string in_quotes(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

}  // namespace

bool is_file_operand(const std::string& operand) {
  return operand.find('/') != std::string::npos || operand.ends_with(".twart") ||
         runtime::is_model_file(operand);
}

Facts facts_of(const ModelFile& model) {
  Facts facts = {{"inputs", ports(model, model.inputs)},
                 {"outputs", ports(model, model.outputs)},
                 {"steps", fmt::format("{} of {}", show_count(std::ssize(model.steps), "step"),
                                       show_count(std::ssize(model.kernels), "distinct kernel"))},
                 {"constants", show_bytes(std::ssize(model.constants))},
                 {"arena", show_bytes(model.arena_bytes)}};
  if (!names_gpu(model.target)) facts.emplace_back("threads", std::to_string(model.threads));
  facts.emplace_back("target", model.target);
  return facts;
}

Table table_of_steps(const ModelFile& model) {
  Table table{{"step", "computes", "time", "% of all", "arguments"}, {}};
  const double all = total_ns(model);
  for (const ModelStep& step : model.steps) {
    std::vector<std::string> arguments;
    for (const int argument : step.arguments)
      arguments.push_back(type_text(model.tensors[static_cast<size_t>(argument)]));
    table.rows.push_back({step.name, kind_of(model, step), show_time(step.predicted_ns),
                          share_text(step.predicted_ns, all),
                          fmt::format("{}", fmt::join(arguments, ", "))});
  }
  return table;
}

Table table_of_costs(const ModelFile& model) {
  struct Sum {
    std::string kind;
    int64_t steps = 0;
    double ns = 0;
  };
  std::map<std::string, Sum> sums;
  for (const ModelStep& step : model.steps) {
    Sum& sum = sums[kind_of(model, step)];
    ++sum.steps;
    sum.ns += step.predicted_ns;
  }
  std::vector<Sum> sorted;
  for (auto& [kind, sum] : sums) sorted.push_back({kind, sum.steps, sum.ns});
  std::ranges::stable_sort(sorted, [](const Sum& a, const Sum& b) { return a.ns > b.ns; });
  Table table{{"computes", "steps", "time", "% of all"}, {}};
  for (const Sum& sum : sorted)
    table.rows.push_back({sum.kind, std::to_string(sum.steps), show_time(sum.ns),
                          share_text(sum.ns, total_ns(model))});
  return table;
}

nlohmann::json as_json(const ModelFile& model) {
  nlohmann::json steps = nlohmann::json::array();
  for (const ModelStep& step : model.steps) {
    const auto& kernel = model.kernels[static_cast<size_t>(step.kernel)].info;
    nlohmann::json arguments = nlohmann::json::array();
    for (const int argument : step.arguments) {
      const ModelTensor& tensor = model.tensors[static_cast<size_t>(argument)];
      arguments.push_back({{"tensor", tensor.name},
                           {"dtype", to_string(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"layout", tensor.layout}});
    }
    steps.push_back({{"name", step.name},
                     {"workload", kernel.workload},
                     {"schedule", kernel.schedule},
                     {"predicted_ns", step.predicted_ns},
                     {"arguments", arguments}});
  }
  const auto names = [&](const std::vector<int>& tensors) {
    nlohmann::json list = nlohmann::json::array();
    for (const int tensor : tensors) {
      const ModelTensor& port = model.tensors[static_cast<size_t>(tensor)];
      list.push_back(
          {{"name", port.name}, {"dtype", to_string(port.dtype)}, {"shape", port.shape}});
    }
    return list;
  };
  return {{"name", model.name},
          {"target", model.target},
          {"threads", model.threads},
          {"inputs", names(model.inputs)},
          {"outputs", names(model.outputs)},
          {"kernels", model.kernels.size()},
          {"constant_bytes", model.constants.size()},
          {"arena_bytes", model.arena_bytes},
          {"steps", steps}};
}

std::string dot_of(const ModelFile& model) {
  std::string dot = "digraph network {\n  node [shape=box];\n";
  std::map<std::string, std::string> writers;  // of arrays by name and layout: the node
  const auto key = [](const ModelTensor& tensor) { return tensor.name + " " + tensor.layout; };
  for (const int input : model.inputs) {
    const ModelTensor& tensor = model.tensors[static_cast<size_t>(input)];
    writers[key(tensor)] = tensor.name;
    dot += fmt::format("  {} [shape=ellipse];\n", in_quotes(tensor.name));
  }
  for (const ModelStep& step : model.steps) {
    const auto& arguments = model.kernels[static_cast<size_t>(step.kernel)].info.arguments;
    dot += fmt::format("  {} [label={}];\n", in_quotes(step.name),
                       in_quotes(kind_of(model, step) + "\\n" + step.name));
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      const ModelTensor& tensor = model.tensors[static_cast<size_t>(step.arguments[i])];
      if (i < arguments.size() && arguments[i].is_output)
        writers[key(tensor)] = step.name;
      else if (const auto writer = writers.find(key(tensor)); writer != writers.end())
        dot += fmt::format("  {} -> {} [label={}];\n", in_quotes(writer->second),
                           in_quotes(step.name), in_quotes(type_text(tensor)));
    }
  }
  return dot + "}\n";
}

Result<int> explain_model(const std::string& path, bool as_dot, const std::string& format,
                          const Surroundings& here) {
  TW_TRY(const ModelFile model, runtime::read_model(path));
  if (as_dot) {
    TW_RETURN_IF_ERROR(print(dot_of(model)));
  } else if (format == "json") {
    nlohmann::json document = as_json(model);
    document["plan"] = model.plan;
    TW_RETURN_IF_ERROR(print_json("explain", document));
  } else if (format == "csv") {
    TW_RETURN_IF_ERROR(print(as_csv(table_of_steps(model))));
  } else {
    TW_RETURN_IF_ERROR(print(model.plan + "\n" + as_text(table_of_costs(model), here)));
  }
  return 0;
}

Result<int> show_model(const std::string& path, const std::string& format,
                       const Surroundings& here) {
  TW_TRY(const ModelFile model, runtime::read_model(path));
  if (format == "json") {
    nlohmann::json document = as_json(model);
    document["graph"] = model.graph;
    TW_RETURN_IF_ERROR(print_json("show", document));
    return 0;
  }
  Facts facts = {{"network", model.name}};
  for (const auto& fact : facts_of(model)) facts.push_back(fact);
  TW_RETURN_IF_ERROR(print(as_text(facts) + "\n" + as_text(table_of_steps(model), here)));
  return 0;
}

}  // namespace tw::tools
