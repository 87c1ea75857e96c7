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

Poison poison_of(Pass pass) {
  switch (pass) {
    case Pass::Integers:
      return Poison::Least;
    case Pass::Normal:
      return Poison::First;
    case Pass::Again:
      break;
  }
  return Poison::Most;
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
  auto input = std::make_shared<const Input>(Input{std::move(memory), std::move(packed)});
  entries_.push_front({&array, layout_text, input});
  int64_t bytes = 0;
  std::erase_if(entries_, [&](const Entry& e) {
    bytes += e.input->memory.bytes();
    return e.input != input && bytes > most_kept_bytes;
  });
  return input;
}

// ---- buffers --------------------------------------------------------------------------------

Result<DeviceBuffers> DeviceBuffers::make(const std::shared_ptr<Device>& device,
                                          const DeviceKernel& kernel, const dsl::Workload& workload,
                                          const dsl::Arrays& inputs, DeviceInputs& kept) {
  DeviceBuffers buffers(device, kernel);
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
    TW_TRY(const std::vector<std::byte> now, argument.memory.read());
    if (now != argument.input->packed)
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

// ---- runs -----------------------------------------------------------------------------------

Verdict verify(const std::shared_ptr<Device>& device, const DeviceKernel& kernel,
               const dsl::Workload& workload, const Reference& reference, DeviceInputs& kept) {
  const auto ran = [&](const Fill& fill, Pass pass) -> Result<DeviceBuffers> {
    TW_TRY(DeviceBuffers buffers, DeviceBuffers::make(device, kernel, workload, fill.inputs, kept));
    TW_RETURN_IF_ERROR(buffers.poison(poison_of(pass)));
    TW_RETURN_IF_ERROR(device->launch(buffers.launches()));
    TW_RETURN_IF_ERROR(device->synchronize());
    return buffers;
  };
  return judge(reference, [&](const Fill& fill, Pass pass) -> Outputs {
    const auto buffers = ran(fill, pass);
    if (!buffers) return tl::unexpected(refusal(*device, buffers.error()));
    return buffers->outputs();
  });
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
