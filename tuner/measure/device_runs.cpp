// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/device_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "tuner/measure/packing.h"
#include "tuner/processes/sandbox.h"

namespace tw::tuner {
namespace {

using db::TrialStatus;
using runtime::Device;
using runtime::DeviceKernel;
using runtime::Launch;

constexpr int64_t most_kept_bytes = int64_t{1} << 30;

/// True if the layout of the argument has padding.
bool is_padded(const runtime::ArgumentInfo& argument) {
  return runtime::storage_bytes(argument) != runtime::logical_bytes(argument);
}

/// Returns `bytes` bytes in which the two bytes of the pattern repeat, the lower byte first.
std::vector<std::byte> repeated(Poison pattern, int64_t bytes) {
  std::vector<std::byte> result(static_cast<size_t>(bytes));
  const auto word = static_cast<uint16_t>(pattern);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<std::byte>(word >> (i % 2 == 0 ? 0 : 8));
  return result;
}

/// Returns the fault with which the worker exits if the device fails: Crash if the kernel lost the
/// device, Lost if the device was lost otherwise, and Resource if it is not lost but, for instance,
/// out of memory.
FaultKind fault_of(const Device& device) {
  if (!device.lost()) return FaultKind::Resource;
  return device.lost_by_kernel() ? FaultKind::Crash : FaultKind::Lost;
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
  TW_RETURN_IF_ERROR(buffer_.fill(static_cast<uint16_t>(pattern), bytes()));
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

Result<std::shared_ptr<const DeviceArrays::Kept>> DeviceArrays::get(
    Device& device, const dsl::Array& array, const dsl::Layout& layout,
    const std::string& layout_text) {
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.array == &array && e.layout == layout_text;
  });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return known->kept;
  }
  std::vector<std::byte> packed(packed_bytes(layout, array));
  pack(layout, array, packed.data());
  TW_TRY(GuardedMemory memory, GuardedMemory::make(device, static_cast<int64_t>(packed.size())));
  TW_RETURN_IF_ERROR(memory.write(packed));
  auto kept = std::make_shared<const Kept>(Kept{std::move(memory), checksum_of(packed)});
  entries_.push_front({&array, layout_text, kept});
  int64_t bytes = 0;
  std::erase_if(entries_, [&](const Entry& e) {
    bytes += e.kept->memory.bytes();
    return e.kept != kept && bytes > most_kept_bytes;
  });
  return kept;
}

Result<std::shared_ptr<const DeviceComparison>> DeviceArrays::comparison(
    const std::shared_ptr<Device>& device) {
  if (!comparison_) {
    TW_TRY(DeviceComparison made, DeviceComparison::make(device));
    comparison_ = std::make_shared<const DeviceComparison>(std::move(made));
  }
  return comparison_;
}

// ---- buffers --------------------------------------------------------------------------------

Result<DeviceBuffers> DeviceBuffers::make(const std::shared_ptr<Device>& device,
                                          const DeviceKernel& kernel, const dsl::Workload& workload,
                                          const dsl::Arrays& inputs, DeviceArrays& kept) {
  TW_TRY(auto comparison, kept.comparison(device));
  DeviceBuffers buffers(device, kernel, std::move(comparison));
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
  TW_RETURN_IF_ERROR(buffers.prepare());
  return buffers;
}

/// Computes the prepared buffers. Sets `preparation_` to a verdict other than Ok if the preparation
/// wrote anywhere else.
Status DeviceBuffers::prepare() {
  if (!kernel_.info().preparation) return {};
  const runtime::PreparationInfo& preparation = *kernel_.info().preparation;
  for (const runtime::ArgumentInfo& buffer : preparation.buffers) {
    TW_TRY(GuardedMemory memory, GuardedMemory::make(*device_, runtime::storage_bytes(buffer)));
    TW_RETURN_IF_ERROR(memory.poison(poison_));
    prepared_.push_back({std::move(memory), 0});
  }
  TW_TRY(const GuardedMemory scratch, GuardedMemory::make(*device_, preparation.scratch_bytes));
  TW_RETURN_IF_ERROR(scratch.poison(poison_));
  TW_RETURN_IF_ERROR(poison(poison_));
  TW_RETURN_IF_ERROR(device_->launch(kernel_.preparation(addresses(), scratch.address())));
  TW_RETURN_IF_ERROR(device_->synchronize());
  for (Prepared& prepared : prepared_) {
    TW_TRY(prepared.checksum, checksum(prepared.memory));
  }
  TW_TRY(preparation_, trespasses());
  TW_TRY(const bool intact, scratch.intact(poison_));
  if (!intact) preparation_ = {TrialStatus::Oob, "it wrote outside of its scratch memory", 0};
  if (preparation_.status != TrialStatus::Ok)
    preparation_.reason = "in its preparation " + preparation_.reason;
  return {};
}

