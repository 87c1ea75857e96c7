// SPDX-License-Identifier: Apache-2.0
#include "runtime/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/integer.h"
#include "runtime/arena.h"

namespace tw::runtime {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// The origin of a pointer that a step gets. `at` is an offset in the constants or the arena, or
/// the index of one of the caller's arrays.
struct Pointer {
  Place place = Place::Arena;
  int64_t at = 0;
  Slide slide;
};

struct LoadedStep {
  Kernel kernel;
  std::vector<Pointer> arguments;
  int threads = 0;
  /// Offsets in the memory of a call. They are those of the scratch memory of this step, and of the
  /// array of pointers that is passed to its kernel. Steps that may run at the same time have
  /// distinct offsets.
  int64_t scratch_at = 0, pointers_at = 0;
};

ArgumentInfo argument_of(const ModelTensor& tensor) {
  ArgumentInfo argument;
  argument.name = tensor.name;
  argument.dtype = tensor.dtype;
  argument.is_output = tensor.place == Place::Output;
  argument.shape = tensor.shape;
  argument.storage_elements = tensor.bytes / size_bytes(tensor.dtype);
  return argument;
}

std::vector<ArgumentInfo> arguments_of(const ModelVariant& variant) {
  std::vector<ArgumentInfo> arguments;
  for (const std::vector<int>* const ports : {&variant.inputs, &variant.outputs})
    for (const int port : *ports)
      arguments.push_back(argument_of(variant.tensors[static_cast<size_t>(port)]));
  return arguments;
}

/// Makes the Pointer of a tensor. The indices of outputs follow those of the inputs, as in the
/// arrays that call() gets.
Pointer pointer_to(const ModelTensor& tensor, const ModelVariant& variant) {
  const bool is_output = tensor.place == Place::Output;
  return {tensor.place, tensor.at + (is_output ? std::ssize(variant.inputs) : 0), tensor.slide};
}

/// True if steps can use the caller's array without a copy.
bool is_direct(const ArgumentInfo& argument, const Buffer& buffer) {
  const auto alignment = static_cast<uintptr_t>(size_bytes(argument.dtype));
  return buffer.dtype == argument.dtype && buffer.shape == argument.shape &&
         (buffer.strides.empty() || (buffer.strides.size() == buffer.shape.size() &&
                                     is_contiguous(buffer.shape, buffer.strides))) &&
         reinterpret_cast<uintptr_t>(buffer.data) % alignment == 0 &&
         (buffer.data != nullptr || storage_bytes(argument) == 0);
}

bool are_direct(std::span<const ArgumentInfo> arguments, std::span<const Buffer> buffers) {
  return std::ranges::equal(arguments, buffers, is_direct);
}

ByteRange range_of(const ArgumentInfo& argument, const Buffer& buffer) {
  const uint64_t begin = reinterpret_cast<uintptr_t>(buffer.data);
  if (storage_bytes(argument) == 0) return {};
  return {begin, begin + static_cast<uint64_t>(storage_bytes(argument))};
}

/// Requires: at least as many arrays as inputs.
template <typename Array>
bool has_shapes(std::span<const ArgumentInfo> inputs, std::span<const Array> arrays) {
  return std::ranges::equal(inputs, arrays.first(inputs.size()), {}, &ArgumentInfo::shape,
                            &Array::shape);
}

/// Fails with Usage if a network for a GPU gets no device, or if a network for the processor gets
/// one.
Status check_device(const ModelFile& model, const std::shared_ptr<Device>& device) {
  TW_TRY(const Target target, parse_target(model.target));
  if (target.is_gpu() == (device != nullptr)) return {};
  return fail(ErrorCode::Usage,
              fmt::format("[model] the network '{}' is for {}: {}", model.name, model.target,
                          device ? "load it without a device, or tune it for that"
                                 : "give a device to load it on"));
}

/// Offsets in bytes of the parts of one call's memory: the arena at 0, then the memory that steps
/// use while they run (LoadedStep), then the pointers to the caller's arrays.
struct CallMemory {
  int64_t arrays_at = 0, bytes = 0;
};

/// The memory that all variants of a model share: the constants, and a cache of the blocks that
/// calls work in.
struct ModelMemory {
  const char* constants = nullptr;
  std::shared_ptr<ArenaCache> arenas = std::make_shared<ArenaCache>();
};

/// Shared memory, thread pool and options of one call.
struct CallContext {
  const ModelMemory& shared;
  ThreadPool& pool;
  int threads = 0;  ///< most threads of the pool that are used; 0: all
  BandOrder order = BandOrder::SideBySide;
  std::vector<StepTime>* times = nullptr;  ///< if not null, the time of each run is written here

