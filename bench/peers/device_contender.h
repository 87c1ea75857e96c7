// SPDX-License-Identifier: Apache-2.0
#pragma once
// Declares the base class of contenders on a GPU, and our own contender. Our work and the other
// library's work are submitted to the same stream of the device's primary context, and are timed by
// events on that stream.
//
//   DeviceSetup on{.device = device, .graphs = true};
//   on.evicting = ...;             // for CacheState::Cold
//   Setup setup{.workload = &w, .inputs = &inputs, .gpu = &on};
//   TW_TRY(auto ours, make_ours_on_device(artifact, setup));

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/peers/contender.h"
#include "runtime/artifact.h"
#include "runtime/device.h"

namespace tw::bench {

/// The device on which contenders run, and how their calls are submitted.
struct DeviceSetup {
  std::shared_ptr<runtime::Device> device;
  /// True to submit calls as one CUDA graph. Then kernels that are shorter than the overhead of a
  /// launch can be timed too.
  bool graphs = false;
  /// Memory that is written before each timed call. It is larger than L2, so that writing it evicts
  /// all other data from L2. The time of the writing does not count. Empty: nothing is evicted.
  runtime::DeviceBuffer evicting = {};
};

/// Allocates memory for DeviceSetup::evicting, enough to evict all other data from the device's L2.
Result<runtime::DeviceBuffer> make_evicting(runtime::Device& device);

class DeviceContender : public Contender {
 public:
  Status run(int64_t call) final;
  Result<int64_t> time_ns(int64_t first, int64_t calls, bool prepares,
                          const tuner::Clock& clock) final;

 protected:
  explicit DeviceContender(const DeviceSetup& setup) : setup_(setup) {}
  /// Appends the work of one call to the queue.
  virtual Status submit(void* queue) = 0;

  runtime::Device& device() const { return *setup_.device; }
  /// Allocates device memory and copies these bytes to it.
  Result<runtime::DeviceBuffer> upload(const std::vector<std::byte>& bytes) const;
  static Result<std::vector<std::byte>> download(const runtime::DeviceBuffer& buffer);

 private:
  DeviceSetup setup_;
};

/// Makes our contender on a GPU. Its inputs are packed into the kernel's layouts and copied to the
/// device before the first call. Requires: setup.gpu is set.
Result<std::unique_ptr<Contender>> make_ours_on_device(const runtime::Artifact& artifact,
                                                       const Setup& setup);

}  // namespace tw::bench
