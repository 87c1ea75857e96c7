// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/text.h"
#include "dsl/compute.h"

namespace tw::graph {
namespace {

tl::unexpected<Error> malformed(const std::string& why) {
  return fail(ErrorCode::Invalid, "[graph] " + why);
}

tl::unexpected<Error> wrong_operator(const Operator& op, const std::string& why) {
  return malformed(fmt::format("operator '{}' ({}): {}", op.outputs.empty() ? "" : op.name(),
                               op.workload.op, why));
}

TensorType type_in(const dsl::Compute& compute, const std::string& tensor) {
  return {compute.type_of(tensor), compute.shape_of(tensor)};
}

/// Checks a graph from its inputs on, with the types of the tensors that are known so far.
class Validator {
 public:
  explicit Validator(const Graph& graph) : graph_(graph) {}

  Status run() {
    for (const Port& port : graph_.inputs) TW_RETURN_IF_ERROR(declare(port.name, port.type));
    for (const auto& [name, constant] : graph_.constants) {
      if (!constant.array) return malformed(fmt::format("constant '{}' has no value", name));
      TW_RETURN_IF_ERROR(declare(name, constant.type()));
    }
    for (const Operator& op : graph_.operators) TW_RETURN_IF_ERROR(check(op));
    return check_outputs();
  }

 private:
  Status declare(const std::string& name, const TensorType& type) {
    if (!is_tensor_name(name)) return malformed(fmt::format("'{}' names no tensor", name));
    for (const int64_t extent : type.shape)
      if (extent < 0) return malformed(fmt::format("'{}' is {}", name, type.to_string()));
    if (!types_.emplace(name, type).second)
      return malformed(fmt::format("tensor '{}' is given twice", name));
    return {};
  }

  Status check(const Operator& op) {
    const dsl::Compute& compute = op.workload.compute;
    if (op.outputs.size() != compute.outputs.size() || op.outputs.empty())
      return wrong_operator(op, fmt::format("{} outputs for the {} of its compute",
                                            op.outputs.size(), compute.outputs.size()));
    if (op.inputs.size() != compute.inputs.size())
      return wrong_operator(op, fmt::format("{} inputs for the {} of its compute", op.inputs.size(),
                                            compute.inputs.size()));
    if (!op.workload.layouts.empty()) return wrong_operator(op, "its workload has layouts");
    for (size_t i = 0; i < op.inputs.size(); ++i)
      TW_RETURN_IF_ERROR(check_input(op, op.inputs[i], compute.inputs[i]));
    for (size_t i = 0; i < op.outputs.size(); ++i)
      TW_RETURN_IF_ERROR(declare(op.outputs[i], type_in(compute, compute.outputs[i])));
    return {};
  }

  Status check_input(const Operator& op, const std::string& tensor, const dsl::Input& input) const {
    const auto found = types_.find(tensor);
    if (found == types_.end())
      return wrong_operator(op,
                            fmt::format("it reads '{}', which nothing before it gives", tensor));
    const TensorType expected = {input.type, input.shape};
    if (found->second != expected)
      return wrong_operator(
          op, fmt::format("its input '{}' is {}, but '{}' is {}", input.name, expected.to_string(),
                          tensor, found->second.to_string()));
    if (input.constant && !graph_.constants.contains(tensor))
      return wrong_operator(
          op, fmt::format("its weight '{}' is '{}', which is no constant", input.name, tensor));
    return {};
  }

  Status check_outputs() const {
    std::set<std::string> seen;
    for (const std::string& output : graph_.outputs) {
      if (!types_.contains(output))
        return malformed(fmt::format("output '{}' is no tensor of the graph", output));
      if (!seen.insert(output).second)
        return malformed(fmt::format("output '{}' is given twice", output));
    }
    return {};
  }

  const Graph& graph_;
  std::map<std::string, TensorType> types_;
};

/// The arrays that an operator reads, by the names of its compute.
Result<dsl::Arrays> gather_inputs(const Graph& graph, const Operator& op,
                                  const dsl::Arrays& values) {
  dsl::Arrays arrays;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const std::string& tensor = op.inputs[i];
    const auto constant = graph.constants.find(tensor);
    if (constant != graph.constants.end()) {
      arrays[op.workload.compute.inputs[i].name] = *constant->second.array;
      continue;
    }
    const auto value = values.find(tensor);
    if (value == values.end())
      return fail(ErrorCode::Usage, fmt::format("[interpret] the input '{}' is missing", tensor));
    arrays[op.workload.compute.inputs[i].name] = value->second;
  }
  return arrays;
}

}  // namespace