  bool runs_side_by_side() const {
    return order == BandOrder::SideBySide && threads != 1 && pool.threads() > 1;
  }
};

/// The place to which the times of the next runs are written; `next` is null if no times are
/// wanted.
struct TimePlace {
  StepTime* next = nullptr;
  SteadyClock::time_point start = {};  ///< time at which the first step of the call began

  /// Returns a copy of this object, and then moves this object forward by `runs` runs.
  TimePlace take(int64_t runs) {
    return {next == nullptr ? nullptr : std::exchange(next, next + runs), start};
  }
  int64_t now_ns() const { return std::chrono::nanoseconds(SteadyClock::now() - start).count(); }
};

/// Steps of a call that run one after another.
struct StepRange {
  size_t first = 0, end = 0;
  int threads = 0;  ///< most threads of each step; 0: all of the pool
  TimePlace times = {};
};

/// A variant whose kernels are loaded on the processor. Requires: `info`, `arguments` and the
/// kernels' memory outlive the object.
class LoadedVariant {
 public:
  LoadedVariant(const ModelVariant& info, std::span<const ArgumentInfo> arguments,
                const std::vector<Kernel>& kernels);

  int64_t call_bytes() const { return memory_.bytes; }
  /// Requires: one array for each argument.
  Status run(const CallContext& context, std::span<const Buffer> buffers) const;

 private:
  Status run_direct(const CallContext& context, std::span<const Buffer> buffers) const;
  Status run_copied(const CallContext& context, std::span<const Buffer> buffers) const;
  void place_steps();
  int64_t place_steps(size_t first, size_t end, int64_t at);
  int64_t count_runs(size_t first, size_t end) const;
  Status run_steps(const CallContext& context, char* memory) const;
  Status run_range(const CallContext& context, const StepRange& range, char* memory) const;
  Status run_band(const CallContext& context, const ModelBand& band, TimePlace times,
                  char* memory) const;
  Status run_step(const CallContext& context, size_t number, int64_t trip, int threads,
                  char* memory) const;

  /// Returns the part of a call's memory that has the pointers to the caller's arrays, or to copies
  /// of these arrays.
  char** arrays(char* memory) const { return reinterpret_cast<char**>(memory + memory_.arrays_at); }

