// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/prelude.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>
#include <span>
#include <vector>

#include "base/result.h"
#include "codegen/c_prelude.h"

namespace tw::codegen {
namespace {

// Functions on integers of the type INT; UINT is the unsigned type of the same size. S is the
// suffix of the functions' names.
// clang-format off
#define INTEGER_FUNCTIONS(S, INT, UINT)                                                       \
  {"tw_floor_div" S "(", "INLINE " INT " tw_floor_div" S "(" INT " a, " INT " b) {\n"         \
   "  return a / b - (a % b < 0);\n"                                                          \
   "}\n"},                                                                                    \
  {"tw_floor_mod" S "(", "INLINE " INT " tw_floor_mod" S "(" INT " a, " INT " b) {\n"         \
   "  return a % b + (a % b < 0 ? b : 0);\n"                                                  \
   "}\n"},                                                                                    \
  {"tw_div" S "(", "INLINE " INT " tw_div" S "(" INT " a, " INT " b) {\n"                     \
   "  if (b == 0) return 0;\n"                                                                \
   "  if (b == -1) return (" INT ")(0 - (" UINT ")a);\n"                                      \
   "  return a / b - (a % b != 0 && (a < 0) != (b < 0));\n"                                   \
   "}\n"},                                                                                    \
  {"tw_mod" S "(", "INLINE " INT " tw_mod" S "(" INT " a, " INT " b) {\n"                     \
   "  if (b == 0 || b == -1) return 0;\n"                                                     \
   "  return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);\n"                           \
   "}\n"},                                                                                    \
  {"tw_min" S "(",                                                                            \
   "INLINE " INT " tw_min" S "(" INT " a, " INT " b) { return a < b ? a : b; }\n"},           \
  {"tw_max" S "(",                                                                            \
   "INLINE " INT " tw_max" S "(" INT " a, " INT " b) { return a > b ? a : b; }\n"},           \
  {"tw_abs" S "(",                                                                            \
   "INLINE " INT " tw_abs" S "(" INT " a) { return a < 0 ? (" INT ")(0 - (" UINT ")a) : a; }\n"}
// clang-format on

// Functions of all dialects. Each dialect defines INLINE, LONG, ULONG, FLOAT_BITS and BITS_FLOAT.
// No function calls another function, except those of tensor tiles and those that pack.
constexpr PreludeFunction shared_functions[] = {
    INTEGER_FUNCTIONS("", "int", "unsigned"),
    INTEGER_FUNCTIONS("_i64", "LONG", "ULONG"),
    {"tw_from_bf16(", R"(INLINE float tw_from_bf16(unsigned short bits) {
  return BITS_FLOAT((unsigned)bits << 16);
}
)"},
    {"tw_whole_to_odd(", R"(INLINE float tw_whole_to_odd(LONG value) {
  ULONG bits = value < 0 ? 0 - (ULONG)value : (ULONG)value, lost = 0;
  float unit = value < 0 ? -1.0f : 1.0f;
  for (; bits >> 24; bits >>= 1, unit *= 2.0f) lost |= bits & 1;
  return (float)(bits | lost) * unit;
}
)"},
    {"tw_to_i64(", R"(INLINE LONG tw_to_i64(float v) {
  if (v != v) return 0;
  if (v <= -9223372036854775808.0f) return -9223372036854775807 - 1;
  return v >= 9223372036854775808.0f ? 9223372036854775807 : (LONG)v;
}
)"},
    {"tw_to_i32(", R"(INLINE int tw_to_i32(float v) {
  if (v != v) return 0;
  return v <= -2147483648.0f ? -2147483647 - 1 : v >= 2147483648.0f ? 2147483647 : (int)v;
}
)"},
    {"tw_to_u32(", R"(INLINE unsigned tw_to_u32(float v) {
  if (v != v) return 0;
  return v <= 0.0f ? 0 : v >= 4294967296.0f ? 4294967295u : (unsigned)v;
}
)"},
    {"tw_to_i16(", R"(INLINE short tw_to_i16(float v) {
  if (v != v) return 0;
  return v <= -32768.0f ? -32768 : v >= 32767.0f ? 32767 : (short)v;
}
)"},
    {"tw_to_u16(", R"(INLINE unsigned short tw_to_u16(float v) {
  if (v != v) return 0;
  return v <= 0.0f ? 0 : v >= 65535.0f ? 65535 : (unsigned short)v;
}
)"},
    {"tw_to_i8(", R"(INLINE signed char tw_to_i8(float v) {
  if (v != v) return 0;
  return v <= -128.0f ? -128 : v >= 127.0f ? 127 : (signed char)v;
}
)"},
    {"tw_to_u8(", R"(INLINE unsigned char tw_to_u8(float v) {
  if (v != v) return 0;
  return v <= 0.0f ? 0 : v >= 255.0f ? 255 : (unsigned char)v;
}
)"},
    // Converts the dense index of an element of `bytes` bytes to its index in swizzled memory.
    {"tw_swizzled<", R"(template <int swizzle, int bytes, typename Index>
INLINE Index tw_swizzled(Index i) {
  return i ^ ((i / (128 / bytes) & (swizzle / 16 - 1)) * (16 / bytes));
}
)"},
    {"tw_to_bool(", R"(INLINE unsigned char tw_to_bool(float v) { return v == v && v != 0.0f; }
)"},
};
#undef INTEGER_FUNCTIONS

