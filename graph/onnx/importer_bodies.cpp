// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/integer.h"
#include "base/text.h"
#include "graph/onnx/declaration.h"
#include "graph/onnx/importer.h"
#include "graph/onnx/operators/constants.h"

namespace tw::graph::onnx {
namespace {

constexpr int most_nested_bodies = 64;
constexpr size_t longest_prefix = 150;

/// True if a node or an output of the graph reads the tensor. `seen`: as for names_of().
bool reads_tensor(const GraphProto& graph, std::string_view tensor, int64_t& seen) {
  const auto has_it = [&](const std::vector<std::string_view>& names) {
    return std::ranges::find(names, tensor) != names.end();
  };
  return has_it(outputs_of(graph)) || std::ranges::any_of(graph.node(), [&](const NodeProto& node) {
           return has_it(names_of(node, seen).reads);
         });
}

}  // namespace

Result<Scope> Importer::enter(const Node& node, const NodeProto& proto, const Scope& scope) {
  if (scope.level + 1 >= most_nested_bodies)
    return node.invalid(
        fmt::format("functions and branches nest more than {} levels", most_nested_bodies));
  Scope inner;
  inner.prefix = fmt::format("{}{}/", scope.prefix, name_of(proto)).substr(0, longest_prefix);
  inner.level = scope.level + 1;
  return inner;
}

Status Importer::call(const Node& node, const NodeProto& proto, const FunctionProto& function,
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
    TW_TRY(const std::string tensor, result_of(node, function.output(static_cast<int>(i)), inner));
    if (!tensor.empty()) TW_RETURN_IF_ERROR(builder_.alias(node.outputs[i], tensor));
  }
  return {};
}

Result<std::string> Importer::result_of(const Node& node, const std::string& name, Scope& inner) {
  TW_TRY(const std::string tensor, find_input(node, name, inner));
  if (builder_.knows(tensor)) return tensor;
  if (!failures_.empty()) return std::string();
  return node.invalid(fmt::format("nothing gives its output '{}'", printable(name)));
}

Status Importer::import_if(Node& node, const NodeProto& proto, Scope& scope) {
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

Status Importer::import_both_branches(const Node& node, const NodeProto& proto,
                                      const Value& condition, Scope& scope) {
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

Status Importer::noted(const Node& node, const Status& imported) {
  if (imported) return {};
  return note(node, with_node(node, imported.error()));
}

Status Importer::import_scan(Node& node, const NodeProto& proto, Scope& scope) {
  TW_TRY(const bool are_known, read_inputs(node, proto, scope));
  if (!are_known) return {};
  TW_RETURN_IF_ERROR(read_attributes(node, proto, scope));
  LoopNode loop;
  TW_TRY(loop.body, branch_of(node, proto, "body"));
  TW_TRY(const int64_t slices, node.integer("num_scan_inputs", 0));
  // Up to opset 8 all tensors have a dimension of the batch, and the first input has the lengths of
  // the sequences in the batch.
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
  return has_batch ? with_batch(node, proto, loop, scope) : import_trips(node, proto, loop, scope);
}

Status Importer::drop_batch(Node& node) {
  for (std::optional<Value>& input : node.inputs) {
    std::vector<int64_t> shape = input->type.shape;
    if (shape.empty() || shape.front() != 1)
      return node.unsupported("a batch of more than one at opset 8");
    shape.erase(shape.begin());
    TW_TRY(input, reshaped(builder_, *input, shape));
  }
  return {};
}

Status Importer::with_batch(const Node& node, const NodeProto& proto, LoopNode loop, Scope& scope) {
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

Status Importer::import_loop(Node& node, const NodeProto& proto, Scope& scope) {
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
    if (!condition.constant || condition.type.dtype != Bool || extent_of(condition.type.shape) != 1)
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

Result<std::string> Importer::add_trip_numbers(const Node& node, const LoopNode& loop) {
  const ValueInfoProto& number = loop.body->input(0);
  if (!reads_tensor(*loop.body, number.name(), names_seen_)) return std::string();
  std::vector<int64_t> shape = {loop.trips};
  if (number.type().tensor_type().shape().dim_size() == 1) shape.push_back(1);
  TW_TRY(dsl::Array numbers, made_array(node, Int64, shape));
  for (int64_t i = 0; i < loop.trips; ++i) numbers.set_int(i, i);
  std::string name = builder_.fresh_name(node.op_type);
  TW_RETURN_IF_ERROR(builder_.add_constant(name, std::move(numbers)));
  return name;
}

std::vector<size_t> Importer::moved(size_t rank, size_t from, size_t to) {
  std::vector<size_t> order;
  for (size_t i = 0; i < rank; ++i)
    if (i != from) order.push_back(i);
  order.insert(order.begin() + static_cast<ptrdiff_t>(to), from);
  return order;
}

Status Importer::import_trips(const Node& node, const NodeProto& proto, LoopNode& loop,
                              Scope& scope) {
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
      return node.invalid(fmt::format("axis {} of an output of {} dimensions", stacked.axis, rank));
    TW_RETURN_IF_ERROR(
        add_transpose(builder_, value, moved(rank, 0, stacked.axis), stacked.tensor));
  }
  moved_stacks_.clear();
  return {};
}

Status Importer::import_no_trips(const Node& node, const LoopNode& loop) {
  for (const Sliced& stack : loop.stacks)
    if (!stack.tensor.empty())
      return node.unsupported("results of all trips of a loop without trips");
  for (size_t i = 0; i < loop.states.size(); ++i)
    TW_RETURN_IF_ERROR(builder_.alias(loop.finals[i], loop.states[i]));
  return {};
}

Status Importer::import_body(const Node& node, const NodeProto& proto, const LoopNode& loop,
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
  if (loop.counts_trips) bind(numbers.empty() ? "" : builder_.add_slice(numbers, false));
  if (loop.has_condition) bind(loop.condition);
  std::vector<std::string> states;
  for (const std::string& first : loop.states) {
    states.push_back(builder_.add_state(first));
    bind(states.back());
  }
  for (const Sliced& slice : loop.slices) bind(builder_.add_slice(slice.tensor, slice.is_backward));
  TW_RETURN_IF_ERROR(import_nodes(loop.body->node(), outputs_of(*loop.body), inner));
  return leave_body(node, loop, states, inner);
}

Status Importer::leave_body(const Node& node, const LoopNode& loop,
                            const std::vector<std::string>& states, Scope& inner) {
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

Result<const GraphProto*> Importer::branch_of(const Node& node, const NodeProto& proto,
                                              std::string_view name) {
  for (const AttributeProto& attribute : proto.attribute())
    if (attribute.name() == name && attribute.has_g()) return &attribute.g();
  return node.invalid(fmt::format("it has no {}", name));
}

Result<std::vector<std::string>> Importer::import_branch(const Node& node, const NodeProto& proto,
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

}  // namespace tw::graph::onnx
