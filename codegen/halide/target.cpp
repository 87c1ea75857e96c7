// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/target.h"

#include <string_view>
#include <vector>

namespace tw::codegen::halide {
namespace {

struct FeatureRow {
  std::vector<std::string_view> needs;  ///< our names of features; all are needed
  Halide::Target::Feature gives;
};

}  // namespace

Halide::Target halide_target(const Target& target) {
  using T = Halide::Target;
  static const std::vector<FeatureRow> rows = {
      {{"sse4_1"}, T::SSE41},
      {{"avx"}, T::AVX},
      {{"avx2"}, T::AVX2},
      {{"fma"}, T::FMA},
      {{"f16c"}, T::F16C},
      {{"avx512f", "avx512cd"}, T::AVX512},
      {{"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}, T::AVX512_Skylake},
      {{"avx512bw", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi"}, T::AVX512_Cannonlake},
      {{"avx512vbmi", "avx512ifma", "avx512_bf16", "avx512_vnni", "avx512_bitalg",
        "avx512_vpopcntdq", "avx512_vbmi2"},
       T::AVX512_Zen4},
      // With this feature LLVM compiles for Sapphire Rapids. Without it LLVM compiles for Zen 4,
      // with instructions of SSE4A that no processor of Intel has.
      {{"avx512_fp16", "avx_vnni", "amx_bf16", "amx_int8", "amx_tile"}, T::AVX512_SapphireRapids},
      {{"asimddp"}, T::ARMDotProd},
      {{"asimdhp"}, T::ARMFp16}};
  const bool is_x86 = target.architecture == Architecture::X86_64;
  T result(T::Linux, is_x86 ? T::X86 : T::ARM, 64, {T::NoRuntime, T::NoAsserts, T::NoBoundsQuery});
  for (const FeatureRow& row : rows) {
    bool has_all = true;
    for (const std::string_view feature : row.needs) has_all &= target.has(feature);
    if (has_all) result.set_feature(row.gives);
  }
  return result;
}

Masks masks_of(const Target& target) {
  return {target.has("avx2") || target.has("avx512f"),
          target.has("avx512bw") && target.has("avx512vl"),
          target.has("avx512f") ? 512
          : target.has("avx")   ? 256
                                : 128,
          target.architecture != Architecture::X86_64 || target.has("f16c")};
}

}  // namespace tw::codegen::halide
