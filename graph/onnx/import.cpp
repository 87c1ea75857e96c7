// SPDX-License-Identifier: Apache-2.0
// The way of a model: it is parsed, its names are checked, and its main graph is imported. A body
// of nodes, be it the main graph, a function or a branch, is ordered and imported node by node in a
// scope of its own. So functions and branches end up in one graph, and protobuf is never rewritten.

#include "graph/onnx/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <onnx-ml.pb.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "base/integer.h"
#include "base/text.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/declared_types.h"
#include "graph/onnx/graph_builder.h"
#include "graph/onnx/model_checks.h"
#include "graph/onnx/names.h"
#include "graph/onnx/node.h"
#include "graph/onnx/tensor_reader.h"

namespace tw::graph {
namespace onnx {
namespace {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

constexpr int most_nested_messages = 100;
constexpr int most_nested_bodies = 64;
/// Functions that call functions may stand for 2^64 nodes, and their branches are looked at with
/// each call.
constexpr int64_t most_nodes = 100'000, most_names = 5'000'000;
constexpr int64_t most_extents = int64_t{1} << 48;  // product of a tensor's extents other than 0
constexpr size_t longest_prefix = 150;

// ---- attributes -------------------------------------------------------------------------------

/// The value of an attribute of a kind that attributes of operators have.
Result<AttributeValue> read_attribute(const Node& node, const AttributeProto& a,
                                      TensorReader& tensors) {
  switch (a.type()) {
    case AttributeProto::FLOAT:
      return double{a.f()};
    case AttributeProto::INT:
      return int64_t{a.i()};
    case AttributeProto::STRING:
      return a.s();
    case AttributeProto::FLOATS:
      return std::vector<double>(a.floats().begin(), a.floats().end());
    case AttributeProto::INTS:
      return std::vector<int64_t>(a.ints().begin(), a.ints().end());
    case AttributeProto::STRINGS:
      return std::vector<std::string>(a.strings().begin(), a.strings().end());
    case AttributeProto::TENSOR: {
      auto array = tensors.read(a.t());
      if (!array) return node.fail(array.error().code, without_prefix(array.error().message));
      return make_constant(std::move(*array));
    }
    default:
      return node.unsupported(fmt::format("its attribute '{}' is of a kind that is not implemented",
                                          printable(a.name())));
  }
}

// ---- the model --------------------------------------------------------------------------------

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
FunctionKey key_of(std::string_view domain, const std::string& name, const std::string& overload) {
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

/// True if the graph has quantized activations.
bool quantizes(const GraphProto& graph) {
  return std::ranges::any_of(
      graph.node(), [](const NodeProto& node) { return node.op_type() == "QuantizeLinear"; });
}

class Importer {
 public:
  Importer(ModelProto& model, const DataFolders& folders, const OnnxOptions& options)
      : model_(model),
        options_(options),
        tensors_(folders, options.most_bytes),
        builder_(options.most_bytes) {}

  Result<OnnxModel> run() {
    Scope scope;
    TW_RETURN_IF_ERROR(check_model(model_));
    TW_TRY(scope.opset, opset_of(model_.opset_import()));
    TW_RETURN_IF_ERROR(add_functions());
    TW_RETURN_IF_ERROR(open(model_.graph(), scope));
    for (TensorProto& tensor : *model_.mutable_graph()->mutable_initializer())
      weights_[tensor.name()] = &tensor;
    TW_RETURN_IF_ERROR(add_inputs(scope));
    claim_outputs(scope);
    if (quantizes(model_.graph())) builder_.keep_quantized_constants();
    TW_RETURN_IF_ERROR(import_nodes(model_.graph().node(), outputs_of(model_.graph()), scope));
    return finish(scope);
  }

 private:
  // ---- inputs and outputs -----------------------------------------------------------------

  Status add_functions() {
    for (const FunctionProto& function : model_.functions()) {
      TW_RETURN_IF_ERROR(check_function(function));
      const FunctionKey key = key_of(function.domain(), function.name(), function.overload());
      if (!functions_.emplace(key, &function).second)
        return invalid_model(
            fmt::format("the function '{}' is given twice", printable(function.name())));
    }
    return {};
  }

  /// Checks the names of a graph and makes its initializers known to the scope.
  static Status open(const GraphProto& graph, Scope& scope) {
    TW_RETURN_IF_ERROR(check_graph(graph));
    for (const TensorProto& tensor : graph.initializer())
      scope.initializers[tensor.name()] = &tensor;
    for (const auto& tensor : graph.sparse_initializer())
      scope.sparse.insert(tensor.values().name());
    return {};
  }

  /// Outputs are called as the model calls them, whatever else would have the name.
  void claim_outputs(Scope& scope) {
    const std::vector<std::string_view> names = outputs_of(model_.graph());
    const std::set<std::string_view> outputs(names.begin(), names.end());
    for (const NodeProto& node : model_.graph().node())
      for (const std::string& name : node.output())
        if (outputs.contains(name)) claim_output(name, scope);
  }

  Status add_inputs(Scope& scope) {
    Inputs inputs;
    for (const ValueInfoProto& input : model_.graph().input())
      if (!scope.initializers.contains(input.name())) inputs.push_back(&input);
    TW_RETURN_IF_ERROR(check_dimensions(inputs, options_.dimensions));
    TW_RETURN_IF_ERROR(check_pinned(inputs, options_.constants));
    for (const ValueInfoProto* input : inputs) {
      const std::string name = scope.tensors[input->name()] = builder_.claim(input->name());
      const auto type = type_of_input(*input, options_.dimensions);
      const auto pinned = options_.constants.find(input->name());
      if (!type) {
        TW_RETURN_IF_ERROR(note(type.error()));
      } else if (pinned == options_.constants.end()) {
        builder_.add_input(name, *type);
      } else {
        TW_TRY(dsl::Array array, pinned_array(input->name(), *type, pinned->second));
        TW_RETURN_IF_ERROR(builder_.add_constant(name, std::move(array)));
      }
    }
    return {};
  }

  Status check_declared_outputs(Scope& scope) {
    for (const ValueInfoProto& output : model_.graph().output()) {
      TW_TRY(const auto tensor, find(output.name(), scope));
      TW_TRY(const auto warning, check_declared(output, builder_.value(*tensor).type));
      if (warning) warnings_.push_back(*warning);
    }
    return {};
  }

  Result<OnnxModel> finish(Scope& scope) {
    std::vector<GraphBuilder::Output> outputs;
    bool is_complete = true;
    for (const ValueInfoProto& output : model_.graph().output()) {
      TW_TRY(const auto tensor, find(output.name(), scope));
      if (!tensor || (failures_.empty() && !builder_.knows(*tensor)))
        return invalid_model(
            fmt::format("no node gives the output '{}'", printable(output.name())));
      is_complete = is_complete && builder_.knows(*tensor);
      outputs.push_back({*tensor, *tensor});
    }
    for (const ValueInfoProto& input : model_.graph().input())
      if (const auto tensor = scope.tensors.find(input.name()); tensor != scope.tensors.end())
        is_complete = is_complete && builder_.knows(tensor->second);
    if (is_complete) {
      TW_RETURN_IF_ERROR(check_declared_outputs(scope));
      TW_TRY(Graph graph, builder_.finish(outputs));
      return OnnxModel{std::move(graph), std::move(warnings_)};
    }
    std::vector<std::string> lines;
    int64_t count = 0;
    for (const Failure& failure : failures_) {
      lines.push_back(failure.line());
      count += failure.count;
    }
    if (lines.size() == 1) return fail(ErrorCode::Unsupported, "[onnx] " + lines.front());
    return fail(ErrorCode::Unsupported,
                fmt::format("[onnx] {} parts of the model are not implemented:\n  {}", count,
                            fmt::join(lines, "\n  ")));
  }

  /// Keeps what is not implemented for the list at the end; any other error ends the import. `node`
  /// is the name of the node that the message begins with, if any.
  Status note(const Error& error, const std::string& node = "") {
    if (error.code != ErrorCode::Unsupported) return tl::unexpected(error);
    const std::string text = without_prefix(error.message);
    const std::string begin = fmt::format("node '{}' ", node);
    const bool is_of_node = !node.empty() && text.starts_with(begin);
    const std::string key = is_of_node ? text.substr(begin.size()) : text;
    const auto known = std::ranges::find(failures_, key, &Failure::key);
    if (known == failures_.end())
      failures_.push_back({key, text, is_of_node ? node : ""});
    else
      ++known->count;
    return {};
  }
  Status note(const Node& node, const Error& error) { return note(error, node.name); }
  Status note(const Node& node, const tl::unexpected<Error>& error) {
    return note(node, error.value());
  }

  // ---- tensors ----------------------------------------------------------------------------

  /// The tensor of the graph that a name stands for; nullopt where nothing gives it. The builder
  /// does not know the tensor where something before it is not implemented.
  Result<std::optional<std::string>> find(const std::string& name, Scope& scope) {
    for (Scope* s = &scope; s; s = s->outer) {
      if (const auto found = s->tensors.find(name); found != s->tensors.end()) return found->second;
      if (const auto found = s->initializers.find(name); found != s->initializers.end()) {
        TW_TRY(std::string tensor, load(*found->second, *s));
        return tensor;
      }
      if (s->sparse.contains(name)) {
        TW_RETURN_IF_ERROR(
            note({ErrorCode::Unsupported,
                  fmt::format("[onnx] tensor '{}': sparse tensors are not implemented",
                              printable(name))}));
        return s->tensors[name] = builder_.claim(s->prefix + name);
      }
    }
    return std::nullopt;
  }

  Result<std::string> load(const TensorProto& proto, Scope& scope) {
    const std::string tensor = builder_.claim(scope.prefix + proto.name());
    scope.tensors[proto.name()] = tensor;
    auto array = tensors_.read(proto);
    if (!array) {
      TW_RETURN_IF_ERROR(note(array.error()));
      return tensor;
    }
    // Those of a branch in a function may be read again for each call.
    if (scope.level > 0) {
      TW_RETURN_IF_ERROR(builder_.add_constant(tensor, std::move(*array)));
      return tensor;
    }
    delete weights_.at(proto.name())->release_raw_data();  // weights are in memory once
    builder_.admit_bytes(std::ssize(array->data));
    builder_.add_initializer(tensor, std::move(*array));
    return tensor;
  }

  std::string claim_output(const std::string& name, Scope& scope) {
    const auto found = scope.tensors.find(name);
    if (found != scope.tensors.end()) return found->second;
    return scope.tensors[name] = builder_.claim(scope.prefix + name);
  }

  // ---- nodes ------------------------------------------------------------------------------

  Status import_nodes(const Repeated<NodeProto>& nodes,
                      const std::vector<std::string_view>& outputs, Scope& scope) {
    std::vector<NodeNames> names;
    for (const NodeProto& node : nodes) names.push_back(names_of(node, names_seen_));
    nodes_ += nodes.size();
    if (nodes_ > most_nodes || names_seen_ > most_names)
      return fail(
          ErrorCode::Unsupported,
          fmt::format("[onnx] the model has more than {} nodes or {} names, those of called "
                      "functions included",
                      most_nodes, most_names));
    const NodeOrder order = order_nodes(names, outputs);
    if (order.on_cycle) {
      const NodeProto& node = nodes[static_cast<int>(*order.on_cycle)];
      return named(node, scope).invalid("it needs its own output");
    }
    std::set<std::string_view> read(outputs.begin(), outputs.end());
    for (const size_t i : order.nodes) read.insert(names[i].reads.begin(), names[i].reads.end());
    for (const size_t i : order.nodes)
      TW_RETURN_IF_ERROR(import_node(nodes[static_cast<int>(i)], read, scope));
    return {};
  }

  static Node named(const NodeProto& proto, const Scope& scope) {
    Node node;
    node.name = printable(scope.prefix + name_of(proto));
    node.op_type = printable(proto.op_type());
    node.opset = scope.opset;
    return node;
  }

  /// Imports a node whose outputs in `read` are read by something.
  Status import_node(const NodeProto& proto, const std::set<std::string_view>& read, Scope& scope) {
    Node node = named(proto, scope);
    for (const std::string& output : proto.output())
      node.outputs.push_back(!output.empty() && read.contains(output) ? claim_output(output, scope)
                                                                      : "");
    TW_RETURN_IF_ERROR(check_node(node, proto));
    const auto function =
        functions_.find(key_of(proto.domain(), proto.op_type(), proto.overload()));
    if (function != functions_.end()) return call(node, proto, *function->second, scope);
    if (proto.domain() == contributed_domain) return convert_contributed(node, proto, scope);
    if (!is_default_domain(proto.domain()))
      return note(node, node.unsupported(fmt::format("the domain '{}' is not implemented",
                                                     printable(proto.domain()))));
    if (scope.opset == 0) return node.invalid("the model imports no opset of the default domain");
    if (proto.op_type() == "If") return import_if(node, proto, scope);
    if (proto.op_type() == "Scan") return noted(node, import_scan(node, proto, scope));
    if (proto.op_type() == "Loop") return noted(node, import_loop(node, proto, scope));
    return convert(node, proto, find_conversion(conversions(), node.op_type, node.opset),
                   find_conversion(constant_conversions(), node.op_type, node.opset), scope);
  }

  Status convert_contributed(Node& node, const NodeProto& proto, Scope& scope) {
    const Conversion* conversion = find_conversion(contributed_conversions(), node.op_type, 1);
    if (conversion) return convert(node, proto, conversion, nullptr, scope);
    return note(node, node.unsupported(
                          fmt::format("not implemented of the domain '{}'", contributed_domain)));
  }

  /// Converts a node with `conversion`, or with `on_constants` where all of its inputs are
  /// constants. Either may be null.
  Status convert(Node& node, const NodeProto& proto, const Conversion* conversion,
                 const Conversion* on_constants, Scope& scope) {
    if (!conversion && !on_constants)
      return note(node, node.unsupported(fmt::format("not implemented at opset {}", node.opset)));
    TW_TRY(const bool are_known, read_inputs(node, proto, scope));
    if (!are_known) return {};
    if (const Status read = read_attributes(node, proto, scope); !read)
      return note(node, read.error());
    const auto is_constant = [](const auto& input) { return !input || input->constant; };
    if (on_constants && std::ranges::all_of(node.inputs, is_constant)) conversion = on_constants;
    if (!conversion)
      return note(node,
                  node.unsupported("not implemented where its inputs are not known at import"));
    for (size_t i = 0; i < conversion->least_inputs; ++i)
      if (!node.has_input(i)) return node.invalid(fmt::format("input {} is left out", i));
    if (const Status sizes = check_extents(node); !sizes) return note(node, sizes.error());
    const Status converted = conversion->convert(node, builder_);
    if (!converted) return note(node, with_node(node, converted.error()));
    return check_outputs(node);
  }

  /// Conversions multiply extents of one input, so these stay far within 64 bits; a tensor without
  /// elements may have any beside the 0.
  static Status check_extents(const Node& node) {
    for (const std::optional<Value>& input : node.inputs) {
      if (!input) continue;
      std::vector<int64_t> extents = input->type.shape;
      std::ranges::replace(extents, 0, 1);
      if (checked_product(extents).value_or(most_extents + 1) > most_extents)
        return node.unsupported(fmt::format("the extents of '{}' are too large", input->name));
    }
    return {};
  }

  /// Errors of builder and DSL say nothing of the node. What they call wrong use of theirs is a
  /// mistake of the model.
  static Error with_node(const Node& node, const Error& error) {
    if (error.message.starts_with(fmt::format("[onnx] node '{}'", node.name))) return error;
    const bool is_misuse = error.code == ErrorCode::Usage;
    return node.fail(is_misuse ? ErrorCode::Invalid : error.code, without_prefix(error.message))
        .value();
  }

  Status check_outputs(const Node& node) {
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty() && !builder_.knows(node.outputs[i]))
        TW_RETURN_IF_ERROR(
            note(node, node.unsupported(fmt::format("its output {} is not implemented", i))));
    return {};
  }

  /// False where something before the node is not implemented, so that an input is not known.
  Result<bool> read_inputs(Node& node, const NodeProto& proto, Scope& scope) {
    bool are_known = true;
    for (const std::string& name : proto.input()) {
      TW_TRY(const std::string tensor, find_input(node, name, scope));
      node.inputs.emplace_back();
      if (tensor.empty()) continue;
      if (builder_.knows(tensor))
        node.inputs.back() = builder_.value(tensor);
      else
        are_known = false;
    }
    return are_known;
  }

  /// The tensor that a node reads under this name; empty where it is left out.
  Result<std::string> find_input(const Node& node, const std::string& name, Scope& scope) {
    if (name.empty()) return std::string();
    TW_TRY(const std::optional<std::string> tensor, find(name, scope));
    if (!tensor)
      return node.invalid(fmt::format("it reads '{}', which nothing gives", printable(name)));
    return *tensor;
  }

  Status read_attributes(Node& node, const NodeProto& proto, const Scope& scope) {
    for (const AttributeProto& attribute : proto.attribute()) {
      const AttributeProto* bound = scope.bound(attribute);
      if (!bound || bound->type() == AttributeProto::GRAPH) continue;
      TW_TRY(AttributeValue value, read_attribute(node, *bound, tensors_));
      if (const Constant* constant = std::get_if<Constant>(&value); constant && scope.level == 0)
        builder_.admit_bytes(std::ssize(constant->array->data));
      node.attributes.emplace(attribute.name(), std::move(value));
    }
    return {};
  }

  // ---- functions and branches -------------------------------------------------------------

  /// A scope for a body that the node stands for.
  static Result<Scope> enter(const Node& node, const NodeProto& proto, const Scope& scope) {
    if (scope.level + 1 >= most_nested_bodies)
      return node.invalid(
          fmt::format("functions and branches nest more than {} levels", most_nested_bodies));
    Scope inner;
    inner.prefix = fmt::format("{}{}/", scope.prefix, name_of(proto)).substr(0, longest_prefix);
    inner.level = scope.level + 1;
    return inner;
  }

  Status call(const Node& node, const NodeProto& proto, const FunctionProto& function,
              Scope& scope) {
    if (proto.input_size() > function.input_size() || proto.output_size() > function.output_size())
      return node.invalid("it gives the function more inputs or outputs than that has");
    TW_TRY(Scope inner, enter(node, proto, scope));
    TW_TRY(inner.opset, opset_of(function.opset_import()));
    for (int i = 0; i < function.input_size(); ++i) {
      const std::string& name = i < proto.input_size() ? proto.input(i) : std::string();
      TW_TRY(inner.tensors[function.input(i)], find_input(node, name, scope));
    }
    for (const AttributeProto& otherwise : function.attribute_proto())
      inner.attributes[otherwise.name()] = &otherwise;
    for (const AttributeProto& attribute : proto.attribute())
      if (const AttributeProto* bound = scope.bound(attribute))
        inner.attributes[attribute.name()] = bound;
    std::vector<std::string_view> outputs;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty()) outputs.push_back(function.output(static_cast<int>(i)));
    TW_RETURN_IF_ERROR(import_nodes(function.node(), outputs, inner));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      TW_TRY(const std::string tensor,
             result_of(node, function.output(static_cast<int>(i)), inner));
      if (!tensor.empty()) TW_RETURN_IF_ERROR(builder_.alias(node.outputs[i], tensor));
    }
    return {};
  }

