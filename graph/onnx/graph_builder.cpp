// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/integer.h"
#include "graph/onnx/names.h"
#include "graph/passes/list.h"
#include "graph/rewrite.h"

namespace tw::graph::onnx {
namespace {

/// The bytes of all constants that are computed at import are limited to `made_bytes_of_any_model`
/// plus `made_bytes_of_a_byte` times the bytes of the model's own constants. The factor leaves
/// memory for weights that are transposed, and for 8-bit integers that become f32.
constexpr int64_t made_bytes_of_any_model = int64_t{256} << 20, made_bytes_of_a_byte = 8;
/// Limits of the interpreter's work for one operator (`most_work_of_one`) and for all together, in
/// evaluations of expression nodes. The interpreter does some 100 million evaluations in a second.
/// Operators below `always_folded` are always folded, because other nodes need their results as
/// shapes.
constexpr int64_t always_folded = 1 << 12, most_work_of_one = 1 << 23, most_work = 1 << 26;
/// Bytes that are copied in the time of one evaluation. Copying counts as work because the
/// interpreter gets copies of its input arrays.
constexpr int64_t copied_bytes = 64;
/// Most bytes of one tensor. A larger tensor fits into no machine.
constexpr int64_t most_tensor_bytes = int64_t{1} << 40;

constexpr int64_t beyond = std::numeric_limits<int64_t>::max();

int64_t bytes_of(const TensorType& type) {
  const auto elements = checked_product(type.shape);
  const auto bytes = elements ? checked_mul(*elements, size_bytes(type.dtype)) : elements;
  return bytes.value_or(beyond);
}

/// Returns the work of the interpreter for a compute: evaluations of expression nodes, and copies
/// of inputs counted as evaluations. The result saturates.
int64_t work_of(const dsl::Compute& compute) {
  int64_t work = 0;
  for (const dsl::Input& input : compute.inputs)
    work += bytes_of({input.type, input.shape}) / copied_bytes;
  for (const dsl::Stage& stage : compute.stages) {
    std::vector<int64_t> extents = stage.shape();
    if (!stage.scan)
      for (const dsl::Axis& axis : stage.reduction) extents.push_back(axis.extent);
    extents.push_back(stage.body.node().size);
    work = checked_add(work, checked_product(extents).value_or(beyond)).value_or(beyond);
  }
  return work;
}

TensorType output_type(const dsl::Compute& compute, const std::string& output) {
  return {compute.type_of(output), compute.shape_of(output)};
}

/// Returns an array of this type whose elements all equal the single element of `value`.
dsl::Array filled(const TensorType& type, const dsl::Array& value) {
  dsl::Array array{type.dtype, type.shape, {}};
  array.data.resize(static_cast<size_t>(bytes_of(type)));
  const size_t bytes = value.data.size();
  for (size_t at = 0; at < array.data.size(); at += bytes)
    std::memcpy(&array.data[at], value.data.data(), bytes);
  return array;
}

tl::unexpected<Error> wrong_model(const std::string& why) {
  return fail(ErrorCode::Invalid, "[onnx] " + why);
}

/// True if the compute is f32(i32(q) - zero) * scale or similar, where q has 8 bits and the shape
/// of the result.
bool dequantizes(const dsl::Compute& compute) {
  const auto is_narrow = [&](const dsl::Input& input) {
    return !is_float(input.type) && input.type != Bool && size_bytes(input.type) == 1 &&
           input.shape == compute.shape_of(compute.outputs.front());
  };
  const dsl::Binary* product = compute.stages.front().body.as<dsl::Binary>();
  const dsl::Cast* number = product ? product->a.as<dsl::Cast>() : nullptr;
  return compute.stages.size() == 1 && number && product->op == dsl::BinaryOp::Mul &&
         number->type == Float32 && number->a.type() == Int32 &&
         std::ranges::any_of(compute.inputs, is_narrow);
}

}  // namespace

std::string GraphBuilder::claim(std::string_view name) {
  const std::string stem = tensor_name(name);
  std::string candidate = stem;
  while (!names_.insert(candidate).second) candidate = fmt::format("{}_{}", stem, ++repeats_[stem]);
  return candidate;
}

const std::string& GraphBuilder::resolved(const std::string& name) const {
  const auto found = aliases_.find(name);
  return found == aliases_.end() ? name : found->second;
}

Value GraphBuilder::value(const std::string& name) const {
  const std::string& tensor = resolved(name);
  const auto constant = graph_.constants.find(tensor);
  return {tensor, types_.at(tensor),
          constant == graph_.constants.end() ? nullptr : &constant->second};
}

void GraphBuilder::add_input(const std::string& name, const TensorType& type) {
  types_[name] = type;
  graph_.inputs.push_back({name, type});
}

void GraphBuilder::insert_constant(const std::string& name, dsl::Array array) {
  types_[name] = {array.type, array.shape};
  graph_.constants[name] = make_constant(std::move(array));
}

void GraphBuilder::add_initializer(const std::string& name, dsl::Array array) {
  insert_constant(name, std::move(array));
}

int64_t GraphBuilder::left_bytes() const {
  return made_bytes_of_any_model + made_bytes_of_a_byte * model_bytes_ - made_bytes_;
}

Status GraphBuilder::add_constant(const std::string& output, dsl::Array array) {
  if (output.empty()) return {};
  const int64_t bytes = std::ssize(array.data);
  if (bytes > left_bytes())
    return fail(ErrorCode::Unsupported,
                fmt::format("[onnx] constants that are made at import take more than {} MiB",
                            (made_bytes_ + left_bytes()) >> 20));
  made_bytes_ += bytes;
  insert_constant(output, std::move(array));
  return {};
}

Status GraphBuilder::add_filled(const std::string& output, const std::vector<int64_t>& shape,
                                const dsl::Array& value) {
  if (output.empty()) return {};
  const TensorType type = {value.type, shape};
  std::string key = type.to_string();
  key.append(reinterpret_cast<const char*>(value.data.data()), value.data.size());
  auto known = filled_.find(key);
  if (known == filled_.end()) {
    const int64_t bytes = bytes_of(type);
    if (bytes > std::min(most_filled_bytes, left_filled_bytes_))
      return fail(
          ErrorCode::Unsupported,
          fmt::format("[onnx] its result {} would be made at import, where tensors of equal "
                      "elements take at most {} MiB, and {} MiB in all",
                      type.to_string(), most_filled_bytes >> 20, most_filled_bytes_of_all >> 20));
    left_filled_bytes_ -= bytes;
    known = filled_.emplace(std::move(key), make_constant(filled(type, value))).first;
  }
  types_[output] = type;
  graph_.constants[output] = known->second;
  return {};
}

Status GraphBuilder::alias(const std::string& output, const std::string& value) {
  const std::string tensor = resolved(value);
  if (!output.empty() && output != tensor) aliases_[output] = tensor;
  return {};
}

Status GraphBuilder::add(const dsl::Compute& compute, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs) {
  return bind(compute, nullptr, inputs, outputs);
}

Status GraphBuilder::add(const dsl::Workload& workload, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs) {
  return bind(workload.compute, &workload, inputs, outputs);
}

Status GraphBuilder::check_inputs(const dsl::Compute& compute,
                                  const std::vector<std::string>& inputs) const {
  TW_CHECK(inputs.size() == compute.inputs.size(), "a tensor for each input of the compute");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const dsl::Input& input = compute.inputs[i];
    const Value given = value(inputs[i]);
    const TensorType expected = {input.type, input.shape};
    if (given.type != expected)
      return wrong_model(fmt::format("'{}' is {}, expected {}", given.name, given.type.to_string(),
                                     expected.to_string()));
    if (input.constant && !given.constant)
      return fail(ErrorCode::Unsupported,
                  fmt::format("[onnx] '{}' is a weight, and not known at import", given.name));
  }
  return {};
}

