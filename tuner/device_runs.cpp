// SPDX-License-Identifier: Apache-2.0
#include "tuner/device_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "tuner/packing.h"
#include "tuner/sandbox.h"

namespace tw::tuner {
namespace {

using db::TrialStatus;
using runtime::Device;
using runtime::DeviceKernel;
using runtime::Launch;

constexpr int64_t most_kept_bytes = int64_t{1} << 30;

// Poison is written in pieces of this size, which stay in the processor's caches.
constexpr int64_t piece_bytes = 1 << 20;

/// The pattern from an even offset on.
std::vector<std::byte> repeated(Poison pattern, int64_t bytes) {
  std::vector<std::byte> result(static_cast<size_t>(bytes));
  const auto word = static_cast<uint16_t>(pattern);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<std::byte>(word >> (i % 2 == 0 ? 0 : 8));
  return result;
}

}  // namespace

// ---- memory ---------------------------------------------------------------------------------

Result<GuardedMemory> GuardedMemory::make(Device& device, int64_t bytes) {
  GuardedMemory memory;
  TW_TRY(memory.buffer_, device.allocate(bytes + guard_bytes));
  return memory;
}

Result<std::vector<std::byte>> GuardedMemory::read() const {
  std::vector<std::byte> data(static_cast<size_t>(bytes()));
  TW_RETURN_IF_ERROR(buffer_.read(data.data(), bytes()));
  return data;
}

Status GuardedMemory::poison(Poison pattern) const {
  const std::vector<std::byte> piece = repeated(pattern, std::min(piece_bytes, bytes()));
  for (int64_t at = 0; at < bytes(); at += piece_bytes)
    TW_RETURN_IF_ERROR(buffer_.write(piece.data(), std::min(piece_bytes, bytes() - at), at));
  return poison_guard(pattern);
}

Status GuardedMemory::poison_guard(Poison pattern) const {
  return buffer_.write(repeated(pattern, guard_bytes).data(), guard_bytes, bytes());
}

Result<bool> GuardedMemory::intact(Poison pattern) const {
  std::vector<std::byte> found(static_cast<size_t>(guard_bytes));
  TW_RETURN_IF_ERROR(buffer_.read(found.data(), guard_bytes, bytes()));
  return found == repeated(pattern, guard_bytes);
}

Result<std::shared_ptr<const DeviceInputs::Input>> DeviceInputs::get(
    Device& device, const dsl::Array& array, const dsl::Layout& layout,
    const std::string& layout_text) {
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.array == &array && e.layout == layout_text;
  });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return known->input;
  }
  std::vector<std::byte> packed(packed_bytes(layout, array));
  pack(layout, array, packed.data());
  TW_TRY(GuardedMemory memory, GuardedMemory::make(device, static_cast<int64_t>(packed.size())));
  TW_RETURN_IF_ERROR(memory.write(packed));
  auto input = std::make_shared<const Input>(Input{std::move(memory), checksum_of(packed)});
  entries_.push_front({&array, layout_text, input});
  int64_t bytes = 0;
  std::erase_if(entries_, [&](const Entry& e) {
    bytes += e.input->memory.bytes();
    return e.input != input && bytes > most_kept_bytes;
  });
  return input;
}

Result<std::shared_ptr<const DeviceChecksums>> DeviceInputs::checksums(
    const std::shared_ptr<Device>& device) {
  if (!checksums_) {
    TW_TRY(DeviceChecksums made, DeviceChecksums::make(device));
    checksums_ = std::make_shared<const DeviceChecksums>(std::move(made));
  }
  return checksums_;
}

// ---- buffers --------------------------------------------------------------------------------

