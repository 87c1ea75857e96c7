// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/device_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/strided.h"

namespace tw::runtime {
namespace {

// Largest number of recordings for one queue. A recording is a graph of the steps for one set of
// the caller's arrays; only drivers with graphs make recordings. It is kept until the model is
// destroyed or the thread of the queue has ended, because the queue may still run it. Once there
// are so many recordings, calls with new sets of arrays run without a recording.
constexpr size_t most_recorded = 8;

/// Contiguous copies of the caller's arrays that are not contiguous. They are needed because a
/// device copies only contiguous arrays.
class Staging {
 public:
  explicit Staging(const std::vector<StridedView>& views) : views_(views), copies_(views.size()) {}

  /// Returns the host memory that the device copies from or to: the array itself if it is
  /// contiguous, else a copy of `bytes` bytes.
  char* at(size_t argument, int64_t bytes) {
    if (is_contiguous(views_[argument])) return views_[argument].data;
    copies_[argument].resize(static_cast<size_t>(bytes));
    return copies_[argument].data();
  }
  void gather_into(size_t argument) {
    if (!copies_[argument].empty()) gather(views_[argument], copies_[argument].data());
  }
  void scatter_from(size_t argument) const {
    if (!copies_[argument].empty()) scatter(copies_[argument].data(), views_[argument]);
  }