Status GraphBuilder::check_outputs(const dsl::Compute& compute,
                                   const std::vector<std::string>& outputs) const {
  TW_CHECK(outputs.size() == compute.outputs.size(), "a name for each output of the compute");
  for (const std::string& output : compute.outputs) {
    const TensorType type = output_type(compute, output);
    if (bytes_of(type) > most_tensor_bytes)
      return fail(ErrorCode::Unsupported,
                  fmt::format("[onnx] its output {} is larger than a tebibyte", type.to_string()));
  }
  return {};
}

Status GraphBuilder::bind(const dsl::Compute& compute, const dsl::Workload* workload,
                          const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
  TW_RETURN_IF_ERROR(dsl::validate(compute));
  TW_RETURN_IF_ERROR(check_inputs(compute, inputs));
  TW_RETURN_IF_ERROR(check_outputs(compute, outputs));
  std::vector<std::string> tensors, names;
  for (const std::string& input : inputs) tensors.push_back(resolved(input));
  for (const std::string& output : outputs)
    names.push_back(output.empty() ? claim("unread") : output);
  if (folds(compute, tensors)) return fold(compute, tensors, names);
  for (std::string& tensor : tensors) tensor = in_body(tensor);
  if (workload) {
    push({*workload, tensors, names, {}});
  } else {
    TW_TRY(Operator made, make_operator(compute, tensors, names, graph_.constants));
    push(std::move(made));
  }
  for (size_t i = 0; i < names.size(); ++i)
    types_[names[i]] = output_type(compute, compute.outputs[i]);
  return {};
}

