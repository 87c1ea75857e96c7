// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tw::tuner {
namespace {

constexpr int iterations = 1024;
constexpr int dot_chains = 12;
constexpr int tile_iterations = 256, tile_chains = 6, dots_of_tile = 16 * 16;

/// Independent chains hide the latency: with a latency of 4 cycles on 2 ports, 8 chains are needed.
/// Many more chains would spill registers. The multiplier keeps the values near 1, away from
/// denormals and infinity.
#define TW_FMA_LOOP(name, target, vector_bytes, chains)                                            \
  target void name(volatile float* seed) {                                                         \
    typedef float Vector __attribute__((vector_size(vector_bytes)));                               \
    const Vector scale = *seed * 0.5f + Vector{}, shift = 1.0f - scale;                            \
    Vector sums[chains];                                                                           \
    for (int c = 0; c < chains; ++c) sums[c] = scale + static_cast<float>(c);                      \
    for (int i = 0; i < iterations; ++i) {                                                         \
      _Pragma("GCC unroll 16") for (int c = 0; c < chains; ++c) sums[c] = sums[c] * scale + shift; \
    }                                                                                              \
    for (int c = 1; c < chains; ++c) sums[0] += sums[c];                                           \
    *seed = sums[0][0] == 0 ? 1.0f : 1.0f + 0 * sums[0][0];                                        \
  }

/// Accesses to volatile vectors are neither merged nor hoisted.
#define TW_WINDOW_LOOPS(suffix, target, vector_bytes)                               \
  target void load_##suffix(const std::byte* data) {                                \
    typedef uint64_t Vector __attribute__((vector_size(vector_bytes)));             \
    const auto* window = reinterpret_cast<const volatile Vector*>(data);            \
    constexpr int vectors = static_cast<int>(loop_window_bytes / vector_bytes);     \
    for (int i = 0; i < iterations; ++i) {                                          \
      _Pragma("GCC unroll 64") for (int v = 0; v < vectors;                         \
                                    ++v)(void) static_cast<Vector>(window[v]);      \
    }                                                                               \
  }                                                                                 \
  target void store_##suffix(std::byte* data) {                                     \
    typedef uint64_t Vector __attribute__((vector_size(vector_bytes)));             \
    auto* window = reinterpret_cast<volatile Vector*>(data);                        \
    const Vector value = {};                                                        \
    constexpr int vectors = static_cast<int>(loop_window_bytes / vector_bytes);     \
    for (int i = 0; i < iterations; ++i) {                                          \
      _Pragma("GCC unroll 64") for (int v = 0; v < vectors; ++v) window[v] = value; \
    }                                                                               \
  }

/// The compiler keeps the reads, because the result depends on their sum.
#define TW_READ_LOOP(name, target, vector_bytes)                               \
  target uint64_t name(const std::byte* data, size_t bytes) {                  \
    typedef uint64_t Vector __attribute__((vector_size(vector_bytes)));        \
    Vector sums[8] = {};                                                       \
    for (size_t at = 0; at < bytes; at += 8 * sizeof(Vector)) {                \
      const auto* block = reinterpret_cast<const Vector*>(data + at);          \
      _Pragma("GCC unroll 8") for (int v = 0; v < 8; ++v) sums[v] += block[v]; \
    }                                                                          \
    for (int v = 1; v < 8; ++v) sums[0] += sums[v];                            \
    return sums[0][0];                                                         \
  }

/// The empty asm statement keeps the compiler from calling memcpy, which may use non-temporal
/// stores.
#define TW_COPY_LOOP(name, target, vector_bytes)                               \
  target void name(const std::byte* from, std::byte* to, size_t bytes) {       \
    typedef uint64_t Vector __attribute__((vector_size(vector_bytes)));        \
    for (size_t at = 0; at < bytes; at += 8 * sizeof(Vector)) {                \
      const auto* source = reinterpret_cast<const Vector*>(from + at);         \
      auto* sink = reinterpret_cast<Vector*>(to + at);                         \
      _Pragma("GCC unroll 8") for (int v = 0; v < 8; ++v) sink[v] = source[v]; \
      __asm__ volatile("" : : "r"(sink) : "memory");                           \
    }                                                                          \
  }