std::string TensorType::to_string() const {
  return fmt::format("{}[{}]", tw::to_string(dtype), fmt::join(shape, ", "));
}

Constant make_constant(dsl::Array array) {
  const TensorType type = {array.type, array.shape};
  std::string bytes = type.to_string();
  bytes.append(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  std::string hash = sha256_hex(bytes);
  return {std::make_shared<const dsl::Array>(std::move(array)), std::move(hash)};
}

std::map<std::string, TensorType> tensor_types(const Graph& graph) {
  std::map<std::string, TensorType> types;
  for (const Port& port : graph.inputs) types.emplace(port.name, port.type);
  for (const auto& [name, constant] : graph.constants) types.emplace(name, constant.type());
  for (const Operator& op : graph.operators)
    for (size_t i = 0; i < op.outputs.size(); ++i)
      types.emplace(op.outputs[i], type_in(op.workload.compute, op.workload.compute.outputs[i]));
  return types;
}

bool is_tensor_name(std::string_view name) {
  constexpr std::string_view taken = ",:=()#";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte != 0x7f && taken.find(c) == std::string_view::npos;
  });
}

Status validate(const Graph& graph) { return Validator(graph).run(); }

Result<dsl::Arrays> interpret(const Graph& graph, const dsl::Arrays& inputs) {
  dsl::Arrays values;
  for (const Port& port : graph.inputs) {
    const auto found = inputs.find(port.name);
    if (found == inputs.end())
      return fail(ErrorCode::Usage,
                  fmt::format("[interpret] the input '{}' is missing", port.name));
    const TensorType given = {found->second.type, found->second.shape};
    if (given != port.type)
      return fail(ErrorCode::Usage,
                  fmt::format("[interpret] the input '{}' is {}, expected {}", port.name,
                              given.to_string(), port.type.to_string()));
    values.insert(*found);
  }
  for (const Operator& op : graph.operators) {
    TW_TRY(const dsl::Arrays arrays, gather_inputs(graph, op, values));
    TW_TRY(dsl::Arrays results, dsl::interpret(op.workload.compute, arrays));
    for (size_t i = 0; i < op.outputs.size(); ++i)
      values[op.outputs[i]] = std::move(results.at(op.workload.compute.outputs[i]));
  }
  return values;
}

std::string hash(const Graph& graph) { return short_hash(to_text(graph)); }

std::string to_dot(const Graph& graph) {
  const std::map<std::string, TensorType> types = tensor_types(graph);
  std::string dot = "digraph network {\n  node [shape=box];\n";
  std::map<std::string, std::string> writers;  // of tensors: the node
  for (const Port& port : graph.inputs) {
    writers[port.name] = port.name;
    dot += fmt::format("  {} [shape=ellipse];\n", graphviz_quoted(port.name));
  }
  for (const Operator& op : graph.operators) {
    dot += fmt::format("  {} [label={}];\n", graphviz_quoted(op.name()),
                       graphviz_quoted(op.workload.op + "\n" + op.name()));
    for (const std::string& tensor : op.inputs)
      if (const auto writer = writers.find(tensor); writer != writers.end())
        dot +=
            fmt::format("  {} -> {} [label={}];\n", graphviz_quoted(writer->second),
                        graphviz_quoted(op.name()), graphviz_quoted(types.at(tensor).to_string()));
    for (const std::string& tensor : op.outputs) writers[tensor] = op.name();
  }
  for (const std::string& output : graph.outputs) {
    const std::string node = "output " + output;
    dot += fmt::format("  {} [shape=ellipse];\n", graphviz_quoted(node));
    if (const auto writer = writers.find(output); writer != writers.end())
      dot += fmt::format("  {} -> {} [label={}];\n", graphviz_quoted(writer->second),
                         graphviz_quoted(node), graphviz_quoted(types.at(output).to_string()));
  }
  return dot + "}\n";
}

}  // namespace tw::graph
