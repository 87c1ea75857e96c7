// SPDX-License-Identifier: Apache-2.0
// Fuses a padding into the operator that reads the padded tensor:
//
//   p = pad(x, 1 around each image)
//   y = conv2d(p, w) h=58 w=58   ->   y = conv2d(x, w) h=56 w=56 pad=1

#include <cmath>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"

namespace tw::graph {
namespace {

/// True if the operator has attributes that pad its input with this value: conv2d on tensors of
/// four dimensions pads with 0, and max_pool2d with the identity of max.
bool pads_with(const Operator& op, const dsl::Expr& value) {
  if (op.workload.op == "conv2d")
    return dsl::is_zero_bytes(value) && op.workload.compute.inputs[0].shape.size() == 4;
  return op.workload.op == "max_pool2d" &&
         dsl::equal(value, dsl::identity(dsl::Combine::Max, op.workload.dtype));
}

/// Returns the operator on `tensor`, which has no padding. The operator's attributes express the
/// padding.
Result<Operator> padded_by_itself(Operator op, const std::string& tensor, const Padding& padding) {
  dsl::Attributes attributes = op.workload.attributes;
  attributes["h"] -= padding.before[2] + padding.after[2];
  attributes["w"] -= padding.before[3] + padding.after[3];
  attributes["pad_top"] += padding.before[2];
  attributes["pad_bottom"] += padding.after[2];
  attributes["pad_left"] += padding.before[3];
  attributes["pad_right"] += padding.after[3];
  TW_TRY(op.workload,
         dsl::make_workload(op.workload.op, attributes, op.workload.dtype, op.workload.accuracy));
  op.inputs[0] = tensor;
  return op;
}

/// True if only h and w are padded, and are at least 1 without their padding.
bool is_around_images(const Padding& padding, const dsl::Attributes& attributes) {
  return padding.before[0] == 0 && padding.after[0] == 0 && padding.before[1] == 0 &&
         padding.after[1] == 0 && attributes.at("h") > padding.before[2] + padding.after[2] &&
         attributes.at("w") > padding.before[3] + padding.after[3];
}

}  // namespace

Result<Graph> fuse_padding(const Graph& graph) {
  const Uses uses(graph);
  Graph result = graph;
  for (Operator& op : result.operators) {
    if (op.workload.op != "conv2d" && op.workload.op != "max_pool2d") continue;
    // Each of several consecutive paddings is fused in turn, the last one first.
    for (auto writer = uses.writer(op.inputs[0]); writer; writer = uses.writer(op.inputs[0])) {
      const Operator& former = graph.operators[*writer];
      const auto padding = as_padding(former);
      if (!padding || !pads_with(op, padding->value) ||
          !is_around_images(*padding, op.workload.attributes))
        break;
      TW_TRY(op, padded_by_itself(op, former.inputs[0], *padding));
    }
  }
  return drop_dead(result);
}

}  // namespace tw::graph
