// SPDX-License-Identifier: Apache-2.0
// Implements host_emulator_prelude(): defines the words of CUDA C++ that kernels use in C++ for the
// processor.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "codegen/c_prelude.h"
#include "codegen/gpu/host_emulator.h"

namespace tw::codegen {
namespace {

// All static shared arrays are in one section, so that all of them can be filled with the pattern
// at once; the linker defines symbols for the section's begin and end. A barrier is identified by
// its source line.
constexpr std::string_view prelude = R"(#define TW_HOST_TWIN
#include <math.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(threads, blocks)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("tw_shared_arrays")))
#define __syncthreads() (tw_pass_fence(), tw_barrier(__LINE__))
#define TW_NAN __builtin_nanf("")
#define TW_INFINITY __builtin_inff()

struct __align__(8) float2 { float x, y; };
struct __align__(16) float4 { float x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };

extern "C" {
struct tw_index { unsigned x; };
tw_index blockIdx, threadIdx, gridDim;
void (*tw_barrier)(int line);
void (*tw_warp_barrier)(int line, int threads);
void (*tw_fail)(const char* what);
void (*tw_defer)(void* to, const void* value, int bytes);
void (*tw_commit)();
void (*tw_wait_for)(int pending);
struct tw_tensor_map { void* map; };
void (*tw_begin_box)(void* to, const tw_tensor_map* map, void* barrier, int bytes, int rank,
                     const int* first);
void (*tw_open_barrier)(void* barrier, int arrivals);
void (*tw_barrier_of)(int line, int threads);
void (*tw_arrive_at)(void* barrier);
void (*tw_wait_for_parity)(void* barrier, int parity);
unsigned char* tw_shared;
extern unsigned char __start_tw_shared_arrays[] __attribute__((weak));
extern unsigned char __stop_tw_shared_arrays[] __attribute__((weak));
unsigned char* tw_shared_begin() { return __start_tw_shared_arrays; }
unsigned char* tw_shared_end() { return __stop_tw_shared_arrays; }
int64_t tw_dynamic_bytes;
}

// For each thread: has it put a fence between its stores and warpgroup instructions after the next
// barrier, and had it done so at the last barrier.
static bool tw_fenced[1024], tw_may_read[1024];
static inline void tw_fence_async() { tw_fenced[threadIdx.x] = true; }
static inline void tw_pass_fence() {
  tw_may_read[threadIdx.x] = tw_fenced[threadIdx.x];
  tw_fenced[threadIdx.x] = false;
}

static inline unsigned __float_as_uint(float value) {
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline float __uint_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Returns the value of the lane whose number is this lane's xor the mask.
template <typename T> static T tw_shuffle(T value, int mask) {
  static T values[1024];
  values[threadIdx.x] = value;
  tw_warp_barrier(7, 32);
  const T other = values[threadIdx.x ^ (unsigned)mask];
  tw_warp_barrier(8, 32);
  return other;
}

template <int bytes> struct alignas(bytes) tw_words { unsigned char byte[bytes]; };
template <int bytes>
static void tw_copy_async(void* to, const void* from, bool exists = true) {
  tw_words<bytes> value = {};
  if (exists) value = *(const tw_words<bytes>*)from;
  *(tw_words<bytes>*)to = value;
  tw_defer(to, &value, bytes);
}
template <int pending> static void tw_wait() { tw_wait_for(pending); }
template <int rank>
static void tw_copy_box(void* to, const tw_tensor_map& map, unsigned long long* barrier, int bytes,
                        int c0, int c1 = 0, int c2 = 0, int c3 = 0, int c4 = 0) {
  const int first[] = {c0, c1, c2, c3, c4};
  tw_begin_box(to, &map, barrier, bytes, rank, first);
}
static inline void tw_open_barriers(unsigned long long* barriers, int count, int arrivals) {
  for (int i = 0; i < count; ++i) tw_open_barrier(&barriers[i], arrivals);
}
static inline void tw_arrive(unsigned long long* barrier) { tw_arrive_at(barrier); }
static inline void tw_leave(unsigned long long* barrier) {
  tw_warp_barrier(9, 32);
  if (threadIdx.x % 32 == 0) tw_arrive_at(barrier);
}
template <int threads> static void tw_sync(int line = __builtin_LINE()) {
  tw_pass_fence();
  tw_barrier_of(line, threads);
}
template <int registers> static void tw_fewer_registers() {}
template <int registers> static void tw_more_registers() {}
static inline void tw_wait_at(unsigned long long* barrier, int parity) {
  tw_wait_for_parity(barrier, parity);
  tw_may_read[threadIdx.x] = true;  // the engine writes where instructions of warpgroups read
}

template <typename A> struct tw_argument {
  static A of(void* pointer) { return (A)pointer; }
};
template <> struct tw_argument<tw_tensor_map> {
  static tw_tensor_map of(void* pointer) { return {pointer}; }
};
template <int... i> struct tw_numbers {};
template <typename... A, int... i>
static void tw_call(void (*kernel)(A...), void* const* arguments, tw_numbers<i...>) {
  kernel(tw_argument<A>::of(arguments[i])...);
}
template <typename... A>
static void tw_call(void (*kernel)(A...), void* const* arguments) {
  tw_call(kernel, arguments, tw_numbers<__integer_pack((int)sizeof...(A))...>());
}

)";

// Instructions of tensor tiles. Each lane publishes its factors for the other lanes of the warp.
// Then it reads the factors that the hardware would combine with its own (PTX ISA, "Matrix
// Fragments for mma.m16n8k8" and the next sections).
constexpr std::string_view tensor_prelude = R"(
static unsigned tw_factors[1024][6];  // registers of each thread: a0 to a3, b0 and b1

// What an instruction adds up. Of floats the products are exact, and the sum is cut off to an f32.
template <typename Sum> struct tw_total;
template <> struct tw_total<float> {
  double value;
  void add(float a, float b) { value += (double)a * b; }
  float sum() const {
    const float nearest = (float)value;
    if (!(fabs((double)nearest) > fabs(value)) || __builtin_isinf(nearest)) return nearest;
    unsigned bits;
    memcpy(&bits, &nearest, sizeof bits);
    return __uint_as_float(bits - 1);
  }
};
template <> struct tw_total<int> {
  unsigned value;
  void add(int a, int b) { value += (unsigned)(a * b); }
  int sum() const { return (int)value; }
};

// `packed` elements in a register; `element` takes one from it.
template <int packed, typename Sum, typename Element>
static void tw_mma(Sum& c0, Sum& c1, Sum& c2, Sum& c3, unsigned a0, unsigned a1, unsigned a2,
                   unsigned a3, unsigned b0, unsigned b1, Element element) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  const unsigned own[6] = {a0, a1, a2, a3, b0, b1};
  memcpy(tw_factors[threadIdx.x], own, sizeof own);
  tw_warp_barrier(1, 32);
  Sum* const sums[4] = {&c0, &c1, &c2, &c3};
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    tw_total<Sum> total{(decltype(tw_total<Sum>::value))*sums[i]};
    for (unsigned k = 0; k < 8 * packed; ++k) {
      const unsigned of_four = k / packed % 4, half = k / (4 * packed);
      const unsigned a = tw_factors[warp + row % 8 * 4 + of_four][row / 8 + half * 2];
      const unsigned b = tw_factors[warp + column * 4 + of_four][4 + half];
      total.add(element(a, k % packed), element(b, k % packed));
    }
    *sums[i] = total.sum();
  }
  tw_warp_barrier(2, 32);
}