 private:
  const std::vector<StridedView>& views_;
  std::vector<std::vector<char>> copies_;
};

}  // namespace

Result<std::shared_ptr<const DeviceNetwork>> DeviceNetwork::load(std::string name,
                                                                 std::vector<Artifact> kernels,
                                                                 std::string_view constants,
                                                                 std::shared_ptr<Device> device) {
  auto network = std::make_shared<DeviceNetwork>();
  network->name = std::move(name);
  network->device = std::move(device);
  for (Artifact& kernel : kernels) {
    TW_TRY(DeviceKernel loaded, DeviceKernel::load(std::move(kernel), network->device));
    network->kernels.push_back(std::move(loaded));
  }
  TW_TRY(network->constants, network->allocate("constants", std::ssize(constants)));
  TW_RETURN_IF_ERROR(network->constants.write(constants.data(), network->constants.bytes()));
  return network;
}

Result<DeviceBuffer> DeviceNetwork::allocate(std::string_view what, int64_t bytes) const {
  auto memory = device->allocate(bytes);
  if (memory || device->lost()) return memory;
  return fail(memory.error().code, fmt::format("[model] no memory for the {} of '{}', {} bytes: {}",
                                               what, name, bytes, memory.error().message));
}

DeviceModel::DeviceModel(std::shared_ptr<const DeviceNetwork> network, const ModelVariant& variant,
                         std::span<const ArgumentInfo> arguments)
    : network_(std::move(network)), variant_(variant), arguments_(arguments) {
  for (const ModelStep& step : variant_.steps)
    scratch_bytes_ = std::max(
        scratch_bytes_, network_->kernels[static_cast<size_t>(step.kernel)].info().scratch_bytes);
}

Result<std::unique_ptr<DeviceModel>> DeviceModel::load(std::shared_ptr<const DeviceNetwork> network,
                                                       const ModelVariant& variant,
                                                       std::span<const ArgumentInfo> arguments) {
  std::unique_ptr<DeviceModel> loaded(new DeviceModel(std::move(network), variant, arguments));
  TW_RETURN_IF_ERROR(loaded->place_constants());
  return loaded;
}

Status DeviceModel::place_constants() {
  constant_places_.resize(variant_.tensors.size());
  for (size_t i = 0; i < variant_.tensors.size(); ++i)
    if (variant_.tensors[i].place == Place::Constant) {
      TW_TRY(constant_places_[i],
             part_of(network_->constants, variant_.tensors[i], variant_.tensors[i].at));
    }
  return {};
}

Result<DeviceBuffer> DeviceModel::part_of(const DeviceBuffer& memory, const ModelTensor& tensor,
                                          int64_t at) const {
  if (tensor.bytes == 0) return DeviceBuffer();
  auto part = DeviceBuffer::borrow(network_->device, memory.address(), tensor.bytes, at);
  if (part || network_->device->lost()) return part;
  return fail(part.error().code, fmt::format("[model] tensor '{}' of '{}': {}", tensor.name,
                                             network_->name, part.error().message));
}

int64_t DeviceModel::call_bytes() const {
  int64_t bytes = variant_.arena_bytes + scratch_bytes_;
  for (const ArgumentInfo& argument : arguments_) bytes += storage_bytes(argument);
  return bytes;
}

Result<DeviceModel::Memory> DeviceModel::make_memory() const {
  Memory memory;
  TW_TRY(memory.arena, network_->allocate("arena", variant_.arena_bytes));
  TW_TRY(memory.scratch, network_->allocate("scratch memory", scratch_bytes_));
  memory.places.resize(variant_.tensors.size());
  for (size_t i = 0; i < variant_.tensors.size(); ++i)
    if (variant_.tensors[i].place == Place::Arena && variant_.tensors[i].slide == Slide()) {
      TW_TRY(memory.places[i], part_of(memory.arena, variant_.tensors[i], variant_.tensors[i].at));
    }
  return memory;
}

Result<DeviceModel::OwnCall> DeviceModel::make_call() const {
  OwnCall call;
  TW_TRY(call.memory, make_memory());
  std::vector<DeviceBuffer> arrays;
  for (const ArgumentInfo& argument : arguments_) {
    TW_TRY(DeviceBuffer array,
           network_->allocate(fmt::format("array '{}'", argument.name), storage_bytes(argument)));
    arrays.push_back(std::move(array));
  }
  TW_TRY(call.steps, steps_on(call.memory, std::move(arrays)));
  TW_TRY(call.graph, network_->device->record(call.steps.launches));
  return call;
}

/// Returns the address of a tensor in a trip. If the tensor moves in a loop, the buffer at this
/// address is added to `steps`, which keeps it alive.
Result<DeviceAddress> DeviceModel::address_of(int tensor, int64_t trip, const Memory& memory,
                                              Steps& steps) const {
  const auto index = static_cast<size_t>(tensor);
  const ModelTensor& of = variant_.tensors[index];
  const bool is_callers = of.place == Place::Input || of.place == Place::Output;
  const size_t array =
      static_cast<size_t>(of.at) + (of.place == Place::Output ? variant_.inputs.size() : 0);
  if (of.slide != Slide()) {
    const DeviceBuffer& whole = is_callers                 ? steps.arrays[array]
                                : of.place == Place::Arena ? memory.arena
                                                           : network_->constants;
    TW_TRY(DeviceBuffer part, part_of(whole, of, (is_callers ? 0 : of.at) + of.slide.at(trip)));
    steps.parts.push_back(std::move(part));
    return steps.parts.back().address();
  }
  if (is_callers) return steps.arrays[array].address();
  return of.place == Place::Constant ? constant_places_[index].address()
                                     : memory.places[index].address();
}

Result<DeviceModel::Steps> DeviceModel::steps_on(const Memory& memory,
                                                 std::vector<DeviceBuffer> arrays) const {
  Steps steps;
  steps.arrays = std::move(arrays);
  const auto run = [&](size_t number, int64_t trip) -> Status {
    const ModelStep& step = variant_.steps[number];
    std::vector<DeviceAddress> addresses;
    for (const int tensor : step.arguments) {
      TW_TRY(addresses.emplace_back(), address_of(tensor, trip, memory, steps));
    }
    const DeviceKernel& kernel = network_->kernels[static_cast<size_t>(step.kernel)];
    std::ranges::move(kernel.launches(addresses, memory.scratch.address()),
                      std::back_inserter(steps.launches));
    steps.runs.push_back({number, steps.launches.size()});
    return {};
  };
  TW_RETURN_IF_ERROR(for_each_run(variant_, run));
  return steps;
}

Result<DeviceModel::OwnCall> DeviceModel::take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      OwnCall call = std::move(idle_.back());
      idle_.pop_back();
      return call;
    }
  }
  return make_call();
}

void DeviceModel::give_back(OwnCall call) const {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(call));
}

