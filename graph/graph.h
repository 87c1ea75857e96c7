// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Graph is a neural network as a value: operators in dependency order between named tensors.
// Every operator is a dsl::Workload. So the interpreter defines the meaning of an operator, the key
// of the workload finds its records in the database, and two operators are fused by joining their
// stages.
//
//   Graph graph;
//   graph.inputs = {{"x", {Float32, {1, 3, 224, 224}}}};
//   graph.constants["w"] = make_constant(std::move(weights));
//   graph.operators = {{conv, {"x", "w"}, {"y"}}};      // conv: the workload of a convolution
//   graph.outputs = {"y"};
//   TW_RETURN_IF_ERROR(validate(graph));
//
// The name of a tensor is any text without white space, control characters and `,:=()#`. The name
// of an operator is the name of its first output. Copies of a graph share the bytes of their
// constants. A Graph is a plain value: const access is thread-safe.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "dsl/array.h"
#include "dsl/interpret.h"
#include "dsl/workload.h"

namespace tw::graph {

struct TensorType {
  DType dtype = Float32;
  std::vector<int64_t> shape;  ///< extents, all known; empty for a scalar
  friend bool operator==(const TensorType&, const TensorType&) = default;

  std::string to_string() const;  ///< "f32[1, 3, 224, 224]"
};

struct Port {
  std::string name;
  TensorType type;
  friend bool operator==(const Port&, const Port&) = default;
};

/// A tensor whose value is known before the graph is called, such as weights.
struct Constant {
  std::shared_ptr<const dsl::Array> array;
  std::string hash;  ///< SHA-256 of the type, the shape and the bytes, as 64 hex digits

  TensorType type() const { return {array->type, array->shape}; }
  friend bool operator==(const Constant& a, const Constant& b) { return a.hash == b.hash; }
};
Constant make_constant(dsl::Array array);

struct Operator {
  dsl::Workload workload;            ///< without layouts, which the plan chooses
  std::vector<std::string> inputs;   ///< names of tensors, one for each input of the compute
  std::vector<std::string> outputs;  ///< names of tensors, one for each output of the compute
  /// Index into Graph::loops of the loop around the operator; nullopt: none.
  std::optional<size_t> loop = {};

  const std::string& name() const { return outputs.front(); }
};

/// Operators that run `trips` times, such as a recurrent layer, whose time steps are the trips. The
/// operators of the loop are its body and are adjacent in Graph::operators. They read constants and
/// tensors of the body only. A tensor from outside is visible in the body under a second name,
/// given by a Share, Slice or State; results leave the body by a State or a stack. All tensors that
/// enter or leave the body are row-major.
///
///   loop rnn: 100
///   slice x: xs              // in trip t, x is xs[t]
///   share u: v               // in every trip, u is v
///   state h: h0, h1, hn      // h is h0, and then the h1 of the trip before; hn is the last h1
///   stack ys: h1             // ys[t] is the h1 of trip t
///   h1 = ...(x, u, h)
///   end
struct Loop {
  /// A tensor from outside of the body that is the same in every trip, and its name in the body.
  struct Share {
    std::string inside, outside;
  };
  /// A tensor of the body, and a tensor outside that holds its values of all trips along the first
  /// dimension, either in the order of the trips or backward, so that trip 0 has the last element.
  struct Slice {
    std::string inside, outside;
    bool is_backward = false;
  };
  /// A value that each trip hands to the next one. An operator of the body writes `next`.
  struct State {
    std::string inside;  ///< in the body: the value before the trip
    std::string first;   ///< outside of the body: the value before trip 0
    std::string next;    ///< in the body: the value after the trip
    /// Outside of the body: the value after the last trip; empty if nothing reads it.
    std::string last;
  };

  std::string name;
  int64_t trips = 1;          ///< 1 or more
  std::vector<Share> shares;  ///< inputs of the body
  std::vector<Slice> slices;  ///< inputs of the body
  std::vector<State> states;
  std::vector<Slice> stacks;  ///< outputs of the body, whose operators write `inside`
};

struct Graph {
  std::vector<Port> inputs;
  std::map<std::string, Constant> constants;  ///< by the tensor's name
  std::vector<Operator> operators;            ///< producers before their consumers
  /// Names of distinct tensors outside of loops (results of operators, inputs or constants), in the
  /// order in which callers pass arrays for them.
  std::vector<std::string> outputs;
  std::vector<Loop> loops = {};  ///< in the order of their operators
};

/// Names of the tensors that a loop reads from outside of its body. A tensor that the loop reads
/// several times is in the list several times.
std::vector<std::string> sources_of(const Loop& loop);
/// Names of the tensors outside of the body that a loop writes.
std::vector<std::string> results_of(const Loop& loop);
/// Names of the tensors of the body that get their values from outside of the body or from the trip
/// before.
std::vector<std::string> entries_of(const Loop& loop);
/// Names of the tensors of the body that leave the body or are handed to the next trip, each once.
std::vector<std::string> exits_of(const Loop& loop);

/// For each loop, the index of its first operator and the index after its last operator. Requires:
/// a valid graph.
std::vector<std::pair<size_t, size_t>> loop_ranges(const Graph& graph);
/// Number of runs of an operator in one call of the graph: the trips of its loop, or 1.
int64_t runs_of(const Graph& graph, const Operator& op);
/// The number of trips of the loop for each tensor in the body of a loop, by the tensor's name.
/// Constants are left out.
std::map<std::string, int64_t> trips_of_tensors(const Graph& graph);

/// Types of all tensors by name: inputs, constants, outputs of operators, and the tensors through
/// which values enter or leave the body of a loop. Requires: a valid graph.
std::map<std::string, TensorType> tensor_types(const Graph& graph);

/// Checks that names are well formed and unique; that operators come after the producers of their
/// inputs, and their tensors have the types that the computes declare; that inputs which a compute
/// declares as weights are constants; that the outputs exist; and that loops are as Loop describes
/// them. Otherwise Invalid, naming the operator, tensor or loop.
Status validate(const Graph& graph);

/// True if the text is a valid name of a tensor: not empty, and without spaces, control characters
/// and `,:=()#`.
bool is_tensor_name(std::string_view name);

/// Computes all tensors of the graph that are not constants, operator by operator, by
/// dsl::interpret(). It is slow and the reference of tests. `inputs` has an array for each input of
/// the graph. Tensors in the body of a loop get their values of the last trip.
Result<dsl::Arrays> interpret(const Graph& graph, const dsl::Arrays& inputs);

/// The text of a graph, one line for each tensor. A constant is written as its hash.
///
///   input x: f32[1, 3, 224, 224]
///   const w: f32[64, 3, 7, 7] #3f2a...
///   y = conv2d(x, w) n=1 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 f32 fast
///   output y
///
/// The operators of a loop stand between `loop` and `end`, as in the example of Loop. A slice or
/// stack in backward order ends with the word `backward`.
std::string to_text(const Graph& graph);

/// Parses the text of to_text() and validates the graph. Constants are looked up in `constants` by
/// their hash. Invalid, naming the line, for any other text.
Result<Graph> parse_graph(std::string_view text,
                          const std::map<std::string, Constant>& constants = {});

/// A hash of the graph, weights included: 16 hex digits.
std::string hash(const Graph& graph);

/// The graph in the language of Graphviz' dot: operators are nodes and tensors are edges.
std::string to_dot(const Graph& graph);

}  // namespace tw::graph
