// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/device_contender.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "runtime/devices/device_kernel.h"
#include "tuner/measure/packing.h"

namespace tw::bench {
namespace {

using runtime::Device;
using runtime::DeviceBuffer;

class OursOnDevice final : public DeviceContender {
 public:
  OursOnDevice(const Setup& setup, runtime::DeviceKernel kernel)
      : DeviceContender(*setup.gpu), workload_(*setup.workload), kernel_(std::move(kernel)) {}

  Status prepare(const dsl::Arrays& inputs) {
    std::vector<runtime::DeviceAddress> addresses;
    for (const runtime::ArgumentInfo& argument : kernel_.info().arguments) {
      TW_TRY(const dsl::Layout layout, tuner::layout_of(argument, workload_));
      if (argument.is_output) {
        TW_TRY(buffers_.emplace_back(), device().allocate(runtime::storage_bytes(argument)));
      } else {
        const dsl::Array& array = inputs.at(argument.name);
        std::vector<std::byte> packed(tuner::packed_bytes(layout, array));
        tuner::pack(layout, array, packed.data());
        TW_TRY(buffers_.emplace_back(), upload(packed));
      }
      addresses.push_back(buffers_.back().address());
    }
    TW_RETURN_IF_ERROR(prepare_constants(addresses));
    TW_TRY(scratch_, device().allocate(kernel_.info().scratch_bytes));
    launches_ = kernel_.launches(addresses, scratch_.address());
    return {};
  }

  Result<dsl::Arrays> outputs() override {
    dsl::Arrays arrays;
    for (size_t i = 0; i < kernel_.info().arguments.size(); ++i) {
      const runtime::ArgumentInfo& argument = kernel_.info().arguments[i];
      if (!argument.is_output) continue;
      TW_TRY(const dsl::Layout layout, tuner::layout_of(argument, workload_));
      TW_TRY(const std::vector<std::byte> storage, download(buffers_[i]));
      TW_TRY(dsl::Array array, dsl::Array::make(argument.dtype, argument.shape));
      tuner::unpack(layout, storage.data(), array);
      arrays[argument.name] = std::move(array);
    }
    return arrays;
  }

  std::string description() const override { return layouts_text(kernel_.info()); }

 private:
  /// Computes the buffers of the preparation, and appends their addresses.
  Status prepare_constants(std::vector<runtime::DeviceAddress>& addresses) {
    if (!kernel_.info().preparation) return {};
    const runtime::PreparationInfo& preparation = *kernel_.info().preparation;
    for (const runtime::ArgumentInfo& buffer : preparation.buffers) {
      TW_TRY(buffers_.emplace_back(), device().allocate(runtime::storage_bytes(buffer)));
      addresses.push_back(buffers_.back().address());
    }
    TW_TRY(const DeviceBuffer scratch, device().allocate(preparation.scratch_bytes));
    TW_RETURN_IF_ERROR(device().launch(kernel_.preparation(addresses, scratch.address())));
    return device().synchronize();
  }

  Status submit(void* queue) override { return device().launch(launches_, queue); }

  const dsl::Workload& workload_;
  runtime::DeviceKernel kernel_;
  std::vector<DeviceBuffer> buffers_;  ///< one for each of runtime::call_buffers()
  DeviceBuffer scratch_;
  std::vector<runtime::Launch> launches_;
};

}  // namespace

Result<DeviceBuffer> make_evicting(Device& device) {
  // L2 keeps some lines that were used often, so memory of its size is not enough.
  return device.allocate(4 * std::max<int64_t>(device.facts().l2_bytes, 1 << 20));
}

Status DeviceContender::run(int64_t) {
  TW_RETURN_IF_ERROR(device().submit([this](void* queue) { return submit(queue); }));
  return device().synchronize();
}

Result<int64_t> DeviceContender::time_ns(int64_t, int64_t calls, bool, const tuner::Clock&) {
  // If the cache is evicted before each call, calls are timed one by one, otherwise all calls
  // together.
  const bool alone = setup_.evicting.bytes() > 0;
  const auto batch = [&](void* queue) -> Status {
    for (int64_t i = 0; i < (alone ? 1 : calls); ++i) TW_RETURN_IF_ERROR(submit(queue));
    return {};
  };
  runtime::TimingOptions options;
  options.repeats = alone ? static_cast<int>(calls) : 1;
  options.evicting = alone ? &setup_.evicting : nullptr;
  options.graph = setup_.graphs;
  TW_TRY(const std::vector<double> samples, device().time_work_ns(batch, options));
  double sum = 0;
  for (const double sample : samples) sum += sample;
  return static_cast<int64_t>(std::llround(sum));
}

Result<DeviceBuffer> DeviceContender::upload(const std::vector<std::byte>& bytes) const {
  const auto size = static_cast<int64_t>(bytes.size());
  TW_TRY(DeviceBuffer buffer, device().allocate(size));
  TW_RETURN_IF_ERROR(buffer.write(bytes.data(), size));
  return buffer;
}

Result<std::vector<std::byte>> DeviceContender::download(const DeviceBuffer& buffer) {
  std::vector<std::byte> bytes(static_cast<size_t>(buffer.bytes()));
  TW_RETURN_IF_ERROR(buffer.read(bytes.data(), buffer.bytes()));
  return bytes;
}

Result<std::unique_ptr<Contender>> make_ours_on_device(const runtime::Artifact& artifact,
                                                       const Setup& setup) {
  TW_TRY(runtime::DeviceKernel kernel, runtime::DeviceKernel::load(artifact, setup.gpu->device));
  auto ours = std::make_unique<OursOnDevice>(setup, std::move(kernel));
  TW_RETURN_IF_ERROR(ours->prepare(*setup.inputs));
  return ours;
}

}  // namespace tw::bench