#define TW_MMA(name, Sum, packed, element)                                                        static inline void name(Sum& c0, Sum& c1, Sum& c2, Sum& c3, unsigned a0, unsigned a1,                                   unsigned a2, unsigned a3, unsigned b0, unsigned b1) {                     tw_mma<packed>(c0, c1, c2, c3, a0, a1, a2, a3, b0, b1,                                                         [](unsigned bits, unsigned i) { return element; });                            }
// The hardware ignores the bits of the register below those of a tf32.
TW_MMA(tw_mma_tf32, float, 1, __uint_as_float(bits & ~0x1fffu))
TW_MMA(tw_mma_m16n8k16_f16, float, 2, tw_from_f16((unsigned short)(bits >> 16 * i)))
TW_MMA(tw_mma_m16n8k16_bf16, float, 2, __uint_as_float(bits >> 16 * i << 16))
TW_MMA(tw_mma_m16n8k32_s8, int, 4, (int)(signed char)(bits >> 8 * i))

)";

// Instructions of a warpgroup. They read shared memory through descriptors and swizzle its
// addresses, as the hardware does (PTX ISA, "Matrix Descriptor Format" and "Shared Memory Matrix
// Layout"). They are computed when their threads wait for them; until then the sums hold a pattern.
constexpr std::string_view warpgroup_prelude = R"(
#include <stdlib.h>