// Functions and macros that the host emulator defines in another way.
constexpr PreludeFunction cuda_functions[] = {
    {"tw_shared", R"(extern __shared__ __align__(1024) uint4 tw_shared[];
)"},
    {"TW_NAN", R"(#define TW_NAN __int_as_float(0x7fffffff)
)"},
    {"TW_INFINITY", R"(#define TW_INFINITY __int_as_float(0x7f800000)
)"},
    // Copies by cp.async. GPUs before sm_80 lack the instruction and copy synchronously. Only
    // copies of 16 bytes can bypass L1. If the condition fails, zeros are written and nothing is
    // read.
    {"tw_copy_async<", R"(template <int bytes>
INLINE void tw_copy_async(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(bytes)
                 : "memory");
#else
  struct alignas(bytes) Words {
    int words[bytes / 4];
  };
  *(Words*)to = *(const Words*)from;
#endif
}
template <int bytes>
INLINE void tw_copy_async(void* to, const void* from, bool exists) {
#if __CUDA_ARCH__ >= 800
  const unsigned at = (unsigned)__cvta_generic_to_shared(to), read = exists ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(read)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(bytes),
                 "r"(read)
                 : "memory");
#else
  struct alignas(bytes) Words {
    int words[bytes / 4];
  };
  *(Words*)to = exists ? *(const Words*)from : Words{};
#endif
}
)"},
    {"tw_commit(", R"(INLINE void tw_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
)"},
    {"tw_wait<", R"(template <int pending>
INLINE void tw_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}
)"},
    // Returns the value of the lane whose index is the index of this lane xor `mask`.
    {"tw_shuffle(", R"(INLINE float tw_shuffle(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
INLINE int tw_shuffle(int value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
)"},
    // tw_tensor_map stands for CUtensorMap. TMA exists only on sm_90 and newer. Programs for older
    // targets have no TMA copies, because the check of legality rejects them.
    {"tw_tensor_map", R"(struct __align__(128) tw_tensor_map {
  unsigned long long words[16];
};
)"},
    // Each phase of an mbarrier of TMA copies expects one arrival, by the thread that has issued
    // all copies of a commit group, and the bytes of these copies. The fences make the mbarriers
    // visible to the copy engine.
    {"tw_open_barriers(", R"(INLINE void tw_open_barriers(unsigned long long* barriers, int count,
                             int arrivals) {
#if __CUDA_ARCH__ >= 900
  for (int i = 0; i < count; ++i) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(&barriers[i]);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  __trap();
#endif
}
)"},
    {"tw_copy_box<", R"(template <int rank>
INLINE void tw_copy_box(void* to, const tw_tensor_map& map, unsigned long long* barrier, int bytes,
                        int c0, int c1 = 0, int c2 = 0, int c3 = 0, int c4 = 0) {
#if __CUDA_ARCH__ >= 900
#define TW_COPY_BOX(dimensions, indices)                                                     \
  asm volatile("cp.async.bulk.tensor." dimensions                                            \
               ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" indices \
               "}], [%2];" ::"r"(at),                                                        \
               "l"(&map), "r"(barrier_at), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)       \
               : "memory")
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  const unsigned barrier_at = (unsigned)__cvta_generic_to_shared(barrier);
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier_at),
               "r"(bytes)
               : "memory");
  if constexpr (rank == 1) TW_COPY_BOX("1d", "%3");
  if constexpr (rank == 2) TW_COPY_BOX("2d", "%3, %4");
  if constexpr (rank == 3) TW_COPY_BOX("3d", "%3, %4, %5");
  if constexpr (rank == 4) TW_COPY_BOX("4d", "%3, %4, %5, %6");
  if constexpr (rank == 5) TW_COPY_BOX("5d", "%3, %4, %5, %6, %7");