Status DeviceBuffers::poison(Poison pattern) {
  poison_ = pattern;
  for (const Argument& argument : arguments_)
    TW_RETURN_IF_ERROR(argument.input ? argument.memory.poison_guard(pattern)
                                      : argument.memory.poison(pattern));
  for (const Prepared& prepared : prepared_)
    TW_RETURN_IF_ERROR(prepared.memory.poison_guard(pattern));
  return scratch_ ? scratch_->poison(pattern) : Status();
}

std::vector<runtime::DeviceAddress> DeviceBuffers::addresses() const {
  std::vector<runtime::DeviceAddress> addresses;
  for (const Argument& argument : arguments_) addresses.push_back(argument.memory.address());
  for (const Prepared& prepared : prepared_) addresses.push_back(prepared.memory.address());
  return addresses;
}

std::vector<Launch> DeviceBuffers::launches() const {
  return kernel_.launches(addresses(), scratch_ ? scratch_->address() : nullptr);
}

Result<uint64_t> DeviceBuffers::checksum(const GuardedMemory& memory) const {
  return comparison_->checksum(memory.buffer(), memory.bytes());
}

Result<Verdict> DeviceBuffers::trespasses() const {
  if (preparation_.status != TrialStatus::Ok) return preparation_;
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
    TW_TRY(const uint64_t now, checksum(argument.memory));
    if (now != argument.input->checksum)
      return Verdict{TrialStatus::MutatesInput, fmt::format("it wrote to '{}'", name), 0};
  }
  for (const Prepared& prepared : prepared_) {
    TW_TRY(const bool intact, prepared.memory.intact(poison_));
    if (!intact) return Verdict{TrialStatus::Oob, "it wrote outside of a prepared buffer", 0};
    TW_TRY(const uint64_t now, checksum(prepared.memory));
    if (now != prepared.checksum)
      return Verdict{TrialStatus::MutatesInput, "it wrote to a prepared buffer", 0};
  }
  return Verdict{};
}

Result<dsl::Array> DeviceBuffers::unpacked(size_t argument) const {
  const runtime::ArgumentInfo& info = kernel_.info().arguments[argument];
  TW_TRY(const std::vector<std::byte> storage, arguments_[argument].memory.read());
  TW_TRY(dsl::Array array, dsl::Array::make(info.dtype, info.shape));
  unpack(arguments_[argument].layout, storage.data(), array);
  return array;
}

Outputs DeviceBuffers::outputs() const {
  auto verdict = trespasses();
  if (!verdict) return tl::unexpected(refusal(*device_, verdict.error()));
  if (verdict->status != TrialStatus::Ok) return tl::unexpected(std::move(*verdict));
  dsl::Arrays outputs;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].input) continue;
    auto array = unpacked(i);
    if (!array) return tl::unexpected(refusal(*device_, array.error()));
    outputs[kernel_.info().arguments[i].name] = std::move(*array);
  }
  return outputs;
}

Result<double> DeviceBuffers::error_of(size_t argument, const dsl::Array& expected, double allowed,
                                       bool overflows, const std::vector<bool>* left_out,
                                       DeviceArrays& kept) const {
  const runtime::ArgumentInfo& info = kernel_.info().arguments[argument];
  const Argument& output = arguments_[argument];
  if (!is_padded(info)) {
    TW_TRY(const auto there, kept.get(*device_, expected, output.layout, info.layout));
    TW_TRY(const uint64_t sum, checksum(output.memory));
    if (sum == there->checksum) return 0;
    if (!left_out) {
      TW_TRY(const auto error,
             comparison_->relative_error(output.memory.buffer(), there->memory.buffer(), info.dtype,
                                         expected.size()));
      if (error && *error <= allowed) return *error;
    }
  }
  TW_TRY(const dsl::Array got, unpacked(argument));
  return relative_error(got, expected, overflows, left_out);
}