// An address in 256 KiB, the numbers that descriptors hold, and where these begin.
static unsigned char* tw_window[1 << 14];
static inline unsigned long long tw_shared_address(const void* in) {
  unsigned char* const p = (unsigned char*)in;
  const bool is_fixed = p >= tw_shared_begin() && p < tw_shared_end();
  const size_t at = p - (is_fixed ? tw_shared_begin() : tw_shared);
  tw_window[(at & 0x3ffff) >> 4] = p - (at & 0x3ffff);
  return at;
}

// Outside of functions that are inline: the loader has one such array for all libraries.
static const unsigned char tw_nothing[16] = {};

struct tw_matrix {
  unsigned long long bits;
  bool is_transposed;  // MN-major
  // A row's, or column's, term of so many bytes.
  const unsigned char* at(unsigned row, unsigned term, unsigned bytes) const {
    const unsigned start = (bits & 0x3fff) << 4;
    const unsigned leading = (bits >> 16 & 0x3fff) << 4, stride = (bits >> 32 & 0x3fff) << 4;
    const unsigned mode = bits >> 62, swizzle = mode == 1 ? 128 : mode == 2 ? 64 : 32;
    unsigned char* const window = tw_window[bits & 0x3fff];
    // Eight lines as long as the swizzle are an atom. Lines are rows, and stride is the step to the
    // next eight; or terms of as many rows as a line has room for, and of the next rows leading is
    // the step.
    const unsigned neighbours = swizzle / bytes;
    unsigned a = start;
    if (is_transposed)
      a += row / neighbours * leading + row % neighbours * bytes + term / 8 * stride +
           term % 8 * swizzle;
    else
      a += row / 8 * stride + row % 8 * swizzle + term * bytes;
    a ^= (a >> 7 & (swizzle / 16 - 1)) << 4;
    const unsigned char* const p = window + a;
    const bool is_fixed = p >= tw_shared_begin() && p + bytes <= tw_shared_end();
    const bool is_asked_for = p >= tw_shared && p + bytes <= tw_shared + tw_dynamic_bytes;
    if (mode != 0 && window && (bits >> 49 & 7) == 0 && (is_fixed || is_asked_for)) return p;
    tw_fail("a matrix of an instruction of a warpgroup is not in shared memory, swizzled");
    return tw_nothing;
  }
};

// An instruction that a thread has begun and not waited for.
struct tw_instruction {
  void (*run)(void* sums, tw_matrix a, tw_matrix b, unsigned thread);
  void* sums;  // the thread's accumulators
  tw_matrix a, b;
  bool is_committed;
};
struct tw_kept {
  void* of;
  size_t bytes;
  unsigned char sums[512];
};
struct tw_queue {
  tw_instruction instructions[256];
  tw_kept kept[16];
  int instruction_count, kept_count;
  bool is_fenced;
};
static tw_queue* tw_queues[1024];
static tw_queue& tw_own_queue() {
  tw_queue*& queue = tw_queues[threadIdx.x];
  if (!queue) queue = (tw_queue*)calloc(1, sizeof(tw_queue));
  return *queue;
}
extern "C" void tw_begin_block() {
  for (tw_queue*& queue : tw_queues) {
    free(queue);
    queue = nullptr;
  }
  memset(tw_fenced, 0, sizeof tw_fenced);
  memset(tw_may_read, 0, sizeof tw_may_read);
}