#undef TW_COPY_BOX
#else
  __trap();
#endif
}
)"},
    {"tw_arrive(", R"(INLINE void tw_arrive(unsigned long long* barrier) {
#if __CUDA_ARCH__ >= 900
  const unsigned at = (unsigned)__cvta_generic_to_shared(barrier);
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
#else
  __trap();
#endif
}
)"},
    // Makes one arrival at the mbarrier for the whole warp.
    {"tw_leave(", R"(INLINE void tw_leave(unsigned long long* barrier) {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  const unsigned at = (unsigned)__cvta_generic_to_shared(barrier);
  if (threadIdx.x % 32 == 0)
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
#else
  __trap();
#endif
}
)"},
    // A barrier of the first `threads` threads of a block. These threads must be whole warps.
    {"tw_sync<", R"(template <int threads>
INLINE void tw_sync() {
  asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory");
}
)"},
    // The four warps of a warpgroup together give registers up, or receive more. The instruction
    // exists only in code for a single architecture, such as sm_90a; in other code these functions
    // do nothing.
    {"tw_fewer_registers<", R"(template <int registers>
INLINE void tw_fewer_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
#endif
}
)"},
    {"tw_more_registers<", R"(template <int registers>
INLINE void tw_more_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
#endif
}
)"},
    {"tw_wait_at(", R"(INLINE void tw_wait_at(unsigned long long* barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  const unsigned at = (unsigned)__cvta_generic_to_shared(barrier);
  unsigned done;
  do {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(at), "r"(parity)
        : "memory");
  } while (done == 0);
#else
  __trap();
#endif
}
)"},
    {"tw_from_f16(", R"(INLINE float tw_from_f16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
)"},
    {"tw_to_f16(", R"(INLINE unsigned short tw_to_f16(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
)"},
};

// Conversions to 16-bit floats by instructions of sm_80 and newer. A pair is in one register, with
// the first number in the lower half. The instructions convert all NaNs to the same NaN.
constexpr PreludeFunction rounding_functions[] = {
    {"tw_to_bf16(", R"(INLINE unsigned short tw_to_bf16(float value) {
#if __CUDA_ARCH__ >= 800
  unsigned short rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return rounded;
#else
  const unsigned bits = FLOAT_BITS(value);
  if (value != value) return (unsigned short)((bits >> 16) | 0x40);
  return (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
}
)"},
};
constexpr PreludeFunction packing_functions[] = {
    {"tw_pack_bf16(", R"(INLINE unsigned tw_pack_bf16(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return tw_to_bf16(low) | (unsigned)tw_to_bf16(high) << 16;
#endif
}
)"},
    {"tw_pack_f16(", R"(INLINE unsigned tw_pack_f16(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return tw_to_f16(low) | (unsigned)tw_to_f16(high) << 16;
#endif
}
)"},
};

