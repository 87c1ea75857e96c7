// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/device_peak.h"

#include <algorithm>
#include <vector>

#include "codegen/backend.h"

namespace tw::tuner {
namespace {

using runtime::Device;
using runtime::Launch;

/// Returns the rate in GFLOP/s of the fastest of several windows. A window repeats the launch until
/// it lasts long enough for the resolution of the clock, but at most most_launches times.
Result<double> gflops(Device& device, const Launch& launch, double flops_per_launch) {
  constexpr double window_ns = 2e6;
  constexpr int windows = 5;
  constexpr size_t most_launches = 256;
  std::vector<Launch> launches = {launch};
  for (;;) {
    TW_TRY(const std::vector<double> samples, device.time_ns(launches, {.repeats = windows}));
    const double ns = *std::min_element(samples.begin(), samples.end());
    if (ns >= window_ns || launches.size() >= most_launches)
      return ns > 0 ? flops_per_launch * static_cast<double>(launches.size()) / ns : 0;
    launches.resize(2 * launches.size(), launch);
  }
}

}  // namespace

Result<double> measure_f32_peak(Device& device) {
  const codegen::PeakKernel kernel = codegen::backend_of(device.facts()).peak_kernel();
  TW_TRY(const runtime::DeviceModule module, device.load(kernel.code));
  TW_TRY(const runtime::DeviceFunction function, module.function("peak"));
  TW_TRY(const runtime::DeviceBuffer seed, device.allocate(sizeof(float)));
  const float one = 1;
  TW_RETURN_IF_ERROR(seed.write(&one, sizeof one));
  const int multiprocessors = std::max(device.facts().multiprocessors, 1);
  const int64_t blocks = int64_t{multiprocessors} * kernel.blocks_per_multiprocessor;
  const Launch launch{function, blocks, kernel.threads, 0, {seed.address()}};
  return gflops(device, launch,
                kernel.flops_per_thread * kernel.threads * static_cast<double>(blocks));
}

}  // namespace tw::tuner
