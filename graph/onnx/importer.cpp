// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/importer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/integer.h"
#include "base/text.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/declared_types.h"

namespace tw::graph::onnx {
namespace {

/// Most nodes, and most names in nodes and their branches, that an import visits. Functions that
/// call functions may expand to 2^64 nodes, and their branches are visited with each call.
constexpr int64_t most_nodes = 100'000, most_names = 5'000'000;
constexpr int64_t most_extents = int64_t{1} << 48;  // product of a tensor's extents other than 0

/// Returns the value of an attribute that is a number, a text, a list of these, or a tensor. Fails
/// with Unsupported for other kinds.
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

/// True if the graph has quantized activations.
bool quantizes(const GraphProto& graph) {
  return std::ranges::any_of(
      graph.node(), [](const NodeProto& node) { return node.op_type() == "QuantizeLinear"; });
}

}  // namespace

Result<OnnxModel> Importer::run() {
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

Status Importer::add_functions() {
  for (const FunctionProto& function : model_.functions()) {
    TW_RETURN_IF_ERROR(check_function(function));
    const FunctionKey key = key_of(function.domain(), function.name(), function.overload());
    if (!functions_.emplace(key, &function).second)
      return invalid_model(
          fmt::format("the function '{}' is given twice", printable(function.name())));
  }
  return {};
}

Status Importer::open(const GraphProto& graph, Scope& scope) {
  TW_RETURN_IF_ERROR(check_graph(graph));
  for (const TensorProto& tensor : graph.initializer()) scope.initializers[tensor.name()] = &tensor;
  for (const auto& tensor : graph.sparse_initializer()) scope.sparse.insert(tensor.values().name());
  return {};
}

void Importer::claim_outputs(Scope& scope) {
  const std::vector<std::string_view> names = outputs_of(model_.graph());
  const std::set<std::string_view> outputs(names.begin(), names.end());
  for (const NodeProto& node : model_.graph().node())
    for (const std::string& name : node.output())
      if (outputs.contains(name)) claim_output(name, scope);
}

Status Importer::add_inputs(Scope& scope) {
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

Status Importer::check_declared_outputs(Scope& scope) {
  for (const ValueInfoProto& output : model_.graph().output()) {
    TW_TRY(const auto tensor, find(output.name(), scope));
    TW_TRY(const auto warning, check_declared(output, builder_.value(*tensor).type));
    if (warning) warnings_.push_back(*warning);
  }
  return {};
}

Result<OnnxModel> Importer::finish(Scope& scope) {
  std::vector<GraphBuilder::Output> outputs;
  bool is_complete = true;
  for (const ValueInfoProto& output : model_.graph().output()) {
    TW_TRY(const auto tensor, find(output.name(), scope));
    if (!tensor || (failures_.empty() && !builder_.knows(*tensor)))
      return invalid_model(fmt::format("no node gives the output '{}'", printable(output.name())));
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

Status Importer::note(const Error& error, const std::string& node) {
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

Status Importer::note(const Node& node, const tl::unexpected<Error>& error) {
  return note(node, error.value());
}

Result<std::optional<std::string>> Importer::find(const std::string& name, Scope& scope) {
  for (Scope* s = &scope; s; s = s->outer) {
    if (const auto found = s->tensors.find(name); found != s->tensors.end()) return found->second;
    if (const auto found = s->initializers.find(name); found != s->initializers.end()) {
      TW_TRY(std::string tensor, load(*found->second, *s));
      return tensor;
    }
    if (s->sparse.contains(name)) {
      TW_RETURN_IF_ERROR(note({ErrorCode::Unsupported,
                               fmt::format("[onnx] tensor '{}': sparse tensors are not implemented",
                                           printable(name))}));
      return s->tensors[name] = builder_.claim(s->prefix + name);
    }
  }
  return std::nullopt;
}

Result<std::string> Importer::load(const TensorProto& proto, Scope& scope) {
  const std::string tensor = builder_.claim(scope.prefix + proto.name());
  scope.tensors[proto.name()] = tensor;
  auto array = tensors_.read(proto);
  if (!array) {
    TW_RETURN_IF_ERROR(note(array.error()));
    return tensor;
  }
  // Initializers of nested bodies count as bytes that the import makes, because those of a branch
  // in a function may be read again for each call.
  if (scope.level > 0) {
    TW_RETURN_IF_ERROR(builder_.add_constant(tensor, std::move(*array)));
    return tensor;
  }
  delete weights_.at(proto.name())->release_raw_data();  // so that weights are not in memory twice
  builder_.admit_bytes(std::ssize(array->data));
  builder_.add_initializer(tensor, std::move(*array));
  return tensor;
}

std::string Importer::claim_output(const std::string& name, Scope& scope) {
  const auto found = scope.tensors.find(name);
  if (found != scope.tensors.end()) return found->second;
  return scope.tensors[name] = builder_.claim(scope.prefix + name);
}

Status Importer::import_nodes(const Repeated<NodeProto>& nodes,
                              const std::vector<std::string_view>& outputs, Scope& scope) {
  std::vector<NodeNames> names;
  for (const NodeProto& node : nodes) names.push_back(names_of(node, names_seen_));
  nodes_ += nodes.size();
  if (nodes_ > most_nodes || names_seen_ > most_names)
    return fail(ErrorCode::Unsupported,
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

Node Importer::named(const NodeProto& proto, const Scope& scope) {
  Node node;
  node.name = printable(scope.prefix + name_of(proto));
  node.op_type = printable(proto.op_type());
  node.opset = scope.opset;
  return node;
}

Status Importer::import_node(const NodeProto& proto, const std::set<std::string_view>& read,
                             Scope& scope) {
  Node node = named(proto, scope);
  for (const std::string& output : proto.output())
    node.outputs.push_back(!output.empty() && read.contains(output) ? claim_output(output, scope)
                                                                    : "");
  TW_RETURN_IF_ERROR(check_node(node, proto));
  const auto function = functions_.find(key_of(proto.domain(), proto.op_type(), proto.overload()));
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

Status Importer::convert_contributed(Node& node, const NodeProto& proto, Scope& scope) {
  const Conversion* conversion = find_conversion(contributed_conversions(), node.op_type, 1);
  if (conversion) return convert(node, proto, conversion, nullptr, scope);
  return note(node, node.unsupported(
                        fmt::format("not implemented of the domain '{}'", contributed_domain)));
}

Status Importer::convert(Node& node, const NodeProto& proto, const Conversion* conversion,
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
    return note(node, node.unsupported("not implemented where its inputs are not known at import"));
  for (size_t i = 0; i < conversion->least_inputs; ++i)
    if (!node.has_input(i)) return node.invalid(fmt::format("input {} is left out", i));
  if (const Status sizes = check_extents(node); !sizes) return note(node, sizes.error());
  const Status converted = conversion->convert(node, builder_);
  if (!converted) return note(node, with_node(node, converted.error()));
  return check_outputs(node);
}

Status Importer::check_extents(const Node& node) {
  for (const std::optional<Value>& input : node.inputs) {
    if (!input) continue;
    std::vector<int64_t> extents = input->type.shape;
    std::ranges::replace(extents, 0, 1);
    if (checked_product(extents).value_or(most_extents + 1) > most_extents)
      return node.unsupported(fmt::format("the extents of '{}' are too large", input->name));
  }
  return {};
}

Error Importer::with_node(const Node& node, const Error& error) {
  if (error.message.starts_with(fmt::format("[onnx] node '{}'", node.name))) return error;
  const bool is_misuse = error.code == ErrorCode::Usage;
  return node.fail(is_misuse ? ErrorCode::Invalid : error.code, without_prefix(error.message))
      .value();
}

Status Importer::check_outputs(const Node& node) {
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty() && !builder_.knows(node.outputs[i]))
      TW_RETURN_IF_ERROR(
          note(node, node.unsupported(fmt::format("its output {} is not implemented", i))));
  return {};
}

Result<bool> Importer::read_inputs(Node& node, const NodeProto& proto, Scope& scope) {
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

Result<std::string> Importer::find_input(const Node& node, const std::string& name, Scope& scope) {
  if (name.empty()) return std::string();
  TW_TRY(const std::optional<std::string> tensor, find(name, scope));
  if (!tensor)
    return node.invalid(fmt::format("it reads '{}', which nothing gives", printable(name)));
  return *tensor;
}

Status Importer::read_attributes(Node& node, const NodeProto& proto, const Scope& scope) {
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

}  // namespace tw::graph::onnx
