// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writers and readers of the tensors of a graph, and names for new tensors. Private to
// graph/passes.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tw::graph {

/// The writer and the readers of each tensor of the graph that the constructor got. Later changes
/// of that graph are not seen. Operators are given by their index in Graph::operators.
class Uses {
 public:
  explicit Uses(const Graph& graph);

  /// Returns the operator that writes the tensor; nullopt for inputs and constants of the graph.
  std::optional<size_t> writer(const std::string& tensor) const;
  /// Returns the operators that read the tensor, in increasing order, each once.
  const std::vector<size_t>& readers(const std::string& tensor) const;
  bool is_output(const std::string& tensor) const { return outputs_.contains(tensor); }
  /// True if the operator is the only reader of the tensor, and the tensor is no output of the
  /// graph.
  bool is_only_reader(size_t op, const std::string& tensor) const;

 private:
  std::map<std::string, size_t> writers_;
  std::map<std::string, std::vector<size_t>> readers_;
  std::set<std::string> outputs_;
};

/// Makes names for new tensors.
class FreshNames {
 public:
  explicit FreshNames(const Graph& graph);
  /// Returns a name that no tensor of the graph has and that was not returned before: `stem`, or
  /// `stem` with a number.
  std::string make(const std::string& stem);

 private:
  std::set<std::string> taken_;
  std::map<std::string, size_t> counts_;
};

/// Returns the operators of a list without its nullopts, by which a pass has replaced the operators
/// that it removed.
std::vector<Operator> remaining(std::vector<std::optional<Operator>> operators);
/// Returns the operators of a graph as a list in which a pass may replace operators by nullopt; see
/// remaining().
std::vector<std::optional<Operator>> as_list(const Graph& graph);

}  // namespace tw::graph