  /// The tensor that a body calls `name`; empty if it depends on a part that is not implemented.
  Result<std::string> result_of(const Node& node, const std::string& name, Scope& inner) {
    TW_TRY(const std::string tensor, find_input(node, name, inner));
    if (builder_.knows(tensor)) return tensor;
    if (!failures_.empty()) return std::string();
    return node.invalid(fmt::format("nothing gives its output '{}'", printable(name)));
  }

  Status import_if(Node& node, const NodeProto& proto, Scope& scope) {
    TW_TRY(const bool are_known, read_inputs(node, proto, scope));
    if (!are_known) return {};
    if (!node.has_input(0)) return node.invalid("it has no condition");
    const Value& condition = node.input(0);
    if (condition.type.dtype != Bool || checked_product(condition.type.shape) != 1)
      return node.invalid(
          fmt::format("its condition is {}, expected one bool", condition.type.to_string()));
    if (!condition.constant) return import_both_branches(node, proto, condition, scope);
    const bool holds = condition.constant->array->get_int(0) != 0;
    TW_TRY(const auto tensors,
           import_branch(node, proto, holds ? "then_branch" : "else_branch", scope));
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (!tensors[i].empty()) TW_RETURN_IF_ERROR(builder_.alias(node.outputs[i], tensors[i]));
    return {};
  }

