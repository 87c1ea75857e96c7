// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/device_findings.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/target.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "codegen/command.h"
#include "codegen/gpu/nvrtc.h"
#include "runtime/device.h"
#include "runtime/devices/device_target.h"
#include "tuner/processes/scratch.h"
#include "tuner/workers/driver.h"

namespace tw::tools {
namespace {

using runtime::Device;
using runtime::DeviceFacts;

using Opened = Result<std::shared_ptr<Device>>;
using Open = Opened (*)(const runtime::DeviceOptions&);

constexpr int most_devices = 64;
// Limit on the time of the process that examines one driver. A driver may need some seconds for
// each GPU that is used for the first time.
constexpr int64_t probe_timeout_ns = 60'000'000'000;

/// Returns the text of a version number of CUDA: "13.0" for 13000.
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

/// Appends a finding for each device of one driver. The error Usage means that the driver has no
/// device with this index. If the first two devices fail with the same message, the driver itself
/// is faulty. Then there is a single finding, which has the driver's name.
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
  // NVRTC knows more architectures than this program has kernels for.
  std::vector<std::string> targets;
  for (const std::string& architecture : nvrtc->architectures())
    if (const auto target = parse_target("cuda:" + architecture))
      targets.push_back(target->to_string());
  return {"nvrtc", fmt::format("CUDA {}, {}, compiles for {}", version_text(nvrtc->version()),
                               nvrtc->path(), join(targets, ", "))};
}

/// Gets the findings about a driver from another process (`doctor --probe-driver`), because the
/// limits would stay in force in this process, and a faulty driver may crash the process that uses
/// it.
std::vector<Finding> asked_apart(std::string_view driver, const Surroundings& here) {
  const auto output = codegen::run_command(
      {here.program, "doctor", "--probe-driver", std::string(driver)}, probe_timeout_ns);
  if (!output) return {absent(std::string(driver), output.error())};
  auto findings = parse_findings(*output);
  if (!findings) return {absent(std::string(driver), findings.error())};
  return std::move(*findings);
}

const codegen::Backend* backend_named(std::string_view name) {
  for (const codegen::Backend& backend : codegen::backends())
    if (backend.open && backend.name == name) return &backend;
  return nullptr;
}

}  // namespace

Finding failed(std::string name, const Error& error) {
  return {std::move(name), error.message, error.code};
}

Finding absent(std::string name, const Error& error) {
  return {std::move(name), error.message, std::nullopt, false};
}

std::vector<Finding> driver_findings(std::string_view driver) {
  std::vector<Finding> findings;
  if (const codegen::Backend* const backend = backend_named(driver))
    add_devices(std::string(driver), backend->open, findings);
  return findings;
}

Result<std::string> confined_driver_findings(std::string_view driver) {
  const codegen::Backend* const backend = backend_named(driver);
  if (!backend)
    return fail(ErrorCode::Usage,
                fmt::format("[doctor] --probe-driver {}: expected cuda or opencl", driver));
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY([[maybe_unused]] const tuner::StartedDriver started,
         tuner::start_driver(*backend, 0, scratch.path(), tuner::Confined::Yes));
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : driver_findings(driver))
    list.push_back({{"name", finding.name}, {"text", finding.text}, {"present", finding.present}});
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<std::vector<Finding>> parse_findings(const std::string& text) {
  // A driver may print lines of its own before the findings.
  const std::string_view whole = trim(text);
  const std::string last(whole.substr(whole.rfind('\n') + 1));
  const nlohmann::json list = nlohmann::json::parse(last, nullptr, false);
  std::vector<Finding> findings;
  if (list.is_array())
    for (const nlohmann::json& item : list)
      findings.push_back({item.value("name", ""), item.value("text", ""), std::nullopt,
                          item.value("present", false)});
  if (!findings.empty() || list.is_array()) return findings;
  return fail(ErrorCode::Invalid, "[doctor] the probe of a driver printed no findings");
}

std::vector<Finding> device_findings(const Surroundings& here) {
  std::vector<Finding> findings = asked_apart("cuda", here);
  findings.push_back(compiler(here));
  for (Finding& finding : asked_apart("opencl", here)) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace tw::tools
