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

/// An index of the readers and writers in a graph, as it was when the index was made. Operators are
/// identified by their numbers.
class Uses {
 public:
  explicit Uses(const Graph& graph);

  /// The operator that writes the tensor; nullopt for inputs and constants of the graph.
  std::optional<size_t> writer(const std::string& tensor) const;
  /// The operators that read the tensor, in order, each once.
  const std::vector<size_t>& readers(const std::string& tensor) const;
  bool is_output(const std::string& tensor) const { return outputs_.contains(tensor); }
  /// True if the operator is the only reader of the tensor, and the tensor is no output.
  bool is_only_reader(size_t op, const std::string& tensor) const;

 private:
  std::map<std::string, size_t> writers_;
  std::map<std::string, std::vector<size_t>> readers_;
  std::set<std::string> outputs_;
};

/// Names that no tensor of the graph has.
class FreshNames {
 public:
  explicit FreshNames(const Graph& graph);
  /// The stem, or the stem with a number; each name is given once.
  std::string make(const std::string& stem);

 private:
  std::set<std::string> taken_;
  std::map<std::string, size_t> counts_;
};

/// The operators that are left of a list in which passes replace and remove some.
std::vector<Operator> remaining(std::vector<std::optional<Operator>> operators);
/// The operators of a graph as such a list.
std::vector<std::optional<Operator>> as_list(const Graph& graph);

}  // namespace tw::graph
