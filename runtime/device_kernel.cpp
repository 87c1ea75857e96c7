// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_kernel.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace tw::runtime {
namespace {

/// 13000 of "nvrtc-13.0", as DeviceCode counts; 0 of anything else.
int toolkit_of(const std::string& toolchain) {
  int major = 0, minor = 0;
  return std::sscanf(toolchain.c_str(), "nvrtc-%d.%d", &major, &minor) == 2
             ? 1000 * major + 10 * minor
             : 0;
}

}  // namespace

Result<DeviceKernel> DeviceKernel::load(Artifact artifact, const std::shared_ptr<Device>& device) {
  TW_RETURN_IF_ERROR(check_info(artifact.info));
  TW_TRY(const Target target, parse_target(artifact.info.target));
  if (!target.is_gpu())
    return fail(ErrorCode::Usage, fmt::format("[kernel] the kernel is for {}, which is no GPU",
                                              artifact.info.target));
  DeviceCode code;
  if (target.architecture == Architecture::Cuda) {
    code.architecture = target.gpu;
    code.binary = std::move(artifact.object);
    code.toolkit = toolkit_of(artifact.info.toolchain);
  } else {
    code.text = std::move(artifact.object);
  }
  TW_TRY(const DeviceModule module, device->load(code));
  DeviceKernel kernel;
  for (const PhaseInfo& phase : artifact.info.phases) {
    TW_TRY(DeviceFunction function, module.function(phase.symbol));
    kernel.functions_.push_back(std::move(function));
  }
  kernel.info_ = std::make_shared<const KernelInfo>(std::move(artifact.info));
  return kernel;
}

std::vector<Launch> DeviceKernel::launches(std::span<const DeviceAddress> arguments,
                                           DeviceAddress scratch) const {
  TW_CHECK(arguments.size() == info_->arguments.size(), "an address for each argument");
  std::vector<DeviceAddress> addresses(arguments.begin(), arguments.end());
  addresses.push_back(scratch);
  std::vector<Launch> launches;
  for (size_t i = 0; i < functions_.size(); ++i) {
    const PhaseInfo& phase = info_->phases[i];
    launches.push_back(
        {functions_[i], phase.tasks, phase.threads, phase.shared_bytes, addresses, phase.maps});
  }
  return launches;
}

}  // namespace tw::runtime