static void* tw_keep(tw_queue& queue, void* sums, size_t bytes) {
  for (int i = 0; i < queue.kept_count; ++i)
    if (queue.kept[i].of == sums) return queue.kept[i].sums;
  if (queue.kept_count == 16) {
    tw_fail("a thread waits for the sums of 16 instructions of a warpgroup at once");
    queue.kept_count = 0;
  }
  tw_kept& kept = queue.kept[queue.kept_count++];
  kept.of = sums;
  kept.bytes = bytes;
  memcpy(kept.sums, sums, bytes);
  memset(sums, 0xff, bytes);
  return kept.sums;
}

static unsigned long long tw_descriptors[1024][2];
static void tw_issue(tw_instruction instruction, void* sums, size_t bytes) {
  const unsigned thread = threadIdx.x, first = thread / 128 * 128;
  tw_queue& queue = tw_own_queue();
  tw_descriptors[thread][0] = instruction.a.bits;
  tw_descriptors[thread][1] = instruction.b.bits;
  tw_warp_barrier(3, 128);
  if (memcmp(tw_descriptors[thread], tw_descriptors[first], sizeof tw_descriptors[first]))
    tw_fail("threads of a warpgroup have different matrices");
  if (!queue.is_fenced) tw_fail("an instruction of a warpgroup before tw_wgmma_fence");
  if (!tw_may_read[thread])
    tw_fail("an instruction of a warpgroup without tw_fence_async before the last barrier");
  if (queue.instruction_count == 256) {
    tw_fail("a thread waits for 256 instructions of a warpgroup at once");
    queue.instruction_count = 0;
  }
  instruction.sums = tw_keep(queue, sums, bytes);
  queue.instructions[queue.instruction_count++] = instruction;
  tw_warp_barrier(4, 128);
}

template <typename Sum, int count>
static void tw_wgmma_fence(Sum (&)[count]) { tw_own_queue().is_fenced = true; }
static inline void tw_wgmma_commit() {
  tw_queue& queue = tw_own_queue();
  for (int i = 0; i < queue.instruction_count; ++i) queue.instructions[i].is_committed = true;
}
// A wait does not include uncommitted instructions: their accumulators keep a pattern.
template <typename Sum, int count>
static void tw_wgmma_wait(Sum (&)[count]) {
  tw_warp_barrier(5, 128);
  tw_queue& queue = tw_own_queue();
  queue.is_fenced = false;
  if (queue.instruction_count > 0 && !queue.instructions[queue.instruction_count - 1].is_committed)
    return;
  for (int i = 0; i < queue.instruction_count; ++i) {
    const tw_instruction& each = queue.instructions[i];
    each.run(each.sums, each.a, each.b, threadIdx.x % 128);
  }
  for (int i = 0; i < queue.kept_count; ++i)
    memcpy(queue.kept[i].of, queue.kept[i].sums, queue.kept[i].bytes);
  queue.instruction_count = queue.kept_count = 0;
  tw_warp_barrier(6, 128);
}

struct tw_f16 {
  using sum = float;
  enum { bytes = 2 };
  static float element(const unsigned char* p) {
    return tw_from_f16((unsigned short)(p[0] | p[1] << 8));
  }
};
struct tw_bf16 {
  using sum = float;
  enum { bytes = 2 };
  static float element(const unsigned char* p) {
    return __uint_as_float((unsigned)(p[0] | p[1] << 8) << 16);
  }
};
struct tw_tf32 {
  using sum = float;
  enum { bytes = 4 };
  static float element(const unsigned char* p) {
    unsigned bits;
    memcpy(&bits, p, sizeof bits);
    return __uint_as_float(bits & ~0x1fffu);
  }
};
struct tw_s8 {
  using sum = int;
  enum { bytes = 1 };
  static int element(const unsigned char* p) { return (signed char)*p; }
};

