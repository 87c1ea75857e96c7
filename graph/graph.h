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
  std::optional<size_t> loop = {};   ///< index into Graph::loops of the loop that it is in

  const std::string& name() const { return outputs.front(); }
};

/// Operators that run `trips` times: a recurrent layer is a loop whose trips are its steps. The
/// operators of the loop, its body, stand side by side in Graph::operators. They read constants,
/// tensors of the body, and nothing else: what enters the body or leaves it does so under another
/// name. All of these tensors are row-major.
///
///   loop rnn: 100
///   slice x: xs              // in trip t, x is xs[t]
///   share u: v               // in every trip, u is v
///   state h: h0, h1, hn      // h is h0, and then the h1 of the trip before; hn is the last h1
///   stack ys: h1             // ys[t] is the h1 of trip t
///   h1 = ...(x, u, h)
///   end
struct Loop {
  /// A tensor of the body, and one outside of the body that does not change between trips.
  struct Share {
    std::string inside, outside;
  };
  /// A tensor of the body, and one outside of the body that has it of all trips along its first
  /// dimension: in the order of the trips, or backward, so that trip 0 has the last element.
  struct Slice {
    std::string inside, outside;
    bool is_backward = false;
  };
  /// A value that trips hand on. `next` is written by an operator of the body.
  struct State {
    std::string inside;  ///< in the body: the value before the trip
    std::string first;   ///< outside of the body: the value before trip 0
    std::string next;    ///< in the body: the value after the trip
    std::string last;    ///< outside of the body: the value after the last trip; empty: not needed
  };

  std::string name;
  int64_t trips = 1;          ///< 1 or more
  std::vector<Share> shares;  ///< inputs of the body
  std::vector<Slice> slices;  ///< inputs of the body
  std::vector<State> states;
  std::vector<Slice> stacks;  ///< outputs of the body; `inside` is written by an operator of it
};

struct Graph {
  std::vector<Port> inputs;
  std::map<std::string, Constant> constants;  ///< by the tensor's name
  std::vector<Operator> operators;            ///< producers before their consumers
  /// Distinct tensors of any kind outside of loops, in the order in which callers give arrays for
  /// them.
  std::vector<std::string> outputs;
  std::vector<Loop> loops = {};  ///< in the order of their operators
};

/// Names of the tensors that a loop reads from outside of its body, as often as it reads them.
std::vector<std::string> sources_of(const Loop& loop);
/// Names of the tensors outside of the body that a loop writes.
std::vector<std::string> results_of(const Loop& loop);
/// Names of the tensors of the body that get their values from outside of it, or from the trip
/// before.
std::vector<std::string> entries_of(const Loop& loop);
/// Names of the tensors of the body that leave it or are handed to the next trip, each once.
std::vector<std::string> exits_of(const Loop& loop);

/// The operators of each loop, as the indices of the first one and of the one behind the last.
/// Requires: a valid graph.
std::vector<std::pair<size_t, size_t>> loop_ranges(const Graph& graph);
/// Number of runs of an operator in one call of the graph: the trips of its loop, or 1.
int64_t runs_of(const Graph& graph, const Operator& op);
/// The tensors in the bodies of loops that are no constants, with the trips of their loop.
std::map<std::string, int64_t> trips_of_tensors(const Graph& graph);

/// Types of all tensors by name: inputs, constants, outputs of operators, and what enters the body
/// of a loop or leaves it. Requires: a valid graph.
std::map<std::string, TensorType> tensor_types(const Graph& graph);

/// Names well formed and given once; operators in order, each with tensors of the types that its
/// compute declares; inputs that a compute declares as weights bound to constants; outputs exist;
/// loops as Loop describes them. Invalid, naming the operator, tensor or loop.
Status validate(const Graph& graph);

/// True if the text is a valid name of a tensor: not empty, and without spaces, control characters
/// and `,:=()#`.
bool is_tensor_name(std::string_view name);

/// The values of all tensors of the graph that are not constants, operator by operator. `inputs`
/// has an array for each input of the graph. Tensors in the body of a loop have their values of the
/// last trip. The slow oracle: see dsl::interpret().
Result<dsl::Arrays> interpret(const Graph& graph, const dsl::Arrays& inputs);

/// The text of a graph, one line a tensor; constants appear by their hash.
///
///   input x: f32[1, 3, 224, 224]
///   const w: f32[64, 3, 7, 7] #3f2a...
///   y = conv2d(x, w) n=1 c=3 h=224 w=224 k=64 r=7 s=7 stride=2 pad=3 f32 fast
///   output y
///
/// The operators of a loop stand between `loop` and `end`, as in the example of Loop. A slice or
/// stack in backward order has the word `backward` behind it.
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
