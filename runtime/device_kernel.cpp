// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "runtime/strided.h"

namespace tw::runtime {
namespace {

/// 13000 of "nvrtc-13.0", as DeviceCode counts; 0 of anything else.
int toolkit_of(const std::string& toolchain) {
  int major = 0, minor = 0;
  return std::sscanf(toolchain.c_str(), "nvrtc-%d.%d", &major, &minor) == 2
             ? 1000 * major + 10 * minor
             : 0;
}

tl::unexpected<Error> not_packed(const ArgumentInfo& argument) {
  return fail(
      ErrorCode::Unsupported,
      fmt::format("[kernel] {} '{}' is stored as '{}', and kernels of GPUs have no code that "
                  "packs: give call_on() its storage, {} elements in one dimension, or tune the "
                  "workload with arrays as they are",
                  argument.is_output ? "output" : "input", argument.name, argument.layout,
                  argument.storage_elements));
}

/// The argument as a device's memory has it: in a layout of its own, elements in one dimension.
ArgumentInfo as_stored(ArgumentInfo argument) {
  if (!argument.layout.empty()) argument.shape = {argument.storage_elements};
  return argument;
}

Status write_view(const DeviceBuffer& memory, const StridedView& view) {
  if (is_contiguous(view)) return memory.write(view.data, memory.bytes());
  std::vector<char> contiguous(static_cast<size_t>(memory.bytes()));
  gather(view, contiguous.data());
  return memory.write(contiguous.data(), memory.bytes());
}

Status read_view(const DeviceBuffer& memory, const StridedView& view) {
  if (is_contiguous(view)) return memory.read(view.data, memory.bytes());
  std::vector<char> contiguous(static_cast<size_t>(memory.bytes()));
  TW_RETURN_IF_ERROR(memory.read(contiguous.data(), memory.bytes()));
  scatter(contiguous.data(), view);
  return {};
}

/// Work on one queue is in order, so that calls there can share scratch memory; the handle of
/// CUDA's per-thread stream stands for as many queues as there are threads.
using Queue = std::tuple<bool, void*, int64_t>;

/// Number of the calling thread, from 1 on. Unlike the system's thread ids, no number is reused.
int64_t number_of_thread() {
  static std::atomic<int64_t> threads = 0;
  thread_local const int64_t number = ++threads;
  return number;
}

Queue queue_of(DeviceStream stream, bool is_cuda) {
  if (!stream) return {};
  if (is_cuda && *stream == nullptr) return {true, cuda_legacy_stream, 0};
  const bool per_thread = is_cuda && *stream == cuda_per_thread_stream;
  return {true, *stream, per_thread ? number_of_thread() : 0};
}

}  // namespace

struct DeviceKernel::State {
  KernelInfo info;
  std::shared_ptr<Device> device;
  std::vector<DeviceFunction> functions;  ///< one a phase
  std::mutex mutex;  ///< guards the members below and the order of launches on a queue
  std::map<Queue, DeviceBuffer> scratch;

