// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "base/integer.h"
#include "codegen/abi.h"
#include "runtime/arena.h"
#include "runtime/arena_plan.h"
#include "tuner/measure/packing.h"
#include "tuner/network/preparing.h"

namespace tw::tuner {
namespace {

class Assembler {
 public:
  Assembler(const graph::Graph& graph, const Script& script,
            const std::vector<runtime::Artifact>& kernels)
      : graph_(graph),
        script_(script),
        kernels_(kernels),
        types_(graph::tensor_types(graph)),
        moments_(moments_of(script)),
        lifetimes_(script.storages.size(), {0, -1, -1}) {}

  Result<runtime::ModelFile> assemble(const ModelTitle& title) {
    TW_TRY(const Target target, parse_target(title.target));
    alignment_ = runtime::tensor_alignment(target);
    model_.name = title.name;
    variant_.plan = title.plan;
    model_.threads = title.threads;
    variant_.graph = graph::to_text(graph_);
    model_.codegen_abi = codegen::codegen_abi;
    model_.target = title.target;
    for (const ScriptArgument& input : script_.inputs) variant_.inputs.push_back(port(input));
    for (const ScriptArgument& output : script_.outputs) variant_.outputs.push_back(port(output));
    for (const ScriptCall& call : script_.calls) TW_RETURN_IF_ERROR(add(call));
    for (const ScriptLoop& loop : script_.loops) add(loop);
    for (const ScriptBand& band : script_.bands) add(band);
    place_storages();
    model_.kernels = kernels_;
    model_.variants.push_back(std::move(variant_));
    TW_RETURN_IF_ERROR(runtime::check_model(model_));
    return std::move(model_);
  }

 private:
  /// Returns for each call the moment at which it runs. Lifetimes of arrays are ranges of moments.
  /// All calls of a band run at the same moment, so that no two arrays of the band share memory.
  /// For example, if the band has calls 2 to 4, the moments are {0, 1, 2, 2, 2, 3}.
  static std::vector<int> moments_of(const Script& script) {
    std::vector<int> moments(script.calls.size());
    auto band = script.bands.begin();
    int moment = 0;
    for (size_t call = 0; call < moments.size(); ++moment) {
      size_t end = call + 1;
      if (band != script.bands.end() && band->first == call) {
        end = std::accumulate(band->chains.begin(), band->chains.end(), call);
        ++band;
      }
      while (call < end) moments[call++] = moment;
    }
    return moments;
  }

  /// Returns the index of the model's tensor for an input or output of the network.
  int port(const ScriptArgument& argument) {
    const graph::TensorType& type = types_.at(argument.tensor);
    int64_t bytes = size_bytes(type.dtype);
    for (const int64_t extent : type.shape) bytes *= extent;
    return tensor_in({argument.tensor, type.dtype, type.shape, "", bytes}, argument.storage);
  }

  Status add(const ScriptCall& call) {
    const runtime::KernelInfo& kernel = kernels_[call.kernel].info;
    const dsl::Workload& workload = script_.kernels[call.kernel].workload;
    runtime::ModelStep step;
    step.name = call.name;
    step.kernel = static_cast<int>(call.kernel);
    step.predicted_ns = call.cost_ns;
    for (const runtime::ArgumentInfo& info : kernel.arguments) {
      TW_TRY(const dsl::Layout layout, layout_of(info, workload));
      TW_TRY(const ScriptArgument* argument, argument_of(call, workload, info));
      if (info.only_prepares) {
        step.arguments.push_back(not_stored(info));
        continue;
      }
      if (argument->is_constant) {
        step.arguments.push_back(constant(argument->tensor, info, layout));
        continue;
      }
      if (!graph::is_same_storage(info.shape, layout, argument->layout))
        return fail(ErrorCode::Internal,
                    fmt::format("[assemble] the kernel of '{}' keeps '{}' in another layout than "
                                "its plan says",
                                call.name, info.name));
      step.arguments.push_back(array(*argument, info));
    }
    if (kernel.preparation) TW_RETURN_IF_ERROR(add_prepared(call, step));
    variant_.steps.push_back(std::move(step));
    return {};
  }

  /// Adds a loop. The storages that it keeps are alive during all of its trips.
  void add(const ScriptLoop& loop) {
    if (loop.end == loop.first) return;
    const int first = moments_[loop.first], last = moments_[loop.end - 1];
    for (const size_t storage : loop.kept) {
      runtime::Lifetime& lifetime = lifetimes_[storage];
      lifetime.first = lifetime.first < 0 ? first : std::min(lifetime.first, first);
      lifetime.last = std::max(lifetime.last, last);
    }
    variant_.loops.push_back({loop.name, static_cast<int>(loop.first),
                              static_cast<int>(loop.end - loop.first), loop.trips});
  }

  void add(const ScriptBand& band) {
    variant_.bands.push_back(
        {static_cast<int>(band.first), {band.chains.begin(), band.chains.end()}});
  }

