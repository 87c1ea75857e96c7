// SPDX-License-Identifier: Apache-2.0
#include "base/isa.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.h"

namespace tw {
namespace {

struct Isa {
  std::string_view name;
  std::vector<std::string> adds;  // features beyond the set before, named as in /proc/cpuinfo
};

// The rows have the features of Penryn, Sandy Bridge, Haswell, Skylake-X, Ice Lake, Zen 4, Sapphire
// Rapids without AMX, and Sapphire Rapids with AMX. A feature that some processors got earlier than
// others belongs to the later row.
const std::vector<Isa>& isas() {
  static const std::vector<Isa> rows = {
      {"sse41", {"sse4_1"}},
      {"avx", {"avx"}},
      {"avx2", {"avx2", "f16c", "fma"}},
      {"avx512", {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}},
      {"avx512_vnni",
       {"avx512_bitalg", "avx512_vbmi2", "avx512_vnni", "avx512_vpopcntdq", "avx512ifma",
        "avx512vbmi", "avx_vnni"}},
      {"avx512_bf16", {"avx512_bf16"}},
      {"avx512_fp16", {"avx512_fp16"}},
      {"amx", {"amx_bf16", "amx_int8", "amx_tile"}}};
  return rows;
}

std::string value_of_variable() {
  const char* const value = std::getenv(max_isa_variable);
  return value ? value : "";
}

/// Returns the value in lower case and changes oneDNN's names, those of ONEDNN_MAX_CPU_ISA, to the
/// names of isas(): "AVX512_CORE_VNNI" becomes "avx512_vnni".
std::string canonical_name(std::string_view value) {
  std::string name;
  for (const char c : value) name += to_lower(c);
  constexpr std::string_view core = "avx512_core";
  if (name.starts_with(core)) name = "avx512" + name.substr(core.size());
  return name == "avx512_amx" ? "amx" : name;
}

}  // namespace

const std::vector<std::string>& isa_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Isa& isa : isas()) all.emplace_back(isa.name);
    return all;
  }();
  return names;
}

std::optional<std::vector<std::string>> features_of_isa(std::string_view name) {
  std::vector<std::string> features;
  for (const Isa& isa : isas()) {
    features.insert(features.end(), isa.adds.begin(), isa.adds.end());
    if (isa.name != name) continue;
    std::sort(features.begin(), features.end());
    return features;
  }
  return std::nullopt;
}

std::optional<std::string> max_isa() {
  std::string name = canonical_name(value_of_variable());
  if (!features_of_isa(name)) return std::nullopt;
  return name;
}

Status check_max_isa() {
  const std::string name = value_of_variable();
  if (name.empty() || max_isa()) return {};
  const auto guess = nearest(name, isa_names());
  return fail(ErrorCode::Usage,
              fmt::format("[isa] {}: '{}' is no instruction set: use {}, or unset it{}",
                          max_isa_variable, name, join(isa_names(), ", "),
                          guess ? fmt::format("; did you mean '{}'?", *guess) : ""));
}

Status request_tile_registers() {
#if defined(__x86_64__)
  constexpr long request_permission = 0x1023, tile_data = 18;
  if (syscall(SYS_arch_prctl, request_permission, tile_data) == 0) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[isa] the system refuses tile registers: {}", std::strerror(errno)));
#else
  return fail(ErrorCode::Environment, "[isa] only x86-64 has the tile registers of AMX");
#endif
}

std::string cause_of_missing(const std::vector<std::string>& features) {
  const auto limit = max_isa();
  if (!limit) return "";
  const std::vector<std::string> allowed = *features_of_isa(*limit);
  const std::vector<std::string> all = *features_of_isa(isas().back().name);
  const bool is_cause = std::any_of(features.begin(), features.end(), [&](const auto& feature) {
    return std::binary_search(all.begin(), all.end(), feature) &&
           !std::binary_search(allowed.begin(), allowed.end(), feature);
  });
  return is_cause ? fmt::format("{}={} allows no more", max_isa_variable, value_of_variable()) : "";
}

}  // namespace tw
