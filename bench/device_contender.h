// SPDX-License-Identifier: Apache-2.0
#pragma once
// Contenders on a GPU: what they have in common, and ours. All work goes to one stream of the
// device's primary context, ours and the other library's, and is timed by events on it.
//
//   DeviceSetup on{.device = device, .graphs = true};
//   on.evicting = ...;             // for CacheState::Cold
//   Setup setup{.workload = &w, .inputs = &inputs, .gpu = &on};
//   TW_TRY(auto ours, make_ours_on_device(artifact, setup));

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/contender.h"
#include "runtime/artifact.h"
#include "runtime/device.h"

namespace tw::bench {

/// Where contenders of a GPU run, and how their calls are submitted.
struct DeviceSetup {
  std::shared_ptr<runtime::Device> device;
  /// Calls are submitted as one CUDA graph, so that kernels which are shorter than a launch are
  /// timed too.
  bool graphs = false;
  /// Written before each call that is timed, outside of its time: larger than L2, it leaves
  /// nothing there. No bytes: calls follow each other.
  runtime::DeviceBuffer evicting = {};
};

/// Memory that empties the device's L2.
Result<runtime::DeviceBuffer> make_evicting(runtime::Device& device);

class DeviceContender : public Contender {
 public:
  Status run(int64_t call) final;
  Result<int64_t> time_ns(int64_t first, int64_t calls, bool prepares,
                          const tuner::Clock& clock) final;

 protected:
  explicit DeviceContender(const DeviceSetup& setup) : setup_(setup) {}
  /// Puts one call on the queue.
  virtual Status submit(void* queue) = 0;

  runtime::Device& device() const { return *setup_.device; }
  /// New memory with these bytes.
  Result<runtime::DeviceBuffer> upload(const std::vector<std::byte>& bytes) const;
  static Result<std::vector<std::byte>> download(const runtime::DeviceBuffer& buffer);

 private:
  DeviceSetup setup_;
};

/// Arrays lie on the device in the kernel's layouts, packed ahead. Requires: setup.gpu.
Result<std::unique_ptr<Contender>> make_ours_on_device(const runtime::Artifact& artifact,
                                                       const Setup& setup);

}  // namespace tw::bench