  /// Returns the argument of the script's call that has the name `info.name` in the compute.
  static Result<const ScriptArgument*> argument_of(const ScriptCall& call,
                                                   const dsl::Workload& workload,
                                                   const runtime::ArgumentInfo& info) {
    const dsl::Compute& compute = workload.compute;
    for (size_t i = 0; i < compute.inputs.size(); ++i)
      if (compute.inputs[i].name == info.name) return &call.arguments[i];
    for (size_t i = 0; i < compute.outputs.size(); ++i)
      if (compute.outputs[i] == info.name) return &call.arguments[compute.inputs.size() + i];
    return fail(ErrorCode::Internal,
                fmt::format("[assemble] the kernel of '{}' has an argument '{}' that its compute "
                            "has not",
                            call.name, info.name));
  }

  int array(const ScriptArgument& argument, const runtime::ArgumentInfo& info) {
    runtime::Lifetime& lifetime = lifetimes_[argument.storage];
    const int moment = moments_[variant_.steps.size()];
    if (lifetime.first < 0) lifetime.first = moment;
    lifetime.last = moment;
    return tensor_in(
        {argument.tensor, info.dtype, info.shape, info.layout, runtime::storage_bytes(info)},
        argument.storage);
  }

  /// Returns the index of the model's tensor with this type, shape and layout in this storage. Adds
  /// the tensor if the model has none. place_storages() sets the place of the tensor in memory
  /// later.
  int tensor_in(runtime::ModelTensor tensor, size_t storage) {
    lifetimes_[storage].bytes = std::max(lifetimes_[storage].bytes, tensor.bytes);
    const auto [place, is_new] = tensors_.emplace(
        std::tuple(storage, tensor.dtype, tensor.shape, tensor.layout), variant_.tensors.size());
    if (is_new) {
      variant_.tensors.push_back(std::move(tensor));
      storage_of_.push_back(storage);
    }
    return static_cast<int>(place->second);
  }

  /// Returns the index of the constant in the layout that the kernel reads. If several kernels read
  /// the constant in the same layout, the model has it once.
  int constant(const std::string& name, const runtime::ArgumentInfo& info,
               const dsl::Layout& layout) {
    const graph::Constant& value = graph_.constants.at(name);
    return kept_once(value.hash, name, info,
                     [&](std::byte* storage) { pack(layout, *value.array, storage); });
  }

  /// Returns the index of a tensor of 0 bytes that stands for a constant that only preparations
  /// read.
  int not_stored(const runtime::ArgumentInfo& info) {
    variant_.tensors.push_back(
        {info.name, info.dtype, info.shape, info.layout, 0, runtime::Place::Constant, 0});
    storage_of_.push_back(no_storage);
    return static_cast<int>(variant_.tensors.size()) - 1;
  }

  /// Runs the preparation of the call's kernel, and adds the prepared buffers to the arguments of
  /// the step, as constants of the model.
  Status add_prepared(const ScriptCall& call, runtime::ModelStep& step) {
    const runtime::KernelInfo& kernel = kernels_[call.kernel].info;
    const dsl::Workload& workload = script_.kernels[call.kernel].workload;
    std::vector<const dsl::Array*> inputs;
    std::string from;
    for (const int input : kernel.preparation->inputs) {
      const runtime::ArgumentInfo& info = kernel.arguments[static_cast<size_t>(input)];
      TW_TRY(const ScriptArgument* argument, argument_of(call, workload, info));
      if (!argument->is_constant)
        return fail(ErrorCode::Internal,
                    fmt::format("[assemble] the kernel of '{}' prepares '{}', which is no constant",
                                call.name, info.name));
      const graph::Constant& value = graph_.constants.at(argument->tensor);
      inputs.push_back(value.array.get());
      from += (from.empty() ? "" : ", ") + argument->tensor;
    }
    auto preparer = preparers_.find(call.kernel);
    if (preparer == preparers_.end()) {
      TW_TRY(Preparer made, Preparer::make(kernels_[call.kernel], workload));
      preparer = preparers_.emplace(call.kernel, std::move(made)).first;
    }
    TW_TRY(const auto buffers, preparer->second.run(inputs, pool_));
    for (size_t i = 0; i < buffers.size(); ++i) {
      const std::string_view bytes(reinterpret_cast<const char*>(buffers[i].data()),
                                   buffers[i].size());
      const runtime::ArgumentInfo& info = kernel.preparation->buffers[i];
      step.arguments.push_back(
          kept_once(std::string(to_string(info.dtype)) + sha256_hex(bytes),
                    fmt::format("{} of {}", info.name, from), info,
                    [&](std::byte* storage) { std::ranges::copy(buffers[i], storage); }));
    }
    return {};
  }

