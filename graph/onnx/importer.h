// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns the nodes of a parsed model into operators of a graph. A body is a list of nodes with names
// of its own: the main graph, a function, a branch or the body of a loop. Each body is ordered and
// imported node by node, in a Scope of its own, directly into the one graph that results. The
// protobuf message need not be rewritten for this. importer.cpp implements inputs, tensors and
// nodes; importer_bodies.cpp implements functions, branches and loops. Private to graph/onnx. Not
// thread-safe.

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
  /// The scope that encloses a branch or a loop; nullptr for the main graph and functions.
  Scope* outer = nullptr;
  /// Prefix of the names of the body's nodes and tensors, in messages and in the graph, such as
  /// "call1/".
  std::string prefix = "";
  int level = 0;
  int64_t opset = 0;
  /// Maps names of the body to tensors of the graph. An empty tensor stands for an optional input
  /// that the caller of the body leaves out.
  std::map<std::string, std::string, std::less<>> tensors = {};
  /// By name; read when needed.
  std::map<std::string, const TensorProto*, std::less<>> initializers = {};
  std::set<std::string, std::less<>> sparse = {};  ///< initializers that are not implemented
  /// In a function and the bodies inside of it, the attributes of the node that calls the function,
  /// by name. If the node leaves an attribute out, the function's default value is here.
  std::map<std::string, const AttributeProto*, std::less<>> attributes = {};

  /// Returns the attribute itself or, if it refers to an attribute of the enclosing function, that
  /// attribute's value. nullptr if the referred attribute has no value.
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

  /// The line of the message, such as "48 nodes (Loop): why; the first is 'a'".
  std::string line() const {
    if (count == 1 || name.empty()) return text;
    return fmt::format("{} nodes {}; the first is '{}'", count, key, name);
  }
};