/// True if the operator is computed at import; its work is then counted against the limit.
bool GraphBuilder::folds(const dsl::Compute& compute, const std::vector<std::string>& inputs) {
  const auto is_constant = [&](const std::string& name) { return graph_.constants.contains(name); };
  int64_t bytes = 0;
  const auto is_small = [&](const std::string& output) {
    const TensorType type = output_type(compute, output);
    bytes += bytes_of(type);
    return bytes <= left_bytes() && checked_product(type.shape).value_or(beyond) <= largest_folded;
  };
  if (!std::ranges::all_of(inputs, is_constant)) return false;
  if (!std::ranges::all_of(compute.outputs, is_small)) return false;
  const int64_t work = work_of(compute);
  if (keeps_quantized_ && work > always_folded && dequantizes(compute)) return false;
  const bool fits = work <= most_work_of_one && folding_work_ + work <= most_work;
  if (work > always_folded && !fits) return false;
  folding_work_ += work;
  return true;
}

Status GraphBuilder::fold(const dsl::Compute& compute, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
  dsl::Arrays arrays;
  for (size_t i = 0; i < inputs.size(); ++i)
    arrays[compute.inputs[i].name] = *graph_.constants.at(inputs[i]).array;
  TW_TRY(dsl::Arrays results, dsl::interpret(compute, arrays));
  for (size_t i = 0; i < outputs.size(); ++i)
    TW_RETURN_IF_ERROR(add_constant(outputs[i], std::move(results.at(compute.outputs[i]))));
  return {};
}

Status GraphBuilder::copy(const std::string& tensor, const std::string& name) {
  const TensorType type = types_.at(tensor);
  TW_TRY(const dsl::Compute same, reshape(type.dtype, type.shape, type.shape));
  TW_TRY(Operator made, make_operator(same, {in_body(tensor)}, {name}, graph_.constants));
  push(std::move(made));
  types_[name] = type;
  return {};
}

void GraphBuilder::push(Operator op) {
  if (is_in_loop_) {
    op.loop = graph_.loops.size() - 1;
    body_.insert(op.outputs.begin(), op.outputs.end());
    written_.insert(op.outputs.begin(), op.outputs.end());
  }
  graph_.operators.push_back(std::move(op));
}

/// Returns the name by which operators that are added now must read the tensor. In a loop, a tensor
/// from outside gets another name (Loop::Share).
std::string GraphBuilder::in_body(const std::string& tensor) {
  if (!is_in_loop_ || body_.contains(tensor) || graph_.constants.contains(tensor)) return tensor;
  std::vector<Loop::Share>& shares = graph_.loops.back().shares;
  const auto known = std::ranges::find(shares, tensor, &Loop::Share::outside);
  if (known != shares.end()) return known->inside;
  const std::string inside = claim(tensor);
  types_[inside] = types_.at(tensor);
  body_.insert(inside);
  shares.push_back({inside, tensor});
  return inside;
}

Status GraphBuilder::begin_loop(const std::string& name, int64_t trips) {
  if (is_in_loop_)
    return fail(ErrorCode::Unsupported, "[onnx] a loop in the body of a loop is not implemented");
  is_in_loop_ = true;
  body_.clear();
  written_.clear();
  graph_.loops.emplace_back();
  graph_.loops.back().name = claim(name);
  graph_.loops.back().trips = trips;
  return {};
}

std::string GraphBuilder::add_slice(const std::string& whole, bool is_backward) {
  const std::string tensor = resolved(whole), slice = claim(tensor);
  TensorType type = types_.at(tensor);
  type.shape.erase(type.shape.begin());
  types_[slice] = std::move(type);
  body_.insert(slice);
  graph_.loops.back().slices.push_back({slice, tensor, is_backward});
  return slice;
}