Verdict DeviceBuffers::compare(const Reference& reference, Pass pass, DeviceArrays& kept) const {
  auto verdict = trespasses();
  if (!verdict) return refusal(*device_, verdict.error());
  if (verdict->status != TrialStatus::Ok) return std::move(*verdict);
  const Fill& fill = fill_of(reference, pass);
  return tuner::compare(
      reference, pass, [&](const std::string& name) -> tl::expected<double, Verdict> {
        const auto& arguments = kernel_.info().arguments;
        const auto output = std::ranges::find(arguments, name, &runtime::ArgumentInfo::name);
        const auto error = error_of(static_cast<size_t>(output - arguments.begin()),
                                    fill.outputs.at(name), allowed_error(reference, pass, name),
                                    fill.overflowing.contains(name), left_out_of(fill, name), kept);
        if (!error) return tl::unexpected(refusal(*device_, error.error()));
        return *error;
      });
}

Result<std::vector<uint64_t>> DeviceBuffers::output_checksums() const {
  std::vector<uint64_t> checksums;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].input) continue;
    if (is_padded(kernel_.info().arguments[i])) {
      TW_TRY(const dsl::Array array, unpacked(i));
      checksums.push_back(checksum_of(std::as_bytes(std::span(array.data))));
    } else {
      TW_TRY(const uint64_t sum, checksum(arguments_[i].memory));
      checksums.push_back(sum);
    }
  }
  return checksums;
}

Repeated DeviceBuffers::repeats(const std::vector<uint64_t>& checksums) const {
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
               const dsl::Workload& workload, const Reference& reference, DeviceArrays& kept) {
  const auto ran = [&](const Fill& fill, Poison poison) -> tl::expected<DeviceBuffers, Verdict> {
    auto buffers = DeviceBuffers::make(device, kernel, workload, fill.inputs, kept);
    if (!buffers) return tl::unexpected(refusal(*device, buffers.error()));
    const Status status = run_poisoned(*device, *buffers, poison);
    if (!status) return tl::unexpected(refusal(*device, status.error()));
    return std::move(*buffers);
  };
  std::vector<uint64_t> checksums;  // checksums of the outputs of the last run
  const auto run = [&](Pass pass) {
    const auto buffers =
        ran(fill_of(reference, pass), pass == Pass::Normal ? Poison::First : Poison::Least);
    if (!buffers) return buffers.error();
    auto left = buffers->output_checksums();
    if (!left) return refusal(*device, left.error());
    checksums = std::move(*left);
    return buffers->compare(reference, pass, kept);
  };
  const auto repeat = [&]() -> Repeated {
    const auto buffers = ran(reference.normal, Poison::Most);
    if (!buffers) return tl::unexpected(buffers.error());
    return buffers->repeats(checksums);
  };
  return judge(kernel.info().schedule, run, repeat);
}

Result<dsl::Arrays> call_once(const std::shared_ptr<Device>& device, const DeviceKernel& kernel,
                              const dsl::Workload& workload, const dsl::Arrays& inputs) {
  DeviceArrays own;
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
    // The kernel ran when it was verified, so now the device is lost or out of memory.
    if (!ns) exit_with(fault_of(*device), ns.error().message);
    return static_cast<int64_t>(std::llround(ns->front()));
  };
}

Sampling fit_to_device(Sampling options) {
  options.timer_resolution_ns = 500;
  options.max_batch_calls = 4096;
  return options;
}

Verdict refusal(const Device& device, const Error& error) {
  if (device.lost()) exit_with(fault_of(device), error.message);
  const bool lacks = error.code == ErrorCode::Environment;
  return {lacks ? TrialStatus::Resource : TrialStatus::Crash, error.message, 0};
}

}  // namespace tw::tuner
