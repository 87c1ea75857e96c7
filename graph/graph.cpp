// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include "base/hash.h"
#include "base/text.h"
#include "dsl/compute.h"

namespace tw::graph {
namespace {

tl::unexpected<Error> malformed(const std::string& why) {
  return fail(ErrorCode::Invalid, "[graph] " + why);
}

tl::unexpected<Error> wrong_operator(const Operator& op, const std::string& why) {
  return malformed(fmt::format("operator '{}' ({}): {}", op.outputs.empty() ? "" : op.name(),
                               op.workload.op, why));
}

TensorType type_in(const dsl::Compute& compute, const std::string& tensor) {
  return {compute.type_of(tensor), compute.shape_of(tensor)};
}

/// slice_type() removes the first dimension of a type: f32[100, 8] becomes f32[8]. stacked_type()
/// adds a first dimension of extent `trips`: f32[8] becomes f32[100, 8].
TensorType slice_type(TensorType whole) {
  whole.shape.erase(whole.shape.begin());
  return whole;
}
TensorType stacked_type(TensorType slice, int64_t trips) {
  slice.shape.insert(slice.shape.begin(), trips);
  return slice;
}

/// Checks a graph: first the inputs and constants, then the operators in order, then the outputs.
/// Keeps the types of the tensors that may be read at the current place.
class Validator {
 public:
  explicit Validator(const Graph& graph) : graph_(graph) {}

  Status run() {
    for (const Port& port : graph_.inputs) TW_RETURN_IF_ERROR(declare(port.name, port.type));
    for (const auto& [name, constant] : graph_.constants) {
      if (!constant.array) return malformed(fmt::format("constant '{}' has no value", name));
      TW_RETURN_IF_ERROR(declare(name, constant.type()));
    }
    for (const Operator& op : graph_.operators) {
      TW_RETURN_IF_ERROR(move_to(op.loop));
      TW_RETURN_IF_ERROR(check(op));
    }
    TW_RETURN_IF_ERROR(move_to(std::nullopt));
    if (loops_ != graph_.loops.size())
      return wrong_loop(graph_.loops[loops_], "it has no operators in its turn");
    return check_outputs();
  }

 private:
  static tl::unexpected<Error> wrong_loop(const Loop& loop, const std::string& why) {
    return malformed(fmt::format("loop '{}': {}", loop.name, why));
  }

  Status declare(const std::string& name, const TensorType& type) {
    if (!is_tensor_name(name)) return malformed(fmt::format("'{}' names no tensor", name));
    for (const int64_t extent : type.shape)
      if (extent < 0) return malformed(fmt::format("'{}' is {}", name, type.to_string()));
    if (!types_.emplace(name, type).second || body_.contains(name))
      return malformed(fmt::format("tensor '{}' is given twice", name));
    return {};
  }

  /// Prepares for an operator of loop `loop` (nullopt: outside of loops). If `loop` is not the
  /// current loop, leaves the current loop, if there is one, and enters `loop`.
  Status move_to(std::optional<size_t> loop) {
    if (loop == loop_) return {};
    if (loop_) TW_RETURN_IF_ERROR(leave(graph_.loops[*loop_]));
    if (loop && *loop != loops_)
      return malformed("the operators of the loops do not stand side by side, in their order");
    if (loop && *loop >= graph_.loops.size())
      return malformed(fmt::format("there is no loop {}", *loop));
    loop_ = loop;
    if (loop) TW_RETURN_IF_ERROR(enter(graph_.loops[loops_++]));
    return {};
  }

  Result<TensorType> outside(const Loop& loop, const std::string& tensor) const {
    const auto found = types_.find(tensor);
    if (found == types_.end())
      return wrong_loop(loop, fmt::format("it reads '{}', which nothing before it gives", tensor));
    return found->second;
  }