std::string GraphBuilder::add_state(const std::string& first) {
  const std::string tensor = resolved(first), state = claim(tensor);
  types_[state] = types_.at(tensor);
  body_.insert(state);
  graph_.loops.back().states.push_back({state, tensor, "", ""});
  return state;
}

/// Returns the tensor if an operator of the body writes it. Otherwise adds an operator that copies
/// the tensor, and returns the copy.
Result<std::string> GraphBuilder::written_in_body(const std::string& name) {
  const std::string tensor = resolved(name);
  if (written_.contains(tensor)) return tensor;
  std::string copied = claim(tensor);
  TW_RETURN_IF_ERROR(copy(tensor, copied));
  return copied;
}

Status GraphBuilder::set_next(const std::string& state, const std::string& next,
                              const std::string& last) {
  std::vector<Loop::State>& states = graph_.loops.back().states;
  const auto found = std::ranges::find(states, state, &Loop::State::inside);
  TW_CHECK(found != states.end(), "a state of the loop");
  TW_TRY(found->next, written_in_body(next));
  const TensorType &before = types_.at(state), &after = types_.at(found->next);
  if (before != after)
    return fail(ErrorCode::Unsupported,
                fmt::format("[onnx] a state of its loop is {} before a trip and {} after it",
                            before.to_string(), after.to_string()));
  found->last = last;
  if (!last.empty()) types_[last] = before;
  return {};
}

Status GraphBuilder::add_stack(const std::string& tensor, const std::string& whole,
                               bool is_backward) {
  if (whole.empty()) return {};
  TW_TRY(const std::string slice, written_in_body(tensor));
  TensorType type = types_.at(slice);
  type.shape.insert(type.shape.begin(), graph_.loops.back().trips);
  if (bytes_of(type) > most_tensor_bytes)
    return fail(ErrorCode::Unsupported,
                fmt::format("[onnx] its output {} is larger than a tebibyte", type.to_string()));
  types_[whole] = std::move(type);
  graph_.loops.back().stacks.push_back({slice, whole, is_backward});
  return {};
}

void GraphBuilder::end_loop() { is_in_loop_ = false; }

void GraphBuilder::rename(const std::string& tensor, const std::string& name) {
  for (Operator& op : graph_.operators) {
    std::ranges::replace(op.inputs, tensor, name);
    std::ranges::replace(op.outputs, tensor, name);
  }
  for (Loop& loop : graph_.loops) {
    for (Loop::Share& share : loop.shares)
      if (share.outside == tensor) share.outside = name;
    for (auto* slices : {&loop.slices, &loop.stacks})
      for (Loop::Slice& slice : *slices)
        if (slice.outside == tensor) slice.outside = name;
    for (Loop::State& state : loop.states)
      for (std::string* of : {&state.first, &state.last})
        if (*of == tensor) *of = name;
  }
  types_[name] = types_.at(tensor);
  types_.erase(tensor);
  for (auto& [alias, target] : aliases_)
    if (target == tensor) target = name;
  aliases_.erase(name);
  aliases_[tensor] = name;
}

/// Gives the tensor of the output the name of the output, and returns this name. Constants get a
/// second name; inputs, and tensors that are already outputs, are copied by an operator; other
/// tensors are renamed.
Result<std::string> GraphBuilder::name_output(const Output& output) {
  const std::string tensor = resolved(output.tensor);
  if (tensor == output.name) return tensor;
  const bool is_output = std::ranges::find(graph_.outputs, tensor) != graph_.outputs.end();
  const auto constant = graph_.constants.find(tensor);
  const auto is_tensor = [&](const Port& port) { return port.name == tensor; };
  if (constant != graph_.constants.end()) {
    graph_.constants[output.name] = constant->second;
    types_[output.name] = constant->second.type();
  } else if (is_output || std::ranges::any_of(graph_.inputs, is_tensor)) {
    TW_RETURN_IF_ERROR(copy(tensor, output.name));
  } else {
    rename(tensor, output.name);
  }
  return output.name;
}

Result<Graph> GraphBuilder::finish(const std::vector<Output>& outputs) {
  for (const Output& output : outputs) {
    TW_TRY(const std::string tensor, name_output(output));
    graph_.outputs.push_back(tensor);
  }
  TW_TRY(Graph graph, drop_dead(std::exchange(graph_, {})));
  TW_RETURN_IF_ERROR(validate(graph));
  return graph;
}

}  // namespace tw::graph::onnx
