// SPDX-License-Identifier: Apache-2.0
#include "base/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

#include "base/caches.h"
#include "base/cores.h"
#include "base/isa.h"
#include "base/text.h"

namespace tw {
namespace {

struct ArchitectureRow {
  Architecture architecture;
  std::string_view name;
  std::vector<std::string> features;  // features that code generation uses, as Linux spells them
};

const std::vector<ArchitectureRow>& architectures() {
  static const std::vector<ArchitectureRow> rows = {
      {Architecture::X86_64, "x86-64", *features_of_isa(isa_names().back())},
      {Architecture::Arm64, "arm-64", {"asimddp", "asimdhp", "sve", "sve2"}}};
  return rows;
}

const std::map<std::string, std::vector<std::string>, std::less<>>& levels() {
  static const std::map<std::string, std::vector<std::string>, std::less<>> table = {
      {"x86-64-v3", *features_of_isa("avx2")}, {"x86-64-v4", *features_of_isa("avx512")}};
  return table;
}

constexpr std::string_view cuda_prefix = "cuda:", opencl_name = "opencl";

Result<Target> parse_gpu(std::string_view name) {
  Target target;
  target.architecture = Architecture::Cuda;
  target.gpu = name;
  const auto names = known_gpus();
  if (std::find(names.begin(), names.end(), name) == names.end())
    return fail(
        ErrorCode::Unsupported,
        fmt::format("[target] '{}' is no GPU architecture that kernels are made for: use {}", name,
                    join(names, ", ")));
  target.machine = *gpu_machine(name);
  return target;
}

Target opencl_target() {
  Target target;
  target.architecture = Architecture::OpenCl;
  target.machine = *gpu_machine(opencl_name);
  return target;
}

const ArchitectureRow& row(Architecture architecture) {
  return architectures()[architecture == Architecture::X86_64 ? 0 : 1];
}

/// Returns the features that TILEWRIGHT_MAX_ISA allows on x86-64. Without this limit, and on other
/// architectures, returns all features of the architecture.
std::vector<std::string> usable_features(Architecture architecture) {
  const auto limit = max_isa();
  if (architecture == Architecture::X86_64 && limit) return *features_of_isa(*limit);
  return row(architecture).features;
}

/// Returns the machine of a target that names no device.
Machine generic_machine(const Target& target) {
  const VectorSizes vectors = vector_sizes(target);
  if (target.architecture == Architecture::Arm64) return generic_arm_64(vectors);
  Machine machine = generic_x86_64(vectors);
  // A full tile instruction counts as 256 dot products. It takes 16 cycles on every processor that
  // has tiles.
  if (target.has("amx_tile"))
    machine.core.byte_tile_dots_per_cycle = machine.core.bf16_tile_dots_per_cycle = 16;
  return machine;
}

/// Returns the part of /proc/cpuinfo about the first processor; empty if the file cannot be read.
std::string first_processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string text;
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) text += line + "\n";
  return text;
}

/// Returns the value of the first line with this key; empty if there is no such line.
std::string cpuinfo_value(std::string_view cpuinfo, std::string_view key) {
  for (const std::string& line : split(cpuinfo, '\n')) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trim(std::string_view(line).substr(0, colon)) == key)
      return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

std::string cpu_name(std::string_view cpuinfo) { return cpuinfo_value(cpuinfo, "model name"); }

/// Returns the features that the processor has and the process may use.
std::vector<std::string> features_at_hand(std::string_view cpuinfo, Architecture architecture) {
  const auto present =
      words(cpuinfo_value(cpuinfo, architecture == Architecture::Arm64 ? "Features" : "flags"));
  std::vector<std::string> features = usable_features(architecture);
  std::erase_if(features, [&](const std::string& feature) {
    return std::find(present.begin(), present.end(), feature) == present.end();
  });
  return features;
}

/// Returns the machine that this process runs on. `cpuinfo` is the text of first_processor(). The
/// machine is generic_machine() if the table lacks the processor. In both cases the system's cache
/// sizes and the number of usable cores replace those of the table.
Machine machine_described(std::string_view cpuinfo, const Target& target) {
  auto known = machine_of_cpuinfo(cpuinfo, vector_sizes(target));
  Machine machine = with_caches(known ? std::move(*known) : generic_machine(target), cache_sizes());
  machine.cores = usable_cores();
  return machine;
}

