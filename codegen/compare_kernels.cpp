// SPDX-License-Identifier: Apache-2.0
#include "codegen/compare_kernels.h"

namespace tw::codegen {
namespace {

constexpr int compare_threads = 256;

constexpr const char* opencl_text = R"(
__kernel void checksum(__global const uint* data, __global const ulong* count,
                       __global ulong* sums) {
  ulong sum = 0;
  for (ulong i = get_global_id(0); i < *count; i += get_global_size(0)) {
    ulong term = i << 32 | data[i];
    term = (term ^ term >> 30) * 0xbf58476d1ce4e5b9ul;
    term = (term ^ term >> 27) * 0x94d049bb133111ebul;
    sum += term ^ term >> 31;
  }
  sums[get_global_id(0)] = sum;
}
#define DIFFERENCE(name, type, value_of)                                                     \
  __kernel void name(__global const type* got, __global const type* expected,                \
                     __global const ulong* count, __global uint* largest) {                  \
    uint difference = 0, magnitude = 0;                                                      \
    for (ulong i = get_global_id(0); i < *count; i += get_global_size(0)) {                  \
      const float a = value_of(got, i), b = value_of(expected, i);                           \
      if (got[i] != expected[i]) difference = max(difference, as_uint(fabs(a - b)));         \
      magnitude = max(magnitude, as_uint(fabs(b)));                                          \
    }                                                                                        \
    largest[2 * get_global_id(0)] = difference;                                              \
    largest[2 * get_global_id(0) + 1] = magnitude;                                           \
  }
#define OF_F32(data, i) as_float(data[i])
#define OF_F16(data, i) vload_half(i, (__global const half*)data)
#define OF_BF16(data, i) as_float((uint)data[i] << 16)
DIFFERENCE(difference_f32, uint, OF_F32)
DIFFERENCE(difference_f16, ushort, OF_F16)
DIFFERENCE(difference_bf16, ushort, OF_BF16)
)";

/// PTX that reads the number of elements into %count and finds the first element of a thread. It
/// sets %i to the element's index, %step to the distance to the thread's next element, and %at to
/// eight times the index of the thread, which is the offset of the thread's results in bytes.
constexpr const char* ptx_first_element = R"(  ld.global.u64 %count, [%count];
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %thread, %block, %size, %thread;
  mov.u32 %block, %nctaid.x;
  mul.wide.u32 %step, %block, %size;
  cvt.u64.u32 %i, %thread;
  shl.b64 %at, %i, 3;
)";

std::string ptx_checksum() {
  return R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry checksum(.param .u64 data, .param .u64 count, .param .u64 sums)
{
  .reg .pred %done;
  .reg .u32 %block, %size, %thread, %word;
  .reg .u64 %data, %count, %sums, %i, %at, %step, %sum, %term, %shifted;
  ld.param.u64 %data, [data];
  ld.param.u64 %count, [count];
  ld.param.u64 %sums, [sums];
  cvta.to.global.u64 %data, %data;
  cvta.to.global.u64 %count, %count;
  cvta.to.global.u64 %sums, %sums;
)" + std::string(ptx_first_element) +
         R"(  add.u64 %sums, %sums, %at;
  mov.u64 %sum, 0;
next:
  setp.ge.u64 %done, %i, %count;
  @%done bra end;
  shl.b64 %at, %i, 2;
  add.u64 %at, %data, %at;
  ld.global.u32 %word, [%at];
  cvt.u64.u32 %term, %word;
  shl.b64 %shifted, %i, 32;
  or.b64 %term, %term, %shifted;
  shr.u64 %shifted, %term, 30;
  xor.b64 %term, %term, %shifted;
  mul.lo.u64 %term, %term, 0xbf58476d1ce4e5b9;
  shr.u64 %shifted, %term, 27;
  xor.b64 %term, %term, %shifted;
  mul.lo.u64 %term, %term, 0x94d049bb133111eb;
  shr.u64 %shifted, %term, 31;
  xor.b64 %term, %term, %shifted;
  add.u64 %sum, %sum, %term;
  add.u64 %i, %i, %step;
  bra next;
end:
  st.global.u64 [%sums], %sum;
  ret;
}
)";
}

