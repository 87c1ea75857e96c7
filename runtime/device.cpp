// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"

namespace tw::runtime {
namespace {

/// The parts of an architecture's name. For example, "sm_90a" is {90, 'a'}; without a letter,
/// `variant` is a space.
struct Generation {
  int64_t number = 0;
  char variant = ' ';
};

std::optional<Generation> parse_generation(std::string_view text) {
  if (!text.starts_with("sm_")) return std::nullopt;
  text.remove_prefix(3);
  Generation generation;
  if (text.ends_with('a') || text.ends_with('f')) {
    generation.variant = text.back();
    text.remove_suffix(1);
  }
  const auto number = parse_int(text);
  if (!number) return std::nullopt;
  generation.number = *number;
  return generation;
}

}  // namespace

bool runs_on(std::string_view code, std::string_view device) {
  const auto wanted = parse_generation(code), given = parse_generation(device);
  if (!wanted || !given) return false;
  if (wanted->variant == 'a') return wanted->number == given->number;
  return wanted->number / 10 == given->number / 10 && wanted->number <= given->number;
}

Result<DeviceBuffer> DeviceBuffer::borrow(std::shared_ptr<Device> device, DeviceAddress address,
                                          int64_t bytes, int64_t offset) {
  TW_RETURN_IF_ERROR(device->check_not_lost());
  DeviceBuffer buffer;
  TW_TRY(buffer.memory_, device->part_of(address, offset, bytes));
  buffer.device_ = std::move(device);
  buffer.bytes_ = bytes;
  return buffer;
}

Status DeviceBuffer::check_range(int64_t bytes, int64_t offset) const {
  if (offset < 0 || bytes < 0 || offset > bytes_ || bytes > bytes_ - offset)
    return fail(ErrorCode::Usage, fmt::format("[device] {} bytes at offset {} are outside of a "
                                              "buffer of {} bytes",
                                              bytes, offset, bytes_));
  return device_ ? device_->check_not_lost() : Status{};
}

Status DeviceBuffer::write(const void* data, int64_t bytes, int64_t offset) const {
  TW_RETURN_IF_ERROR(check_range(bytes, offset));
  return bytes == 0 ? Status{}
                    : device_->write_memory(address(), offset, data, bytes, Copying::Waits);
}

Status DeviceBuffer::read(void* data, int64_t bytes, int64_t offset) const {
  TW_RETURN_IF_ERROR(check_range(bytes, offset));
  return bytes == 0 ? Status{}
                    : device_->read_memory(address(), offset, data, bytes, Copying::Waits);
}

Status DeviceBuffer::queue_write(const void* data, int64_t bytes, int64_t offset) const {
  TW_RETURN_IF_ERROR(check_range(bytes, offset));
  if (bytes == 0) return {};
  return device_->write_memory(address(), offset, data, bytes, Copying::Queued);
}

Status DeviceBuffer::queue_read(void* data, int64_t bytes, int64_t offset) const {
  TW_RETURN_IF_ERROR(check_range(bytes, offset));
  if (bytes == 0) return {};
  return device_->read_memory(address(), offset, data, bytes, Copying::Queued);
}

Status DeviceBuffer::fill(uint8_t value) const {
  return fill(static_cast<uint16_t>(value << 8 | value), bytes_);
}

Status DeviceBuffer::fill(uint16_t pattern, int64_t bytes) const {
  TW_RETURN_IF_ERROR(check_range(bytes, 0));
  const int64_t rest = bytes % 2;
  if (bytes > rest) TW_RETURN_IF_ERROR(device_->fill_memory(address(), pattern, bytes - rest));
  const auto last = static_cast<uint8_t>(pattern);
  return write(&last, rest, bytes - rest);
}

Result<DeviceFunction> DeviceModule::function(const std::string& name) const {
  if (!device_) return fail(ErrorCode::Usage, "[device] an empty module has no functions");
  TW_RETURN_IF_ERROR(device_->check_not_lost());
  DeviceFunction function;
  TW_TRY(function.handle_, device_->find_function(handle_, name, function.facts_));
  function.device_ = device_.get();
  function.name_ = name;
  return function;
}

Result<DeviceBuffer> Device::allocate(int64_t bytes) {
  if (bytes < 0)
    return fail(ErrorCode::Usage, fmt::format("[device] cannot allocate {} bytes", bytes));
  TW_RETURN_IF_ERROR(check_not_lost());
  DeviceBuffer buffer;
  buffer.device_ = shared_from_this();
  buffer.bytes_ = bytes;
  if (bytes == 0) return buffer;
  TW_TRY(buffer.memory_, allocate_memory(bytes));
  return buffer;
}

Result<DeviceModule> Device::load(const DeviceCode& code) {
  TW_RETURN_IF_ERROR(check_not_lost());
  DeviceModule module;
  module.device_ = shared_from_this();
  TW_TRY(module.handle_, load_module(code));
  return module;
}

Status Device::launch(std::span<const Launch> launches, DeviceStream stream) {
  TW_RETURN_IF_ERROR(check_not_lost());
  TW_RETURN_IF_ERROR(check(launches));
  return enqueue(launches, stream);
}

Result<LaunchGraph> Device::record(std::vector<Launch> launches) {
  TW_RETURN_IF_ERROR(check_not_lost());
  TW_RETURN_IF_ERROR(check(launches));
  LaunchGraph graph;
  graph.launches_ = std::move(launches);
  if (!graph.launches_.empty()) {
    TW_TRY(graph.handle_, record_graph(graph.launches_));
  }
  return graph;
}

Status Device::launch(const LaunchGraph& graph, DeviceStream stream) {
  TW_RETURN_IF_ERROR(check_not_lost());
  if (graph.launches_.empty()) return {};
  if (graph.handle_) return enqueue_graph(graph.handle_.get(), stream);
  return enqueue(graph.launches_, stream);
}

Status Device::submit(const DeviceWork& work) {
  TW_RETURN_IF_ERROR(check_not_lost());
  return enqueue(work);
}

Status Device::synchronize() {
  TW_RETURN_IF_ERROR(check_not_lost());
  return wait();
}

Result<std::vector<double>> Device::time_ns(std::span<const Launch> launches,
                                            const TimingOptions& options) {
  TW_RETURN_IF_ERROR(check_not_lost());
  TW_RETURN_IF_ERROR(check(launches));
  TW_RETURN_IF_ERROR(check(options.before));
  return sample(launches, options);
}

Result<std::vector<double>> Device::time_work_ns(const DeviceWork& work,
                                                 const TimingOptions& options) {
  TW_RETURN_IF_ERROR(check_not_lost());
  TW_RETURN_IF_ERROR(check(options.before));
  return sample(work, options);
}

Status Device::check(std::span<const Launch> launches) const {
  for (const Launch& launch : launches) TW_RETURN_IF_ERROR(check(launch));
  return {};
}

// Checks a launch. The number of arguments matters most, because a driver that gets too few
// arguments reads past their end.
Status Device::check(const Launch& launch) const {
  const FunctionFacts& function = launch.function.facts();
  const auto refuse = [&](const std::string& message) {
    return fail(ErrorCode::Usage, fmt::format("[launch] {}: {}", launch.function.name(), message));
  };
  if (launch.function.device_ != this)
    return refuse(fmt::format("the function was not loaded by {}", facts_.name));
  if (launch.blocks < 0 || launch.blocks > std::numeric_limits<int32_t>::max())
    return refuse(fmt::format("{} blocks, expected 0 to 2^31 - 1", launch.blocks));
  const int most = function.max_threads > 0 ? function.max_threads : facts_.max_threads_per_block;
  if (launch.threads < 1 || launch.threads > most)
    return refuse(fmt::format("{} threads a block, expected 1 to {}", launch.threads, most));
  const int64_t shared =
      facts_.shared_bytes_per_block - std::max<int64_t>(function.shared_bytes, 0);
  if (launch.shared_bytes < 0 || launch.shared_bytes > shared)
    return refuse(fmt::format("{} dynamic bytes of shared memory, expected at most {}",
                              launch.shared_bytes, shared));
  const size_t arguments = launch.arguments.size() + launch.maps.size();
  if (function.arguments >= 0 && std::cmp_not_equal(arguments, function.arguments))
    return refuse(fmt::format("{} arguments, expected {}", arguments, function.arguments));
  for (const TensorMap& map : launch.maps) {
    const Status valid = check_tensor_map(map);
    if (!valid) return refuse(valid.error().message);
    if (std::cmp_greater_equal(map.argument, launch.arguments.size()))
      return refuse(fmt::format("a tensor map of argument {}, expected one of {}", map.argument,
                                launch.arguments.size()));
  }
  return {};
}

Result<std::shared_ptr<Device>> open_device(std::string_view name) {
  const size_t colon = name.find(':');
  const std::string_view driver = name.substr(0, colon);
  const auto index = colon == std::string_view::npos ? std::optional<int64_t>(0)
                                                     : parse_int(name.substr(colon + 1));
  constexpr int64_t most = std::numeric_limits<int>::max();
  if ((driver != "cuda" && driver != "opencl") || !index || *index < 0 || *index > most)
    return fail(
        ErrorCode::Usage,
        fmt::format("[device] '{}' is no device: expected cuda, opencl, or one of them with "
                    "a number, as in cuda:1",
                    name));
  const DeviceOptions options{.index = static_cast<int>(*index)};
  return driver == "cuda" ? open_cuda_device(options) : open_opencl_device(options);
}

Status Device::check_not_lost() const {
  if (!lost()) return {};
  return fail(ErrorCode::Environment, loss_);
}

tl::unexpected<Error> Device::failed(std::string_view what, std::string_view reason,
                                     LostBy lost_by) {
  if (lost_by == LostBy::Nobody)
    return fail(ErrorCode::Environment,
                fmt::format("[device] {}: cannot {}: {}", facts_.name, what, reason));
  std::call_once(losing_, [&] {
    loss_ = fmt::format(
        "[device] {} is lost: {} when asked to {}: what used it has to be started "
        "again in a new process",
        facts_.name, reason, what);
    loss_by_ = lost_by;
    lost_.store(true, std::memory_order_release);
  });
  return fail(ErrorCode::Environment, loss_);
}

}  // namespace tw::runtime
