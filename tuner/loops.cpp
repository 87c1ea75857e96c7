// SPDX-License-Identifier: Apache-2.0
#include "tuner/loops.h"

namespace tw::tuner {
namespace {

constexpr int iterations = 1024;

/// Independent chains hide the latency: 4 cycles times 2 ports need 8; more than the registers
/// spill. The multiplier keeps the values near 1, away from denormals and infinity.
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

/// The sum keeps the reads alive.
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

/// The empty statement keeps the compiler from calling memcpy, which may use non-temporal stores.
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

#define TW_LOOPS(suffix, target, vector_bytes, chains)     \
  TW_FMA_LOOP(fma_##suffix, target, vector_bytes, chains)  \
  TW_FMA_LOOP(fma_chain_##suffix, target, vector_bytes, 1) \
  TW_WINDOW_LOOPS(suffix, target, vector_bytes)

#if defined(__x86_64__)
#define TW_AVX512 __attribute__((target("avx512f,prefer-vector-width=512")))
#define TW_AVX2 __attribute__((target("avx2,fma")))
#define TW_AVX __attribute__((target("avx")))
TW_LOOPS(avx512, TW_AVX512, 64, 16)
TW_LOOPS(avx2, TW_AVX2, 32, 12)
TW_LOOPS(avx, TW_AVX, 32, 12)
TW_READ_LOOP(read_avx512, TW_AVX512, 64)
TW_READ_LOOP(read_avx2, TW_AVX2, 32)
TW_COPY_LOOP(copy_avx512, TW_AVX512, 64)
TW_COPY_LOOP(copy_avx2, TW_AVX2, 32)
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

}  // namespace

Loops loops_for([[maybe_unused]] const Target& target) {
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

// The empty statements hide from the compiler what a register holds, so that it cannot add up.

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