  /// Imports an If whose condition is not known at import: both branches are computed, and the
  /// condition chooses between their results.
  Status import_both_branches(const Node& node, const NodeProto& proto, const Value& condition,
                              Scope& scope) {
    TW_TRY(const auto then_tensors, import_branch(node, proto, "then_branch", scope));
    TW_TRY(const auto else_tensors, import_branch(node, proto, "else_branch", scope));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (then_tensors[i].empty() || else_tensors[i].empty()) continue;
      const Value a = builder_.value(then_tensors[i]), b = builder_.value(else_tensors[i]);
      if (a.type != b.type) {
        TW_RETURN_IF_ERROR(
            note(node, node.unsupported(fmt::format(
                           "its condition is not known at import, and its branches give {} and {}; "
                           "--constant NAME=VALUE gives an input of the model a value",
                           a.type.to_string(), b.type.to_string()))));
        continue;
      }
      const Status chosen = add_choice(builder_, condition, a, b, node.outputs[i]);
      if (!chosen) TW_RETURN_IF_ERROR(note(node, with_node(node, chosen.error())));
    }
    if (failures_.empty())
      warnings_.push_back(fmt::format(
          "node '{}' (If): its condition is not known at import, so both branches are computed",
          node.name));
    return {};
  }

  // ---- loops ------------------------------------------------------------------------------

