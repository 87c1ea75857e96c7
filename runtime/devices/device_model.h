// SPDX-License-Identifier: Apache-2.0
#pragma once
// A network in the memory of a device: runs a Model (runtime/model.h) on a GPU. Kernels and
// constants are copied to the device once, for all variants of the network. Each call() uses
// working memory that no other call uses at the same time. For this memory, the launches of all
// steps are prepared once (on CUDA as one graph). A later call() of the variant reuses both. Calls
// by call_on() on one queue share working memory. Thread-safe.

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

/// The time of one run of a step in a call. A step of a loop runs once for each trip.
struct StepTime {
  int step = 0;
  int64_t begin_ns = 0, end_ns = 0;  ///< nanoseconds since the first step began
};

/// The parts of a network on a device that all variants share: the kernels and the constants.
struct DeviceNetwork {
  std::string name;
  std::shared_ptr<Device> device;
  std::vector<DeviceKernel> kernels;
  DeviceBuffer constants;

  /// Loads the kernels, and copies the constants to the device. Fails with the errors of
  /// DeviceKernel::load() and allocate().
  static Result<std::shared_ptr<const DeviceNetwork>> load(std::string name,
                                                           std::vector<Artifact> kernels,
                                                           std::string_view constants,
                                                           std::shared_ptr<Device> device);
  /// Allocates device memory for a purpose `what`, such as "constants". Fails with Environment if
  /// the device has not enough memory; the message names `what` and the size.
  Result<DeviceBuffer> allocate(std::string_view what, int64_t bytes) const;
};

/// One variant of a network on a device.
class DeviceModel {
 public:
  /// Makes a variant ready to run on the device. Fails with Unsupported if the device cannot
  /// address a constant at its offset. Requires: check_model() has accepted the model of the
  /// variant, and `network` has the kernels and constants of that model. `arguments` has the
  /// variant's inputs, then its outputs. `variant` and `arguments` must outlive the result.
  static Result<std::unique_ptr<DeviceModel>> load(std::shared_ptr<const DeviceNetwork> network,
                                                   const ModelVariant& variant,
                                                   std::span<const ArgumentInfo> arguments);

  /// Runs one call on arrays in the processor's memory, like Model::call().
  Status call(std::span<const Buffer> arrays) const;
  /// Does the same as call(), but runs step by step, and returns the time of each step by the
  /// device's clock.
  Result<std::vector<StepTime>> profile(std::span<const Buffer> arrays) const;
  /// Enqueues one call on arrays in the device's memory, like Model::call_on().
  Status call_on(std::span<const DeviceArray> arrays, DeviceStream stream) const;

  /// Returns the bytes of device memory that one call needs: the arena, the scratch memory, and the
  /// arrays that call() copies.
  int64_t call_bytes() const;

 private:
  /// The working memory of a call, without its arguments.
  struct Memory {
    DeviceBuffer arena, scratch;
    /// The part of the arena that each tensor occupies, by index of the tensor. Null for tensors
    /// that lie elsewhere or that move in loops (Slide).
    std::vector<DeviceBuffer> places;
  };
  /// One run of a step. Its launches are a range of Steps::launches: from the `end` of the run
  /// before (0 for the first run), inclusive, to this `end`, exclusive. Example: for runs with the
  /// ends 2 and 5, the second run has the launches 2, 3 and 4.
  struct StepRun {
    size_t step = 0, end = 0;
  };
  /// The launches of all runs of steps, bound to working memory and arrays.
  struct Steps {
    std::vector<DeviceBuffer> arrays;  ///< the arrays of the inputs, then of the outputs
    /// Buffers of the tensors that move in loops (Slide), one for each access. They are kept
    /// because the launches refer to them.
    std::vector<DeviceBuffer> parts;
    std::vector<Launch> launches;
    std::vector<StepRun> runs;
  };
  /// Everything that a call() needs: working memory, arrays on the device for copies of its
  /// arguments, and the recorded graph. A later call() reuses the object.
  struct OwnCall {
    Memory memory;
    Steps steps;
    LaunchGraph graph;
  };
  /// A graph of the steps that was recorded for one set of the caller's arrays.
  struct Recorded {
    std::vector<DeviceBuffer> arrays, parts;
    LaunchGraph graph;
  };
  /// The working memory that the calls on one queue share, and the graphs that were recorded for
  /// this queue.
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
  /// The place of each tensor among the constants, by index of the tensor; null for a tensor that
  /// is no constant.
  std::vector<DeviceBuffer> constant_places_;
  int64_t scratch_bytes_ = 0;  ///< largest scratch memory of a step
  mutable std::mutex mutex_;   ///< guards the members below and the order of call_on()'s launches
  mutable std::vector<OwnCall> idle_;
  mutable std::map<Queue, OnQueue> on_queues_;
};

}  // namespace tw::runtime