// Tensor tiles that need more than one instruction, built from functions for single instructions.
// Tensor cores truncate when they add. So each time the number of terms of a sum doubles, a sum
// inside of a tensor core loses another bit of its f32. Therefore the products of split tf32 are
// added to the sums outside of tensor cores (Ootomo and Yokota, arXiv 2203.03341).
constexpr PreludeFunction tile_functions[] = {
    {"tw_mma_m16n8k8_tf32(", R"(INLINE void tw_mma_m16n8k8_tf32(
    float& c0, float& c1, float& c2, float& c3,
    float a0, float a1, float a2, float a3, float b0, float b1) {
  tw_mma_tf32(c0, c1, c2, c3, tw_to_tf32(a0), tw_to_tf32(a1), tw_to_tf32(a2), tw_to_tf32(a3),
              tw_to_tf32(b0), tw_to_tf32(b1));
}
)"},
    {"tw_mma_m16n8k8_3xtf32(", R"(INLINE void tw_mma_m16n8k8_3xtf32(
    float& c0, float& c1, float& c2, float& c3,
    float a0, float a1, float a2, float a3, float b0, float b1) {
  const unsigned big_a0 = tw_big(a0), big_a1 = tw_big(a1);
  const unsigned big_a2 = tw_big(a2), big_a3 = tw_big(a3);
  const unsigned big_b0 = tw_big(b0), big_b1 = tw_big(b1);
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  tw_mma_tf32(d0, d1, d2, d3, tw_small(a0), tw_small(a1), tw_small(a2), tw_small(a3),
              big_b0, big_b1);
  tw_mma_tf32(d0, d1, d2, d3, big_a0, big_a1, big_a2, big_a3, tw_small(b0), tw_small(b1));
  tw_mma_tf32(d0, d1, d2, d3, big_a0, big_a1, big_a2, big_a3, big_b0, big_b1);
  c0 += d0;
  c1 += d1;
  c2 += d2;
  c3 += d3;
}
)"},
};

// Conversions to tf32, which is an f32 whose last 13 bits are zeros. They are plain arithmetic, so
// the compiler does them once for all tiles that share a factor. It would repeat cvt.rna.tf32 in
// assembler for each tile. NaN stays NaN, because the first bit of its significand is in the big
// part.
constexpr PreludeFunction tile_parts[] = {
    {"tw_to_tf32(", R"(INLINE unsigned tw_to_tf32(float value) {
  const unsigned bits = FLOAT_BITS(value);
  return value != value ? bits : (bits + 0x1000u) & 0xffffe000u;
}
)"},
    {"tw_big(", R"(INLINE unsigned tw_big(float value) {
  return FLOAT_BITS(value) & 0xffffe000u;
}
)"},
    {"tw_small(", R"(INLINE unsigned tw_small(float value) {
  const float rest = value - BITS_FLOAT(FLOAT_BITS(value) & 0xffffe000u);
  return (FLOAT_BITS(rest) + 0x1000u) & 0xffffe000u;
}
)"},
};

// Defines the function of a tile's instruction. SUM is the type of its sums, and BY is the
// constraint for sums in the assembler statement. The statement is not volatile, so a factor that
// several tiles share is loaded once (NVRTC 13.0, 2 x 4 tiles by 2: 16 loads instead of 48).
// Compilers do not move assembler into a divergent branch.
// clang-format off
#define TILE_INSTRUCTION(NAME, SHAPE, TYPES, SUM, BY)                                            \
  {NAME "(", "INLINE void " NAME "(\n"                                                           \
   "    " SUM "& c0, " SUM "& c1, " SUM "& c2, " SUM "& c3,\n"                                   \
   "    unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {\n"       \
   "  asm(\n"                                                                                    \
   "      \"mma.sync.aligned." SHAPE ".row.col." TYPES " \"\n"                                   \
   "      \"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"                 \
   "      : \"+" BY "\"(c0), \"+" BY "\"(c1), \"+" BY "\"(c2), \"+" BY "\"(c3)\n"                \
   "      : \"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), \"r\"(b0), \"r\"(b1));\n"                \
   "}\n"}
