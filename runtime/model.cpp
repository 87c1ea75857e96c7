// SPDX-License-Identifier: Apache-2.0
#include "runtime/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/integer.h"
#include "runtime/arena.h"

namespace tw::runtime {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Where a pointer of a step comes from: an offset in constants or arena, or an array of the
/// caller's.
struct Pointer {
  Place place = Place::Arena;
  int64_t at = 0;
};

struct LoadedStep {
  Kernel kernel;
  std::vector<Pointer> arguments;
  int threads = 0;
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

std::vector<ArgumentInfo> arguments_of(const ModelFile& model) {
  std::vector<ArgumentInfo> arguments;
  for (const std::vector<int>* const ports : {&model.inputs, &model.outputs})
    for (const int port : *ports)
      arguments.push_back(argument_of(model.tensors[static_cast<size_t>(port)]));
  return arguments;
}

/// Outputs are numbered behind the inputs, as call() takes the arrays.
Pointer pointer_to(const ModelTensor& tensor, const ModelFile& model) {
  const bool is_output = tensor.place == Place::Output;
  return {tensor.place, tensor.at + (is_output ? std::ssize(model.inputs) : 0)};
}

/// Steps can use the array as it is.
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

/// A network for a GPU needs a device, and only that does.
Status check_device(const ModelFile& model, const std::shared_ptr<Device>& device) {
  TW_TRY(const Target target, parse_target(model.target));
  if (target.is_gpu() == (device != nullptr)) return {};
  return fail(ErrorCode::Usage,
              fmt::format("[model] the network '{}' is for {}: {}", model.name, model.target,
                          device ? "load it without a device, or tune it for that"
                                 : "give a device to load it on"));
}

Status needs_device(const ModelFile& model) {
  return fail(ErrorCode::Usage,
              fmt::format("[model] the network '{}' is for {}, which is no GPU: call it with a "
                          "thread pool",
                          model.name, model.target));
}

}  // namespace

struct Model::State {
  ModelFile info;
  std::vector<ArgumentInfo> arguments;
  std::unique_ptr<const DeviceModel> on_device;  // in place of what follows; null: the processor
  std::vector<LoadedStep> steps;
  MappedFile file;
  Arena copied;  // constants of a model that came without a file
  const char* constants = nullptr;
  int64_t constant_bytes = 0;
  // One call's memory: arena, scratch of the steps, the pointers of one step, the caller's arrays.
  int64_t scratch_at = 0, pointers_at = 0, arrays_at = 0, call_bytes = 0;
  std::shared_ptr<ArenaCache> arenas = std::make_shared<ArenaCache>();

  Status load_on_device(std::vector<Artifact> kernels, const std::shared_ptr<Device>& device);
  Status load_steps(std::vector<Artifact> kernels, const ModelOptions& options);
  Status lay_out();

  Status run(std::span<const Buffer> buffers, ThreadPool& pool, int threads,
             std::vector<StepTime>* times) const;
  Status run_direct(std::span<const Buffer> buffers, ThreadPool& pool, int threads,
                    std::vector<StepTime>* times) const;
  Status run_copied(std::span<const Buffer> buffers, ThreadPool& pool, int threads,
                    std::vector<StepTime>* times) const;
  Status run_steps(char* memory, ThreadPool& pool, int threads, std::vector<StepTime>* times) const;
  Status run_step(size_t number, char* memory, ThreadPool& pool, int threads) const;

