// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order in which nodes of a model are imported: only those that an output needs, and each after
// those whose outputs it reads. Private to graph/onnx; pure.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace tw::graph::onnx {

/// The tensors that a node reads and writes; those that its branches read from outside included.
struct NodeNames {
  std::vector<std::string_view> reads, writes;
};

struct NodeOrder {
  std::vector<size_t> nodes;       ///< their order is that of the model as far as possible
  std::optional<size_t> on_cycle;  ///< a node that needs itself; `nodes` are then incomplete
};

/// Names that no node writes are taken to exist; empty ones stand for none. Requires: each name is
/// written once. Takes time in proportion to the names, but for a logarithm.
NodeOrder order_nodes(const std::vector<NodeNames>& nodes,
                      const std::vector<std::string_view>& outputs);

}  // namespace tw::graph::onnx
