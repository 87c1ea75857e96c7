// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/uses.h"

#include <fmt/format.h>

namespace tw::graph {

Uses::Uses(const Graph& graph) : outputs_(graph.outputs.begin(), graph.outputs.end()) {
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    for (const std::string& tensor : graph.operators[i].inputs) {
      std::vector<size_t>& readers = readers_[tensor];
      if (readers.empty() || readers.back() != i) readers.push_back(i);
    }
    for (const std::string& tensor : graph.operators[i].outputs) writers_[tensor] = i;
  }
}

std::optional<size_t> Uses::writer(const std::string& tensor) const {
  const auto found = writers_.find(tensor);
  if (found == writers_.end()) return std::nullopt;
  return found->second;
}

const std::vector<size_t>& Uses::readers(const std::string& tensor) const {
  static const std::vector<size_t> none;
  const auto found = readers_.find(tensor);
  return found == readers_.end() ? none : found->second;
}

bool Uses::is_only_reader(size_t op, const std::string& tensor) const {
  const std::vector<size_t>& all = readers(tensor);
  return !is_output(tensor) && all.size() == 1 && all.front() == op;
}

FreshNames::FreshNames(const Graph& graph) {
  for (const Port& port : graph.inputs) taken_.insert(port.name);
  for (const auto& [name, constant] : graph.constants) taken_.insert(name);
  for (const Operator& op : graph.operators) taken_.insert(op.outputs.begin(), op.outputs.end());
}

std::string FreshNames::make(const std::string& stem) {
  std::string name = stem;
  while (!taken_.insert(name).second) name = fmt::format("{}.{}", stem, ++counts_[stem]);
  return name;
}

std::vector<Operator> remaining(std::vector<std::optional<Operator>> operators) {
  std::vector<Operator> left;
  for (std::optional<Operator>& op : operators)
    if (op) left.push_back(std::move(*op));
  return left;
}

std::vector<std::optional<Operator>> as_list(const Graph& graph) {
  return {graph.operators.begin(), graph.operators.end()};
}

}  // namespace tw::graph