// Each warp has 16 of the 64 rows, and a lane two of them, eight apart (PTX ISA, "Register Fragments
// for wgmma.mma_async"); the sums of the first row come first.
template <int columns, typename Type>
static void tw_wgmma_run(void* sums, tw_matrix a, tw_matrix b, unsigned thread) {
  constexpr unsigned terms = 32 / Type::bytes, pairs = columns / 8;
  const unsigned warp = thread / 32, lane = thread % 32;
  auto* const d = (typename Type::sum*)sums;
  typename Type::sum rows[2][terms];
  for (unsigned h = 0; h < 2; ++h)
    for (unsigned k = 0; k < terms; ++k)
      rows[h][k] = Type::element(
a.at(warp * 16 + h * 8 + lane / 4, k, Type::bytes));
  for (unsigned j = 0; j < pairs; ++j)
    for (unsigned e = 0; e < 2; ++e) {
      using Total = tw_total<typename Type::sum>;
      using Value = decltype(Total::value);
      auto &upper = d[j * 2 + e], &lower = d[2 * pairs + j * 2 + e];
      Total totals[2] = {{(Value)upper}, {(Value)lower}};
      for (unsigned k = 0; k < terms; ++k) {
        const auto factor = Type::element(b.at(j * 8 + lane % 4 * 2 + e, k, Type::bytes));
        for (unsigned h = 0; h < 2; ++h) totals[h].add(rows[h][k], factor);
      }
      upper = totals[0].sum();
      lower = totals[1].sum();
    }
}
template <int columns, typename Type>
static void tw_wgmma(typename Type::sum* sums, unsigned long long a, unsigned long long b,
                     bool transposes_a = false, bool transposes_b = false) {
  const tw_matrix rows = {a, transposes_a}, others = {b, transposes_b};
  tw_issue({tw_wgmma_run<columns, Type>, nullptr, rows, others, false}, sums,
           columns / 2 * sizeof *sums);
}

)";

/// Returns the definitions of the functions for warpgroup instructions, one for each type of the
/// factors and number of columns. For types of 16 bits there are three more variants, in which the
/// first factor, the second factor or both are MN-major (_ta, _tb, _tab).
std::string warpgroup_functions() {
  std::string text;
  for (const auto& [type, sum] : {std::pair("f16", "float"), std::pair("bf16", "float"),
                                  std::pair("tf32", "float"), std::pair("s8", "int")}) {
    const int terms = std::string_view(type) == "s8"     ? 32
                      : std::string_view(type) == "tf32" ? 8
                                                         : 16;
    for (int columns = 16; columns <= 256; columns += 8)
      for (const auto& [suffix, flags] :
           {std::pair("", "false, false"), std::pair("_ta", "true, false"),
            std::pair("_tb", "false, true"), std::pair("_tab", "true, true")})
        if (terms == 16 || *suffix == '\0')
          text += fmt::format(
              "static inline void tw_wgmma_m64n{0}k{1}_{2}{4}({3}* d, unsigned long long a, "
              "unsigned long long b) {{ tw_wgmma<{0}, tw_{2}>(d, a, b, {5}); }}\n",
              columns, terms, type, sum, suffix, flags);
  }
  return text;
}

}  // namespace

std::string_view host_emulator_prelude() {
  static const std::string text =
      std::string(prelude) + c_functions_for("tw_from_f16( tw_to_f16(") +
      std::string(tensor_prelude) + std::string(warpgroup_prelude) + warpgroup_functions();
  return text;
}

}  // namespace tw::codegen
