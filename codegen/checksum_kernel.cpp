// SPDX-License-Identifier: Apache-2.0
#include "codegen/checksum_kernel.h"

namespace tw::codegen {
namespace {

constexpr int checksum_threads = 256;

}  // namespace

ChecksumKernel opencl_checksum_kernel() {
  return {{.text = R"(
__kernel void checksum(__global const uint* data, __global const ulong* words,
                       __global ulong* sums) {
  ulong sum = 0;
  for (ulong i = get_global_id(0); i < *words; i += get_global_size(0)) {
    ulong term = i << 32 | data[i];
    term = (term ^ term >> 30) * 0xbf58476d1ce4e5b9ul;
    term = (term ^ term >> 27) * 0x94d049bb133111ebul;
    sum += term ^ term >> 31;
  }
  sums[get_global_id(0)] = sum;
})"},
          checksum_threads};
}

// PTX, which the driver compiles: no compiler of ours is needed where kernels only run.
ChecksumKernel cuda_checksum_kernel() {
  return {{.text = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry checksum(.param .u64 data, .param .u64 words, .param .u64 sums)
{
  .reg .pred %done;
  .reg .u32 %block, %size, %thread, %word;
  .reg .u64 %data, %words, %sums, %i, %at, %step, %sum, %term, %shifted;
  ld.param.u64 %data, [data];
  ld.param.u64 %words, [words];
  ld.param.u64 %sums, [sums];
  cvta.to.global.u64 %data, %data;
  cvta.to.global.u64 %words, %words;
  cvta.to.global.u64 %sums, %sums;
  ld.global.u64 %words, [%words];
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %thread, %block, %size, %thread;
  mov.u32 %block, %nctaid.x;
  mul.wide.u32 %step, %block, %size;
  cvt.u64.u32 %i, %thread;
  shl.b64 %at, %i, 3;
  add.u64 %sums, %sums, %at;
  mov.u64 %sum, 0;
next:
  setp.ge.u64 %done, %i, %words;
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
)"},
          checksum_threads};
}

}  // namespace tw::codegen