  bool is_cuda() const { return device->facts().is_cuda(); }
  Result<DeviceBuffer> place(const ArgumentInfo& of_kernel, const DeviceArray& array) const;
  std::vector<ByteRange> ranges_of(std::span<const DeviceArray> arrays) const;
};

Result<DeviceKernel> DeviceKernel::load(Artifact artifact, const std::shared_ptr<Device>& device) {
  TW_RETURN_IF_ERROR(check_info(artifact.info));
  TW_TRY(const Target target, parse_target(artifact.info.target));
  if (!target.is_gpu())
    return fail(ErrorCode::Usage, fmt::format("[kernel] the kernel is for {}, which is no GPU",
                                              artifact.info.target));
  DeviceCode code;
  if (target.architecture == Architecture::Cuda) {
    code.architecture = target.gpu;
    code.binary = std::move(artifact.object);
    code.text = std::move(artifact.ptx);
    code.toolkit = toolkit_of(artifact.info.toolchain);
  } else {
    code.text = std::move(artifact.object);
  }
  TW_TRY(const DeviceModule module, device->load(code));
  auto state = std::make_shared<State>();
  for (const PhaseInfo& phase : artifact.info.phases) {
    TW_TRY(DeviceFunction function, module.function(phase.symbol));
    state->functions.push_back(std::move(function));
  }
  state->info = std::move(artifact.info);
  state->device = device;
  return DeviceKernel(std::move(state));
}

const KernelInfo& DeviceKernel::info() const { return state_->info; }
const std::shared_ptr<Device>& DeviceKernel::device() const { return state_->device; }

Status DeviceKernel::call(std::span<const Buffer> arrays) const {
  TW_TRY(const std::vector<StridedView> views, views_of(info().arguments, arrays));
  std::vector<DeviceBuffer> memories;
  std::vector<DeviceAddress> addresses;
  for (size_t i = 0; i < views.size(); ++i) {
    const ArgumentInfo& argument = info().arguments[i];
    if (!argument.layout.empty()) return not_packed(argument);
    TW_TRY(const DeviceBuffer memory, device()->allocate(logical_bytes(argument)));
    if (!argument.is_output) TW_RETURN_IF_ERROR(write_view(memory, views[i]));
    addresses.push_back(memory.address());
    memories.push_back(memory);
  }
  TW_RETURN_IF_ERROR(queue(addresses, {}));
  for (size_t i = 0; i < views.size(); ++i)
    if (info().arguments[i].is_output) TW_RETURN_IF_ERROR(read_view(memories[i], views[i]));
  return {};
}

Result<DeviceBuffer> DeviceKernel::State::place(const ArgumentInfo& of_kernel,
                                                const DeviceArray& array) const {
  const ArgumentInfo argument = as_stored(of_kernel);
  if (!argument.layout.empty() && array.shape != argument.shape) return not_packed(argument);
  TW_TRY(const StridedView view,
         view_of(argument, {array.memory, array.dtype, array.shape, array.strides}));
  if (!is_contiguous(view))
    return wrong_argument(argument,
                          fmt::format("strides {} given for shape {}, expected a contiguous array: "
                                      "copy it on the device",
                                      array.strides, array.shape));
  if (array.offset < 0)
    return wrong_argument(argument,
                          fmt::format("offset {} given, expected 0 or more", array.offset));
  const int64_t bytes = storage_bytes(argument);
  if (bytes == 0) return DeviceBuffer();
  const auto address = reinterpret_cast<uintptr_t>(array.memory);
  if (is_cuda() && (address + static_cast<uintptr_t>(array.offset)) % device_alignment != 0)
    return wrong_argument(
        argument,
        fmt::format("misaligned memory given, expected a multiple of {}", device_alignment));
  auto memory = DeviceBuffer::borrow(device, array.memory, bytes, array.offset);
  if (memory || memory.error().code == ErrorCode::Environment) return memory;
  Error named = wrong_argument(argument, memory.error().message).value();
  named.code = memory.error().code;
  return tl::unexpected(std::move(named));
}

// OpenCL's handles are no addresses: each memory gets a space of its own.
std::vector<ByteRange> DeviceKernel::State::ranges_of(std::span<const DeviceArray> arrays) const {
  std::vector<ByteRange> ranges;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto same = std::ranges::find(arrays, arrays[i].memory, &DeviceArray::memory);
    const uint64_t begin = is_cuda() ? reinterpret_cast<uintptr_t>(arrays[i].memory)
                                     : static_cast<uint64_t>(same - arrays.begin()) << 48;
    const auto bytes = static_cast<uint64_t>(storage_bytes(info.arguments[i]));
    const uint64_t first = begin + static_cast<uint64_t>(arrays[i].offset);
    ranges.push_back(bytes == 0 ? ByteRange{} : ByteRange{first, first + bytes});
  }
  return ranges;
}

Status DeviceKernel::call_on(std::span<const DeviceArray> arrays, DeviceStream stream) const {
  TW_RETURN_IF_ERROR(check_count(info().arguments, arrays.size()));
  std::vector<DeviceBuffer> memories;
  std::vector<DeviceAddress> addresses;
  for (size_t i = 0; i < arrays.size(); ++i) {
    TW_TRY(const DeviceBuffer memory, state_->place(info().arguments[i], arrays[i]));
    addresses.push_back(memory.address());
    memories.push_back(memory);  // keeps the memory alive until the driver has the launch
  }
  TW_RETURN_IF_ERROR(check_overlaps(info().arguments, state_->ranges_of(arrays)));
  return queue(addresses, stream);
}

// The phases of two calls on one queue must not mix: the scratch memory is the same.
Status DeviceKernel::queue(std::span<const DeviceAddress> addresses, DeviceStream stream) const {
  if (info().scratch_bytes == 0) return device()->launch(launches(addresses, nullptr), stream);
  const std::lock_guard lock(state_->mutex);
  DeviceBuffer& scratch = state_->scratch[queue_of(stream, state_->is_cuda())];
  if (scratch.bytes() < info().scratch_bytes) {
    TW_TRY(scratch, device()->allocate(info().scratch_bytes));
  }
  return device()->launch(launches(addresses, scratch.address()), stream);
}

std::vector<Launch> DeviceKernel::launches(std::span<const DeviceAddress> arguments,
                                           DeviceAddress scratch) const {
  TW_CHECK(arguments.size() == info().arguments.size(), "an address for each argument");
  std::vector<DeviceAddress> addresses(arguments.begin(), arguments.end());
  addresses.push_back(scratch);
  std::vector<Launch> launches;
  for (size_t i = 0; i < state_->functions.size(); ++i) {
    const PhaseInfo& phase = info().phases[i];
    launches.push_back({state_->functions[i], phase.tasks, phase.threads, phase.shared_bytes,
                        addresses, phase.maps});
  }
  return launches;
}

}  // namespace tw::runtime
