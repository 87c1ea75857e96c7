// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns the nodes of a parsed model into those of a graph. A body of nodes, be it the main graph, a
// function or a branch, is ordered and imported node by node in a scope of its own. So functions
// and branches end up in one graph, and protobuf is never rewritten. importer.cpp has inputs,
// tensors and nodes, importer_bodies.cpp functions, branches and loops. Private to graph/onnx. Not
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
  Scope* outer = nullptr;   ///< of a branch or a loop: the scope around it
  std::string prefix = "";  ///< of the names of its nodes and tensors in messages and in the graph
  int level = 0;
  int64_t opset = 0;
  /// Tensors of the graph by their names in the body; empty: an optional input that is left out.
  std::map<std::string, std::string, std::less<>> tensors = {};
  std::map<std::string, const TensorProto*, std::less<>> initializers = {};  ///< read when needed
  std::set<std::string, std::less<>> sparse = {};  ///< initializers that are not implemented
  /// In a function: the attributes of the node that calls it.
  std::map<std::string, const AttributeProto*, std::less<>> attributes = {};

  /// The attribute itself, or the one of the calling node that it stands for; nullptr: neither.
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
  std::string text;  ///< of the first one: "node 'a' (Loop): why"
  std::string name;  ///< of the first node; empty: no node
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

  /// Outputs are called as the model calls them, whatever else would have the name.
  void claim_outputs(Scope& scope);
  Status add_inputs(Scope& scope);
  Status check_declared_outputs(Scope& scope);
  Result<OnnxModel> finish(Scope& scope);

  /// Keeps what is not implemented for the list at the end; any other error ends the import. `node`
  /// is the name of the node that the message begins with, if any.
  Status note(const Error& error, const std::string& node = "");
  Status note(const Node& node, const Error& error) { return note(error, node.name); }
  Status note(const Node& node, const tl::unexpected<Error>& error);

  // ---- tensors ----------------------------------------------------------------------------

  /// The tensor of the graph that a name stands for; nullopt where nothing gives it. The builder
  /// does not know the tensor where something before it is not implemented.
  Result<std::optional<std::string>> find(const std::string& name, Scope& scope);
  Result<std::string> load(const TensorProto& proto, Scope& scope);
  std::string claim_output(const std::string& name, Scope& scope);

  // ---- nodes ------------------------------------------------------------------------------

  Status import_nodes(const Repeated<NodeProto>& nodes,
                      const std::vector<std::string_view>& outputs, Scope& scope);
  static Node named(const NodeProto& proto, const Scope& scope);

  /// Imports a node whose outputs in `read` are read by something.
  Status import_node(const NodeProto& proto, const std::set<std::string_view>& read, Scope& scope);
  Status convert_contributed(Node& node, const NodeProto& proto, Scope& scope);

  /// Converts a node with `conversion`, or with `on_constants` where all of its inputs are
  /// constants. Either may be null.
  Status convert(Node& node, const NodeProto& proto, const Conversion* conversion,
                 const Conversion* on_constants, Scope& scope);

  /// Conversions multiply extents of one input, so these stay far within 64 bits; a tensor without
  /// elements may have any beside the 0.
  static Status check_extents(const Node& node);

  /// Errors of builder and DSL say nothing of the node. What they call wrong use of theirs is a
  /// mistake of the model.
  static Error with_node(const Node& node, const Error& error);
  Status check_outputs(const Node& node);

  /// False where something before the node is not implemented, so that an input is not known.
  Result<bool> read_inputs(Node& node, const NodeProto& proto, Scope& scope);

  /// The tensor that a node reads under this name; empty where it is left out.
  Result<std::string> find_input(const Node& node, const std::string& name, Scope& scope);
  Status read_attributes(Node& node, const NodeProto& proto, const Scope& scope);

  // ---- functions and branches -------------------------------------------------------------

  /// A scope for a body that the node stands for.
  static Result<Scope> enter(const Node& node, const NodeProto& proto, const Scope& scope);
  Status call(const Node& node, const NodeProto& proto, const FunctionProto& function,
              Scope& scope);

  /// The tensor that a body calls `name`; empty if it depends on a part that is not implemented.
  Result<std::string> result_of(const Node& node, const std::string& name, Scope& inner);
  Status import_if(Node& node, const NodeProto& proto, Scope& scope);

  /// Imports an If whose condition is not known at import: both branches are computed, and the
  /// condition chooses between their results.
  Status import_both_branches(const Node& node, const NodeProto& proto, const Value& condition,
                              Scope& scope);

  // ---- loops ------------------------------------------------------------------------------

  /// Notes the error if the import of a node failed.
  Status noted(const Node& node, const Status& imported);

  /// A tensor that a loop reads or writes slice by slice.
  struct Sliced {
    std::string tensor;  ///< empty: nobody reads what the loop writes
    size_t axis = 0;
    bool is_backward = false;
  };

  /// A Scan or Loop. The inputs of its body are `leading`, the states, and the slices; the outputs
  /// are the condition, if there is one, the states, and the stacks.
  struct LoopNode {
    const GraphProto* body = nullptr;
    int64_t trips = 0;
    bool has_condition = false;
    bool counts_trips = false;                ///< the first input of the body is the trip's number
    std::string condition;                    ///< the second one: a constant
    std::vector<std::string> states, finals;  ///< before the first trip, and after the last
    std::vector<Sliced> slices, stacks;
  };
  Status import_scan(Node& node, const NodeProto& proto, Scope& scope);

  /// The inputs without their first dimension, which has one element.
  Status drop_batch(Node& node);

  /// Imports the trips, and gives the results their first dimension back.
  Status with_batch(const Node& node, const NodeProto& proto, LoopNode loop, Scope& scope);
  Status import_loop(Node& node, const NodeProto& proto, Scope& scope);

  /// The numbers of the trips, as the body declares that of one: i64[] or i64[1].
  Result<std::string> add_trip_numbers(const Node& node, const LoopNode& loop);

  /// The order of dimensions that moves one of `rank` to another place.
  static std::vector<size_t> moved(size_t rank, size_t from, size_t to);
  Status import_trips(const Node& node, const NodeProto& proto, LoopNode& loop, Scope& scope);

  /// Without trips the states stay as they are.
  Status import_no_trips(const Node& node, const LoopNode& loop);
  Status import_body(const Node& node, const NodeProto& proto, const LoopNode& loop,
                     const std::string& numbers, Scope& scope);

  /// Binds the outputs of a body.
  Status leave_body(const Node& node, const LoopNode& loop, const std::vector<std::string>& states,
                    Scope& inner);
  static Result<const GraphProto*> branch_of(const Node& node, const NodeProto& proto,
                                             std::string_view name);

  /// The tensors of the branch's outputs; empty for those that nobody reads, and behind what is not
  /// implemented.
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