  const ModelVariant* info_;
  std::span<const ArgumentInfo> arguments_;
  std::vector<LoadedStep> steps_;
  CallMemory memory_;
};

LoadedVariant::LoadedVariant(const ModelVariant& info, std::span<const ArgumentInfo> arguments,
                             const std::vector<Kernel>& kernels)
    : info_(&info), arguments_(arguments) {
  for (const ModelStep& step : info.steps) {
    LoadedStep& to = steps_.emplace_back(
        LoadedStep{kernels[static_cast<size_t>(step.kernel)], {}, step.threads});
    for (const int tensor : step.arguments)
      to.arguments.push_back(pointer_to(info.tensors[static_cast<size_t>(tensor)], info));
  }
  place_steps();
}

/// Computes the offsets of the working memory of all steps. Steps that run one after another share
/// one part of the memory. The chains of a band, which run at the same time, get separate parts.
void LoadedVariant::place_steps() {
  const int64_t at = round_up(info_->arena_bytes, arena_alignment);
  int64_t end = place_steps(0, steps_.size(), at);
  for (const ModelBand& band : info_->bands) {
    int64_t chain_at = at;
    for_each_chain(band, [&](size_t, size_t first, size_t behind) {
      chain_at = place_steps(first, behind, chain_at);
    });
    end = std::max(end, chain_at);
  }
  memory_.arrays_at = end;
  memory_.bytes = end + round_up(std::ssize(arguments_) * int64_t{sizeof(void*)}, arena_alignment);
}

/// Assigns the steps from `first` to `end` - 1 the same working memory at the offset `at`, because
/// they run one after another. Returns the offset after this memory.
int64_t LoadedVariant::place_steps(size_t first, size_t end, int64_t at) {
  int64_t scratch = 0, pointers = 0;
  for (size_t number = first; number < end; ++number) {
    scratch = std::max(scratch, steps_[number].kernel.info().scratch_bytes);
    pointers = std::max(pointers, std::ssize(steps_[number].arguments));
  }
  const int64_t pointers_at = at + round_up(scratch, arena_alignment);
  for (size_t number = first; number < end; ++number) {
    steps_[number].scratch_at = at;
    steps_[number].pointers_at = pointers_at;
  }
  return pointers_at + round_up(pointers * int64_t{sizeof(void*)}, arena_alignment);
}

int64_t LoadedVariant::count_runs(size_t first, size_t end) const {
  int64_t runs = static_cast<int64_t>(end) - static_cast<int64_t>(first);
  for (const ModelLoop& loop : info_->loops)
    if (std::cmp_greater_equal(loop.first, first) && std::cmp_less(loop.first, end))
      runs += (loop.trips - 1) * loop.count;
  return runs;
}

Status LoadedVariant::run_step(const CallContext& context, size_t number, int64_t trip, int threads,
                               char* memory) const {
  const LoadedStep& step = steps_[number];
  const auto pointers = reinterpret_cast<void**>(memory + step.pointers_at);
  for (size_t i = 0; i < step.arguments.size(); ++i) {
    const auto& [place, at, slide] = step.arguments[i];
    char* const begin = place == Place::Constant ? const_cast<char*>(context.shared.constants) + at
                        : place == Place::Arena  ? memory + at
                                                 : arrays(memory)[at];
    pointers[i] = begin + slide.at(trip);
  }
  const int limit = threads > 0 && step.threads > 0 ? std::min(threads, step.threads)
                                                    : std::max(threads, step.threads);
  void* const scratch = step.kernel.info().scratch_bytes > 0 ? memory + step.scratch_at : nullptr;
  const Status done =
      step.kernel.run_unchecked({pointers, step.arguments.size()}, scratch, context.pool, limit);
  if (done) return {};
  return fail(done.error().code, fmt::format("[model] step {} '{}': {}", number,
                                             info_->steps[number].name, done.error().message));
}

Status LoadedVariant::run_steps(const CallContext& context, char* memory) const {
  TimePlace times;
  if (context.times != nullptr) {
    context.times->resize(static_cast<size_t>(count_runs(0, steps_.size())));
    times = {context.times->data(), SteadyClock::now()};
  }
  const auto run_until = [&](size_t first, size_t end) {
    const TimePlace of_range = times.take(count_runs(first, end));
    return run_range(context, {first, end, context.threads, of_range}, memory);
  };
  size_t done = 0;
  if (context.runs_side_by_side())
    for (const ModelBand& band : info_->bands) {
      const auto first = static_cast<size_t>(band.first), end = static_cast<size_t>(band.end());
      TW_RETURN_IF_ERROR(run_until(done, first));
      TW_RETURN_IF_ERROR(run_band(context, band, times.take(count_runs(first, end)), memory));
      done = end;
    }
  return run_until(done, steps_.size());
}

Status LoadedVariant::run_range(const CallContext& context, const StepRange& range,
                                char* memory) const {
  TimePlace times = range.times;
  return for_each_run(*info_, range.first, range.end, [&](size_t number, int64_t trip) -> Status {
    if (times.next == nullptr) return run_step(context, number, trip, range.threads, memory);
    const int64_t begin_ns = times.now_ns();
    TW_RETURN_IF_ERROR(run_step(context, number, trip, range.threads, memory));
    *times.next++ = {static_cast<int>(number), begin_ns, times.now_ns()};
    return {};
  });
}

// Runs the chains of a band at the same time. Each chain is a task of the pool, and all its kernels
// run on the thread of this task.
Status LoadedVariant::run_band(const CallContext& context, const ModelBand& band, TimePlace times,
                               char* memory) const {
  struct Tasks {
    const LoadedVariant& variant;
    const CallContext& context;
    char* memory;
    std::array<StepRange, most_chains> chains = {};
    std::mutex mutex = {};
    Status failed = {};  ///< guarded by the mutex
  } tasks{*this, context, memory};
  for_each_chain(band, [&](size_t chain, size_t first, size_t end) {
    tasks.chains[chain] = {first, end, 1, times.take(count_runs(first, end))};
  });
  const TaskFunction run_chain = [](void* of, int32_t chain) noexcept -> int32_t {
    auto& [variant, calling, at, chains, mutex, failed] = *static_cast<Tasks*>(of);
    Status done = variant.run_range(calling, chains[static_cast<size_t>(chain)], at);
    if (done) return 0;
    const std::lock_guard lock(mutex);
    failed = std::move(done);
    return 1;
  };
  (void)context.pool.parallel_for(std::ssize(band.chains), run_chain, &tasks, context.threads);
  return std::move(tasks.failed);
}

Status LoadedVariant::run(const CallContext& context, std::span<const Buffer> buffers) const {
  return are_direct(arguments_, buffers) ? run_direct(context, buffers)
                                         : run_copied(context, buffers);
}

Status LoadedVariant::run_direct(const CallContext& context,
                                 std::span<const Buffer> buffers) const {
  for (size_t output = info_->inputs.size(); output < buffers.size(); ++output)
    for (size_t other = 0; other < output; ++other)
      TW_RETURN_IF_ERROR(
          check_apart(arguments_[output], range_of(arguments_[output], buffers[output]),
                      arguments_[other], range_of(arguments_[other], buffers[other])));
  ArenaCache& arenas = *context.shared.arenas;
  TW_TRY(auto arena, arenas.take(memory_.bytes));
  const BorrowedArena memory(arenas, std::move(arena));
  for (size_t i = 0; i < buffers.size(); ++i)
    arrays(memory.data())[i] = static_cast<char*>(buffers[i].data);
  return run_steps(context, memory.data());
}

// Runs a call with arrays that steps cannot use directly, because they are strided or misaligned.
// Copies of these arrays lie after the rest of the memory of the call.
Status LoadedVariant::run_copied(const CallContext& context,
                                 std::span<const Buffer> buffers) const {
  TW_TRY(const std::vector<StridedView> views, views_of(arguments_, buffers));
  std::vector<std::optional<int64_t>> copies(views.size());
  std::optional<int64_t> end = memory_.bytes;
  for (size_t i = 0; i < views.size() && end; ++i) {
    if (is_direct(arguments_[i], buffers[i])) continue;
    copies[i] = *end;
    end = checked_add(*end, round_up(storage_bytes(arguments_[i]), arena_alignment));
  }
  if (!end)
    return fail(ErrorCode::Environment,
                "[model] out of memory: the copies of the arrays do not fit 64 bits");
  ArenaCache& arenas = *context.shared.arenas;
  TW_TRY(auto arena, arenas.take(*end));
  const BorrowedArena memory(arenas, std::move(arena));
  for (size_t i = 0; i < views.size(); ++i) {
    char*& array = arrays(memory.data())[i];
    array = copies[i] ? memory.data() + *copies[i] : views[i].data;
    if (copies[i] && !arguments_[i].is_output) gather(views[i], array);
  }
  TW_RETURN_IF_ERROR(run_steps(context, memory.data()));
  for (size_t i = 0; i < views.size(); ++i)
    if (copies[i] && arguments_[i].is_output) scatter(arrays(memory.data())[i], views[i]);
  return {};
}

}  // namespace