  /// Notes the error if the import of a node failed.
  Status noted(const Node& node, const Status& imported) {
    if (imported) return {};
    return note(node, with_node(node, imported.error()));
  }

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

  Status import_scan(Node& node, const NodeProto& proto, Scope& scope) {
    TW_TRY(const bool are_known, read_inputs(node, proto, scope));
    if (!are_known) return {};
    TW_RETURN_IF_ERROR(read_attributes(node, proto, scope));
    LoopNode loop;
    TW_TRY(loop.body, branch_of(node, proto, "body"));
    TW_TRY(const int64_t slices, node.integer("num_scan_inputs", 0));
    // Until opset 8 all tensors have a batch, and the first input is the lengths of its sequences.
    const bool has_batch = node.opset < 9;
    if (has_batch && node.has_input(0))
      return node.unsupported("sequences of several lengths at opset 8");
    if (has_batch && !node.inputs.empty()) node.inputs.erase(node.inputs.begin());
    const int64_t states = std::ssize(node.inputs) - slices;
    const int64_t stacks = std::ssize(node.outputs) - states;
    if (slices < 1 || states < 0 || stacks < 0 || loop.body->input_size() != states + slices ||
        loop.body->output_size() != states + stacks)
      return node.invalid("its body has other inputs or outputs than it");
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!node.has_input(i)) return node.invalid(fmt::format("input {} is left out", i));
    if (has_batch) TW_RETURN_IF_ERROR(drop_batch(node));
    const auto list = [&](const char* name, int64_t count) {
      return node.integers(name, std::vector<int64_t>(static_cast<size_t>(count), 0));
    };
    TW_TRY(const auto input_axes, list("scan_input_axes", slices));
    TW_TRY(const auto input_directions,
           list(has_batch ? "directions" : "scan_input_directions", slices));
    TW_TRY(const auto output_axes, list("scan_output_axes", stacks));
    TW_TRY(const auto output_directions, list("scan_output_directions", stacks));
    if (std::ssize(input_axes) != slices || std::ssize(input_directions) != slices ||
        std::ssize(output_axes) != stacks || std::ssize(output_directions) != stacks)
      return node.invalid("its axes or directions are not as many as its tensors");
    for (size_t i = 0; i < static_cast<size_t>(states); ++i) {
      loop.states.push_back(node.input(i).name);
      loop.finals.push_back(node.outputs[i]);
    }
    for (size_t i = 0; i < static_cast<size_t>(slices); ++i) {
      const Value& input = node.input(static_cast<size_t>(states) + i);
      TW_TRY(const size_t axis, axis_of(node, input_axes[i], input.rank()));
      const int64_t trips = input.type.shape[axis];
      if (i > 0 && trips != loop.trips)
        return node.invalid(fmt::format("it has to scan {} and {} elements", loop.trips, trips));
      loop.trips = trips;
      loop.slices.push_back({input.name, axis, input_directions[i] != 0});
    }
    for (size_t i = 0; i < static_cast<size_t>(stacks); ++i) {
      if (output_axes[i] < 0)
        return node.unsupported("an axis of an output that counts from the last one");
      loop.stacks.push_back({node.outputs[static_cast<size_t>(states) + i],
                             static_cast<size_t>(output_axes[i]), output_directions[i] != 0});
    }
    return has_batch ? with_batch(node, proto, loop, scope)
                     : import_trips(node, proto, loop, scope);
  }

  /// The inputs without their first dimension, which has one element.
  Status drop_batch(Node& node) {
    for (std::optional<Value>& input : node.inputs) {
      std::vector<int64_t> shape = input->type.shape;
      if (shape.empty() || shape.front() != 1)
        return node.unsupported("a batch of more than one at opset 8");
      shape.erase(shape.begin());
      TW_TRY(input, reshaped(builder_, *input, shape));
    }
    return {};
  }

  /// Imports the trips, and gives the results their first dimension back.
  Status with_batch(const Node& node, const NodeProto& proto, LoopNode loop, Scope& scope) {
    std::vector<std::pair<std::string, std::string>> results;
    const auto rename = [&](std::string& output) {
      if (output.empty()) return;
      results.emplace_back(builder_.fresh_name(output), output);
      output = results.back().first;
    };
    for (std::string& output : loop.finals) rename(output);
    for (Sliced& stack : loop.stacks) rename(stack.tensor);
    TW_RETURN_IF_ERROR(import_trips(node, proto, loop, scope));
    for (const auto& [name, output] : results) {
      if (!builder_.knows(name)) continue;
      const Value value = builder_.value(name);
      std::vector<int64_t> shape = value.type.shape;
      shape.insert(shape.begin(), 1);
      TW_RETURN_IF_ERROR(add_reshape(builder_, value, shape, output));
    }
    return {};
  }

  Status import_loop(Node& node, const NodeProto& proto, Scope& scope) {
    TW_TRY(const bool are_known, read_inputs(node, proto, scope));
    if (!are_known) return {};
    LoopNode loop;
    TW_TRY(loop.body, branch_of(node, proto, "body"));
    const int64_t states = std::ssize(node.inputs) - 2;
    const int64_t stacks = std::ssize(node.outputs) - states;
    if (states < 0 || stacks < 0 || loop.body->input_size() != 2 + states ||
        loop.body->output_size() != 1 + states + stacks)
      return node.invalid("its body has other inputs or outputs than it");
    if (!node.has_input(0)) return node.unsupported("a loop without a trip count");
    TW_TRY(const std::vector<int64_t> count, node.constant_integers(0));
    if (count.size() != 1) return node.invalid("its trip count is no number");
    loop.trips = count.front();
    loop.has_condition = loop.counts_trips = true;
    if (node.has_input(1)) {
      const Value& condition = node.input(1);
      if (!condition.constant || condition.type.dtype != Bool ||
          extent_of(condition.type.shape) != 1)
        return node.unsupported("its condition is not known at import");
      if (condition.constant->array->get_int(0) == 0) loop.trips = 0;
    }
    loop.condition = builder_.fresh_name(node.op_type);
    TW_TRY(dsl::Array holds, dsl::Array::make(Bool, {}));
    holds.set_int(0, 1);
    TW_RETURN_IF_ERROR(builder_.add_constant(loop.condition, std::move(holds)));
    for (size_t i = 0; i < static_cast<size_t>(states); ++i) {
      if (!node.has_input(2 + i)) return node.invalid(fmt::format("input {} is left out", 2 + i));
      loop.states.push_back(node.input(2 + i).name);
      loop.finals.push_back(node.outputs[i]);
    }
    for (size_t i = static_cast<size_t>(states); i < node.outputs.size(); ++i)
      loop.stacks.push_back({node.outputs[i], 0, false});
    return import_trips(node, proto, loop, scope);
  }

  /// The numbers of the trips, as the body declares that of one: i64[] or i64[1].
  Result<std::string> add_trip_numbers(const Node& node, const LoopNode& loop) {
    std::vector<int64_t> shape = {loop.trips};
    if (loop.body->input(0).type().tensor_type().shape().dim_size() == 1) shape.push_back(1);
    TW_TRY(dsl::Array numbers, dsl::Array::make(Int64, shape));
    for (int64_t i = 0; i < loop.trips; ++i) numbers.set_int(i, i);
    std::string name = builder_.fresh_name(node.op_type);
    TW_RETURN_IF_ERROR(builder_.add_constant(name, std::move(numbers)));
    return name;
  }

  /// The order of dimensions that moves one of `rank` to another place.
  static std::vector<size_t> moved(size_t rank, size_t from, size_t to) {
    std::vector<size_t> order;
    for (size_t i = 0; i < rank; ++i)
      if (i != from) order.push_back(i);
    order.insert(order.begin() + static_cast<ptrdiff_t>(to), from);
    return order;
  }

  Status import_trips(const Node& node, const NodeProto& proto, LoopNode& loop, Scope& scope) {
    if (loop.trips < 1) return import_no_trips(node, loop);
    for (Sliced& slice : loop.slices) {
      const Value whole = builder_.value(slice.tensor);
      const auto rank = static_cast<size_t>(whole.rank());
      TW_TRY(const Value first, transposed(builder_, whole, moved(rank, slice.axis, 0)));
      slice.tensor = first.name;
    }
    std::string numbers;
    if (loop.counts_trips) {
      TW_TRY(numbers, add_trip_numbers(node, loop));
    }
    TW_RETURN_IF_ERROR(builder_.begin_loop(node.op_type, loop.trips));
    const Status imported = import_body(node, proto, loop, numbers, scope);
    builder_.end_loop();
    TW_RETURN_IF_ERROR(imported);
    for (const auto& [tensor, stacked] : moved_stacks_) {
      if (!builder_.knows(tensor)) continue;
      const Value value = builder_.value(tensor);
      const auto rank = static_cast<size_t>(value.rank());
      if (stacked.axis >= rank)
        return node.invalid(
            fmt::format("axis {} of an output of {} dimensions", stacked.axis, rank));
      TW_RETURN_IF_ERROR(
          add_transpose(builder_, value, moved(rank, 0, stacked.axis), stacked.tensor));
    }
    moved_stacks_.clear();
    return {};
  }

  /// Without trips the states stay as they are.
  Status import_no_trips(const Node& node, const LoopNode& loop) {
    for (const Sliced& stack : loop.stacks)
      if (!stack.tensor.empty())
        return node.unsupported("results of all trips of a loop without trips");
    for (size_t i = 0; i < loop.states.size(); ++i)
      TW_RETURN_IF_ERROR(builder_.alias(loop.finals[i], loop.states[i]));
    return {};
  }

  Status import_body(const Node& node, const NodeProto& proto, const LoopNode& loop,
                     const std::string& numbers, Scope& scope) {
    TW_TRY(Scope inner, enter(node, proto, scope));
    inner.outer = &scope;
    inner.opset = scope.opset;
    inner.attributes = scope.attributes;
    TW_RETURN_IF_ERROR(open(*loop.body, inner));
    int input = 0;
    const auto bind = [&](std::string tensor) {
      inner.tensors[loop.body->input(input++).name()] = std::move(tensor);
    };
    if (loop.counts_trips) bind(builder_.add_slice(numbers, false));
    if (loop.has_condition) bind(loop.condition);
    std::vector<std::string> states;
    for (const std::string& first : loop.states) {
      states.push_back(builder_.add_state(first));
      bind(states.back());
    }
    for (const Sliced& slice : loop.slices)
      bind(builder_.add_slice(slice.tensor, slice.is_backward));
    TW_RETURN_IF_ERROR(import_nodes(loop.body->node(), outputs_of(*loop.body), inner));
    return leave_body(node, loop, states, inner);
  }

  /// Binds the outputs of a body.
  Status leave_body(const Node& node, const LoopNode& loop, const std::vector<std::string>& states,
                    Scope& inner) {
    std::vector<std::string> outputs;
    for (const ValueInfoProto& output : loop.body->output()) {
      TW_TRY(outputs.emplace_back(), find_input(node, output.name(), inner));
      if (builder_.knows(outputs.back())) continue;
      if (!failures_.empty()) return {};
      return node.invalid(fmt::format("nothing gives its output '{}'", printable(output.name())));
    }
    auto output = outputs.begin();
    if (loop.has_condition) {
      const Value condition = builder_.value(*output++);
      if (!condition.constant || condition.constant->array->size() != 1 ||
          condition.constant->array->get_int(0) == 0)
        return node.unsupported("its condition after a trip is not known at import to hold");
    }
    for (size_t i = 0; i < states.size(); ++i)
      TW_RETURN_IF_ERROR(builder_.set_next(states[i], *output++, loop.finals[i]));
    for (const Sliced& stack : loop.stacks) {
      const bool is_moved = stack.axis != 0 && !stack.tensor.empty();
      const std::string whole = is_moved ? builder_.fresh_name(stack.tensor) : stack.tensor;
      if (is_moved) moved_stacks_.emplace_back(whole, stack);
      TW_RETURN_IF_ERROR(builder_.add_stack(*output++, whole, stack.is_backward));
    }
    return {};
  }

  static Result<const GraphProto*> branch_of(const Node& node, const NodeProto& proto,
                                             std::string_view name) {
    for (const AttributeProto& attribute : proto.attribute())
      if (attribute.name() == name && attribute.has_g()) return &attribute.g();
    return node.invalid(fmt::format("it has no {}", name));
  }

  /// The tensors of the branch's outputs; empty for those that nobody reads, and behind what is not
  /// implemented.
  Result<std::vector<std::string>> import_branch(const Node& node, const NodeProto& proto,
                                                 std::string_view name, Scope& scope) {
    TW_TRY(const GraphProto* branch, branch_of(node, proto, name));
    if (branch->input_size() != 0 || branch->output_size() != proto.output_size())
      return node.invalid("its branch has inputs, or another number of outputs than it");
    TW_TRY(Scope inner, enter(node, proto, scope));
    inner.outer = &scope;
    inner.opset = scope.opset;
    inner.attributes = scope.attributes;
    TW_RETURN_IF_ERROR(open(*branch, inner));
    TW_RETURN_IF_ERROR(import_nodes(branch->node(), outputs_of(*branch), inner));
    std::vector<std::string> tensors(node.outputs.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!node.outputs[i].empty()) {
        TW_TRY(tensors[i], result_of(node, branch->output(static_cast<int>(i)).name(), inner));
      }
    return tensors;
  }

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

