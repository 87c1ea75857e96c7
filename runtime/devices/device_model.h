// SPDX-License-Identifier: Apache-2.0
#pragma once
// A network in the memory of a device, as a Model (runtime/model.h) for a GPU runs it. Kernels and
// constants are copied to the device once, for all variants of the network. Each call has working
// memory of its own, with the launches of all steps prepared for it, on CUDA as one graph; later
// calls of the same variant reuse that memory. Thread-safe.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/arguments.h"
#include "runtime/device.h"
#include "runtime/devices/device_arrays.h"
#include "runtime/devices/device_kernel.h"
#include "runtime/model_file.h"

namespace tw::runtime {

/// Time of one step of one call.
struct StepTime {
  int step = 0;
  int64_t begin_ns = 0, end_ns = 0;  ///< since the first step began
};

/// The parts of a network on a device that its variants share: kernels and constants.
struct DeviceNetwork {
  std::string name;
  std::shared_ptr<Device> device;
  std::vector<DeviceKernel> kernels;
  DeviceBuffer constants;

  /// Loads the kernels, and copies the constants to the device. Errors as DeviceKernel::load() and
  /// allocate().
  static Result<std::shared_ptr<const DeviceNetwork>> load(std::string name,
                                                           std::vector<Artifact> kernels,
                                                           std::string_view constants,
                                                           std::shared_ptr<Device> device);
  /// Device memory for `what`, such as "constants". Environment, naming `what` and the size, if the
  /// device has none.
  Result<DeviceBuffer> allocate(std::string_view what, int64_t bytes) const;
};

/// One variant of a network on a device.
class DeviceModel {
 public:
  /// Unsupported if the device cannot address a constant at its offset. Requires: a variant of a
  /// model that check_model() has accepted, whose kernels and constants are the network's;
  /// `arguments` has its inputs, then its outputs. Variant and arguments must outlive the result.
  static Result<std::unique_ptr<DeviceModel>> load(std::shared_ptr<const DeviceNetwork> network,
                                                   const ModelVariant& variant,
                                                   std::span<const ArgumentInfo> arguments);

  /// One call on arrays in the processor's memory, as Model::call().
  Status call(std::span<const Buffer> arrays) const;
  /// The same, step by step, with the time of each by the device's clock.
  Result<std::vector<StepTime>> profile(std::span<const Buffer> arrays) const;
  /// Enqueues one call on arrays in the device's memory, as Model::call_on().
  Status call_on(std::span<const DeviceArray> arrays, DeviceStream stream) const;

  /// Device memory of one call: arena, scratch, and the arrays that call() copies.
  int64_t call_bytes() const;

 private:
  /// Working memory of a call, beside its arguments.
  struct Memory {
    DeviceBuffer arena, scratch;
    std::vector<DeviceBuffer> places;  ///< parts of the arena, by tensor; null for other tensors
  };
  /// One run of a step: its launches end at `end` in Steps::launches.
  struct StepRun {
    size_t step = 0, end = 0;
  };
  /// The launches of all runs of steps, bound to working memory and arrays.
  struct Steps {
    std::vector<DeviceBuffer> arrays;  ///< arrays of the arguments
    std::vector<DeviceBuffer> parts;   ///< of memory, for the tensors that move in loops
    std::vector<Launch> launches;
    std::vector<StepRun> runs;
  };
  /// Memory, arrays and graph of a call() that copies its arguments.
  struct OwnCall {
    Memory memory;
    Steps steps;
    LaunchGraph graph;
  };
  /// The graph of the steps on one set of the caller's arrays.
  struct Recorded {
    std::vector<DeviceBuffer> arrays, parts;
    LaunchGraph graph;
  };
  /// Working memory that the calls on one queue share, and the graphs that were recorded there.
  struct OnQueue {
    Memory memory;
    std::vector<Recorded> recorded;
  };

  DeviceModel(std::shared_ptr<const DeviceNetwork> network, const ModelVariant& variant,
              std::span<const ArgumentInfo> arguments);

  Status place_constants();
  Result<DeviceBuffer> part_of(const DeviceBuffer& memory, const ModelTensor& tensor,
                               int64_t at) const;
  Result<Memory> make_memory() const;
  Result<OwnCall> make_call() const;
  Result<DeviceAddress> address_of(int tensor, int64_t trip, const Memory& memory,
                                   Steps& steps) const;
  Result<Steps> steps_on(const Memory& memory, std::vector<DeviceBuffer> arrays) const;
  Result<OwnCall> take() const;
  void give_back(OwnCall call) const;
  Result<std::vector<StepTime>> time_steps(const Steps& steps) const;
  template <typename Run>
  Status run_copied(std::span<const Buffer> arrays, const Run& run) const;

  const std::shared_ptr<const DeviceNetwork> network_;
  const ModelVariant& variant_;
  const std::span<const ArgumentInfo> arguments_;
  std::vector<DeviceBuffer> constant_places_;  ///< of each tensor; null where it is no constant
  int64_t scratch_bytes_ = 0;                  ///< largest scratch memory of a step
  mutable std::mutex mutex_;  ///< guards the members below and the order of call_on()'s launches
  mutable std::vector<OwnCall> idle_;
  mutable std::map<Queue, OnQueue> on_queues_;
};

}  // namespace tw::runtime
