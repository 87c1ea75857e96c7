// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Graph is a neural network as a value: operators in dependency order between named tensors.
// Every operator is a dsl::Workload, so the interpreter defines what it means, its key names its
// records in the database, and two operators fuse by joining their stages.
//
//   Graph graph;
//   graph.inputs = {{"x", {Float32, {1, 3, 224, 224}}}};
//   graph.constants["w"] = make_constant(std::move(weights));
//   graph.operators = {{conv, {"x", "w"}, {"y"}}};      // conv: the workload of a convolution
//   graph.outputs = {"y"};
//   TW_RETURN_IF_ERROR(validate(graph));
//
// The name of a tensor is any text without white space, control characters and `,:=()#`; an
// operator goes by the name of its first output. Constants share their bytes between copies of a
// graph. A Graph is a plain value: const access is thread-safe.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "dsl/array.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"

namespace tw::graph {

struct TensorType {
  DType dtype = Float32;
  std::vector<int64_t> shape;  ///< static; empty: a single number
  friend bool operator==(const TensorType&, const TensorType&) = default;

  std::string to_string() const;  ///< "f32[1, 3, 224, 224]"
};

struct Port {
  std::string name;
  TensorType type;
  friend bool operator==(const Port&, const Port&) = default;
};

/// A tensor whose value is known ahead of the calls: weights.
struct Constant {
  std::shared_ptr<const dsl::Array> array;
  std::string hash;  ///< SHA-256 of the type, the shape and the bytes, as 64 hex digits

  TensorType type() const { return {array->type, array->shape}; }
  friend bool operator==(const Constant& a, const Constant& b) { return a.hash == b.hash; }
};
Constant make_constant(dsl::Array array);

struct Operator {
  dsl::Workload workload;            ///< without layouts: those are chosen by the plan
  std::vector<std::string> inputs;   ///< tensors of the graph, one for each input of the compute
  std::vector<std::string> outputs;  ///< likewise for each output of the compute

  const std::string& name() const { return outputs.front(); }
};

struct Graph {
  std::vector<Port> inputs;
  std::map<std::string, Constant> constants;  ///< by the tensor's name
  std::vector<Operator> operators;            ///< producers before their consumers
  /// Distinct tensors of any kind, in the order in which callers give arrays for them.
  std::vector<std::string> outputs;
};

/// Types of all tensors by name: inputs, constants, and outputs of operators.
std::map<std::string, TensorType> tensor_types(const Graph& graph);

/// Names well formed and given once; operators in order, each with tensors of the types that its
/// compute declares; inputs that a compute declares as weights bound to constants; outputs exist.
/// Invalid, naming the operator or tensor.
Status validate(const Graph& graph);

/// Whether the text may be the name of a tensor of a graph.
bool is_tensor_name(std::string_view name);

/// The values of all tensors of the graph that are not constants, operator by operator. `inputs`
/// has an array for each input of the graph. The slow oracle: see dsl::interpret().
Result<dsl::Arrays> interpret(const Graph& graph, const dsl::Arrays& inputs);

/// The text of a graph, one line a tensor; constants appear by their hash.
///
///   input x: f32[1, 3, 224, 224]
///   const w: f32[64, 3, 7, 7] #3f2a...
///   y = conv2d(x, w) n=1 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 f32 fast
///   output y
std::string to_text(const Graph& graph);

/// Reads such text; bytes of constants are looked up in `constants` by their hash. Invalid, naming
/// the line. The result is validated.
Result<Graph> parse_graph(std::string_view text,
                          const std::map<std::string, Constant>& constants = {});

/// Names the graph with its weights: 16 hex digits.
std::string hash(const Graph& graph);

/// The graph in the language of Graphviz' dot: a node an operator, an edge a tensor.
std::string to_dot(const Graph& graph);

}  // namespace tw::graph
