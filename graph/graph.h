// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Graph is a neural network as a value: a list of operators and the named tensors between them.
// Each operator stands after the operators whose results it reads. Every operator has a
// dsl::Workload. Therefore the interpreter of the DSL defines what the operator computes, the key
// of the workload finds the operator's records in the database, and two operators are fused by
// joining their stages.
//
//   Graph graph;
//   graph.inputs = {{"x", {Float32, {1, 3, 224, 224}}}};
//   graph.constants["w"] = make_constant(std::move(weights));
//   graph.operators = {{conv, {"x", "w"}, {"y"}}};      // conv: the workload of a convolution
//   graph.outputs = {"y"};
//   TW_RETURN_IF_ERROR(validate(graph));
//
// The name of a tensor is any text that is not empty and has no white space, control characters or
// `,:=()#`. The name of an operator is the name of its first output. Copies of a graph share the
// bytes of their constants. A Graph is a plain value: const access is thread-safe.

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
  /// Size in bytes of a row-major array of this type. Requires: the size fits int64.
  int64_t bytes() const;
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
  /// Index in Graph::loops of the loop that contains the operator; nullopt outside of loops.
  std::optional<size_t> loop = {};

  const std::string& name() const { return outputs.front(); }
};

/// Operators that run `trips` times. In a recurrent layer, for example, each time step is a trip.
/// The operators of a loop are its body and are adjacent in Graph::operators. They read constants
/// and tensors of the body only. A tensor from outside is visible in the body under a second name,
/// which a Share, Slice or State gives it. Results leave the body through a State or an entry of
/// `stacks`. All tensors that enter or leave the body are row-major.
///
///   loop rnn: 100
///   slice x: xs              // in trip t, x is xs[t]
///   share u: v               // in every trip, u is v
///   state h: h0, h1, hn      // h is h0 in trip 0, else h1 of trip t - 1; hn: the last h1
///   stack ys: h1             // ys[t] is the h1 of trip t
///   h1 = ...(x, u, h)
///   end
struct Loop {
  /// Makes the tensor `outside` visible in the body as `inside`, with the same value in every trip.
  struct Share {
    std::string inside, outside;
  };
  /// Relates the tensor `inside` of the body to the tensor `outside`, which is outside of the body
  /// and has one more dimension, its first. In trip t, `inside` is outside[t] or, if `is_backward`,
  /// outside[trips - 1 - t].
  struct Slice {
    std::string inside, outside;
    bool is_backward = false;
  };
  /// A value that each trip hands to the next trip. An operator of the body writes `next`.
  struct State {
    std::string inside;  ///< in the body: the value before the trip
    std::string first;   ///< outside of the body: the value before trip 0
    std::string next;    ///< in the body: the value after the trip
    /// Outside of the body: the value after the last trip; empty if nothing reads that value.
    std::string last;
  };

  std::string name;
  int64_t trips = 1;          ///< 1 or more
  std::vector<Share> shares;  ///< inputs of the body
  std::vector<Slice> slices;  ///< inputs of the body
  std::vector<State> states;
  std::vector<Slice> stacks;  ///< outputs of the body: in each trip an operator writes `inside`
};

struct Graph {
  std::vector<Port> inputs;
  std::map<std::string, Constant> constants;  ///< by the tensor's name
  std::vector<Operator> operators;            ///< producers before their consumers
  /// Names of distinct tensors outside of loops (inputs, constants, results of operators or loops),
  /// in the order in which callers pass arrays for them.
  std::vector<std::string> outputs;
  std::vector<Loop> loops = {};  ///< in the order of their operators
};

/// Returns the names of the tensors that a loop reads from outside of its body. A tensor that the
/// loop reads several times is in the list several times.
std::vector<std::string> sources_of(const Loop& loop);
/// Returns the names of the tensors outside of the body that a loop writes.
std::vector<std::string> results_of(const Loop& loop);
/// Returns the names of the tensors of the body that get their values from outside of the body or
/// from the trip before.
std::vector<std::string> entries_of(const Loop& loop);
/// Returns the names of the tensors of the body that leave the body or are handed to the next trip.
/// Each name occurs once.
std::vector<std::string> exits_of(const Loop& loop);

/// Returns, for each loop, the index of its first operator and the index after its last operator.
/// Requires: a valid graph.
std::vector<std::pair<size_t, size_t>> loop_ranges(const Graph& graph);
/// Returns the number of runs of an operator in one call of the graph: the trips of the loop that
/// contains the operator, or 1 outside of loops.
int64_t runs_of(const Graph& graph, const Operator& op);
/// Maps the name of each tensor in the body of a loop to the number of trips of that loop.
/// Constants are left out, and so are tensors outside of loops.
std::map<std::string, int64_t> trips_of_tensors(const Graph& graph);

/// Returns the types of all tensors by name: inputs, constants, outputs of operators, and the
/// tensors through which values enter or leave the body of a loop. Requires: a valid graph.
std::map<std::string, TensorType> tensor_types(const Graph& graph);

/// Checks that a graph is valid. Fails with Invalid, naming the operator, tensor or loop, if it is
/// not. In a valid graph
/// - names are as is_tensor_name() asks, and no two tensors have the same name;
/// - each operator comes after the operators that write its inputs;
/// - the inputs and outputs of an operator have the types that its compute declares, and inputs
///   that the compute declares as weights are constants;
/// - the workloads of operators have no layouts;
/// - the outputs of the graph exist and are distinct;
/// - loops are as Loop describes them.
Status validate(const Graph& graph);

/// True if the text is a valid name of a tensor: not empty, and without white space, control
/// characters and `,:=()#`.
bool is_tensor_name(std::string_view name);

/// Computes a graph by the interpreter of the DSL, operator by operator. This is slow and serves as
/// the reference of tests. `inputs` has an array for each input of the graph, by name. The result
/// has the arrays of all tensors except constants, by name. A tensor in the body of a loop has its
/// value of the last trip. Fails with Usage if an input is missing or has another type or shape.
Result<dsl::Arrays> interpret(const Graph& graph, const dsl::Arrays& inputs);

/// Returns the text of a graph. It has one line for each input, constant and operator, and a last
/// line with the names of the outputs. A constant is written as the hash of its bytes.
///
///   input x: f32[1, 3, 224, 224]
///   const w: f32[64, 3, 7, 7] #3f2a...
///   y = conv2d(x, w) n=1 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 f32 fast
///   output y
///
/// The operators of a loop stand between `loop` and `end`, as in the example of Loop. A slice or
/// stack in backward order ends with the word `backward`.
std::string to_text(const Graph& graph);

/// Parses a text of to_text() and validates the graph. The text has hashes in place of the bytes of
/// constants. `constants` must have a constant of each of these hashes, under any name. Fails with
/// Invalid if the text cannot be parsed or a constant is missing, naming the line, or if the graph
/// is not valid.
Result<Graph> parse_graph(std::string_view text,
                          const std::map<std::string, Constant>& constants = {});

/// Returns a hash of the graph, weights included, as 16 hex digits.
std::string hash(const Graph& graph);

/// Returns the graph in the language of Graphviz' dot. Operators are nodes, tensors are edges, and
/// each loop is a cluster of nodes.
std::string to_dot(const Graph& graph);

}  // namespace tw::graph