/// Imports one model. An Importer is made for each model, and run() is called once.
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

  /// Reserves the names of the model's outputs, so that the outputs of the graph get these names.
  void claim_outputs(Scope& scope);
  Status add_inputs(Scope& scope);
  Status check_declared_outputs(Scope& scope);
  Result<OnnxModel> finish(Scope& scope);

  /// Collects an Unsupported error for the list at the end of the import and returns Ok. Any other
  /// error is returned and ends the import. `node` is the name of the node with which the message
  /// begins; empty if it begins with no node.
  Status note(const Error& error, const std::string& node = "");
  Status note(const Node& node, const Error& error) { return note(error, node.name); }
  Status note(const Node& node, const tl::unexpected<Error>& error);

  // ---- tensors ----------------------------------------------------------------------------

  /// Returns the name of the tensor of the graph that a name of the body stands for; nullopt if
  /// nothing in the model defines the name. If the tensor depends on a part of the model that is
  /// not implemented, builder_ has no tensor of the returned name.
  Result<std::optional<std::string>> find(const std::string& name, Scope& scope);
  Result<std::string> load(const TensorProto& proto, Scope& scope);
  std::string claim_output(const std::string& name, Scope& scope);

  // ---- nodes ------------------------------------------------------------------------------

  Status import_nodes(const Repeated<NodeProto>& nodes,
                      const std::vector<std::string_view>& outputs, Scope& scope);
  static Node named(const NodeProto& proto, const Scope& scope);

  /// Imports a node. `read` has all names that something in the body reads; outputs of the node
  /// that are not among them are dropped.
  Status import_node(const NodeProto& proto, const std::set<std::string_view>& read, Scope& scope);
  Status convert_contributed(Node& node, const NodeProto& proto, Scope& scope);

  /// Converts a node. Uses `on_constants` if it is not nullptr and all inputs of the node are
  /// constants, else `conversion`. If the chosen one is nullptr, the node is not implemented, and
  /// note() collects an Unsupported error.
  Status convert(Node& node, const NodeProto& proto, const Conversion* conversion,
                 const Conversion* on_constants, Scope& scope);

  /// Checks that the extents of each input multiply to at most 2^48, since conversions compute
  /// products of extents in 64 bits. An extent of 0 counts as 1. Fails with Unsupported otherwise.
  static Status check_extents(const Node& node);

  /// Adds the name of the node to an error of the builder or of the DSL. Usage becomes Invalid,
  /// since the model is wrong and not the caller.
  static Error with_node(const Node& node, const Error& error);
  Status check_outputs(const Node& node);

  /// Sets node.inputs. Returns false if an input is not known because an earlier node is not
  /// implemented.
  Result<bool> read_inputs(Node& node, const NodeProto& proto, Scope& scope);

  /// Returns the tensor of the graph that the node reads under this name; empty if the name stands
  /// for an optional input that is left out. Fails with Invalid if nothing defines the name.
  Result<std::string> find_input(const Node& node, const std::string& name, Scope& scope);
  Status read_attributes(Node& node, const NodeProto& proto, const Scope& scope);

  // ---- functions and branches -------------------------------------------------------------

  /// Makes the scope of a body that the node runs: a function, a branch or the body of a loop.
  static Result<Scope> enter(const Node& node, const NodeProto& proto, const Scope& scope);
  Status call(const Node& node, const NodeProto& proto, const FunctionProto& function,
              Scope& scope);

  /// Returns the tensor of the graph for the output `name` of a body; empty if the output depends
  /// on a part of the model that is not implemented.
  Result<std::string> result_of(const Node& node, const std::string& name, Scope& inner);
  Status import_if(Node& node, const NodeProto& proto, Scope& scope);

  /// Imports an If whose condition is not known at import: the graph computes both branches, and
  /// the condition selects between their results.
  Status import_both_branches(const Node& node, const NodeProto& proto, const Value& condition,
                              Scope& scope);

  // ---- loops ------------------------------------------------------------------------------

  /// Passes the error of a node's import to note(). Ok if `imported` is Ok.
  Status noted(const Node& node, const Status& imported);

  /// A tensor that a loop reads or writes slice by slice.
  struct Sliced {
    std::string tensor;  ///< name of the tensor; empty: nothing reads this result of the loop
    size_t axis = 0;
    bool is_backward = false;
  };

  /// A Scan or Loop. The inputs of its body are the index of the trip (from 0) if `counts_trips`,
  /// the condition if `has_condition`, then the states and the slices. The outputs of its body are
  /// the condition if `has_condition`, then the states and the stacks.
  struct LoopNode {
    const GraphProto* body = nullptr;
    int64_t trips = 0;
    bool has_condition = false;
    bool counts_trips = false;  ///< the first input of the body is the index of the trip
    std::string condition;      ///< tensor of the condition that the body reads, a constant
    /// Tensors that hold the states before the first trip (`states`) and after the last (`finals`).
    std::vector<std::string> states, finals;
    std::vector<Sliced> slices, stacks;
  };
  Status import_scan(Node& node, const NodeProto& proto, Scope& scope);

  /// Removes the dimension of the batch, the first one, from all inputs of a Scan of opset 8. Fails
  /// with Unsupported if the batch has more than one element.
  Status drop_batch(Node& node);

  /// Imports the trips of a loop after drop_batch(), and adds the dimension of the batch to the
  /// results again.
  Status with_batch(const Node& node, const NodeProto& proto, LoopNode loop, Scope& scope);
  Status import_loop(Node& node, const NodeProto& proto, Scope& scope);

  /// Adds a constant with the indices of the trips, 0, 1, 2 and so on, and returns its name. Each
  /// trip reads a slice of this constant. The slice has the shape that the body declares: i64[] or
  /// i64[1]. Adds nothing and returns an empty name if the body does not read the index of the
  /// trip. Fails with Unsupported if the constant is too large to be made at import.
  Result<std::string> add_trip_numbers(const Node& node, const LoopNode& loop);

  /// Returns the permutation of `rank` dimensions that moves dimension `from` to position `to`:
  /// moved(4, 2, 0) is {2, 0, 1, 3}.
  static std::vector<size_t> moved(size_t rank, size_t from, size_t to);
  Status import_trips(const Node& node, const NodeProto& proto, LoopNode& loop, Scope& scope);

  /// Imports a loop of 0 trips: its final states are its initial states. Fails with Unsupported if
  /// something reads a result that is stacked over the trips.
  Status import_no_trips(const Node& node, const LoopNode& loop);
  Status import_body(const Node& node, const NodeProto& proto, const LoopNode& loop,
                     const std::string& numbers, Scope& scope);

  /// Makes the outputs of a body the next values of the loop's states, whose names in the body are
  /// `states`, and the values that the loop's stacks collect.
  Status leave_body(const Node& node, const LoopNode& loop, const std::vector<std::string>& states,
                    Scope& inner);
  static Result<const GraphProto*> branch_of(const Node& node, const NodeProto& proto,
                                             std::string_view name);

  /// Imports the branch that the attribute `name` of an If holds. Returns the tensor of each output
  /// of the branch. The tensor is empty if nothing reads the output, or if the output depends on a
  /// part of the model that is not implemented.
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
  /// Outputs of the current loop that are stacked along another axis than the first. The loop
  /// stacks them along the first axis, in the tensor that the first element of the pair names, and
  /// a transpose after the loop makes the output from this tensor.
  std::vector<std::pair<std::string, Sliced>> moved_stacks_;
  int64_t nodes_ = 0, names_seen_ = 0;
};

}  // namespace tw::graph::onnx
