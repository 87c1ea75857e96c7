// SPDX-License-Identifier: Apache-2.0
#include "tuner/targets.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>

#include "base/isa.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "codegen/compile.h"
#include "runtime/device.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

using runtime::DeviceFacts;

/// Returns the target of a device. If the architecture of the device has an architecture-specific
/// variant, such as "sm_90a", the target is that variant, so that kernels may use all instructions
/// of the device. An unknown architecture is an error, although kernels for older architectures
/// would run on it.
Result<Target> target_of(const DeviceFacts& facts) {
  const std::vector<Target> targets = runtime::targets_of(facts);
  if (!targets.empty() && targets.front().gpu.starts_with(facts.architecture))
    return targets.front();
  return parse_target("cuda:" + facts.architecture);
}

/// Returns the index in a text such as "cuda:1"; 0 for a text without a colon; nullopt if the text
/// after the colon is not an index.
std::optional<int> device_index(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return 0;
  const auto index = parse_int(text.substr(colon + 1));
  if (!index || *index < 0 || *index > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*index);
}

/// True if opening the device failed for a reason that does not depend on the target: the driver
/// lists no such device, or the device is in use.
template <typename Device>
bool is_final(const Result<Device>& device) {
  return !device &&
         (device.error().code == ErrorCode::TryLater || device.error().code == ErrorCode::Usage);
}

Result<ChosenTarget> chosen_cuda(const std::string& text, const codegen::NvrtcOptions& nvrtc) {
  const std::optional<int> index = device_index(text);
  const bool any = index.has_value();
  const auto device = runtime::open_cuda_device({.index = index.value_or(0)});
  if (any && is_final(device)) return tl::unexpected(device.error());
  TW_TRY(Target target, !any     ? parse_target(text)
                        : device ? target_of((*device)->facts())
                                 : parse_target("cuda:sm_90a"));
  ChosenTarget chosen{std::move(target), {}, index.value_or(0)};
  if (!device) {
    chosen.missing.push_back(device.error().message);
  } else if (!runtime::runs_on(chosen.target.gpu, (*device)->facts().architecture)) {
    chosen.missing.push_back(fmt::format("a GPU of {}: this is {}, {}", chosen.target.gpu,
                                         (*device)->facts().name, (*device)->facts().architecture));
  } else {
    chosen.target = with_facts(chosen.target, (*device)->facts());
  }
  codegen::CompileOptions compiling;
  compiling.nvrtc = nvrtc;
  if (const auto compiler = codegen::toolchain(chosen.target, compiling); !compiler)
    chosen.missing.push_back(compiler.error().message);
  if (any && !chosen.missing.empty())
    return fail(ErrorCode::Environment,
                fmt::format("[target] {}: {}{}", text, join(chosen.missing, "; and "),
                            device ? ""
                                   : "; without a GPU, name an architecture, such as --target "
                                     "cuda:sm_90a, which `tilewright tune --compile-only` compiles "
                                     "for"));
  return chosen;
}

Result<ChosenTarget> chosen_opencl(const std::string& text) {
  const std::optional<int> index = device_index(text);
  if (!index)
    return fail(ErrorCode::Usage,
                fmt::format("[target] '{}' is no target: expected opencl, or one of its devices by "
                            "its number, such as opencl:1; `doctor` lists them",
                            text));
  TW_TRY(Target target, parse_target("opencl"));
  ChosenTarget chosen{std::move(target), {}, *index};
  const auto device = runtime::open_opencl_device({.index = *index});
  if (is_final(device)) return tl::unexpected(device.error());
  if (device) {
    chosen.target = with_facts(chosen.target, (*device)->facts());
  } else {
    chosen.missing.push_back(device.error().message);
  }
  return chosen;
}

}  // namespace

bool names_gpu(const std::string& text) {
  return text == "cuda" || text == "opencl" || text.starts_with("cuda:") ||
         text.starts_with("opencl:");
}

Result<ChosenTarget> chosen_target(const std::string& text, const Environment& environment) {
  if (text.starts_with("opencl") && names_gpu(text)) return chosen_opencl(text);
  if (names_gpu(text)) return chosen_cuda(text, {.directories = environment.cuda_directories});
  TW_TRY(Target target, parse_target(text));
  std::vector<std::string> missing = missing_features(target, host_target());
  if (missing.empty()) target = on_this_machine(std::move(target));
  return ChosenTarget{std::move(target), std::move(missing)};
}

std::string missing_text(const ChosenTarget& chosen) {
  if (chosen.target.is_gpu()) return join(chosen.missing, "; and ");
  const std::string cause = cause_of_missing(chosen.missing);
  return join(chosen.missing, ", ") + (cause.empty() ? "" : fmt::format(" ({})", cause));
}

Status check_measurable(const ChosenTarget& chosen, const TuneOptions& options,
                        std::string_view instead) {
  if (options.effort == Effort::None) return {};
  const Target& target = chosen.target;
  if (!chosen.runs_here())
    return fail(target.is_gpu() ? ErrorCode::Environment : ErrorCode::Unsupported,
                fmt::format("[tune] kernels for {} cannot be measured here, as this machine lacks "
                            "{}: use {}, or tune on such a machine",
                            target.to_string(), missing_text(chosen), instead));
  if (!target.is_gpu() && options.threads > target.machine.cores)
    return fail(ErrorCode::Usage,
                fmt::format("[tune] --threads {}: the machine has {}, on which kernels would be "
                            "measured",
                            options.threads, counted(target.machine.cores, "core")));
  return {};
}

Result<std::shared_ptr<runtime::Device>> open_device(const ChosenTarget& chosen) {
  return codegen::backend_of(chosen.target).open({.index = chosen.device});
}

Result<std::shared_ptr<runtime::Device>> device_for(const Target& target,
                                                    const std::string& named) {
  const codegen::Backend& backend = codegen::backend_of(target);
  if (!named.empty() && named.substr(0, named.find(':')) != backend.name)
    return fail(ErrorCode::Usage,
                fmt::format("[target] {}: the kernels are for {}", named, target.to_string()));
  return backend.open({.index = device_index(named).value_or(0)});
}

}  // namespace tw::tuner
