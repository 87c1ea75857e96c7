// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order in which nodes of a model are imported: each node comes after the nodes whose outputs
// it reads, and nodes that no output needs are left out. Private to graph/onnx; pure.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace tw::graph::onnx {

/// The tensors that a node reads and writes. `reads` includes the tensors that the branches of the
/// node read from outside of the branches.
struct NodeNames {
  std::vector<std::string_view> reads, writes;
};

struct NodeOrder {
  std::vector<size_t> nodes;  ///< in the order of the model as far as possible
  /// The index of a node that depends on its own output, if there is one; `nodes` is then
  /// incomplete.
  std::optional<size_t> on_cycle;
};

/// Orders the nodes that `outputs` need. A name that no node writes is assumed to exist. An empty
/// name stands for no tensor. Requires: each name is written once. Takes O(n log n) time for n
/// names.
NodeOrder order_nodes(const std::vector<NodeNames>& nodes,
                      const std::vector<std::string_view>& outputs);

}  // namespace tw::graph::onnx