struct Model::State {
  ModelFile info;  // not changed once there are variants, which point into it and into `arguments`
  std::vector<std::vector<ArgumentInfo>> arguments;  // arguments of each variant
  // One entry for each variant: in `variants` for a network for the processor, else in `on_device`.
  std::vector<LoadedVariant> variants;
  std::vector<std::unique_ptr<const DeviceModel>> on_device;
  std::shared_ptr<Device> device;
  MappedFile file;
  Arena copied;  // constants of a model that was loaded from memory, not from a file
  ModelMemory shared;
  int64_t constant_bytes = 0;

  Status load(std::vector<Artifact> kernels, const ModelOptions& options);
  Status load_on_device(std::vector<Artifact> kernels);
  std::span<const ArgumentInfo> inputs(size_t variant) const {
    return std::span(arguments[variant]).first(info.variants[variant].inputs.size());
  }
  template <typename Array>
  Result<size_t> variant_of(std::span<const Array> arrays) const;
  template <typename Array>
  tl::unexpected<Error> no_variant_for(std::span<const Array> arrays) const;
  /// Returns the variant for these arrays on the device. Fails with Usage for a network for the
  /// processor.
  Result<const DeviceModel*> device_model_for(const auto& arrays) const;
};

Status Model::State::load(std::vector<Artifact> kernels, const ModelOptions& options) {
  std::vector<Kernel> loaded;
  for (Artifact& kernel : kernels) {
    TW_TRY(Kernel callable, Kernel::load(std::move(kernel), {.machine = options.machine,
                                                             .arenas = shared.arenas,
                                                             .library = options.library}));
    loaded.push_back(std::move(callable));
  }
  for (size_t variant = 0; variant < arguments.size(); ++variant)
    variants.emplace_back(info.variants[variant], arguments[variant], loaded);
  return {};
}