  /// Enters a loop. Inside, only tensors of its body and constants are known.
  Status enter(const Loop& loop) {
    if (loop.trips < 1)
      return wrong_loop(loop, fmt::format("it has {} trips, expected 1 or more", loop.trips));
    if (!is_tensor_name(loop.name)) return malformed(fmt::format("'{}' names no loop", loop.name));
    std::vector<std::pair<std::string, TensorType>> entries;
    for (const auto& [inside, source] : loop.shares) {
      TW_TRY(TensorType type, outside(loop, source));
      entries.emplace_back(inside, std::move(type));
    }
    for (const Loop::Slice& slice : loop.slices) {
      TW_TRY(TensorType type, outside(loop, slice.outside));
      if (type.shape.empty() || type.shape.front() != loop.trips)
        return wrong_loop(loop, fmt::format("'{}' is {}, expected a slice for each of {} trips",
                                            slice.outside, type.to_string(), loop.trips));
      entries.emplace_back(slice.inside, slice_type(std::move(type)));
    }
    for (const Loop::State& state : loop.states) {
      TW_TRY(TensorType type, outside(loop, state.first));
      entries.emplace_back(state.inside, std::move(type));
    }
    outer_ = types_;
    std::erase_if(types_,
                  [&](const auto& entry) { return !graph_.constants.contains(entry.first); });
    for (const auto& [name, type] : entries) {
      if (outer_.contains(name)) return malformed(fmt::format("tensor '{}' is given twice", name));
      TW_RETURN_IF_ERROR(declare(name, type));
    }
    return {};
  }

  Result<TensorType> written(const Loop& loop, const std::string& tensor) const {
    const auto found = types_.find(tensor);
    const auto entries = entries_of(loop);
    if (found == types_.end() || graph_.constants.contains(tensor) ||
        std::ranges::find(entries, tensor) != entries.end())
      return wrong_loop(loop, fmt::format("no operator of its body writes '{}'", tensor));
    return found->second;
  }

  Status leave(const Loop& loop) {
    std::vector<std::pair<std::string, TensorType>> results;
    for (const Loop::State& state : loop.states) {
      TW_TRY(TensorType type, written(loop, state.next));
      if (type != types_.at(state.inside))
        return wrong_loop(
            loop, fmt::format("'{}' is {}, but the value before, '{}', is {}", state.next,
                              type.to_string(), state.inside, types_.at(state.inside).to_string()));
      if (!state.last.empty()) results.emplace_back(state.last, std::move(type));
    }
    for (const Loop::Slice& stack : loop.stacks) {
      TW_TRY(TensorType type, written(loop, stack.inside));
      results.emplace_back(stack.outside, stacked_type(std::move(type), loop.trips));
    }
    for (const auto& [name, type] : types_)
      if (!graph_.constants.contains(name)) body_.insert(name);
    for (const auto& [name, type] : outer_)
      if (body_.contains(name)) return malformed(fmt::format("tensor '{}' is given twice", name));
    types_ = std::move(outer_);
    for (const auto& [name, type] : results) TW_RETURN_IF_ERROR(declare(name, type));
    return {};
  }

  Status check(const Operator& op) {
    const dsl::Compute& compute = op.workload.compute;
    if (op.outputs.size() != compute.outputs.size() || op.outputs.empty())
      return wrong_operator(op, fmt::format("{} outputs for the {} of its compute",
                                            op.outputs.size(), compute.outputs.size()));
    if (op.inputs.size() != compute.inputs.size())
      return wrong_operator(op, fmt::format("{} inputs for the {} of its compute", op.inputs.size(),
                                            compute.inputs.size()));
    if (!op.workload.layouts.empty()) return wrong_operator(op, "its workload has layouts");
    for (size_t i = 0; i < op.inputs.size(); ++i)
      TW_RETURN_IF_ERROR(check_input(op, op.inputs[i], compute.inputs[i]));
    for (size_t i = 0; i < op.outputs.size(); ++i)
      TW_RETURN_IF_ERROR(declare(op.outputs[i], type_in(compute, compute.outputs[i])));
    return {};
  }

  Status check_input(const Operator& op, const std::string& tensor, const dsl::Input& input) const {
    const auto found = types_.find(tensor);
    if (found == types_.end())
      return wrong_operator(op,
                            fmt::format("it reads '{}', which nothing before it gives", tensor));
    const TensorType expected = {input.type, input.shape};
    if (found->second != expected)
      return wrong_operator(
          op, fmt::format("its input '{}' is {}, but '{}' is {}", input.name, expected.to_string(),
                          tensor, found->second.to_string()));
    if (input.constant && !graph_.constants.contains(tensor))
      return wrong_operator(
          op, fmt::format("its weight '{}' is '{}', which is no constant", input.name, tensor));
    return {};
  }