// clang-format on
constexpr PreludeFunction tile_instructions[] = {
    TILE_INSTRUCTION("tw_mma_tf32", "m16n8k8", "f32.tf32.tf32.f32", "float", "f"),
    TILE_INSTRUCTION("tw_mma_m16n8k16_f16", "m16n8k16", "f32.f16.f16.f32", "float", "f"),
    TILE_INSTRUCTION("tw_mma_m16n8k16_bf16", "m16n8k16", "f32.bf16.bf16.f32", "float", "f"),
    TILE_INSTRUCTION("tw_mma_m16n8k32_s8", "m16n8k32", "s32.s8.s8.s32", "int", "r"),
};
#undef TILE_INSTRUCTION

// Descriptors of matrices in shared memory, for instructions of a warpgroup (PTX ISA, "Matrix
// Descriptor Format" and "Strides"). A descriptor has the following fields. Addresses and offsets
// are in units of 16 bytes.
//
//   from bit 0    the address of the matrix
//   from bit 16   the leading byte offset
//   from bit 32   the stride byte offset
//   from bit 62   the kind of swizzle
//
// If the matrix is K-major, the stride byte offset is the step from eight rows to the next eight,
// and the leading byte offset has no meaning. If the matrix is MN-major, the leading byte offset is
// the step from 64 adjacent rows to the next 64, and the stride byte offset is the step from eight
// terms to the next eight.
constexpr PreludeFunction descriptor_functions[] = {
    {"tw_descriptor<", R"(template <int swizzle>
INLINE ULONG tw_descriptor(const void* first) {
  const ULONG mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return (tw_shared_address(first) & 0x3ffff) >> 4 | (ULONG)1 << 16 |
         (ULONG)(8 * swizzle / 16) << 32 | mode << 62;
}
)"},
    {"tw_descriptor_mn<", R"(template <int swizzle, int group_bytes>
INLINE ULONG tw_descriptor_mn(const void* first) {
  const ULONG mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return (tw_shared_address(first) & 0x3ffff) >> 4 | (ULONG)(group_bytes / 16) << 16 |
         (ULONG)(8 * swizzle / 16) << 32 | mode << 62;
}
)"},
};

// The fence and the wait have the accumulators as operands, because between the two the
// instructions own the registers. The operands keep the compiler from moving code that accesses
// accumulators there.
constexpr PreludeFunction warpgroup_functions[] = {
    {"tw_descriptor", R"(INLINE ULONG tw_shared_address(const void* in) {
  return (ULONG)__cvta_generic_to_shared(in);
}
)"},
    {"tw_fence_async(", R"(INLINE void tw_fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
)"},
    {"tw_wgmma_fence(",
     R"(INLINE void tw_wgmma_pass(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }
INLINE void tw_wgmma_pass(int& sum) { asm volatile("" : "+r"(sum)::"memory"); }
template <typename Sum, int count>
INLINE void tw_wgmma_fence(Sum (&sums)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) tw_wgmma_pass(sums[i]);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
)"},
    {"tw_wgmma_commit(", R"(INLINE void tw_wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
)"},
    {"tw_wgmma_wait(", R"(template <typename Sum, int count>
INLINE void tw_wgmma_wait(Sum (&sums)[count]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < count; ++i) tw_wgmma_pass(sums[i]);
}
)"},
};

constexpr PreludeFunction opencl_functions[] = {
    {"tw_to_bf16(", R"(INLINE unsigned short tw_to_bf16(float value) {
  const unsigned bits = FLOAT_BITS(value);
  if (value != value) return (unsigned short)((bits >> 16) | 0x40);
  return (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
)"},
    {"tw_from_f16(", R"(INLINE float tw_from_f16(unsigned short bits) {
  return vload_half(0, (const half*)&bits);
}
)"},
    {"tw_to_f16(", R"(INLINE unsigned short tw_to_f16(float value) {
  unsigned short bits;
  vstore_half_rte(value, 0, (half*)&bits);
  return bits;
}
)"},
};

