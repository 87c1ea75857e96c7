// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns the nodes of a parsed model into operators of a graph. The nodes of each body (the main
// graph, a function, a branch or the body of a loop) are ordered and imported one by one, in a
// scope of their own. So functions and branches end up in one graph, and the protobuf message is
// never rewritten. importer.cpp implements inputs, tensors and nodes; importer_bodies.cpp
// implements functions, branches and loops. Private to graph/onnx. Not thread-safe.

#include <fmt/format.h>
#include <onnx-ml.pb.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/onnx/graph_builder.h"
#include "graph/onnx/import.h"
#include "graph/onnx/model_checks.h"
#include "graph/onnx/names.h"
#include "graph/onnx/node.h"
#include "graph/onnx/tensor_reader.h"

namespace tw::graph::onnx {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

/// Scope of the names in one body: the main graph, a branch, the body of a loop, or a function.
struct Scope {
  /// The scope around a branch or a loop; nullptr for the main graph and functions.
  Scope* outer = nullptr;
  /// Put before the names of nodes and tensors, in messages and in the graph.
  std::string prefix = "";
  int level = 0;
  int64_t opset = 0;
  /// Tensors of the graph by their names in the body; empty: an optional input that is left out.
  std::map<std::string, std::string, std::less<>> tensors = {};
  std::map<std::string, const TensorProto*, std::less<>> initializers = {};  ///< read when needed
  std::set<std::string, std::less<>> sparse = {};  ///< initializers that are not implemented
  /// In a function and the bodies inside of it: the attributes of the node that calls the function,
  /// and the function's default values of attributes that the node does not have.
  std::map<std::string, const AttributeProto*, std::less<>> attributes = {};

  /// The attribute itself or, if it refers to an attribute of the enclosing function, the value of
  /// that attribute; nullptr if it has none.
  const AttributeProto* bound(const AttributeProto& attribute) const {
    if (attribute.ref_attr_name().empty()) return &attribute;
    const auto found = attributes.find(attribute.ref_attr_name());
    return found == attributes.end() ? nullptr : found->second;
  }
};

using FunctionKey = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

inline FunctionKey key_of(std::string_view domain, const std::string& name,
                          const std::string& overload) {
  return {is_default_domain(domain) ? "" : std::string(domain), name, overload};
}

/// A part of the model that is not implemented. Nodes of one operator that fail for the same reason
/// share one entry.
struct Failure {
  std::string key;   ///< the text without the name of the node
  std::string text;  ///< message for the first node: "node 'a' (Loop): why"
  std::string name;  ///< name of the first node; empty: no node
  int64_t count = 1;

  /// "48 nodes (Loop): why; the first is 'a'"
  std::string line() const {
    if (count == 1 || name.empty()) return text;
    return fmt::format("{} nodes {}; the first is '{}'", count, key, name);
  }
};

/// One import of a model, from its main graph to the graph of operators.
class Importer {
 public:
  Importer(ModelProto& model, const DataFolders& folders, const OnnxOptions& options)
      : model_(model),
        options_(options),
        tensors_(folders, options.most_bytes),
        builder_(options.most_bytes) {}

  Result<OnnxModel> run();

 private:
  // ---- inputs and outputs -----------------------------------------------------------------

  Status add_functions();

  /// Checks the names of a graph and makes its initializers known to the scope.
  static Status open(const GraphProto& graph, Scope& scope);

  /// Reserves the names of the model's outputs, so that the outputs of the graph have them.
  void claim_outputs(Scope& scope);
  Status add_inputs(Scope& scope);
  Status check_declared_outputs(Scope& scope);
  Result<OnnxModel> finish(Scope& scope);

  /// Collects an Unsupported error for the list at the end of the import and returns Ok; returns
  /// any other error, which ends the import. `node` is the name of the node with which the message
  /// begins; empty: none.
  Status note(const Error& error, const std::string& node = "");
  Status note(const Node& node, const Error& error) { return note(error, node.name); }
  Status note(const Node& node, const tl::unexpected<Error>& error);

  // ---- tensors ----------------------------------------------------------------------------

  /// The tensor of the graph that a name of the body stands for; nullopt if nothing in the model
  /// defines it. The builder does not know the tensor if it depends on a part that is not
  /// implemented.
  Result<std::optional<std::string>> find(const std::string& name, Scope& scope);
  Result<std::string> load(const TensorProto& proto, Scope& scope);
  std::string claim_output(const std::string& name, Scope& scope);

  // ---- nodes ------------------------------------------------------------------------------

  Status import_nodes(const Repeated<NodeProto>& nodes,
                      const std::vector<std::string_view>& outputs, Scope& scope);
  static Node named(const NodeProto& proto, const Scope& scope);

  /// Imports a node. `read` are the names of those of its outputs that something reads.
  Status import_node(const NodeProto& proto, const std::set<std::string_view>& read, Scope& scope);
  Status convert_contributed(Node& node, const NodeProto& proto, Scope& scope);

  /// Converts a node by `on_constants` if all of its inputs are constants, else by `conversion`.
  /// Each may be null.
  Status convert(Node& node, const NodeProto& proto, const Conversion* conversion,
                 const Conversion* on_constants, Scope& scope);