  Status check_outputs() const {
    std::set<std::string> seen;
    for (const std::string& output : graph_.outputs) {
      if (!types_.contains(output))
        return malformed(fmt::format("output '{}' is no tensor of the graph", output));
      if (!seen.insert(output).second)
        return malformed(fmt::format("output '{}' is given twice", output));
    }
    return {};
  }

  const Graph& graph_;
  /// Types of the tensors that may be read at the current place.
  std::map<std::string, TensorType> types_;
  std::optional<size_t> loop_;               ///< the current loop, an index in Graph::loops
  size_t loops_ = 0;                         ///< number of loops that were entered
  std::map<std::string, TensorType> outer_;  ///< in a loop: types of the tensors outside of it
  std::set<std::string> body_;               ///< tensors of the bodies of all loops that were left
};

/// Returns the arrays that an operator reads, by the names of its compute's inputs. Fails with
/// Usage if a tensor has no array.
Result<dsl::Arrays> gather_inputs(const Graph& graph, const Operator& op,
                                  const dsl::Arrays& values) {
  dsl::Arrays arrays;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const std::string& tensor = op.inputs[i];
    const auto constant = graph.constants.find(tensor);
    if (constant != graph.constants.end()) {
      arrays[op.workload.compute.inputs[i].name] = *constant->second.array;
      continue;
    }
    const auto value = values.find(tensor);
    if (value == values.end())
      return fail(ErrorCode::Usage, fmt::format("[interpret] the input '{}' is missing", tensor));
    arrays[op.workload.compute.inputs[i].name] = value->second;
  }
  return arrays;
}

Status interpret(const Graph& graph, const Operator& op, dsl::Arrays& values) {
  TW_TRY(const dsl::Arrays arrays, gather_inputs(graph, op, values));
  TW_TRY(dsl::Arrays results, dsl::interpret(op.workload.compute, arrays));
  for (size_t i = 0; i < op.outputs.size(); ++i)
    values[op.outputs[i]] = std::move(results.at(op.workload.compute.outputs[i]));
  return {};
}

/// Index, along the first dimension, of the slice that a trip reads or writes.
int64_t position_of(const Loop& loop, const Loop::Slice& slice, int64_t trip) {
  return slice.is_backward ? loop.trips - 1 - trip : trip;
}

Status interpret(const Graph& graph, const Loop& loop, std::span<const Operator> body,
                 dsl::Arrays& values) {
  const auto outside = [&](const std::string& tensor) -> const dsl::Array& {
    const auto constant = graph.constants.find(tensor);
    return constant == graph.constants.end() ? values.at(tensor) : *constant->second.array;
  };
  for (const auto& [inside, source] : loop.shares) values[inside] = outside(source);
  for (const Loop::State& state : loop.states) values[state.inside] = outside(state.first);
  for (int64_t trip = 0; trip < loop.trips; ++trip) {
    for (const Loop::Slice& slice : loop.slices) {
      const dsl::Array& whole = outside(slice.outside);
      const TensorType type = slice_type({whole.type, whole.shape});
      TW_TRY(dsl::Array part, dsl::Array::make(type.dtype, type.shape));
      if (!part.data.empty())
        std::memcpy(part.data.data(),
                    whole.data.data() +
                        static_cast<size_t>(position_of(loop, slice, trip)) * part.data.size(),
                    part.data.size());
      values[slice.inside] = std::move(part);
    }
    for (const Operator& op : body) TW_RETURN_IF_ERROR(interpret(graph, op, values));
    for (const Loop::Slice& stack : loop.stacks) {
      const dsl::Array& part = values.at(stack.inside);
      if (trip == 0) {
        const TensorType type = stacked_type({part.type, part.shape}, loop.trips);
        TW_TRY(values[stack.outside], dsl::Array::make(type.dtype, type.shape));
      }
      if (!part.data.empty())
        std::memcpy(values.at(stack.outside).data.data() +
                        static_cast<size_t>(position_of(loop, stack, trip)) * part.data.size(),
                    part.data.data(), part.data.size());
    }
    std::vector<dsl::Array> next;
    for (const Loop::State& state : loop.states) next.push_back(values.at(state.next));
    for (size_t i = 0; i < next.size(); ++i)
      values[trip + 1 < loop.trips ? loop.states[i].inside : loop.states[i].last] =
          std::move(next[i]);
  }
  values.erase("");  // where states without a tensor `last` have put their last values
  return {};
}

}  // namespace

