// SPDX-License-Identifier: Apache-2.0
#include "codegen/peak_kernel.h"

#include <fmt/format.h>

#include <string>

namespace tw::codegen {
namespace {

// `peak_chains` is the number of independent chains of multiply-adds, and `peak_iterations` is the
// length of a chain. Several chains hide the latency of a multiply-add: 4 cycles on GPUs, where
// several warps help, and 4 cycles times 2 ports on processors. The multiplier keeps the values
// near 1. It is read from memory, so that the compiler cannot know its value.
constexpr int peak_chains = 8, peak_iterations = 512, peak_unrolled = 4;

}  // namespace

// Vectors of 16 floats fill the widest registers of processors. Compilers for GPUs split them.
PeakKernel opencl_peak_kernel() {
  std::string first, step, sum;
  for (int c = 0; c < peak_chains; ++c) {
    first += fmt::format("  float16 v{0} = scale + {0}.0f;\n", c);
    step += fmt::format("    v{0} = MULTIPLY_ADD(v{0}, scale, shift);\n", c);
    sum += fmt::format("{}v{}", c == 0 ? "" : " + ", c);
  }
  const std::string text = fmt::format(R"(
#ifdef FP_FAST_FMAF
#define MULTIPLY_ADD fma
#else
#define MULTIPLY_ADD mad
#endif
__kernel void peak(__global float* seed) {{
  const float16 scale = *seed * 0.5f, shift = 1.0f - scale;
{}  for (int i = 0; i < {}; ++i) {{
{}  }}
  const float16 sum = {};
  if (sum.s0 + sum.s7 + sum.sf == 0) *seed = 1.0f;
}})",
                                       first, peak_iterations, step, sum);
  return {{.text = text}, 64, 8, 2.0 * 16 * peak_chains * peak_iterations};
}

// The kernel is PTX, which the driver compiles. So a machine that only runs kernels needs no CUDA
// compiler.
PeakKernel cuda_peak_kernel() {
  std::string first, step, sum;
  for (int c = 0; c < peak_chains; ++c) {
    first += fmt::format("  add.rn.f32 %v{0}, %scale, 0f{1:08x};\n", c, 0x3f800000 + (c << 20));
    step += fmt::format("  fma.rn.f32 %v{0}, %v{0}, %scale, %shift;\n", c);
    if (c > 0) sum += fmt::format("  add.rn.f32 %v0, %v0, %v{};\n", c);
  }
  std::string steps;
  for (int u = 0; u < peak_unrolled; ++u) steps += step;
  const std::string text =
      fmt::format(R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry peak(.param .u64 seed)
{{
  .reg .pred %more, %zero;
  .reg .u32 %i;
  .reg .u64 %at;
  .reg .f32 %scale, %shift, %v<{}>;
  ld.param.u64 %at, [seed];
  cvta.to.global.u64 %at, %at;
  ld.global.f32 %scale, [%at];
  mul.rn.f32 %scale, %scale, 0f3f000000;
  sub.rn.f32 %shift, 0f3f800000, %scale;
{}  mov.u32 %i, 0;
again:
{}  add.u32 %i, %i, {};
  setp.lt.u32 %more, %i, {};
  @%more bra again;
{}  setp.eq.f32 %zero, %v0, 0f00000000;
  @%zero st.global.f32 [%at], 0f3f800000;
  ret;
}}
)",
                  peak_chains, first, steps, peak_unrolled, peak_iterations, sum);
  return {{.text = text}, 256, 16, 2.0 * peak_chains * peak_iterations};
}

}  // namespace tw::codegen
