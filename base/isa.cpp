// SPDX-License-Identifier: Apache-2.0
#include "base/isa.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"

namespace tw {
namespace {

struct Isa {
  std::string_view name;
  std::vector<std::string> adds;  // features, as the kernel of Linux spells them
};

// Penryn, Sandy Bridge, Haswell, Skylake-X, Ice Lake, Zen 4, Sapphire Rapids without and with AMX.
// A feature that processors acquired in different orders is listed with the later set.
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
  std::string name = value_of_variable();
  if (!features_of_isa(name)) return std::nullopt;
  return name;
}

Status check_max_isa() {
  const std::string name = value_of_variable();
  if (name.empty() || features_of_isa(name)) return {};
  const auto guess = nearest(name, isa_names());
  return fail(ErrorCode::Usage,
              fmt::format("[isa] {}: '{}' is no instruction set: use {}, or unset it{}",
                          max_isa_variable, name, join(isa_names(), ", "),
                          guess ? fmt::format("; did you mean '{}'?", *guess) : ""));
}

}  // namespace tw