std::string TensorType::to_string() const {
  return fmt::format("{}[{}]", tw::to_string(dtype), fmt::join(shape, ", "));
}

int64_t TensorType::bytes() const {
  int64_t bytes = size_bytes(dtype);
  for (const int64_t extent : shape) bytes *= extent;
  return bytes;
}

Constant make_constant(dsl::Array array) {
  const TensorType type = {array.type, array.shape};
  std::string bytes = type.to_string();
  bytes.append(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  std::string hash = sha256_hex(bytes);
  return {std::make_shared<const dsl::Array>(std::move(array)), std::move(hash)};
}

std::vector<std::string> sources_of(const Loop& loop) {
  std::vector<std::string> names;
  for (const Loop::Share& share : loop.shares) names.push_back(share.outside);
  for (const Loop::Slice& slice : loop.slices) names.push_back(slice.outside);
  for (const Loop::State& state : loop.states) names.push_back(state.first);
  return names;
}

std::vector<std::string> results_of(const Loop& loop) {
  std::vector<std::string> names;
  for (const Loop::State& state : loop.states)
    if (!state.last.empty()) names.push_back(state.last);
  for (const Loop::Slice& stack : loop.stacks) names.push_back(stack.outside);
  return names;
}

std::vector<std::string> entries_of(const Loop& loop) {
  std::vector<std::string> names;
  for (const Loop::Share& share : loop.shares) names.push_back(share.inside);
  for (const Loop::Slice& slice : loop.slices) names.push_back(slice.inside);
  for (const Loop::State& state : loop.states) names.push_back(state.inside);
  return names;
}

std::vector<std::string> exits_of(const Loop& loop) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const Loop::State& state : loop.states) add(state.next);
  for (const Loop::Slice& stack : loop.stacks) add(stack.inside);
  return names;
}

std::vector<std::pair<size_t, size_t>> loop_ranges(const Graph& graph) {
  std::vector<std::pair<size_t, size_t>> ranges(graph.loops.size());
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    if (!graph.operators[i].loop) continue;
    auto& [first, end] = ranges[*graph.operators[i].loop];
    if (end == 0) first = i;
    end = i + 1;
  }
  return ranges;
}

int64_t runs_of(const Graph& graph, const Operator& op) {
  return op.loop ? graph.loops[*op.loop].trips : 1;
}

std::map<std::string, int64_t> trips_of_tensors(const Graph& graph) {
  std::map<std::string, int64_t> trips;
  for (const Loop& loop : graph.loops)
    for (const std::string& tensor : entries_of(loop)) trips[tensor] = loop.trips;
  for (const Operator& op : graph.operators)
    if (op.loop)
      for (const std::string& tensor : op.outputs) trips[tensor] = runs_of(graph, op);
  return trips;
}

std::map<std::string, TensorType> tensor_types(const Graph& graph) {
  std::map<std::string, TensorType> types;
  for (const Port& port : graph.inputs) types.emplace(port.name, port.type);
  for (const auto& [name, constant] : graph.constants) types.emplace(name, constant.type());
  const std::vector<std::pair<size_t, size_t>> ranges = loop_ranges(graph);
  for (size_t number = 0; number < graph.operators.size(); ++number) {
    const Operator& op = graph.operators[number];
    const Loop* loop = op.loop ? &graph.loops[*op.loop] : nullptr;
    if (loop && ranges[*op.loop].first == number) {
      for (const auto& [inside, outside] : loop->shares) types.emplace(inside, types.at(outside));
      for (const auto& [inside, outside, is_backward] : loop->slices)
        types.emplace(inside, slice_type(types.at(outside)));
      for (const Loop::State& state : loop->states)
        types.emplace(state.inside, types.at(state.first));
    }
    for (size_t i = 0; i < op.outputs.size(); ++i)
      types.emplace(op.outputs[i], type_in(op.workload.compute, op.workload.compute.outputs[i]));
    if (loop && ranges[*op.loop].second == number + 1) {
      for (const Loop::State& state : loop->states)
        if (!state.last.empty()) types.emplace(state.last, types.at(state.next));
      for (const auto& [inside, outside, is_backward] : loop->stacks)
        types.emplace(outside, stacked_type(types.at(inside), loop->trips));
    }
  }
  return types;
}

