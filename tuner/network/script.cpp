// SPDX-License-Identifier: Apache-2.0
// Makes the calls of a model. The calls of operators are in the order of the graph. A copy of a
// tensor into another layout is placed just before the call that reads the copy first.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/integer.h"
#include "graph/rewrite.h"
#include "graph/storage.h"
#include "runtime/arena.h"
#include "tuner/network/assemble.h"

namespace tw::tuner {
namespace {

using dsl::Layout;
using graph::TensorType;

Layout row_major_of(const TensorType& type) {
  return Layout::row_major(static_cast<int>(type.shape.size()));
}

/// Returns the text of the layout, with the letters N, C, H and W if it has four dimensions.
std::string spelled(const Layout& layout) {
  if (layout.rank() == 0) return "a number";
  return layout.to_string(layout.rank() == 4 ? "NCHW" : dsl::default_letters(layout.rank()));
}

class ScriptWriter {
 public:
  ScriptWriter(const graph::Graph& graph, const PlannedNetwork& planned)
      : graph_(graph), planned_(planned), types_(graph::tensor_types(graph)) {}

  Result<Script> write() {
    declare_inputs();
    const std::vector<std::pair<size_t, size_t>> ranges = graph::loop_ranges(graph_);
    for (size_t op = 0; op < graph_.operators.size(); ++op) {
      const std::optional<size_t> loop = graph_.operators[op].loop;
      if (loop && ranges[*loop].first == op) TW_RETURN_IF_ERROR(begin(graph_.loops[*loop]));
      TW_RETURN_IF_ERROR(call(op));
      if (loop && ranges[*loop].second == op + 1) TW_RETURN_IF_ERROR(end(graph_.loops[*loop]));
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) TW_RETURN_IF_ERROR(give_output(i));
    return std::move(script_);
  }

 private:
  void declare_inputs() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const graph::Port& port = graph_.inputs[i];
      const size_t storage = new_storage();
      script_.storages[storage] = {runtime::Place::Input, static_cast<int64_t>(i)};
      arrays_[port.name].push_back({port.name, row_major_of(port.type), storage});
      script_.inputs.push_back(arrays_[port.name].back());
    }
  }

  // ---- loops ------------------------------------------------------------------------------

  /// The array that holds the values of a loop's state, and the positions of the values in it, in
  /// bytes from the beginning of the array.
  struct StatePlaces {
    size_t array = 0;
    int64_t bytes = 0;  ///< bytes of one value
    int64_t first = 0, last = 0;
    ScriptPart inside, next;  ///< the values that a trip reads and writes
    /// The stack that collects the values after each trip; null if there is none.
    const graph::Loop::Slice* stack = nullptr;
    int64_t stack_at = 0;
  };

  int64_t bytes_of(const std::string& tensor) const { return types_.at(tensor).bytes(); }

  /// Returns the place of a value in each trip, if the values of all trips lie one after another,
  /// beginning at `at`. If `is_backward`, the value of trip 0 is the last of them.
  static ScriptPart slice_part(size_t whole, const graph::Loop& loop, bool is_backward,
                               int64_t bytes, int64_t at = 0) {
    if (is_backward) return {whole, at + (loop.trips - 1) * bytes, -bytes, 0, loop.trips};
    return {whole, at, bytes, 0, loop.trips};
  }

  StatePlaces places_of(const graph::Loop& loop, const graph::Loop::State& state) {
    StatePlaces places;
    places.array = new_storage();
    const int64_t bytes = places.bytes = bytes_of(state.inside);
    const int64_t padded = round_up(bytes, runtime::device_tensor_alignment);
    const auto stack = std::ranges::find(loop.stacks, state.next, &graph::Loop::Slice::inside);
    if (stack == loop.stacks.end()) {
      places.inside = {places.array, 0, padded, 2, 2};
      places.next = {places.array, padded, -padded, 2, 2};
      places.last = loop.trips % 2 * padded;
      return places;
    }
    // The array has one value more than the stack: the first value lies before the stack, or behind
    // it if the stack is written backwards. Padding aligns the beginning of the stack.
    places.stack = &*stack;
    places.stack_at = stack->is_backward ? 0 : padded;
    places.next = slice_part(places.array, loop, stack->is_backward, bytes, places.stack_at);
    places.inside = places.next;
    places.inside.at -= places.next.advance;
    places.first = places.inside.at;
    places.last = places.next.at + (loop.trips - 1) * places.next.advance;
    return places;
  }