Status Model::State::load_on_device(std::vector<Artifact> kernels) {
  const std::string_view constants(shared.constants, static_cast<size_t>(constant_bytes));
  TW_TRY(const auto network, DeviceNetwork::load(info.name, std::move(kernels), constants, device));
  for (size_t variant = 0; variant < arguments.size(); ++variant) {
    TW_TRY(on_device.emplace_back(),
           DeviceModel::load(network, info.variants[variant], arguments[variant]));
  }
  file = {};
  copied = {};
  shared.constants = nullptr;
  return {};
}

template <typename Array>
Result<size_t> Model::State::variant_of(std::span<const Array> arrays) const {
  TW_RETURN_IF_ERROR(check_count(arguments.front(), arrays.size()));
  // With one variant, the call itself checks the arrays later and says which array is wrong.
  if (arguments.size() == 1) return 0;
  for (size_t variant = 0; variant < arguments.size(); ++variant)
    if (has_shapes(inputs(variant), arrays)) return variant;
  return no_variant_for(arrays);
}

template <typename Array>
tl::unexpected<Error> Model::State::no_variant_for(std::span<const Array> arrays) const {
  std::vector<std::string> given, expected;
  for (size_t i = 0; i < inputs(0).size(); ++i)
    given.push_back(fmt::format("{} {}", inputs(0)[i].name, arrays[i].shape));
  for (const ModelVariant& variant : info.variants) expected.push_back(show_inputs(variant));
  return fail(ErrorCode::Usage, fmt::format("[model] inputs of the shapes {} given, expected {}",
                                            fmt::join(given, ", "), fmt::join(expected, "; or ")));
}

Result<const DeviceModel*> Model::State::device_model_for(const auto& arrays) const {
  if (!device)
    return fail(ErrorCode::Usage,
                fmt::format("[model] the network '{}' is for {}, which is no GPU: call it with a "
                            "thread pool, or by tw_model_call() in C",
                            info.name, info.target));
  TW_TRY(const size_t variant, variant_of(arrays));
  return on_device[variant].get();
}

Result<Model> Model::make(std::shared_ptr<State> state, const ModelOptions& options) {
  TW_RETURN_IF_ERROR(check_device(state->info, options.device));
  std::vector<Artifact> kernels = std::exchange(state->info.kernels, {});
  for (const Artifact& kernel : kernels) state->info.kernels.push_back({kernel.info, {}, {}});
  for (const ModelVariant& variant : state->info.variants)
    state->arguments.push_back(arguments_of(variant));
  state->device = options.device;
  TW_RETURN_IF_ERROR(state->device ? state->load_on_device(std::move(kernels))
                                   : state->load(std::move(kernels), options));
  return Model(std::move(state));
}

Result<Model> Model::open(const std::string& path, const ModelOptions& options) {
  TW_TRY(MappedModel mapped, map_model(path, options.trust, options.machine, options.constants));
  auto state = std::make_shared<State>();
  state->info = std::move(mapped.model);
  state->file = std::move(mapped.file);
  state->shared.constants = mapped.constants.data();
  state->constant_bytes = std::ssize(mapped.constants);
  return make(std::move(state), options);
}