bool is_tensor_name(std::string_view name) {
  constexpr std::string_view taken = ",:=()#";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte != 0x7f && taken.find(c) == std::string_view::npos;
  });
}

Status validate(const Graph& graph) { return Validator(graph).run(); }

Result<dsl::Arrays> interpret(const Graph& graph, const dsl::Arrays& inputs) {
  dsl::Arrays values;
  for (const Port& port : graph.inputs) {
    const auto found = inputs.find(port.name);
    if (found == inputs.end())
      return fail(ErrorCode::Usage,
                  fmt::format("[interpret] the input '{}' is missing", port.name));
    const TensorType given = {found->second.type, found->second.shape};
    if (given != port.type)
      return fail(ErrorCode::Usage,
                  fmt::format("[interpret] the input '{}' is {}, expected {}", port.name,
                              given.to_string(), port.type.to_string()));
    values.insert(*found);
  }
  const std::vector<std::pair<size_t, size_t>> ranges = loop_ranges(graph);
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    if (!graph.operators[i].loop) {
      TW_RETURN_IF_ERROR(interpret(graph, graph.operators[i], values));
      continue;
    }
    const auto [first, end] = ranges[*graph.operators[i].loop];
    TW_RETURN_IF_ERROR(interpret(graph, graph.loops[*graph.operators[i].loop],
                                 std::span(graph.operators).subspan(first, end - first), values));
    i = end - 1;
  }
  return values;
}

std::string hash(const Graph& graph) { return short_hash(to_text(graph)); }

std::string to_dot(const Graph& graph) {
  const std::map<std::string, TensorType> types = tensor_types(graph);
  std::string dot = "digraph network {\n  node [shape=box];\n";
  std::map<std::string, std::string> writers;  // the node that writes each tensor
  for (const Port& port : graph.inputs) {
    writers[port.name] = port.name;
    dot += fmt::format("  {} [shape=ellipse];\n", graphviz_quoted(port.name));
  }
  const auto add_edges = [&](const std::vector<std::string>& tensors, const std::string& node) {
    for (const std::string& tensor : tensors)
      if (const auto writer = writers.find(tensor); writer != writers.end())
        dot += fmt::format("  {} -> {} [label={}];\n", graphviz_quoted(writer->second),
                           graphviz_quoted(node), graphviz_quoted(types.at(tensor).to_string()));
  };
  const std::vector<std::pair<size_t, size_t>> ranges = loop_ranges(graph);
  for (size_t number = 0; number < graph.operators.size(); ++number) {
    const Operator& op = graph.operators[number];
    // A loop is a cluster. The node of the loop is in the cluster and has the edges that enter or
    // leave the body.
    const Loop* loop = op.loop ? &graph.loops[*op.loop] : nullptr;
    const std::string of_loop = loop ? "loop " + loop->name : "";
    if (loop && ranges[*op.loop].first == number) {
      dot += fmt::format(
          "  subgraph {} {{\n  label={};\n  {};\n", graphviz_quoted("cluster " + loop->name),
          graphviz_quoted(fmt::format("{} trips", loop->trips)), graphviz_quoted(of_loop));
      for (const std::string& tensor : entries_of(*loop)) writers[tensor] = of_loop;
    }
    dot += fmt::format("  {} [label={}];\n", graphviz_quoted(op.name()),
                       graphviz_quoted(op.workload.op + "\n" + op.name()));
    add_edges(op.inputs, op.name());
    for (const std::string& tensor : op.outputs) writers[tensor] = op.name();
    if (loop && ranges[*op.loop].second == number + 1) {
      add_edges(exits_of(*loop), of_loop);
      dot += "  }\n";
      add_edges(sources_of(*loop), of_loop);
      for (const std::string& tensor : results_of(*loop)) writers[tensor] = of_loop;
    }
  }
  for (const std::string& output : graph.outputs) {
    const std::string node = "output " + output;
    dot += fmt::format("  {} [shape=ellipse];\n", graphviz_quoted(node));
    if (const auto writer = writers.find(output); writer != writers.end())
      dot += fmt::format("  {} -> {} [label={}];\n", graphviz_quoted(writer->second),
                         graphviz_quoted(node), graphviz_quoted(types.at(output).to_string()));
  }
  return dot + "}\n";
}

}  // namespace tw::graph