  /// Unsupported unless the product of the extents of each input, 0 counting as 1, is far within 64
  /// bits, since conversions multiply extents. A tensor without elements may have any extents
  /// beside the 0.
  static Status check_extents(const Node& node);

  /// Adds the name of the node to an error of the builder or of the DSL. A Usage error of theirs
  /// becomes Invalid, since the model is wrong.
  static Error with_node(const Node& node, const Error& error);
  Status check_outputs(const Node& node);

  /// Fills the inputs of the node. False if an input is not known because a node before it is not
  /// implemented.
  Result<bool> read_inputs(Node& node, const NodeProto& proto, Scope& scope);

  /// The tensor of the graph that a node reads under this name; empty if the optional input is left
  /// out.
  Result<std::string> find_input(const Node& node, const std::string& name, Scope& scope);
  Status read_attributes(Node& node, const NodeProto& proto, const Scope& scope);

  // ---- functions and branches -------------------------------------------------------------

  /// Makes the scope of a body that the node runs: a function, a branch or the body of a loop.
  static Result<Scope> enter(const Node& node, const NodeProto& proto, const Scope& scope);
  Status call(const Node& node, const NodeProto& proto, const FunctionProto& function,
              Scope& scope);

  /// The tensor of the graph for an output `name` of a body; empty if it depends on a part that is
  /// not implemented.
  Result<std::string> result_of(const Node& node, const std::string& name, Scope& inner);
  Status import_if(Node& node, const NodeProto& proto, Scope& scope);

  /// Imports an If whose condition is not known at import: the graph computes both branches, and
  /// the condition selects between their results.
  Status import_both_branches(const Node& node, const NodeProto& proto, const Value& condition,
                              Scope& scope);

  // ---- loops ------------------------------------------------------------------------------

  /// Passes the error to note() if the import of a node failed.
  Status noted(const Node& node, const Status& imported);

  /// A tensor that a loop reads or writes slice by slice.
  struct Sliced {
    std::string tensor;  ///< name of the tensor; empty: nothing reads this result of the loop
    size_t axis = 0;
    bool is_backward = false;
  };

  /// A Scan or Loop. The inputs of its body are `leading`, the states, and the slices; the outputs
  /// are the condition, if there is one, the states, and the stacks.
  struct LoopNode {
    const GraphProto* body = nullptr;
    int64_t trips = 0;
    bool has_condition = false;
    bool counts_trips = false;  ///< the first input of the body is the trip's number
    std::string condition;      ///< tensor of the second input of the body, a constant
    /// Tensors before the first trip, and after the last trip.
    std::vector<std::string> states, finals;
    std::vector<Sliced> slices, stacks;
  };
  Status import_scan(Node& node, const NodeProto& proto, Scope& scope);

  /// Removes the first dimension, which has one element, from the inputs of the node.
  Status drop_batch(Node& node);

  /// Imports the trips of a loop after drop_batch(), and adds the first dimension to the results
  /// again.
  Status with_batch(const Node& node, const NodeProto& proto, LoopNode loop, Scope& scope);
  Status import_loop(Node& node, const NodeProto& proto, Scope& scope);

  /// Adds a tensor with the numbers of the trips, from which each trip takes a slice of the shape
  /// that the body declares for it: i64[] or i64[1].
  Result<std::string> add_trip_numbers(const Node& node, const LoopNode& loop);

  /// The permutation of `rank` dimensions that moves dimension `from` to position `to`.
  static std::vector<size_t> moved(size_t rank, size_t from, size_t to);
  Status import_trips(const Node& node, const NodeProto& proto, LoopNode& loop, Scope& scope);

  /// Imports a loop without trips: its final states are its initial states.
  Status import_no_trips(const Node& node, const LoopNode& loop);
  Status import_body(const Node& node, const NodeProto& proto, const LoopNode& loop,
                     const std::string& numbers, Scope& scope);

  /// Connects the outputs of a body to the states and the stacks of its loop.
  Status leave_body(const Node& node, const LoopNode& loop, const std::vector<std::string>& states,
                    Scope& inner);
  static Result<const GraphProto*> branch_of(const Node& node, const NodeProto& proto,
                                             std::string_view name);

  /// Imports a branch and returns the tensor of each of its outputs. A name is empty if nobody
  /// reads the output, or if it depends on a part that is not implemented.
  Result<std::vector<std::string>> import_branch(const Node& node, const NodeProto& proto,
                                                 std::string_view name, Scope& scope);

  ModelProto& model_;
  std::map<std::string_view, TensorProto*> weights_;  ///< initializers of the main graph
  const OnnxOptions& options_;
  TensorReader tensors_;
  GraphBuilder builder_;
  std::map<FunctionKey, const FunctionProto*> functions_;
  std::vector<Failure> failures_;
  std::vector<std::string> warnings_;
  /// Outputs of the current loop that are stacked along another axis than the first, each with the
  /// name of a tensor that is stacked along the first axis. After the loop, a transpose of that
  /// tensor makes the output.
  std::vector<std::pair<std::string, Sliced>> moved_stacks_;
  int64_t nodes_ = 0, names_seen_ = 0;
};

}  // namespace tw::graph::onnx