  /// Returns the index of a constant tensor. `write` writes the bytes of the constant. Constants
  /// with the same hash, shape and layout are stored once.
  template <typename Write>
  int kept_once(const std::string& hash, const std::string& name, const runtime::ArgumentInfo& info,
                const Write& write) {
    const auto [place, is_new] =
        constants_.emplace(std::tuple(hash, info.shape, info.layout), variant_.tensors.size());
    if (is_new) {
      const size_t at = model_.constants.size();
      const int64_t bytes = runtime::storage_bytes(info);
      model_.constants.resize(at + static_cast<size_t>(round_up(bytes, alignment_)));
      write(reinterpret_cast<std::byte*>(model_.constants.data() + at));
      variant_.tensors.push_back({name, info.dtype, info.shape, info.layout, bytes,
                                  runtime::Place::Constant, static_cast<int64_t>(at)});
      storage_of_.push_back(no_storage);
    }
    return static_cast<int>(place->second);
  }

  /// Returns the array that contains a storage, and the position of the storage in that array. A
  /// storage that is not a part of another storage is its own array. If a storage moves in a loop,
  /// its parts move with it.
  ScriptPart place_in_array(size_t storage) const {
    ScriptPart place{storage, 0};
    while (const auto& part = script_.storages[place.whole].part) {
      const int64_t at = place.at + part->at;
      if (part->advance != 0) place = *part;
      place.whole = part->whole;
      place.at = at;
    }
    return place;
  }

  /// Extends the lifetime of each array to the lifetimes of its parts, and its size to the end of
  /// the last part.
  void join_lifetimes() {
    for (size_t i = 0; i < script_.storages.size(); ++i) {
      const ScriptPart place = place_in_array(i);
      if (place.whole == i || lifetimes_[i].first < 0) continue;
      runtime::Lifetime& all = lifetimes_[place.whole];
      const int64_t highest = place.at + std::max<int64_t>(place.advance, 0) * (place.places - 1);
      all.bytes = std::max(all.bytes, highest + lifetimes_[i].bytes);
      all.first = all.first < 0 ? lifetimes_[i].first : std::min(all.first, lifetimes_[i].first);
      all.last = std::max(all.last, lifetimes_[i].last);
    }
  }

  void place_storages() {
    join_lifetimes();
    std::vector<runtime::Lifetime> alive;
    std::vector<size_t> in_arena;
    for (size_t i = 0; i < script_.storages.size(); ++i)
      if (script_.storages[i].place == runtime::Place::Arena && !script_.storages[i].part &&
          lifetimes_[i].first >= 0) {
        alive.push_back(lifetimes_[i]);
        alive.back().bytes = round_up(alive.back().bytes, alignment_);
        in_arena.push_back(i);
      }
    const runtime::ArenaPlan plan = runtime::plan_arena(alive);
    variant_.arena_bytes = plan.bytes;
    std::vector<int64_t> at(script_.storages.size(), 0);
    for (size_t i = 0; i < in_arena.size(); ++i) at[in_arena[i]] = plan.offsets[i];
    for (size_t i = 0; i < variant_.tensors.size(); ++i) {
      if (storage_of_[i] == no_storage) continue;
      const ScriptPart part = place_in_array(storage_of_[i]);
      const ScriptStorage& whole = script_.storages[part.whole];
      const bool is_in_arena = whole.place == runtime::Place::Arena;
      runtime::ModelTensor& tensor = variant_.tensors[i];
      tensor.place = whole.place;
      tensor.at = is_in_arena ? at[part.whole] : whole.number;
      // A part with a fixed and aligned offset in the arena, such as a piece of a concatenation,
      // needs no Slide.
      const bool is_fixed = part.advance == 0 && part.at % runtime::arena_alignment == 0;
      if (is_in_arena && is_fixed)
        tensor.at += part.at;
      else
        tensor.slide = {part.at, part.advance, part.period};
    }
  }

  static constexpr size_t no_storage = SIZE_MAX;

  const graph::Graph& graph_;
  const Script& script_;
  const std::vector<runtime::Artifact>& kernels_;
  const std::map<std::string, graph::TensorType> types_;
  int64_t alignment_ = 1;  ///< of tensors in constants and arena
  runtime::ModelFile model_;
  runtime::ModelVariant variant_;
  const std::vector<int> moments_;  ///< of each call
  /// For each storage, the moments from its first to its last use; `first` is -1 if the storage is
  /// unused.
  std::vector<runtime::Lifetime> lifetimes_;
  std::vector<size_t> storage_of_;  ///< of each tensor of the model
  std::map<std::tuple<size_t, DType, std::vector<int64_t>, std::string>, size_t> tensors_;
  std::map<std::tuple<std::string, std::vector<int64_t>, std::string>, size_t> constants_;
  std::map<size_t, Preparer> preparers_;                            ///< by the index of the kernel
  runtime::ThreadPool pool_ = runtime::ThreadPool({.pin = false});  ///< of the preparers
};

}  // namespace

Result<runtime::ModelFile> assemble(const graph::Graph& graph, const Script& script,
                                    const std::vector<runtime::Artifact>& kernels,
                                    const ModelTitle& title) {
  TW_CHECK(kernels.size() == script.kernels.size(), "a kernel for each request");
  return Assembler(graph, script, kernels).assemble(title);
}

}  // namespace tw::tuner