std::vector<std::string> all_target_names() {
  std::vector<std::string> names = {"host"};
  for (const auto& [name, features] : levels()) names.push_back(name);
  for (const auto& architecture : architectures())
    names.push_back(std::string(architecture.name) + "-linux");
  names.push_back(std::string(cuda_prefix) + "sm_90a");
  names.emplace_back(opencl_name);
  return names;
}

}  // namespace

bool Target::has(std::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

std::string Target::to_string() const {
  if (architecture == Architecture::Cuda) return std::string(cuda_prefix) + gpu;
  if (architecture == Architecture::OpenCl) return std::string(opencl_name);
  std::string text = fmt::format("{}-linux", row(architecture).name);
  for (const std::string& feature : features) text += "-" + feature;
  return text;
}

VectorSizes vector_sizes(const Target& target) {
  if (target.architecture == Architecture::Arm64) return {16, 32};
  const bool avx512 = target.has("avx512f") && target.has("avx512vl");
  return {avx512 ? 64 : target.has("avx") ? 32 : 16, avx512 ? 32 : 16, avx512};
}

Target host_target() {
  Target target;
#if defined(__aarch64__)
  target.architecture = Architecture::Arm64;
#endif
  const std::string cpuinfo = first_processor();
  target.cpu = cpu_name(cpuinfo);
  target.features = features_at_hand(cpuinfo, target.architecture);
  target.machine = machine_described(cpuinfo, target);
  return target;
}

Target on_this_machine(Target target) {
  const std::string cpuinfo = first_processor();
  target.cpu = cpu_name(cpuinfo);
  target.machine = machine_described(cpuinfo, target);
  return target;
}

Result<Target> parse_target(std::string_view text) {
  if (text == "host") return host_target();
  if (text == opencl_name) return opencl_target();
  if (text.starts_with(cuda_prefix)) return parse_gpu(text.substr(cuda_prefix.size()));
  Target target;
  if (const auto level = levels().find(text); level != levels().end()) {
    target.features = level->second;
    target.machine = generic_machine(target);
    return target;
  }
  for (const auto& architecture : architectures()) {
    const std::string prefix = std::string(architecture.name) + "-linux";
    if (text.substr(0, prefix.size()) != prefix) continue;
    const std::string_view rest = text.substr(prefix.size());
    if (!rest.empty() && rest[0] != '-') continue;
    target.architecture = architecture.architecture;
    if (!rest.empty()) target.features = split(rest.substr(1), '-');
    std::sort(target.features.begin(), target.features.end());
    target.features.erase(std::unique(target.features.begin(), target.features.end()),
                          target.features.end());
    for (const std::string& feature : target.features)
      if (std::find(architecture.features.begin(), architecture.features.end(), feature) ==
          architecture.features.end())
        return fail(ErrorCode::Usage,
                    fmt::format("[target] '{}' is no feature of {}: use some of {}", feature,
                                architecture.name, join(architecture.features, ", ")));
    target.machine = generic_machine(target);
    return target;
  }
  const auto names = all_target_names();
  const auto guess = nearest(text, names);
  return fail(ErrorCode::Usage,
              fmt::format("[target] '{}' is no target: use {}{}", text, join(names, ", "),
                          guess ? fmt::format("; did you mean '{}'?", *guess) : ""));
}

std::vector<std::string> missing_features(const Target& kernel_target, const Target& machine) {
  if (kernel_target.is_gpu() || machine.is_gpu()) {
    if (kernel_target.to_string() == machine.to_string()) return {};
    return {kernel_target.to_string()};
  }
  if (kernel_target.architecture != machine.architecture)
    return {std::string(row(kernel_target.architecture).name)};
  std::vector<std::string> missing;
  for (const std::string& feature : kernel_target.features)
    if (!machine.has(feature)) missing.push_back(feature);
  return missing;
}

}  // namespace tw
