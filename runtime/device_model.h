// SPDX-License-Identifier: Apache-2.0
#pragma once
// The steps of a network in the memory of a device: what a Model (runtime/model.h) for a GPU runs.
// Constants are copied there once. A call has memory of its own, in which the launches of all steps
// are prepared; on CUDA they are one graph. Thread-safe; keeps the memory of calls for later ones.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/arguments.h"
#include "runtime/device.h"
#include "runtime/device_arrays.h"
#include "runtime/device_kernel.h"
#include "runtime/model_file.h"

namespace tw::runtime {

/// Time of one step of one call.
struct StepTime {
  int step = 0;
  int64_t begin_ns = 0, end_ns = 0;  ///< since the first step began
};

class DeviceModel {
 public:
  /// Loads the kernels, and copies the constants to the device. Errors as DeviceKernel::load();
  /// Environment, naming what and how much, where the device has no memory for them. Requires: a
  /// model that check_model() has accepted, whose kernels are `kernels`; both it and `arguments`,
  /// its inputs and then its outputs, must outlive the result.
  static Result<std::unique_ptr<DeviceModel>> load(const ModelFile& model,
                                                   std::span<const ArgumentInfo> arguments,
                                                   std::vector<Artifact> kernels,
                                                   std::string_view constants,
                                                   std::shared_ptr<Device> device);

  /// One call on arrays in the processor's memory, as Model::call().
  Status call(std::span<const Buffer> arrays) const;
  /// The same, step by step, with the time of each by the device's clock.
  Result<std::vector<StepTime>> profile(std::span<const Buffer> arrays) const;
  /// Enqueues one call on arrays in the device's memory, as Model::call_on().
  Status call_on(std::span<const DeviceArray> arrays, DeviceStream stream) const;

  const std::shared_ptr<Device>& device() const { return device_; }
  /// Device memory of one call: arena, scratch, and the arrays that call() copies.
  int64_t call_bytes() const;

 private:
  /// What steps work in beside the arguments of a call.
  struct Memory {
    DeviceBuffer arena, scratch;
    std::vector<DeviceBuffer> places;  ///< of tensors in the arena; null for others
  };
  /// The steps on some memory and arrays.
  struct Steps {
    std::vector<DeviceBuffer> arrays;  ///< of the arguments
    std::vector<Launch> launches;
    std::vector<size_t> ends;  ///< of each step: the number of launches up to its last
  };
  /// Memory and arrays of a call that copies.
  struct OwnCall {
    Memory memory;
    Steps steps;
    LaunchGraph graph;
  };
  /// Arrays of a caller's that steps were recorded on.
  struct Recorded {
    std::vector<DeviceBuffer> arrays;
    LaunchGraph graph;
  };
  struct OnQueue {
    Memory memory;
    std::vector<Recorded> recorded;
  };

  DeviceModel(const ModelFile& model, std::span<const ArgumentInfo> arguments,
              std::shared_ptr<Device> device)
      : model_(model), arguments_(arguments), device_(std::move(device)) {}

  Status load_kernels(std::vector<Artifact> kernels);
  Status copy_constants(std::string_view constants);
  Result<DeviceBuffer> allocate(std::string_view what, int64_t bytes) const;
  Result<DeviceBuffer> part_of(const DeviceBuffer& memory, const ModelTensor& tensor) const;
  Result<Memory> make_memory() const;
  Result<OwnCall> make_call() const;
  DeviceAddress address_of(int tensor, const Memory& memory,
                           std::span<const DeviceBuffer> arrays) const;
  Steps steps_on(const Memory& memory, std::vector<DeviceBuffer> arrays) const;
  Result<OwnCall> take() const;
  void give_back(OwnCall call) const;
  Result<std::vector<StepTime>> time_steps(const Steps& steps) const;
  template <typename Run>
  Status run_copied(std::span<const Buffer> arrays, const Run& run) const;

  const ModelFile& model_;
  const std::span<const ArgumentInfo> arguments_;
  const std::shared_ptr<Device> device_;
  std::vector<DeviceKernel> kernels_;
  DeviceBuffer constants_;
  std::vector<DeviceBuffer> constant_places_;  ///< of each tensor; null where it is no constant
  int64_t scratch_bytes_ = 0;                  ///< most that a step takes
  mutable std::mutex mutex_;  ///< guards the members below and the order of call_on()'s launches
  mutable std::vector<OwnCall> idle_;
  mutable std::map<Queue, OnQueue> on_queues_;
};

}  // namespace tw::runtime