Result<std::unique_ptr<ModelProto>> parse(std::string_view bytes) {
  if (bytes.size() > size_t{INT_MAX})
    return invalid_model(
        "the model is larger than 2 GB, which protobuf does not read: store its "
        "weights as external data");
  auto model = std::make_unique<ModelProto>();
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(most_nested_messages);
  if (!model->MergePartialFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return invalid_model(
        fmt::format("the model cannot be read: it is cut off, damaged, no ONNX, or nests messages "
                    "more than {} deep",
                    most_nested_messages));
  return model;
}

Result<std::string> read_file(const std::string& path) {
  std::error_code error;
  const auto unreadable = [&](const std::string& why) {
    return fail(ErrorCode::Environment, fmt::format("[onnx] {}: {}", path, why));
  };
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) return unreadable(error.message());
  if (std::filesystem::is_directory(status))
    return unreadable("it is a folder, expected an ONNX file");
  if (!std::filesystem::is_regular_file(status))
    return unreadable("it is no regular file, expected an ONNX file");
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::filesystem::file_size(path, error), '\0');
  if (error || !file.read(bytes.data(), std::ssize(bytes))) return unreadable("it cannot be read");
  if (bytes.empty()) return invalid_model(fmt::format("{} is empty, expected an ONNX file", path));
  return bytes;
}

/// The model's folder, and that of the file to which symbolic links lead.
DataFolders folders_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return {folder.empty() ? "." : folder.string(), error ? "" : real.parent_path().string()};
}

}  // namespace
}  // namespace onnx

Result<OnnxModel> read_onnx(const std::string& path, const OnnxOptions& options) {
  std::unique_ptr<::onnx::ModelProto> model;
  {
    TW_TRY(const std::string bytes, onnx::read_file(path));
    auto parsed = onnx::parse(bytes);
    if (!parsed)
      return fail(parsed.error().code,
                  fmt::format("[onnx] {}: {}", path, onnx::without_prefix(parsed.error().message)));
    model = std::move(*parsed);
  }
  return onnx::Importer(*model, onnx::folders_of(path), options).run();
}

Result<OnnxModel> parse_onnx(std::string_view bytes, const std::string& folder,
                             const OnnxOptions& options) {
  TW_TRY(const std::unique_ptr<::onnx::ModelProto> model, onnx::parse(bytes));
  return onnx::Importer(*model, {folder}, options).run();
}

}  // namespace tw::graph