Result<DeviceBuffers> DeviceBuffers::make(const std::shared_ptr<Device>& device,
                                          const DeviceKernel& kernel, const dsl::Workload& workload,
                                          const dsl::Arrays& inputs, DeviceInputs& kept) {
  TW_TRY(auto checksums, kept.checksums(device));
  DeviceBuffers buffers(device, kernel, std::move(checksums));
  for (const runtime::ArgumentInfo& argument : kernel.info().arguments) {
    TW_TRY(dsl::Layout layout, layout_of(argument, workload));
    if (argument.is_output) {
      TW_TRY(GuardedMemory memory, GuardedMemory::make(*device, runtime::storage_bytes(argument)));
      buffers.arguments_.push_back({std::move(layout), std::move(memory), nullptr});
    } else {
      TW_TRY(auto input, kept.get(*device, inputs.at(argument.name), layout, argument.layout));
      GuardedMemory memory = input->memory;
      buffers.arguments_.push_back({std::move(layout), std::move(memory), std::move(input)});
    }
  }
  if (kernel.info().scratch_bytes > 0) {
    TW_TRY(buffers.scratch_, GuardedMemory::make(*device, kernel.info().scratch_bytes));
  }
  return buffers;
}

Status DeviceBuffers::poison(Poison pattern) {
  poison_ = pattern;
  for (const Argument& argument : arguments_)
    TW_RETURN_IF_ERROR(argument.input ? argument.memory.poison_guard(pattern)
                                      : argument.memory.poison(pattern));
  return scratch_ ? scratch_->poison(pattern) : Status();
}

std::vector<Launch> DeviceBuffers::launches() const {
  std::vector<runtime::DeviceAddress> addresses;
  for (const Argument& argument : arguments_) addresses.push_back(argument.memory.address());
  return kernel_.launches(addresses, scratch_ ? scratch_->address() : nullptr);
}

Result<Verdict> DeviceBuffers::trespasses() const {
  if (scratch_) {
    TW_TRY(const bool intact, scratch_->intact(poison_));
    if (!intact) return Verdict{TrialStatus::Oob, "it wrote outside of its scratch memory", 0};
  }
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& argument = arguments_[i];
    const std::string& name = kernel_.info().arguments[i].name;
    TW_TRY(const bool intact, argument.memory.intact(poison_));
    if (!intact) return Verdict{TrialStatus::Oob, fmt::format("it wrote outside of '{}'", name), 0};
    if (!argument.input) continue;
    TW_TRY(const uint64_t now, argument.memory.checksum(*checksums_));
    if (now != argument.input->checksum)
      return Verdict{TrialStatus::MutatesInput, fmt::format("it wrote to '{}'", name), 0};
  }
  return Verdict{};
}

Result<dsl::Arrays> DeviceBuffers::unpacked() const {
  dsl::Arrays outputs;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const runtime::ArgumentInfo& info = kernel_.info().arguments[i];
    if (!info.is_output) continue;
    TW_TRY(const std::vector<std::byte> storage, arguments_[i].memory.read());
    TW_TRY(dsl::Array array, dsl::Array::make(info.dtype, info.shape));
    unpack(arguments_[i].layout, storage.data(), array);
    outputs[info.name] = std::move(array);
  }
  return outputs;
}

Outputs DeviceBuffers::outputs() const {
  auto verdict = trespasses();
  if (!verdict) return tl::unexpected(refusal(*device_, verdict.error()));
  if (verdict->status != TrialStatus::Ok) return tl::unexpected(std::move(*verdict));
  auto outputs = unpacked();
  if (!outputs) return tl::unexpected(refusal(*device_, outputs.error()));
  return std::move(*outputs);
}

Result<std::vector<uint64_t>> DeviceBuffers::output_checksums() const {
  std::vector<uint64_t> checksums;
  for (const Argument& argument : arguments_) {
    if (argument.input) continue;
    TW_TRY(const uint64_t checksum, argument.memory.checksum(*checksums_));
    checksums.push_back(checksum);
  }
  return checksums;
}

bool DeviceBuffers::has_padded_outputs() const {
  return std::ranges::any_of(kernel_.info().arguments, [](const runtime::ArgumentInfo& a) {
    return a.is_output && runtime::storage_bytes(a) != runtime::logical_bytes(a);
  });
}

Repeated DeviceBuffers::repeats(const dsl::Arrays& before,
                                const std::vector<uint64_t>& checksums) const {
  if (has_padded_outputs()) {
    const Outputs now = outputs();
    if (!now) return tl::unexpected(now.error());
    return same_bytes(before, *now);
  }
  auto verdict = trespasses();
  if (!verdict) return tl::unexpected(refusal(*device_, verdict.error()));
  if (verdict->status != TrialStatus::Ok) return tl::unexpected(std::move(*verdict));
  const auto now = output_checksums();
  if (!now) return tl::unexpected(refusal(*device_, now.error()));
  return *now == checksums;
}

