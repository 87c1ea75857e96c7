// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/model_checks.h"

#include <fmt/format.h>

#include <iterator>
#include <set>

#include "graph/onnx/names.h"
#include "graph/onnx/wire.h"

namespace tw::graph::onnx {
namespace {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::OperatorSetIdProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

constexpr int64_t newest_ir_version = 14;

constexpr FieldSet fields_of_model({1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26});
constexpr FieldSet fields_of_graph({1, 2, 5, 10, 11, 12, 13, 14, 15, 16});
constexpr FieldSet fields_of_function({1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
constexpr FieldSet fields_of_node({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
constexpr FieldSet fields_of_attribute({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 20, 21, 22,
                                        23});

/// Adds to `reads` the names that a nested graph reads and does not define: tensors of the body
/// around it. Adds the number of names that were visited to `seen`.
void add_captures(const GraphProto& graph, std::vector<std::string_view>& reads, int64_t& seen) {
  std::set<std::string_view> own;
  std::vector<std::string_view> all;
  for (const ValueInfoProto& input : graph.input()) own.insert(input.name());
  for (const TensorProto& tensor : graph.initializer()) own.insert(tensor.name());
  for (const NodeProto& node : graph.node()) {
    own.insert(node.output().begin(), node.output().end());
    all.insert(all.end(), node.input().begin(), node.input().end());
    for (const AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) add_captures(attribute.g(), all, seen);
      for (const GraphProto& nested : attribute.graphs()) add_captures(nested, all, seen);
    }
  }
  for (const ValueInfoProto& output : graph.output()) all.push_back(output.name());
  for (const std::string_view name : all)
    if (!own.contains(name)) reads.push_back(name);
  seen += std::ssize(own) + std::ssize(all);
}

Status check_written_once(const Repeated<NodeProto>& nodes, std::set<std::string_view> given) {
  for (const NodeProto& node : nodes)
    for (const std::string& output : node.output())
      if (!output.empty() && !given.insert(output).second)
        return invalid_model(fmt::format("node '{}' ({}): '{}' is given twice",
                                         printable(name_of(node)), printable(node.op_type()),
                                         printable(output)));
  return {};
}

/// Inserts the names of inputs, outputs or initializers into `names`. Fails with Invalid if one of
/// `values` has no name or two have the same name.
template <typename T>
Status insert_distinct(const Repeated<T>& values, std::string_view what,
                       std::set<std::string_view>& names) {
  std::set<std::string_view> own;
  for (const T& value : values) {
    if (value.name().empty()) return invalid_model(fmt::format("an {} has no name", what));
    if (!own.insert(value.name()).second)
      return invalid_model(
          fmt::format("the {} '{}' is given twice", what, printable(value.name())));
  }
  names.insert(own.begin(), own.end());
  return {};
}

/// Returns the number of kinds of values that the attribute has.
int filled_kinds(const AttributeProto& a) {
  return a.has_f() + a.has_i() + a.has_s() + a.has_t() + a.has_g() + a.has_sparse_tensor() +
         a.has_tp() + !a.floats().empty() + !a.ints().empty() + !a.strings().empty() +
         !a.tensors().empty() + !a.graphs().empty() + !a.sparse_tensors().empty() +
         !a.type_protos().empty();
}

/// True if the attribute has a value of the kind that its type declares, and no value of another
/// kind. A missing value of a number, string or list is accepted, because some writers leave out 0,
/// an empty string and an empty list. For the types that the `default` of the switch handles, true
/// if there is at most one kind of value.
bool has_its_kind(const AttributeProto& a) {
  const int filled = filled_kinds(a);
  switch (a.type()) {
    case AttributeProto::FLOAT:
      return filled == a.has_f();
    case AttributeProto::INT:
      return filled == a.has_i();
    case AttributeProto::STRING:
      return filled == a.has_s();
    case AttributeProto::TENSOR:
      return filled == 1 && a.has_t();
    case AttributeProto::GRAPH:
      return filled == 1 && a.has_g();
    case AttributeProto::FLOATS:
      return filled == !a.floats().empty();
    case AttributeProto::INTS:
      return filled == !a.ints().empty();
    case AttributeProto::STRINGS:
      return filled == !a.strings().empty();
    default:
      return filled <= 1;
  }
}

}  // namespace

tl::unexpected<Error> invalid_model(const std::string& why) {
  return fail(ErrorCode::Invalid, "[onnx] " + why);
}

bool is_default_domain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

std::string name_of(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const std::string& output : node.output())
    if (!output.empty()) return output;
  return "";
}

std::vector<std::string_view> outputs_of(const GraphProto& graph) {
  std::vector<std::string_view> names;
  for (const ValueInfoProto& output : graph.output()) names.push_back(output.name());
  return names;
}

NodeNames names_of(const NodeProto& node, int64_t& seen) {
  NodeNames names;
  names.reads = {node.input().begin(), node.input().end()};
  names.writes = {node.output().begin(), node.output().end()};
  for (const AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) add_captures(attribute.g(), names.reads, seen);
    for (const GraphProto& nested : attribute.graphs()) add_captures(nested, names.reads, seen);
  }
  seen += std::ssize(names.reads) + std::ssize(names.writes);
  return names;
}

Status check_model(const ModelProto& model) {
  TW_RETURN_IF_ERROR(check_unread(model.unknown_fields(), fields_of_model, "the model"));
  if (!model.has_graph() || !model.has_ir_version())
    return invalid_model("this is no model: it has no graph, or no version");
  if (model.ir_version() >= 1 && model.ir_version() <= newest_ir_version) return {};
  return fail(ErrorCode::Unsupported,
              fmt::format("[onnx] version {} of the format is not implemented, expected at most {}",
                          model.ir_version(), newest_ir_version));
}

Status check_graph(const GraphProto& graph) {
  const std::string what = fmt::format("graph '{}'", printable(graph.name()));
  TW_RETURN_IF_ERROR(check_unread(graph.unknown_fields(), fields_of_graph, what));
  // A model of the first versions has its initializers among its inputs too.
  std::set<std::string_view> given, outputs;
  TW_RETURN_IF_ERROR(insert_distinct(graph.input(), "input", given));
  TW_RETURN_IF_ERROR(insert_distinct(graph.initializer(), "initializer", given));
  TW_RETURN_IF_ERROR(insert_distinct(graph.output(), "output", outputs));
  if (graph.output().empty()) return invalid_model(what + " has no outputs");
  return check_written_once(graph.node(), std::move(given));
}

Status check_function(const FunctionProto& function) {
  const std::string what = fmt::format("function '{}'", printable(function.name()));
  TW_RETURN_IF_ERROR(check_unread(function.unknown_fields(), fields_of_function, what));
  std::set<std::string_view> given;
  for (const std::string& input : function.input())
    if (!given.insert(input).second)
      return invalid_model(fmt::format("{}: '{}' is given twice", what, printable(input)));
  return check_written_once(function.node(), std::move(given));
}

Status check_node(const Node& node, const NodeProto& proto) {
  const std::string what = fmt::format("node '{}' ({})", node.name, node.op_type);
  TW_RETURN_IF_ERROR(check_unread(proto.unknown_fields(), fields_of_node, what));
  if (proto.op_type().empty()) return node.invalid("it has no operator");
  std::set<std::string_view> names;
  for (const AttributeProto& a : proto.attribute()) {
    TW_RETURN_IF_ERROR(check_unread(a.unknown_fields(), fields_of_attribute, what));
    const bool is_reference = !a.ref_attr_name().empty();
    if (!names.insert(a.name()).second)
      return node.invalid(fmt::format("its attribute '{}' is given twice", printable(a.name())));
    if (is_reference ? filled_kinds(a) > 0 : !has_its_kind(a))
      return node.invalid(
          fmt::format("its attribute '{}' has a value of another kind than it says, or several",
                      printable(a.name())));
  }
  return {};
}

Result<int64_t> opset_of(const Repeated<OperatorSetIdProto>& imports) {
  int64_t opset = 0;
  for (const OperatorSetIdProto& import : imports) {
    if (!is_default_domain(import.domain())) continue;
    if (opset != 0 && opset != import.version())
      return invalid_model(
          fmt::format("the opsets {} and {} are both imported", opset, import.version()));
    opset = import.version();
    if (opset < 1) return invalid_model(fmt::format("there is no opset {}", opset));
    if (opset < oldest_opset || opset > newest_opset)
      return fail(ErrorCode::Unsupported,
                  fmt::format("[onnx] opset {} is not implemented, expected {} to {}", opset,
                              oldest_opset, newest_opset));
  }
  return opset;
}

}  // namespace tw::graph::onnx
