// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/device_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/strided.h"

namespace tw::runtime {
namespace {

/// Returns the version of a toolkit as a number, as in DeviceCode::toolkit. For example, 13000 for
/// "nvrtc-13.0". 0 if the text is not such a version.
int toolkit_of(const std::string& toolchain) {
  int major = 0, minor = 0;
  return std::sscanf(toolchain.c_str(), "nvrtc-%d.%d", &major, &minor) == 2
             ? 1000 * major + 10 * minor
             : 0;
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

}  // namespace

/// The memory of the calls on one queue.
struct WorkingMemory {
  DeviceBuffer scratch;  ///< scratch memory, first of the preparation, then of the kernel
  std::vector<DeviceBuffer> prepared;

  static Result<WorkingMemory> make(Device& device, const KernelInfo& info) {
    WorkingMemory memory;
    const int64_t prepares = info.preparation ? info.preparation->scratch_bytes : 0;
    TW_TRY(memory.scratch, device.allocate(std::max(info.scratch_bytes, prepares)));
    if (!info.preparation) return memory;
    for (const ArgumentInfo& buffer : info.preparation->buffers) {
      TW_TRY(memory.prepared.emplace_back(), device.allocate(storage_bytes(buffer)));
    }
    return memory;
  }
};

struct DeviceKernel::State {
  KernelInfo info;
  std::shared_ptr<Device> device;
  std::vector<DeviceFunction> functions;    ///< one for each phase
  std::vector<DeviceFunction> preparation;  ///< one for each phase of the preparation
  std::mutex mutex;  ///< guards the members below and the order of launches on a queue
  std::map<Queue, WorkingMemory> memory;

  std::vector<Launch> launches(const std::vector<PhaseInfo>& phases,
                               const std::vector<DeviceFunction>& code,
                               const std::vector<DeviceAddress>& arguments) const {
    std::vector<Launch> launches;
    for (size_t i = 0; i < code.size(); ++i)
      launches.push_back({code[i], phases[i].tasks, phases[i].threads, phases[i].shared_bytes,
                          arguments, phases[i].maps, phases[i].persistent});
    return launches;
  }
};

Result<DeviceKernel> DeviceKernel::load(Artifact artifact, const std::shared_ptr<Device>& device) {
  TW_RETURN_IF_ERROR(check_info(artifact.info));
  TW_TRY(const Target target, parse_target(artifact.info.target));
  if (!target.is_gpu())
    return fail(ErrorCode::Usage, fmt::format("[kernel] the kernel is for {}, which is no GPU",
                                              artifact.info.target));
  const DeviceFacts& facts = device->facts();
  const bool is_for_cuda = target.architecture == Architecture::Cuda;
  if (is_for_cuda != facts.is_cuda())
    return fail(ErrorCode::Invalid,
                fmt::format("[kernel] code for {} does not run on {}, which is "
                            "{}: compile it again for that",
                            artifact.info.target, facts.name, facts.architecture));
  DeviceCode code;
  if (is_for_cuda) {
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
  if (artifact.info.preparation)
    for (const PhaseInfo& phase : artifact.info.preparation->phases) {
      TW_TRY(DeviceFunction function, module.function(phase.symbol));
      state->preparation.push_back(std::move(function));
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
    TW_RETURN_IF_ERROR(check_logical(argument));
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

Status DeviceKernel::call_on(std::span<const DeviceArray> arrays, DeviceStream stream) const {
  // These buffers keep the memory alive until the launch has been submitted to the driver.
  TW_TRY(const std::vector<DeviceBuffer> memories,
         borrow_arrays(device(), info().arguments, arrays));
  std::vector<DeviceAddress> addresses;
  for (const DeviceBuffer& memory : memories) addresses.push_back(memory.address());
  return queue(addresses, stream);
}

// If a call needs working memory, all its phases are enqueued while the mutex is held. Otherwise
// phases of two calls on one queue could mix, although both use the same working memory.
Status DeviceKernel::queue(std::span<const DeviceAddress> addresses, DeviceStream stream) const {
  if (info().scratch_bytes == 0 && !info().preparation)
    return device()->launch(launches(addresses, nullptr), stream);
  const std::lock_guard lock(state_->mutex);
  const Queue queue = queue_of(stream, *device());
  auto known = state_->memory.find(queue);
  if (known == state_->memory.end()) {
    drop_ended_threads(state_->memory);
    TW_TRY(WorkingMemory made, WorkingMemory::make(*device(), info()));
    known = state_->memory.emplace(queue, std::move(made)).first;
  }
  const auto& [scratch, prepared] = known->second;
  std::vector<DeviceAddress> buffers(addresses.begin(), addresses.end());
  for (const DeviceBuffer& buffer : prepared) buffers.push_back(buffer.address());
  std::vector<Launch> all = preparation(buffers, scratch.address());
  std::ranges::move(launches(buffers, scratch.address()), std::back_inserter(all));
  return device()->launch(all, stream);
}

std::vector<Launch> DeviceKernel::launches(std::span<const DeviceAddress> buffers,
                                           DeviceAddress scratch) const {
  const size_t prepared = info().preparation ? info().preparation->buffers.size() : 0;
  TW_CHECK(buffers.size() == info().arguments.size() + prepared, "an address for each buffer");
  std::vector<DeviceAddress> addresses(buffers.begin(), buffers.end());
  addresses.push_back(scratch);
  return state_->launches(info().phases, state_->functions, addresses);
}

std::vector<Launch> DeviceKernel::preparation(std::span<const DeviceAddress> buffers,
                                              DeviceAddress scratch) const {
  if (!info().preparation) return {};
  std::vector<DeviceAddress> addresses;
  for (const int input : info().preparation->inputs)
    addresses.push_back(buffers[static_cast<size_t>(input)]);
  addresses.insert(addresses.end(), buffers.begin() + std::ssize(info().arguments), buffers.end());
  addresses.push_back(scratch);
  return state_->launches(info().preparation->phases, state_->preparation, addresses);
}

}  // namespace tw::runtime