// ---- runs -----------------------------------------------------------------------------------

namespace {

Status run_poisoned(Device& device, DeviceBuffers& buffers, Poison poison) {
  TW_RETURN_IF_ERROR(buffers.poison(poison));
  TW_RETURN_IF_ERROR(device.launch(buffers.launches()));
  return device.synchronize();
}

}  // namespace

Verdict verify(const std::shared_ptr<Device>& device, const DeviceKernel& kernel,
               const dsl::Workload& workload, const Reference& reference, DeviceInputs& kept) {
  const auto ran = [&](const Fill& fill, Poison poison) -> tl::expected<DeviceBuffers, Verdict> {
    auto buffers = DeviceBuffers::make(device, kernel, workload, fill.inputs, kept);
    if (!buffers) return tl::unexpected(refusal(*device, buffers.error()));
    const Status status = run_poisoned(*device, *buffers, poison);
    if (!status) return tl::unexpected(refusal(*device, status.error()));
    return std::move(*buffers);
  };
  std::vector<uint64_t> checksums;  // of the outputs of the last run
  const auto run = [&](const Fill& fill, Pass pass) -> Outputs {
    const auto buffers = ran(fill, pass == Pass::Integers ? Poison::Least : Poison::First);
    if (!buffers) return tl::unexpected(buffers.error());
    auto left = buffers->output_checksums();
    if (!left) return tl::unexpected(refusal(*device, left.error()));
    checksums = std::move(*left);
    return buffers->outputs();
  };
  const auto repeat = [&](const dsl::Arrays& outputs) -> Repeated {
    const auto buffers = ran(reference.normal, Poison::Most);
    if (!buffers) return tl::unexpected(buffers.error());
    return buffers->repeats(outputs, checksums);
  };
  return judge(reference, run, repeat);
}

Result<dsl::Arrays> call_once(const std::shared_ptr<Device>& device, const DeviceKernel& kernel,
                              const dsl::Workload& workload, const dsl::Arrays& inputs) {
  DeviceInputs own;
  TW_TRY(DeviceBuffers buffers, DeviceBuffers::make(device, kernel, workload, inputs, own));
  TW_RETURN_IF_ERROR(buffers.poison(Poison::First));
  TW_RETURN_IF_ERROR(device->launch(buffers.launches()));
  auto outputs = buffers.outputs();
  if (outputs) return std::move(*outputs);
  return fail(ErrorCode::Invalid, fmt::format("[device] {}", outputs.error().reason));
}

Timer timed_on(std::shared_ptr<Device> device, std::vector<Launch> call,
               std::function<void(const Error&)> failed) {
  constexpr int64_t second_ns = 1'000'000'000;
  return [device = std::move(device), call = std::move(call), failed = std::move(failed),
          batch = std::vector<Launch>()](int64_t calls) mutable {
    const size_t count = static_cast<size_t>(calls) * call.size();
    while (batch.size() < count) batch.insert(batch.end(), call.begin(), call.end());
    const auto ns = device->time_ns(std::span(batch).first(count), {.graph = count > 1});
    if (!ns && failed) {
      failed(ns.error());
      return calls * second_ns;
    }
    // It ran when it was verified: now the device is lost, or out of memory.
    if (!ns) exit_with(device->lost() ? FaultKind::Crash : FaultKind::Resource, ns.error().message);
    return static_cast<int64_t>(std::llround(ns->front()));
  };
}

Sampling fit_to_device(Sampling options) {
  options.timer_resolution_ns = 500;
  options.max_batch_calls = 4096;
  return options;
}

Verdict refusal(const Device& device, const Error& error) {
  if (device.lost()) exit_with(FaultKind::Crash, error.message);
  const bool lacks = error.code == ErrorCode::Environment;
  return {lacks ? TrialStatus::Resource : TrialStatus::Crash, error.message, 0};
}

}  // namespace tw::tuner