/// Words that are reserved in addition to those of C: keywords, names that kernels call, and names
/// that compilers define.
constexpr std::string_view gpu_words[] = {"INFINITY",
                                          "NAN",
                                          "acos",
                                          "as_float",
                                          "as_uint",
                                          "asin",
                                          "barrier",
                                          "block",
                                          "blockDim",
                                          "blockIdx",
                                          "char16",
                                          "char2",
                                          "char4",
                                          "char8",
                                          "clamp",
                                          "complex",
                                          "constant",
                                          "cos",
                                          "double2",
                                          "double4",
                                          "erf",
                                          "event_t",
                                          "exp",
                                          "fabs",
                                          "float2",
                                          "float4",
                                          "floor",
                                          "fmax",
                                          "fmin",
                                          "get_group_id",
                                          "get_local_id",
                                          "global",
                                          "gridDim",
                                          "half",
                                          "image2d_t",
                                          "imaginary",
                                          "int2",
                                          "int4",
                                          "kernel",
                                          "linux",
                                          "local",
                                          "log",
                                          "max",
                                          "min",
                                          "pipe",
                                          "pow",
                                          "rint",
                                          "sin",
                                          "read_only",
                                          "read_write",
                                          "sampler_t",
                                          "scratch",
                                          "size_t",
                                          "sqrt",
                                          "tanh",
                                          "thread",
                                          "threadIdx",
                                          "uchar",
                                          "uchar16",
                                          "uchar2",
                                          "uchar4",
                                          "uchar8",
                                          "uint",
                                          "uint2",
                                          "uint4",
                                          "ulong",
                                          "uniform",
                                          "unix",
                                          "ushort",
                                          "ushort2",
                                          "ushort4",
                                          "ushort8",
                                          "vec_step",
                                          "vload16",
                                          "vload2",
                                          "vload4",
                                          "vload8",
                                          "vload_half",
                                          "vstore16",
                                          "vstore2",
                                          "vstore4",
                                          "vstore8",
                                          "vstore_half_rte",
                                          "warpSize",
                                          "write_only",
                                          "nullptr",
                                          "static_assert",
                                          "decltype",
                                          "noexcept",
                                          "concept",
                                          "requires",
                                          "thread_local",
                                          "wchar_t",
                                          "dynamic_cast",
                                          "static_cast",
                                          "const_cast",
                                          "reinterpret_cast",
                                          "typeid",
                                          "char16_t",
                                          "char32_t",
                                          "bitand",
                                          "bitor",
                                          "compl",
                                          "and_eq",
                                          "or_eq",
                                          "xor_eq",
                                          "not_eq"};

using Words = std::span<const std::pair<std::string_view, std::string_view>>;

constexpr std::pair<std::string_view, std::string_view> cuda_words[] = {
    {"INLINE", "static __device__ inline"},
    {"ULONG", "unsigned long long"},
    {"LONG", "long long"},
    {"FLOAT_BITS", "__float_as_uint"},
    {"BITS_FLOAT", "__uint_as_float"}};
constexpr std::pair<std::string_view, std::string_view> opencl_words[] = {
    {"INLINE", "static inline"},
    {"ULONG", "ulong"},
    {"LONG", "long"},
    {"FLOAT_BITS", "as_uint"},
    {"BITS_FLOAT", "as_float"}};

std::string in_words(std::string_view text, Words dialect) {
  std::string result(text);
  for (const auto& [word, spelling] : dialect)
    for (size_t at = 0; (at = result.find(word, at)) != std::string::npos; at += spelling.size())
      result.replace(at, word.size(), spelling);
  return result;
}

/// Returns "a, b, ..." with a line break after every eight items.
std::string wrapped(const std::vector<std::string>& items, std::string_view line_break) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i % 8 == 0 ? line_break : ", ";
    text += items[i];
  }
  return text;
}

std::string functions_for(std::string_view body, std::span<const PreludeFunction> functions,
                          Words dialect) {
  std::string text;
  for (const PreludeFunction& function : functions)
    if (body.find(function.name) != std::string_view::npos)
      text += in_words(function.text, dialect);
  return text;
}