  size_t new_part(const ScriptPart& part) {
    const size_t storage = new_storage();
    script_.storages[storage].part = part;
    return storage;
  }

  /// Notes that `tensor` has a row-major array in this storage.
  void declare(const std::string& tensor, size_t storage) {
    arrays_[tensor].push_back({tensor, row_major_of(types_.at(tensor)), storage});
  }

  /// Returns a row-major array of a tensor from outside of a loop. A constant is copied into such
  /// an array.
  Result<ScriptArgument> source_of(const std::string& tensor) {
    const Layout layout = row_major_of(types_.at(tensor));
    TW_TRY(ScriptArgument array, array_of(tensor, layout));
    if (array.is_constant) return copy(std::move(array), layout);
    return array;
  }

  Status begin(const graph::Loop& loop) {
    std::vector<size_t> kept;
    for (const auto& [inside, outside] : loop.shares) {
      TW_TRY(const ScriptArgument array, source_of(outside));
      declare(inside, array.storage);
      kept.push_back(array.storage);
    }
    for (const graph::Loop::Slice& slice : loop.slices) {
      TW_TRY(const ScriptArgument array, source_of(slice.outside));
      declare(slice.inside,
              new_part(slice_part(array.storage, loop, slice.is_backward, bytes_of(slice.inside))));
      kept.push_back(array.storage);
    }
    states_.clear();
    for (const graph::Loop::State& state : loop.states) {
      const StatePlaces& places = states_.emplace_back(places_of(loop, state));
      const Layout layout = row_major_of(types_.at(state.first));
      TW_TRY(ScriptArgument first, array_of(state.first, layout));
      const size_t storage = new_part({places.array, places.first});
      TW_RETURN_IF_ERROR(copy_into({state.first, layout, storage}, std::move(first)));
      declare(state.inside, new_part(places.inside));
      kept.push_back(places.array);
    }
    body_begin_ = script_.storages.size();
    trips_ = loop.trips;
    script_.loops.push_back({loop.name, script_.calls.size(), 0, loop.trips, std::move(kept)});
    return {};
  }

  Status end(const graph::Loop& loop) {
    std::vector<size_t>& kept = script_.loops.back().kept;
    for (size_t i = 0; i < loop.states.size(); ++i)
      TW_RETURN_IF_ERROR(place_exit(loop.states[i].next, states_[i].next));
    // The storage of each stack. If a stack collects the values of a state, it is a part of the
    // state's array.
    std::vector<size_t> stacks;
    for (const graph::Loop::Slice& stack : loop.stacks) {
      const auto state = std::ranges::find(states_, &stack, &StatePlaces::stack);
      if (state != states_.end()) {
        stacks.push_back(new_part({state->array, state->stack_at}));
        continue;
      }
      stacks.push_back(new_storage());
      kept.push_back(stacks.back());
      TW_RETURN_IF_ERROR(place_exit(stack.inside, slice_part(stacks.back(), loop, stack.is_backward,
                                                             bytes_of(stack.inside))));
    }
    script_.loops.back().end = script_.calls.size();
    body_begin_ = 0;
    trips_ = 1;
    for (size_t i = 0; i < loop.stacks.size(); ++i) declare(loop.stacks[i].outside, stacks[i]);
    for (size_t i = 0; i < loop.states.size(); ++i)
      if (!loop.states[i].last.empty())
        declare(loop.states[i].last, new_part({states_[i].array, states_[i].last}));
    return {};
  }

  /// Makes the body of a loop write this tensor to this place. If the array of the tensor cannot
  /// become this part, the body copies it there.
  Status place_exit(const std::string& tensor, const ScriptPart& part) {
    const Layout layout = row_major_of(types_.at(tensor));
    TW_TRY(ScriptArgument array, array_of(tensor, layout));
    if (!can_be_part(array)) {
      return copy_into({tensor, layout, new_part(part)}, std::move(array));
    }
    script_.storages[array.storage].part = part;
    return {};
  }

  // ---- operators --------------------------------------------------------------------------