Result<std::vector<StepTime>> DeviceModel::time_steps(const Steps& steps) const {
  std::vector<StepTime> times;
  const std::span<const Launch> launches(steps.launches);
  int64_t begin_ns = 0;
  size_t begin = 0;
  for (const auto& [step, end] : steps.runs) {
    TW_TRY(const std::vector<double> ns,
           network_->device->time_ns(launches.subspan(begin, end - begin)));
    const int64_t end_ns = begin_ns + std::llround(ns.front());
    times.push_back({static_cast<int>(step), begin_ns, end_ns});
    begin_ns = end_ns;
    begin = end;
  }
  return times;
}

/// Copies the inputs in, runs the steps, copies the outputs out, and waits once. It waits after an
/// error too, because the device may still read or write the caller's arrays.
template <typename Run>
Status DeviceModel::run_copied(std::span<const Buffer> arrays, const Run& run) const {
  TW_TRY(const std::vector<StridedView> views, views_of(arguments_, arrays));
  TW_TRY(OwnCall call, take());
  Staging staging(views);
  const auto queue_all = [&]() -> Status {
    for (size_t i = 0; i < views.size(); ++i) {
      if (arguments_[i].is_output) continue;
      const DeviceBuffer& array = call.steps.arrays[i];
      char* const data = staging.at(i, array.bytes());
      staging.gather_into(i);
      TW_RETURN_IF_ERROR(array.queue_write(data, array.bytes()));
    }
    TW_RETURN_IF_ERROR(run(call));
    for (size_t i = 0; i < views.size(); ++i) {
      const DeviceBuffer& array = call.steps.arrays[i];
      if (arguments_[i].is_output)
        TW_RETURN_IF_ERROR(array.queue_read(staging.at(i, array.bytes()), array.bytes()));
    }
    return {};
  };
  const Status queued = queue_all();
  const Status finished = network_->device->synchronize();
  TW_RETURN_IF_ERROR(queued);
  TW_RETURN_IF_ERROR(finished);
  for (size_t i = 0; i < views.size(); ++i)
    if (arguments_[i].is_output) staging.scatter_from(i);
  give_back(std::move(call));
  return {};
}

Status DeviceModel::call(std::span<const Buffer> arrays) const {
  return run_copied(arrays,
                    [this](const OwnCall& call) { return network_->device->launch(call.graph); });
}

Result<std::vector<StepTime>> DeviceModel::profile(std::span<const Buffer> arrays) const {
  std::vector<StepTime> times;
  TW_RETURN_IF_ERROR(run_copied(arrays, [&](const OwnCall& call) -> Status {
    TW_TRY(times, time_steps(call.steps));
    return {};
  }));
  return times;
}

// The mutex is held while the steps are enqueued. Otherwise steps of two calls on one queue could
// mix, although both calls use the same working memory.
Status DeviceModel::call_on(std::span<const DeviceArray> arrays, DeviceStream stream) const {
  TW_TRY(std::vector<DeviceBuffer> given, borrow_arrays(network_->device, arguments_, arrays));
  const std::lock_guard lock(mutex_);
  const Queue queue = queue_of(stream, *network_->device);
  auto known = on_queues_.find(queue);
  if (known == on_queues_.end()) {
    drop_ended_threads(on_queues_);
    TW_TRY(Memory memory, make_memory());
    known = on_queues_.emplace(queue, OnQueue{std::move(memory), {}}).first;
  }
  auto& [memory, recorded] = known->second;
  const auto is_same = [](const DeviceBuffer& a, const DeviceBuffer& b) {
    return a.address() == b.address();
  };
  for (const Recorded& recording : recorded)
    if (std::ranges::equal(recording.arrays, given, is_same))
      return network_->device->launch(recording.graph, stream);
  TW_TRY(Steps steps, steps_on(memory, std::move(given)));
  if (recorded.size() == most_recorded) return network_->device->launch(steps.launches, stream);
  TW_TRY(LaunchGraph graph, network_->device->record(std::move(steps.launches)));
  // Without graphs a recording saves little time, and would retain the caller's OpenCL memory.
  if (!graph.is_recorded()) return network_->device->launch(graph, stream);
  recorded.push_back({std::move(steps.arrays), std::move(steps.parts), std::move(graph)});
  return network_->device->launch(recorded.back().graph, stream);
}

}  // namespace tw::runtime