  /// The caller's arrays, or copies of them, in the memory of a call.
  char** arrays(char* memory) const { return reinterpret_cast<char**>(memory + arrays_at); }
};

Status Model::State::load_on_device(std::vector<Artifact> kernels,
                                    const std::shared_ptr<Device>& device) {
  for (const Artifact& kernel : kernels) info.kernels.push_back({kernel.info, {}, {}});
  const std::string_view bytes(constants, static_cast<size_t>(constant_bytes));
  TW_TRY(on_device, DeviceModel::load(info, arguments, std::move(kernels), bytes, device));
  file = {};
  copied = {};
  constants = nullptr;
  call_bytes = on_device->call_bytes();
  return {};
}

Status Model::State::load_steps(std::vector<Artifact> kernels, const ModelOptions& options) {
  std::vector<Kernel> loaded;
  for (Artifact& kernel : kernels) {
    info.kernels.push_back({kernel.info, {}, {}});
    TW_TRY(Kernel callable, Kernel::load(std::move(kernel), {.machine = options.machine,
                                                             .arenas = arenas,
                                                             .library = options.library}));
    loaded.push_back(std::move(callable));
  }
  for (const ModelStep& step : info.steps) {
    LoadedStep& to =
        steps.emplace_back(LoadedStep{loaded[static_cast<size_t>(step.kernel)], {}, step.threads});
    for (const int tensor : step.arguments)
      to.arguments.push_back(pointer_to(info.tensors[static_cast<size_t>(tensor)], info));
  }
  return {};
}

Status Model::State::lay_out() {
  int64_t scratch = 0, pointers = 0;
  for (const LoadedStep& step : steps) {
    scratch = std::max(scratch, step.kernel.info().scratch_bytes);
    pointers = std::max(pointers, std::ssize(step.arguments));
  }
  std::optional<int64_t> end = 0;
  const auto add = [&](int64_t bytes) {
    const int64_t at = *end;
    end = checked_add(at, bytes);
    if (end) end = checked_add(*end, arena_alignment - 1);
    if (end) *end -= *end % arena_alignment;
    return at;
  };
  constexpr int64_t pointer_bytes = sizeof(void*);
  add(info.arena_bytes);
  if (end) scratch_at = add(scratch);
  if (end) pointers_at = add(pointers * pointer_bytes);
  if (end) arrays_at = add(std::ssize(arguments) * pointer_bytes);
  if (!end)
    return fail(ErrorCode::Invalid,
                fmt::format("[model] the network '{}' needs an arena of {} and a scratch of {} "
                            "bytes, which do not fit 64 bits",
                            info.name, info.arena_bytes, scratch));
  call_bytes = *end;
  return {};
}

Status Model::State::run_step(size_t number, char* memory, ThreadPool& pool, int threads) const {
  const LoadedStep& step = steps[number];
  const auto pointers = reinterpret_cast<void**>(memory + pointers_at);
  for (size_t i = 0; i < step.arguments.size(); ++i) {
    const auto [place, at] = step.arguments[i];
    pointers[i] = place == Place::Constant ? const_cast<char*>(constants) + at
                  : place == Place::Arena  ? memory + at
                                           : arrays(memory)[at];
  }
  const int limit = threads > 0 && step.threads > 0 ? std::min(threads, step.threads)
                                                    : std::max(threads, step.threads);
  void* const scratch = step.kernel.info().scratch_bytes > 0 ? memory + scratch_at : nullptr;
  const Status done =
      step.kernel.run_unchecked({pointers, step.arguments.size()}, scratch, pool, limit);
  if (done) return {};
  return fail(done.error().code, fmt::format("[model] step {} '{}': {}", number,
                                             info.steps[number].name, done.error().message));
}

Status Model::State::run_steps(char* memory, ThreadPool& pool, int threads,
                               std::vector<StepTime>* times) const {
  if (times == nullptr) {
    for (size_t number = 0; number < steps.size(); ++number)
      TW_RETURN_IF_ERROR(run_step(number, memory, pool, threads));
    return {};
  }
  const auto start = SteadyClock::now();
  const auto now_ns = [&] {
    return int64_t{std::chrono::nanoseconds(SteadyClock::now() - start).count()};
  };
  for (size_t number = 0; number < steps.size(); ++number) {
    const int64_t begin_ns = now_ns();
    TW_RETURN_IF_ERROR(run_step(number, memory, pool, threads));
    times->push_back({static_cast<int>(number), begin_ns, now_ns()});
  }
  return {};
}

Status Model::State::run(std::span<const Buffer> buffers, ThreadPool& pool, int threads,
                         std::vector<StepTime>* times) const {
  TW_RETURN_IF_ERROR(check_count(arguments, buffers.size()));
  if (are_direct(arguments, buffers)) return run_direct(buffers, pool, threads, times);
  return run_copied(buffers, pool, threads, times);
}

Status Model::State::run_direct(std::span<const Buffer> buffers, ThreadPool& pool, int threads,
                                std::vector<StepTime>* times) const {
  for (size_t output = info.inputs.size(); output < buffers.size(); ++output)
    for (size_t other = 0; other < output; ++other)
      TW_RETURN_IF_ERROR(check_apart(arguments[output],
                                     range_of(arguments[output], buffers[output]), arguments[other],
                                     range_of(arguments[other], buffers[other])));
  TW_TRY(auto arena, arenas->take(call_bytes));
  const BorrowedArena memory(*arenas, std::move(arena));
  for (size_t i = 0; i < buffers.size(); ++i)
    arrays(memory.data())[i] = static_cast<char*>(buffers[i].data);
  return run_steps(memory.data(), pool, threads, times);
}

// Arrays that steps cannot use as they are lie contiguously behind the rest of the call's memory.
Status Model::State::run_copied(std::span<const Buffer> buffers, ThreadPool& pool, int threads,
                                std::vector<StepTime>* times) const {
  TW_TRY(const std::vector<StridedView> views, views_of(arguments, buffers));
  std::vector<std::optional<int64_t>> copies(views.size());
  std::optional<int64_t> end = call_bytes;
  for (size_t i = 0; i < views.size() && end; ++i) {
    if (is_direct(arguments[i], buffers[i])) continue;
    copies[i] = *end;
    end = checked_add(*end, round_up(storage_bytes(arguments[i]), arena_alignment));
  }
  if (!end)
    return fail(ErrorCode::Environment,
                "[model] out of memory: the copies of the arrays do not fit 64 bits");
  TW_TRY(auto arena, arenas->take(*end));
  const BorrowedArena memory(*arenas, std::move(arena));
  for (size_t i = 0; i < views.size(); ++i) {
    char*& array = arrays(memory.data())[i];
    array = copies[i] ? memory.data() + *copies[i] : views[i].data;
    if (copies[i] && !arguments[i].is_output) gather(views[i], array);
  }
  TW_RETURN_IF_ERROR(run_steps(memory.data(), pool, threads, times));
  for (size_t i = 0; i < views.size(); ++i)
    if (copies[i] && arguments[i].is_output) scatter(arrays(memory.data())[i], views[i]);
  return {};
}

Result<Model> Model::make(std::shared_ptr<State> state, const ModelOptions& options) {
  TW_RETURN_IF_ERROR(check_device(state->info, options.device));
  std::vector<Artifact> kernels = std::exchange(state->info.kernels, {});
  state->arguments = arguments_of(state->info);
  if (options.device) {
    TW_RETURN_IF_ERROR(state->load_on_device(std::move(kernels), options.device));
    return Model(std::move(state));
  }
  TW_RETURN_IF_ERROR(state->load_steps(std::move(kernels), options));
  TW_RETURN_IF_ERROR(state->lay_out());
  return Model(std::move(state));
}

Result<Model> Model::open(const std::string& path, const ModelOptions& options) {
  TW_TRY(MappedModel mapped, map_model(path, options.trust, options.machine, options.constants));
  auto state = std::make_shared<State>();
  state->info = std::move(mapped.model);
  state->file = std::move(mapped.file);
  state->constants = mapped.constants.data();
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
  state->constants = state->copied.data();
  state->constant_bytes = std::ssize(constants);
  return make(std::move(state), options);
}

const ModelFile& Model::info() const { return state_->info; }
std::span<const ArgumentInfo> Model::arguments() const { return state_->arguments; }
int64_t Model::constant_bytes() const { return state_->constant_bytes; }
int64_t Model::call_bytes() const { return state_->call_bytes; }

std::shared_ptr<Device> Model::device() const {
  return state_->on_device ? state_->on_device->device() : nullptr;
}

Status Model::call(std::span<const Buffer> buffers) const {
  return state_->on_device ? state_->on_device->call(buffers) : needs_device(info());
}

Status Model::call_on(std::span<const DeviceArray> arrays, DeviceStream stream) const {
  return state_->on_device ? state_->on_device->call_on(arrays, stream) : needs_device(info());
}

Status Model::call(std::span<const Buffer> buffers, ThreadPool& pool, int threads) const {
  if (state_->on_device) return state_->on_device->call(buffers);
  return state_->run(buffers, pool, threads, nullptr);
}

Result<std::vector<StepTime>> Model::profile(std::span<const Buffer> buffers, ThreadPool& pool,
                                             int threads) const {
  if (state_->on_device) return state_->on_device->profile(buffers);
  std::vector<StepTime> times;
  times.reserve(state_->steps.size());
  TW_RETURN_IF_ERROR(state_->run(buffers, pool, threads, &times));
  return times;
}

std::string to_trace(const ModelFile& model, std::span<const StepTime> times) {
  using Json = nlohmann::json;
  constexpr double ns_per_us = 1000;  // the format's times are in microseconds
  Json events = Json::array();
  for (const auto& [number, begin_ns, end_ns] : times) {
    const ModelStep& step = model.steps[static_cast<size_t>(number)];
    const KernelInfo& kernel = model.kernels[static_cast<size_t>(step.kernel)].info;
    events.push_back({{"name", step.name},
                      {"cat", "step"},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
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