  Status call(size_t index) {
    const graph::Operator& op = graph_.operators[index];
    const graph::Scheme& scheme = planned_.schemes[index];
    if (planned_.kernels[index].schedule.empty()) {
      const auto concatenation = graph::as_concatenation(op);
      return concatenation ? join(op, *concatenation, scheme) : rename(op, scheme);
    }
    ScriptCall call{.name = op.name()};
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      TW_TRY(ScriptArgument argument, array_of(op.inputs[i], scheme.inputs[i]));
      call.arguments.push_back(std::move(argument));
    }
    for (size_t i = 0; i < op.outputs.size(); ++i)
      call.arguments.push_back(new_array(op.outputs[i], scheme.outputs[i]));
    add(std::move(call), planned_.kernels[index], scheme.cost_ns);
    return {};
  }

  /// Makes the result of an operator that moves nothing a view: it has the storage of the input.
  Status rename(const graph::Operator& op, const graph::Scheme& scheme) {
    TW_TRY(const ScriptArgument source, array_of(op.inputs[0], scheme.inputs[0]));
    arrays_[op.name()].push_back({op.name(), scheme.outputs[0], source.storage});
    return {};
  }

  /// Makes the inputs of a concatenation without a kernel parts of its result. Inputs that cannot
  /// become parts are copied.
  Status join(const graph::Operator& op, const graph::Concatenation& concatenation,
              const graph::Scheme& scheme) {
    const TensorType& type = types_.at(op.name());
    const size_t dimension = concatenation.dimension, whole = new_storage();
    int64_t begin = 0;
    for (const size_t input : concatenation.inputs) {
      const std::string& tensor = op.inputs[input];
      const int64_t end = begin + types_.at(tensor).shape[dimension];
      const auto offset =
          graph::offset_of_slice(type.shape, scheme.outputs[0], dimension, begin, end);
      TW_CHECK(offset.has_value(), "a concatenation in place whose pieces are no arrays");
      TW_TRY(ScriptArgument array, array_of(tensor, scheme.outputs[0]));
      if (!can_be_part(array)) {
        TW_TRY(array, copy(std::move(array), scheme.outputs[0]));
      }
      script_.storages[array.storage].part = {whole, *offset * size_bytes(type.dtype)};
      begin = end;
    }
    arrays_[op.name()].push_back({op.name(), scheme.outputs[0], whole});
    return {};
  }

  /// True if the array can become a part of another array. In the body of a loop, this holds only
  /// for arrays that the body writes.
  bool can_be_part(const ScriptArgument& array) const {
    if (array.is_constant || array.storage < body_begin_) return false;
    const ScriptStorage& storage = script_.storages[array.storage];
    return storage.place == runtime::Place::Arena && !storage.part;
  }

  /// True if the array can be an output in the caller's memory. An output must not be a part of
  /// another array, and must not have parts.
  bool can_be_output(const ScriptArgument& array) const {
    return can_be_part(array) &&
           std::ranges::none_of(script_.storages, [&](const ScriptStorage& storage) {
             return storage.part && storage.part->whole == array.storage;
           });
  }

  /// Puts the row-major array of an output into the caller's memory. The tensor is copied if its
  /// array cannot be there.
  Status give_output(size_t index) {
    const std::string& tensor = graph_.outputs[index];
    const Layout layout = row_major_of(types_.at(tensor));
    TW_TRY(ScriptArgument array, array_of(tensor, layout));
    if (!can_be_output(array)) {
      TW_TRY(array, copy(array, layout));
    }
    script_.storages[array.storage] = {runtime::Place::Output, static_cast<int64_t>(index)};
    script_.outputs.push_back(std::move(array));
    return {};
  }

  /// Returns an array of the tensor in this layout. If there is none, a copy is added to the calls.
  Result<ScriptArgument> array_of(const std::string& tensor, const Layout& layout) {
    const TensorType& type = types_.at(tensor);
    if (graph_.constants.contains(tensor))
      return ScriptArgument{tensor, row_major_of(type), 0, true};
    const std::vector<ScriptArgument>& arrays = arrays_.at(tensor);
    const bool is_exchanged = is_exchanged_row_major(tensor);
    for (size_t i = is_exchanged ? 1 : 0; i < arrays.size(); ++i)
      if (graph::is_same_storage(type.shape, arrays[i].layout, layout)) return arrays[i];
    if (!is_exchanged || layout == row_major_of(type)) return copy(arrays.front(), layout);
    TW_TRY(ScriptArgument exchanged, array_of(tensor, row_major_of(type)));
    return copy(std::move(exchanged), layout);
  }

  /// True if the plan first copies the tensor to a row-major array, and copies it from there into
  /// the other layouts, instead of from the layout that its producer writes
  /// (graph::Choice::Blocked).
  bool is_exchanged_row_major(const std::string& tensor) const {
    return std::ranges::any_of(planned_.plan.transforms, [&](const graph::Transform& transform) {
      return transform.tensor == tensor && !(transform.from == planned_.plan.produced.at(tensor));
    });
  }

  Result<ScriptArgument> copy(ScriptArgument from, const Layout& to) {
    ScriptArgument copied = new_array(from.tensor, to);
    TW_RETURN_IF_ERROR(copy_into(copied, std::move(from)));
    return copied;
  }

  Status copy_into(const ScriptArgument& to, ScriptArgument from) {
    TW_TRY(const KernelChoice kernel,
           planned_.transform(types_.at(from.tensor), from.layout, to.layout));
    ScriptCall call{
        .name = fmt::format("{}: {} -> {}", from.tensor, spelled(from.layout), spelled(to.layout))};
    call.arguments = {std::move(from), to};
    const double run_ns = kernel.measured_ns > 0 ? kernel.measured_ns : kernel.expected_ns;
    add(std::move(call), kernel, static_cast<double>(trips_) * run_ns);
    return {};
  }

  ScriptArgument new_array(const std::string& tensor, const Layout& layout) {
    ScriptArgument array{tensor, layout, new_storage()};
    arrays_[tensor].push_back(array);
    return array;
  }

  size_t new_storage() {
    script_.storages.emplace_back();
    return script_.storages.size() - 1;
  }

  void add(ScriptCall call, const KernelChoice& kernel, double cost_ns) {
    const auto [place, is_new] =
        kernels_.emplace(std::pair(kernel.workload.key(), kernel.schedule), script_.kernels.size());
    if (is_new) script_.kernels.push_back({kernel.workload, kernel.schedule, kernel.is_predicted});
    call.kernel = place->second;
    call.is_measured = kernel.measured_ns > 0;
    call.cost_ns = cost_ns;
    script_.calls.push_back(std::move(call));
  }

  const graph::Graph& graph_;
  const PlannedNetwork& planned_;
  const std::map<std::string, TensorType> types_;
  Script script_;
  /// In the body of a loop: the first storage that was made after its beginning; elsewhere 0.
  size_t body_begin_ = 0;
  int64_t trips_ = 1;
  /// For each state of the loop that was begun last.
  std::vector<StatePlaces> states_;
  /// For each tensor, its arrays; the first is the one that its producer writes.
  std::map<std::string, std::vector<ScriptArgument>> arrays_;
  std::map<std::pair<std::string, std::string>, size_t> kernels_;
};

}  // namespace

Status check_assemblable(const graph::Graph& graph, const Target& target) {
  for (const graph::Operator& op : graph.operators)
    if (op.workload.is_empty())
      return fail(
          ErrorCode::Unsupported,
          fmt::format("[assemble] '{}' has no elements: leave it out of the network", op.name()));
  const int64_t alignment = runtime::tensor_alignment(target);
  if (alignment == runtime::arena_alignment) return {};
  const auto types = graph::tensor_types(graph);
  for (const graph::Loop& loop : graph.loops)
    for (const auto* slices : {&loop.slices, &loop.stacks})
      for (const graph::Loop::Slice& slice : *slices)
        if (const int64_t bytes = types.at(slice.inside).bytes(); bytes % alignment != 0)
          return fail(ErrorCode::Unsupported,
                      fmt::format("[assemble] a loop reads or writes slices of {} bytes; GPUs need "
                                  "a multiple of {}",
                                  bytes, alignment));
  return {};
}

Result<Script> make_script(const graph::Graph& graph, const PlannedNetwork& planned) {
  return ScriptWriter(graph, planned).write();
}

}  // namespace tw::tuner