/// Twelve chains hide a latency of 5 or 6 cycles on two ports. The empty asm statements hide the
/// contents of registers from the compiler, so that it computes nothing at compile time.
#define TW_DOT_LOOP(name, target, Vector, Factor, dot)                                      \
  target void name() {                                                                      \
    Vector sums[dot_chains] = {};                                                           \
    Factor factor = {};                                                                     \
    __asm__ volatile("" : "+v"(factor));                                                    \
    for (int c = 0; c < dot_chains; ++c) __asm__ volatile("" : "+v"(sums[c]));              \
    for (int i = 0; i < iterations; ++i) {                                                  \
      _Pragma("GCC unroll 16") for (int c = 0; c < dot_chains; ++c) sums[c] = dot(sums[c]); \
    }                                                                                       \
    for (int c = 0; c < dot_chains; ++c) __asm__ volatile("" : : "v"(sums[c]));             \
  }

#define TW_LOOPS(suffix, target, vector_bytes, chains)     \
  TW_FMA_LOOP(fma_##suffix, target, vector_bytes, chains)  \
  TW_FMA_LOOP(fma_chain_##suffix, target, vector_bytes, 1) \
  TW_WINDOW_LOOPS(suffix, target, vector_bytes)

#if defined(__x86_64__)
// GCC splits vectors of 64 bytes in two unless it is told not to. Clang does not split them, and
// does not know the option.
#if defined(__clang__)
#define TW_WIDE ""
#else
#define TW_WIDE ",prefer-vector-width=512"
#endif
#define TW_AVX512 __attribute__((target("avx512f" TW_WIDE)))
#define TW_AVX2 __attribute__((target("avx2,fma")))
#define TW_AVX __attribute__((target("avx")))
TW_LOOPS(avx512, TW_AVX512, 64, 16)
TW_LOOPS(avx2, TW_AVX2, 32, 12)
TW_LOOPS(avx, TW_AVX, 32, 12)
TW_READ_LOOP(read_avx512, TW_AVX512, 64)
TW_READ_LOOP(read_avx2, TW_AVX2, 32)
TW_COPY_LOOP(copy_avx512, TW_AVX512, 64)
TW_COPY_LOOP(copy_avx2, TW_AVX2, 32)

#define TW_AVX512_WITH(feature) __attribute__((target("avx512f," feature TW_WIDE)))
#define TW_BYTES_512(sum) _mm512_dpbusd_epi32(sum, factor, factor)
#define TW_WORDS_512(sum) _mm512_madd_epi16(sum, factor)
// In Clang, an operand of an asm statement may be a vector of integers, but not a vector of bf16.
#define TW_BF16_512(sum) _mm512_dpbf16_ps(sum, (__m512bh)factor, (__m512bh)factor)
#define TW_WORDS_256(sum) _mm256_madd_epi16(sum, factor)
#define TW_WORDS_128(sum) _mm_madd_epi16(sum, factor)
TW_DOT_LOOP(byte_dots_512, TW_AVX512_WITH("avx512vnni"), __m512i, __m512i, TW_BYTES_512)
TW_DOT_LOOP(word_dots_512, TW_AVX512_WITH("avx512bw"), __m512i, __m512i, TW_WORDS_512)
TW_DOT_LOOP(bf16_dots_512, TW_AVX512_WITH("avx512bf16"), __m512, __m512i, TW_BF16_512)
TW_DOT_LOOP(word_dots_256, TW_AVX2, __m256i, __m256i, TW_WORDS_256)
TW_DOT_LOOP(word_dots_128, , __m128i, __m128i, TW_WORDS_128)

/// The configuration of eight tile registers of 16 rows of 64 bytes.
struct alignas(64) FullTiles {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr FullTiles full_tiles;

/// Six independent sums hide the latency of a product of tiles, which is 52 cycles. ldtilecfg sets
/// the registers to 0.
#define TW_TILE_LOOP(name, instruction)                                                          \
  void name() {                                                                                  \
    __asm__ volatile("ldtilecfg %0" : : "m"(full_tiles));                                        \
    for (int i = 0; i < tile_iterations; ++i)                                                    \
      __asm__ volatile(instruction                                                               \
                       " %tmm7, %tmm6, %tmm0\n" instruction " %tmm7, %tmm6, %tmm1\n" instruction \
                       " %tmm7, %tmm6, %tmm2\n" instruction " %tmm7, %tmm6, %tmm3\n" instruction \
                       " %tmm7, %tmm6, %tmm4\n" instruction " %tmm7, %tmm6, %tmm5");             \
    __asm__ volatile("tilerelease");                                                             \
  }
TW_TILE_LOOP(byte_tiles, "tdpbusd")
TW_TILE_LOOP(bf16_tiles, "tdpbf16ps")
#endif
TW_LOOPS(baseline, , 16, 12)
TW_READ_LOOP(read_baseline, , 16)
TW_COPY_LOOP(copy_baseline, , 16)

constexpr double fmas(int chains) { return static_cast<double>(iterations) * chains; }
constexpr double accesses(int vector_bytes) {
  return static_cast<double>(iterations) * static_cast<double>(loop_window_bytes) / vector_bytes;
}

#if defined(__x86_64__) || defined(__i386__)
#define TW_VECTOR_REGISTER "+x"
#elif defined(__aarch64__)
#define TW_VECTOR_REGISTER "+w"
#else
#define TW_VECTOR_REGISTER "+m"
#endif

/// Returns the loops with the widest vectors of the target, without dot products.
Loops plain_loops([[maybe_unused]] const Target& target) {
#if defined(__x86_64__)
  if (target.has("avx512f"))
    return {"avx512",    64,           fma_avx512,   fmas(16),    fma_chain_avx512, fmas(1),
            load_avx512, store_avx512, accesses(64), read_avx512, copy_avx512};
  if (target.has("avx2") && target.has("fma"))
    return {"avx2",    32,         fma_avx2,     fmas(12),  fma_chain_avx2, fmas(1),
            load_avx2, store_avx2, accesses(32), read_avx2, copy_avx2};
  // AVX alone has no integer additions of 32 bytes.
  if (target.has("avx"))
    return {"avx",    32,        fma_avx,      fmas(12),      fma_chain_avx, fmas(1),
            load_avx, store_avx, accesses(32), read_baseline, copy_baseline};
#endif
  return {"baseline",         16,
          fma_baseline,       fmas(12),
          fma_chain_baseline, fmas(1),
          load_baseline,      store_baseline,
          accesses(16),       read_baseline,
          copy_baseline};
}

}  // namespace

Loops loops_for(const Target& target) {
  Loops loops = plain_loops(target);
  loops.dots = static_cast<double>(iterations) * dot_chains;
  loops.tile_dots = static_cast<double>(tile_iterations) * tile_chains * dots_of_tile;
#if defined(__x86_64__)
  if (loops.isa == "baseline") loops.word_dots = word_dots_128;
  if (loops.isa == "avx2") loops.word_dots = word_dots_256;
  if (loops.isa == "avx512" && target.has("avx512bw")) loops.word_dots = word_dots_512;
  if (loops.isa == "avx512" && target.has("avx512_vnni")) loops.byte_dots = byte_dots_512;
  if (loops.isa == "avx512" && target.has("avx512_bf16")) loops.bf16_dots = bf16_dots_512;
  if (target.has("amx_tile") && target.has("amx_int8")) loops.byte_tiles = byte_tiles;
  if (target.has("amx_tile") && target.has("amx_bf16")) loops.bf16_tiles = bf16_tiles;
#endif
  return loops;
}

// The empty asm statements hide from the compiler what a register holds, so that it cannot compute
// the sums itself.

void addition_chain() {
  uint64_t sum = 0, term = 1;
  __asm__ volatile("" : "+r"(term));
  for (int i = 0; i < iterations; ++i) {
    _Pragma("GCC unroll 16") for (int k = 0; k < 16; ++k) {
      sum += term;
      __asm__ volatile("" : "+r"(sum));
    }
  }
}

void instruction_mix(const std::byte* data) {
  typedef uint64_t Vector __attribute__((vector_size(16)));
  constexpr int registers = 8;
  const auto* window = reinterpret_cast<const volatile uint64_t*>(data);
  uint64_t sums[registers] = {}, term = 1;
  Vector vectors[registers] = {}, vector_term = {};
  __asm__ volatile("" : "+r"(term), TW_VECTOR_REGISTER(vector_term));
  for (int i = 0; i < iterations; ++i) {
    _Pragma("GCC unroll 16") for (int k = 0; k < 16; ++k) {
      uint64_t &first = sums[2 * k % registers], &second = sums[(2 * k + 1) % registers];
      Vector& vector = vectors[k % registers];
      first += term;
      __asm__ volatile("" : "+r"(first));
      second += term;
      __asm__ volatile("" : "+r"(second));
      vector += vector_term;
      __asm__ volatile("" : TW_VECTOR_REGISTER(vector));
      (void)window[k];
    }
  }
}

}  // namespace tw::tuner