/// Returns the definition of a function such as `tw_wgmma_m64n128k16_bf16(sums, a, b)`, for any
/// number of columns. A suffix as in `..._bf16_tb` names the factors that are MN-major. A lane has
/// sums of two rows, eight rows apart. In `sums`, all sums of the first row, in pairs of adjacent
/// columns, stand before those of the second row. The instruction expects a pair of the first row,
/// a pair of the second row, and so on.
std::string warpgroup_instruction(const std::string& name) {
  int columns = 0, depth = 0;
  char type[16] = "";
  TW_CHECK(std::sscanf(name.c_str(), "tw_wgmma_m64n%dk%d_%15s", &columns, &depth, type) == 3);
  std::string operand = type, transposed;
  if (const size_t at = operand.find("_t"); at != std::string::npos) {
    transposed = operand.substr(at + 2);
    operand.resize(at);
  }
  const auto is_transposed = [&](char factor) {
    return transposed.find(factor) != std::string::npos;
  };
  const bool is_integer = operand == "s8";
  const int count = columns / 2;
  std::vector<std::string> registers, sums;
  for (int i = 0; i < count; ++i) {
    registers.push_back(fmt::format("%{}", i));
    sums.push_back(fmt::format("\"+{}\"(d[{}])", is_integer ? "r" : "f",
                               i / 2 % 2 * count / 2 + i / 4 * 2 + i % 2));
  }
  // The operands say: add to the sums, do not negate factors, and transpose 16-bit factors that are
  // MN-major.
  const std::string flags =
      is_integer ? "p"
      : operand == "tf32"
          ? "p, 1, 1"
          : fmt::format("p, 1, 1, {:d}, {:d}", is_transposed('a'), is_transposed('b'));
  return fmt::format(R"(INLINE void {}({}* d, ULONG a, ULONG b) {{
  asm volatile(
      "{{.reg .pred p; setp.eq.u32 p, 0, 0; "
      "wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} "
      "{{{}}}, "
      "%{}, %{}, {};}}"
      : {}
      : "l"(a), "l"(b));
}}
)",
                     name, is_integer ? "int" : "float", columns, depth, is_integer ? "s32" : "f32",
                     operand, operand, wrapped(registers, ", \"\n      \""), count, count + 1,
                     flags, wrapped(sums, ",\n        "));
}

std::string warpgroup_instructions_for(std::string_view body) {
  constexpr std::string_view prefix = "tw_wgmma_m64n";
  std::set<std::string> names;
  for (size_t at = body.find(prefix); at != std::string_view::npos; at = body.find(prefix, at + 1))
    names.emplace(body.substr(at, body.find('(', at) - at));
  std::string text;
  for (const std::string& name : names) text += in_words(warpgroup_instruction(name), cuda_words);
  return text;
}

}  // namespace

std::string cuda_functions_for(std::string_view body) {
  const std::string tiles = functions_for(body, tile_functions, cuda_words);
  const std::string packing = functions_for(body, packing_functions, cuda_words);
  const std::string rounded = packing + std::string(body);
  const std::string own = functions_for(rounded, cuda_functions, cuda_words) +
                          functions_for(tiles + std::string(body), tile_instructions, cuda_words) +
                          functions_for(body, warpgroup_functions, cuda_words) +
                          warpgroup_instructions_for(body);
  std::string text = functions_for(body, shared_functions, cuda_words) +
                     functions_for(rounded, rounding_functions, cuda_words) + packing +
                     functions_for(body, descriptor_functions, cuda_words) +
                     functions_for(tiles, tile_parts, cuda_words) + tiles;
  if (!own.empty()) text.insert(0, fmt::format("#ifndef TW_HOST_TWIN\n{}#endif\n", own));
  return text.empty() ? text : text + "\n";
}

std::string opencl_functions_for(std::string_view body) {
  const std::string text = functions_for(body, opencl_functions, opencl_words) +
                           functions_for(body, shared_functions, opencl_words);
  return text.empty() ? text : text + "\n";
}

bool is_reserved_on_gpu(std::string_view word) {
  return is_reserved_in_c(word) ||
         std::find(std::begin(gpu_words), std::end(gpu_words), word) != std::end(gpu_words);
}

}  // namespace tw::codegen