/// Returns a difference kernel for elements of 2^shift bytes. The instruction `load` loads an
/// element from [%at] into %raw, and `convert` converts %raw to %value.
std::string ptx_difference(const std::string& name, int shift, const std::string& load,
                           const std::string& convert) {
  // %got and %expected are the addresses of the two arrays. %at is the address of an element.
  return "\n.visible .entry " + name + R"((.param .u64 got, .param .u64 expected,
                                      .param .u64 count, .param .u64 largest)
{
  .reg .pred %done, %same;
  .reg .b16 %half;
  .reg .u32 %block, %size, %thread, %raw, %other, %bits, %difference, %magnitude;
  .reg .f32 %value, %reference;
  .reg .u64 %got, %expected, %count, %largest, %i, %at, %step;
  ld.param.u64 %got, [got];
  ld.param.u64 %expected, [expected];
  ld.param.u64 %count, [count];
  ld.param.u64 %largest, [largest];
  cvta.to.global.u64 %got, %got;
  cvta.to.global.u64 %expected, %expected;
  cvta.to.global.u64 %count, %count;
  cvta.to.global.u64 %largest, %largest;
)" + std::string(ptx_first_element) +
         R"(  add.u64 %largest, %largest, %at;
  mov.u32 %difference, 0;
  mov.u32 %magnitude, 0;
next:
  setp.ge.u64 %done, %i, %count;
  @%done bra end;
  shl.b64 %at, %i, )" +
         std::to_string(shift) + R"(;
  add.u64 %at, %expected, %at;
  )" + load +
         R"(
  )" + convert +
         R"(
  mov.u32 %other, %raw;
  mov.f32 %reference, %value;
  sub.u64 %at, %at, %expected;
  add.u64 %at, %at, %got;
  )" + load +
         R"(
  )" + convert +
         R"(
  setp.eq.u32 %same, %raw, %other;
  sub.f32 %value, %value, %reference;
  abs.f32 %value, %value;
  mov.b32 %bits, %value;
  selp.u32 %bits, 0, %bits, %same;
  max.u32 %difference, %difference, %bits;
  abs.f32 %reference, %reference;
  mov.b32 %bits, %reference;
  max.u32 %magnitude, %magnitude, %bits;
  add.u64 %i, %i, %step;
  bra next;
end:
  st.global.u32 [%largest], %difference;
  st.global.u32 [%largest+4], %magnitude;
  ret;
}
)";
}

}  // namespace

CompareKernels opencl_compare_kernels() { return {{.text = opencl_text}, compare_threads}; }

// The kernels are PTX, which the driver compiles. So a machine that only runs kernels needs no CUDA
// compiler.
CompareKernels cuda_compare_kernels() {
  const std::string load_half = "ld.global.b16 %half, [%at];\n  cvt.u32.u16 %raw, %half;";
  return {{.text = ptx_checksum() +
                   ptx_difference("difference_f32", 2, "ld.global.u32 %raw, [%at];",
                                  "mov.b32 %value, %raw;") +
                   ptx_difference("difference_f16", 1, load_half, "cvt.f32.f16 %value, %half;") +
                   ptx_difference("difference_bf16", 1, load_half + "\n  shl.b32 %raw, %raw, 16;",
                                  "mov.b32 %value, %raw;")},
          compare_threads};
}

std::optional<std::string> difference_kernel(DType type) {
  if (type == Float32) return "difference_f32";
  if (type == Float16) return "difference_f16";
  if (type == BFloat16) return "difference_bf16";
  return std::nullopt;
}

}  // namespace tw::codegen
