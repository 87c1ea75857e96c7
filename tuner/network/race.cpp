// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/race.h"

#include <cstdlib>

#include "base/random.h"
#include "tuner/measure/sampling.h"

namespace tw::tuner {
namespace {

void fill_input(dsl::Array& array, Random& random) {
  if (is_float(array.type)) return dsl::fill_normal(array, random);
  dsl::fill_integers(array, random);
  for (int64_t i = 0; i < array.size(); ++i) array.set_int(i, std::abs(array.get_int(i)));
}

/// Arrays in the memory of a device. `memories` owns their memory.
struct OnDevice {
  std::vector<runtime::DeviceBuffer> memories;
  std::vector<runtime::DeviceArray> arrays;
};

Result<OnDevice> copied_to(runtime::Device& device,
                           std::span<const runtime::ArgumentInfo> arguments,
                           const std::vector<runtime::Buffer>& buffers) {
  OnDevice copied;
  for (size_t i = 0; i < buffers.size(); ++i) {
    TW_TRY(runtime::DeviceBuffer memory, device.allocate(runtime::storage_bytes(arguments[i])));
    TW_RETURN_IF_ERROR(memory.write(buffers[i].data, memory.bytes()));
    copied.arrays.push_back({memory.address(), buffers[i].dtype, buffers[i].shape});
    copied.memories.push_back(std::move(memory));
  }
  return copied;
}

}  // namespace

Result<ModelCall> repeated_call(const runtime::Model& model,
                                const std::vector<runtime::Buffer>& buffers,
                                runtime::ThreadPool& pool) {
  const std::shared_ptr<runtime::Device> device = model.device();
  if (!device) return [model, buffers, &pool] { return model.call(buffers, pool); };
  TW_TRY(const size_t variant, model.variant_of(buffers));
  TW_TRY(const OnDevice copied, copied_to(*device, model.arguments(variant), buffers));
  return [model, device, copied]() -> Status {
    TW_RETURN_IF_ERROR(model.call_on(copied.arrays));
    return device->synchronize();
  };
}

std::vector<runtime::Buffer> ModelArrays::buffers() {
  std::vector<runtime::Buffer> buffers;
  for (dsl::Array& array : arrays)
    buffers.push_back({array.data.data(), array.type, array.shape, {}});
  return buffers;
}

Result<ModelArrays> random_arrays(const runtime::Model& model, uint64_t seed, size_t variant) {
  Random random(seed);
  ModelArrays result;
  for (const runtime::ArgumentInfo& argument : model.arguments(variant)) {
    TW_TRY(dsl::Array array, dsl::Array::make(argument.dtype, argument.shape));
    if (!argument.is_output) fill_input(array, random);
    result.arrays.push_back(std::move(array));
  }
  return result;
}

Result<std::vector<double>> race(std::span<const runtime::Model> models, const Clock& clock,
                                 const RaceOptions& options) {
  if (models.empty()) return std::vector<double>();
  runtime::PoolOptions threads;
  threads.threads = options.threads;
  runtime::ThreadPool pool(threads);
  TW_TRY(ModelArrays arrays, random_arrays(models.front(), 1));
  const std::vector<runtime::Buffer> buffers = arrays.buffers();
  std::vector<ModelCall> calls;
  for (const runtime::Model& model : models) {
    TW_TRY(calls.emplace_back(), repeated_call(model, buffers, pool));
    TW_RETURN_IF_ERROR(calls.back()());
  }
  std::vector<std::vector<double>> times(models.size());
  const int64_t started = clock();
  for (int round = 0; round < options.most_rounds; ++round) {
    if (options.stop.is_stopped() && round == 0)
      return fail(ErrorCode::Interrupted, "[network] interrupted before the plans were measured");
    if (round > 0 && (options.stop.is_stopped() ||
                      static_cast<double>(clock() - started) > options.budget_s * 1e9))
      break;
    for (size_t turn = 0; turn < models.size(); ++turn) {
      const size_t model = round % 2 == 0 ? turn : models.size() - 1 - turn;
      const int64_t before = clock();
      TW_RETURN_IF_ERROR(calls[model]());
      times[model].push_back(static_cast<double>(clock() - before));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& each : times) medians.push_back(median(std::move(each)));
  return medians;
}

}  // namespace tw::tuner
