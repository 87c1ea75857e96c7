// SPDX-License-Identifier: Apache-2.0
// The calls of a model: operators in the order of the graph, and copies of tensors into other
// layouts where their first reader comes.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "graph/rewrite.h"
#include "graph/storage.h"
#include "tuner/assemble.h"

namespace tw::tuner {
namespace {

using dsl::Layout;
using graph::TensorType;

Layout row_major_of(const TensorType& type) {
  return Layout::row_major(static_cast<int>(type.shape.size()));
}

/// The layout in the letters that people use for images.
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
    for (size_t op = 0; op < graph_.operators.size(); ++op) TW_RETURN_IF_ERROR(call(op));
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

  Status call(size_t index) {
    const graph::Operator& op = graph_.operators[index];
    const graph::Scheme& scheme = planned_.schemes[index];
    if (op.workload.is_empty())
      return fail(
          ErrorCode::Unsupported,
          fmt::format("[assemble] '{}' has no elements: leave it out of the network", op.name()));
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

  /// The result of an operator that moves nothing is the array of its input.
  Status rename(const graph::Operator& op, const graph::Scheme& scheme) {
    TW_TRY(const ScriptArgument source, array_of(op.inputs[0], scheme.inputs[0]));
    arrays_[op.name()].push_back({op.name(), scheme.outputs[0], source.storage});
    return {};
  }

  /// The result of a concatenation in place is an array of which its inputs are parts.
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

  bool can_be_part(const ScriptArgument& array) const {
    if (array.is_constant) return false;
    const ScriptStorage& storage = script_.storages[array.storage];
    return storage.place == runtime::Place::Arena && !storage.part;
  }

  /// Whether the array can be one of the caller's, which lies by itself.
  bool can_be_output(const ScriptArgument& array) const {
    return can_be_part(array) &&
           std::ranges::none_of(script_.storages, [&](const ScriptStorage& storage) {
             return storage.part && storage.part->whole == array.storage;
           });
  }

  /// The row-major array of an output, in the caller's memory.
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

  /// The tensor in this layout: as it is there, else copied now.
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

  /// Whether the plan reads the tensor from its row-major copy, though it is produced otherwise.
  bool is_exchanged_row_major(const std::string& tensor) const {
    return std::ranges::any_of(planned_.plan.transforms, [&](const graph::Transform& transform) {
      return transform.tensor == tensor && !(transform.from == planned_.plan.produced.at(tensor));
    });
  }

  Result<ScriptArgument> copy(ScriptArgument from, const Layout& to) {
    TW_TRY(const KernelChoice kernel, planned_.transform(types_.at(from.tensor), from.layout, to));
    ScriptCall call{
        .name = fmt::format("{}: {} -> {}", from.tensor, spelled(from.layout), spelled(to))};
    ScriptArgument copied = new_array(from.tensor, to);
    call.arguments = {std::move(from), copied};
    add(std::move(call), kernel, kernel.measured_ns > 0 ? kernel.measured_ns : kernel.predicted_ns);
    return copied;
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
  std::map<std::string, std::vector<ScriptArgument>> arrays_;  ///< of each tensor, as written
  std::map<std::pair<std::string, std::string>, size_t> kernels_;
};

}  // namespace

Result<Script> make_script(const graph::Graph& graph, const PlannedNetwork& planned) {
  return ScriptWriter(graph, planned).write();
}

}  // namespace tw::tuner
