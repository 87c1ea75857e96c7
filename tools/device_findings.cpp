// SPDX-License-Identifier: Apache-2.0
#include "tools/device_findings.h"

#include <fmt/format.h>

#include <utility>

#include "base/target.h"
#include "base/text.h"
#include "codegen/nvrtc.h"
#include "runtime/device.h"
#include "runtime/device_target.h"

namespace tw::tools {
namespace {

using runtime::Device;
using runtime::DeviceFacts;

using Opened = Result<std::shared_ptr<Device>>;
using Open = Opened (*)(const runtime::DeviceOptions&);

constexpr int most_devices = 64;

Finding absent(std::string name, const Error& error) {
  return {std::move(name), error.message, std::nullopt, false};
}

/// 13000: "13.0".
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string describe(const DeviceFacts& facts) {
  const std::vector<Target> targets = runtime::targets_of(facts);
  std::string text = facts.name + ", ";
  text += targets.empty() ? facts.architecture + ", which no kernels are made for"
                          : targets.front().to_string();
  text +=
      fmt::format(", {} multiprocessors, {} MiB", facts.multiprocessors, facts.memory_bytes >> 20);
  if (facts.driver_version > 0)
    text += fmt::format(", driver for CUDA {}", version_text(facts.driver_version));
  return text + (facts.is_processor ? ", this machine's processor" : "");
}

Status works(Device& device) {
  constexpr int64_t bytes = 1 << 20;
  TW_TRY(const runtime::DeviceBuffer memory, device.allocate(bytes));
  return memory.fill(0);
}

Finding examine(const std::string& name, const Opened& device) {
  if (!device) return absent(name, device.error());
  if (const Status status = works(**device); !status) return absent(name, status.error());
  return {name, describe((*device)->facts())};
}

/// Of one driver, which says by a Usage error that there are no more. What is wrong with all
/// devices is wrong with the driver, and said once.
void add_devices(const std::string& kind, Open open, std::vector<Finding>& findings) {
  for (int index = 0; index < most_devices; ++index) {
    const Opened device = open({.index = index});
    if (!device && device.error().code == ErrorCode::Usage) return;
    if (!device && index == 1 && device.error().message == findings.back().text) {
      findings.back().name = kind;
      return;
    }
    findings.push_back(examine(fmt::format("{}:{}", kind, index), device));
  }
}

Finding compiler(const Surroundings& here) {
  const auto nvrtc = codegen::Nvrtc::open({.directories = here.environment.cuda_directories});
  if (!nvrtc) return absent("nvrtc", nvrtc.error());
  std::vector<std::string> targets;  // NVRTC knows architectures that no kernels are made for
  for (const std::string& architecture : nvrtc->architectures())
    if (const auto target = parse_target("cuda:" + architecture))
      targets.push_back(target->to_string());
  return {"nvrtc", fmt::format("CUDA {}, {}, compiles for {}", version_text(nvrtc->version()),
                               nvrtc->path(), join(targets, ", "))};
}

}  // namespace

std::vector<Finding> device_findings(const Surroundings& here) {
  std::vector<Finding> findings;
  add_devices("cuda", runtime::open_cuda_device, findings);
  findings.push_back(compiler(here));
  add_devices("opencl", runtime::open_opencl_device, findings);
  return findings;
}

}  // namespace tw::tools