Result<Model> Model::load(ModelFile model, const ModelOptions& options) {
  TW_RETURN_IF_ERROR(check_model(model));
  TW_RETURN_IF_ERROR(check_targets(model, options.machine));
  const std::string constants = std::exchange(model.constants, {});
  auto state = std::make_shared<State>();
  TW_TRY(state->copied, Arena::allocate(std::ssize(constants)));
  if (!constants.empty()) std::memcpy(state->copied.data(), constants.data(), constants.size());
  state->info = std::move(model);
  state->shared.constants = state->copied.data();
  state->constant_bytes = std::ssize(constants);
  return make(std::move(state), options);
}

const ModelFile& Model::info() const { return state_->info; }
std::span<const ArgumentInfo> Model::arguments(size_t variant) const {
  return state_->arguments[variant];
}
std::shared_ptr<Device> Model::device() const { return state_->device; }
int64_t Model::constant_bytes() const { return state_->constant_bytes; }
int64_t Model::call_bytes(size_t variant) const {
  return device() ? state_->on_device[variant]->call_bytes()
                  : state_->variants[variant].call_bytes();
}

Result<size_t> Model::variant_of(std::span<const Buffer> buffers) const {
  return state_->variant_of(buffers);
}

Status Model::call(std::span<const Buffer> buffers) const {
  TW_TRY(const DeviceModel* const model, state_->device_model_for(buffers));
  return model->call(buffers);
}

Status Model::call_on(std::span<const DeviceArray> arrays, DeviceStream stream) const {
  TW_TRY(const DeviceModel* const model, state_->device_model_for(arrays));
  return model->call_on(arrays, stream);
}

Status Model::call(std::span<const Buffer> buffers, ThreadPool& pool, int threads) const {
  if (state_->device) return call(buffers);
  TW_TRY(const size_t variant, state_->variant_of(buffers));
  const ThreadPool::Awake awake(pool);
  return state_->variants[variant].run({state_->shared, pool, threads}, buffers);
}

Result<ModelProfile> Model::profile(std::span<const Buffer> buffers, ThreadPool& pool, int threads,
                                    BandOrder order) const {
  ModelProfile profile;
  TW_TRY(profile.variant, state_->variant_of(buffers));
  if (state_->device) {
    TW_TRY(profile.steps, state_->on_device[profile.variant]->profile(buffers));
    return profile;
  }
  const ThreadPool::Awake awake(pool);
  const CallContext context{state_->shared, pool, threads, order, &profile.steps};
  TW_RETURN_IF_ERROR(state_->variants[profile.variant].run(context, buffers));
  return profile;
}

std::vector<double> times_of_steps(const ModelFile& model, const ModelProfile& profile) {
  std::vector<double> times(model.variants[profile.variant].steps.size(), 0);
  for (const auto& [step, begin_ns, end_ns] : profile.steps)
    times[static_cast<size_t>(step)] += static_cast<double>(end_ns - begin_ns);
  return times;
}

namespace {

/// Returns for each step of the variant the index of its chain within its band; 0 for steps outside
/// of bands.
std::vector<size_t> chains_of_steps(const ModelVariant& variant) {
  std::vector<size_t> chains(variant.steps.size(), 0);
  for (const ModelBand& band : variant.bands)
    for_each_chain(band, [&](size_t chain, size_t first, size_t end) {
      std::fill(chains.begin() + static_cast<ptrdiff_t>(first),
                chains.begin() + static_cast<ptrdiff_t>(end), chain);
    });
  return chains;
}

}  // namespace

std::string to_trace(const ModelFile& model, const ModelProfile& profile) {
  using Json = nlohmann::json;
  const std::vector<size_t> chains = chains_of_steps(model.variants[profile.variant]);
  constexpr double ns_per_us = 1000;  // the format's times are in microseconds
  Json events = Json::array();
  for (const auto& [number, begin_ns, end_ns] : profile.steps) {
    const ModelStep& step = model.variants[profile.variant].steps[static_cast<size_t>(number)];
    const KernelInfo& kernel = model.kernels[static_cast<size_t>(step.kernel)].info;
    events.push_back({{"name", step.name},
                      {"cat", "step"},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1 + chains[static_cast<size_t>(number)]},
                      {"ts", static_cast<double>(begin_ns) / ns_per_us},
                      {"dur", static_cast<double>(end_ns - begin_ns) / ns_per_us},
                      {"args",
                       {{"step", number},
                        {"workload", kernel.workload},
                        {"flops", kernel.flops},
                        {"predicted_ns", step.predicted_ns}}}});
  }
  const Json trace = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tw::runtime
