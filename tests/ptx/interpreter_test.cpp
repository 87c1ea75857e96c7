// SPDX-License-Identifier: Apache-2.0
// Tests the PTX interpreter itself with instructions written by hand: their results, what the
// interpreter refuses, and what it reports as undefined.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "tests/ptx/instructions.h"
#include "tests/ptx/layouts.h"
#include "tests/ptx/matrices.h"
#include "tests/ptx/run.h"

namespace tw::ptx {
namespace {

using testing::HasSubstr;

constexpr int64_t words = 1024;

/// Runs instructions in a block of `threads` threads. The block has 4,096 bytes of shared memory
/// `s`, and %rd0 points to an array in global memory, in which each thread has its own words.
Status run_body(const std::string& body, std::vector<uint32_t>& array, int threads = 32,
                Order order = Order::Forward) {
  const std::string text = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .pred %p<8>;
  .reg .b16 %h<8>;
  .reg .b32 %r<16>;
  .reg .f32 %f<16>;
  .reg .b64 %rd<8>;
  .shared .align 1024 .b8 s[4096];
  ld.param.u64 %rd0, [p];
  mov.u32 %r0, %tid.x;
)" + body + "\n  ret;\n}\n";
  const auto module = parse(text);
  if (!module) return tl::unexpected(module.error());
  array.resize(words);
  Launch launch{.blocks = 1, .threads = threads};
  const uint32_t* data = array.data();
  launch.parameters.resize(sizeof data);
  std::memcpy(launch.parameters.data(), &data, sizeof data);
  launch.global = {std::as_writable_bytes(std::span(array))};
  return run(module->kernels.at("k"), *module, launch, {.order = order});
}

/// Returns the value of %r1 after a single thread has run these instructions.
uint32_t result_of(const std::string& body) {
  std::vector<uint32_t> array;
  const Status status = run_body(body + "\n  st.global.u32 [%rd0], %r1;", array, 1);
  EXPECT_TRUE(status) << status.error().message;
  return array[0];
}

std::string message_of(const std::string& body, int threads = 32, Order order = Order::Forward) {
  std::vector<uint32_t> array;
  const Status status = run_body(body, array, threads, order);
  return status ? "" : status.error().message;
}

TEST(PtxInterpreter, InstructionsComputeWhatTheIsaSays) {
  const std::pair<const char*, uint32_t> rows[] = {
      {"mov.u32 %r2, -7; shr.s32 %r1, %r2, 1;", 0xfffffffc},
      {"mov.u32 %r2, -7; shr.u32 %r1, %r2, 28;", 15},
      {"mov.u32 %r2, 1; shl.b32 %r1, %r2, 32;", 0},
      {"mov.u32 %r2, -3; mul.hi.s32 %r1, %r2, 1431655766;", 0xfffffffe},
      {"mov.u32 %r2, -3; mul.wide.s32 %rd1, %r2, 2; cvt.u32.u64 %r1, %rd1;", 0xfffffffa},
      {"mov.u32 %r2, -7; rem.s32 %r1, %r2, 3;", 0xffffffff},
      {"mov.u32 %r2, -7; div.u32 %r1, %r2, 2;", 0x7ffffffc},
      {"mov.u32 %r2, -7; setp.lt.u32 %p1, %r2, 3; selp.b32 %r1, 1, 2, %p1;", 2},
      {"mov.u32 %r2, 0x12345678; prmt.b32 %r1, %r2, 0, 0x0123;", 0x78563412},
      {"mov.u32 %r2, 0x12345678; bfe.u32 %r1, %r2, 8, 8;", 0x56},
      {"mov.u32 %r2, 0x81; shf.l.wrap.b32 %r1, %r2, 1, 4;", 0x10},
      {"mov.u32 %r2, 200; cvt.s8.u32 %h1, %r2; cvt.s32.s8 %r1, %h1;", 0xffffffc8},
      {"mov.u32 %r2, 0xfffe0003; mov.u32 %r3, 0x0307ff05; dp2a.lo.s32.s32 %r1, %r2, %r3, 10;", 27},
      {"mov.u32 %r2, 0xfffe0003; mov.u32 %r3, 0x0307ff05; dp2a.lo.s32.u32 %r1, %r2, %r3, 10;",
       0xfffffe1b},
      {"mov.u32 %r2, 0xfffe0003; mov.u32 %r3, 0x0307ff05; dp2a.hi.s32.s32 %r1, %r2, %r3, 10;", 25},
      {"mov.f32 %f1, 0fC0200000; cvt.rzi.s32.f32 %r1, %f1;", 0xfffffffe},
      {"mov.f32 %f1, 0f40200000; cvt.rni.s32.f32 %r1, %f1;", 2},
      {"mov.f32 %f1, 0f7FC00000; cvt.rzi.s32.f32 %r1, %f1;", 0},
      {"mov.f32 %f1, 0f4F800000; cvt.rzi.s32.f32 %r1, %f1;", 0x7fffffff},
      {"mov.f32 %f1, 0f3F802000; cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r1, %h1;", 0x3c01},
      {"mov.f32 %f1, 0f3F801000; cvt.rn.f16.f32 %h1, %f1; cvt.u32.u16 %r1, %h1;", 0x3c00},
      {"mov.f32 %f1, 0f3F808000; mov.f32 %f2, 0f40000000; cvt.rn.bf16x2.f32 %r1, %f2, %f1;",
       0x40003f80},
      {"mov.f32 %f1, 0f3F808001; mov.f32 %f2, 0f3F818000; cvt.rn.bf16x2.f32 %r1, %f2, %f1;",
       0x3f823f81},
      {"mov.f32 %f1, 0f3F801000; mov.f32 %f2, 0fC0000000; cvt.rn.f16x2.f32 %r1, %f2, %f1;",
       0xc0003c00},
      {"mov.f32 %f1, 0f3F808000; cvt.rn.bf16.f32 %h1, %f1; cvt.u32.u16 %r1, %h1;", 0x3f80},
      {"mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f33800000; add.rn.f32 %f3, %f1, %f2; mov.b32 %r1, "
       "%f3;",
       0x3f800000},
      {"mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f33800000; add.rp.f32 %f3, %f1, %f2; mov.b32 %r1, "
       "%f3;",
       0x3f800001},
      {"mov.f32 %f1, 0f7FC00000; max.f32 %f2, %f1, 0f3F800000; mov.b32 %r1, %f2;", 0x3f800000},
      {"mov.f32 %f1, 0f7FC00000; setp.neu.f32 %p1, %f1, %f1; selp.b32 %r1, 1, 0, %p1;", 1},
  };
  for (const auto& [body, expected] : rows) EXPECT_EQ(result_of(body), expected) << body;
}

TEST(PtxInterpreter, WhatItLacksIsOneClearError) {
  EXPECT_EQ(message_of("tcgen05.alloc.b32 [%r1], 32;"),
            "[ptx] line 14: the instruction 'tcgen05.alloc.b32' is not interpreted");
  EXPECT_EQ(message_of("add.cc.u32 %r1, %r0, 1;"),
            "[ptx] line 14: 'cc' of the instruction 'add.cc.u32' is not interpreted");
  EXPECT_THAT(message_of("mov.u32 %r1, nothing;"), HasSubstr("unknown name 'nothing'"));
}

TEST(PtxInterpreter, ShufflesExchangeValues) {
  std::vector<uint32_t> array;
  const Status status = run_body(
      "shfl.sync.bfly.b32 %r1, %r0, 5, 31, -1;\n mul.wide.u32 %rd1, %r0, 4;\n"
      "add.s64 %rd2, %rd0, %rd1;\n st.global.u32 [%rd2], %r1;",
      array);
  ASSERT_TRUE(status) << status.error().message;
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(array[lane], lane ^ 5);
}

TEST(PtxInterpreter, WhatIsUndefinedIsAnError) {
  const std::string address = "mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.s32 %r3, %r1, %r2;\n";
  // Each thread writes its own word and reads that of its neighbour, with a barrier in between and
  // without.
  const std::string write = address + "st.shared.u32 [%r3], %r0;\n";
  const std::string read = "xor.b32 %r4, %r2, 4; add.s32 %r5, %r1, %r4; ld.shared.u32 %r6, [%r5];";
  EXPECT_EQ(message_of(write + "bar.sync 0;\n" + read), "");
  EXPECT_THAT(message_of(write + read, 32, Order::Backward),
              HasSubstr("that thread 31 read, without a barrier"));
  // The copy is awaited before the read, after the read, or never.
  const std::string copy =
      address + "cp.async.ca.shared.global [%r3], [%rd0], 4; cp.async.commit_group;\n";
  EXPECT_EQ(message_of(copy + "cp.async.wait_group 0; ld.shared.u32 %r6, [%r3];"), "");
  EXPECT_THAT(message_of(copy + "ld.shared.u32 %r6, [%r3]; cp.async.wait_group 0;"),
              HasSubstr("that an asynchronous copy still writes"));
  EXPECT_THAT(message_of(copy + "cp.async.wait_group 1;"),
              HasSubstr("ends before its asynchronous copies"));
  // Accesses are outside of all arrays or unaligned, or threads wait forever.
  EXPECT_THAT(message_of("ld.global.u32 %r1, [%rd0+4096];"), HasSubstr("outside of all arrays"));
  EXPECT_THAT(message_of("ld.global.v2.u32 {%r1, %r2}, [%rd0+4];"), HasSubstr("unaligned"));
  EXPECT_THAT(message_of("mov.u32 %r1, s; ld.shared.u32 %r2, [%r1+4096];"),
              HasSubstr("of shared memory, which has 4096"));
  EXPECT_THAT(message_of("setp.lt.u32 %p1, %r0, 16; @%p1 bra $L; bar.sync 0; $L:"),
              HasSubstr("waits for what never comes"));
  EXPECT_THAT(message_of("setp.lt.u32 %p1, %r0, 16; @%p1 bra $L; bar.warp.sync -1; $L:"),
              HasSubstr("has ended in the meantime"));
}

/// An mbarrier for two arrivals, and a wait for the end of its first phase (parity 0).
TEST(PtxInterpreter, MbarriersCountPhases) {
  const std::string begin =
      "mov.u32 %r1, s; setp.ne.u32 %p1, %r0, 0; @%p1 bra $A;\n"
      "mbarrier.init.shared::cta.b64 [%r1], 2; $A: bar.sync 0;\n"
      "setp.gt.u32 %p2, %r0, 1;\n";
  const std::string arrive = "@!%p2 mbarrier.arrive.shared::cta.b64 _, [%r1];\n";
  const auto wait = [](const char* parity) {
    return std::string("$W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], ") + parity +
           "; @!%p3 bra $W;\n";
  };
  EXPECT_EQ(message_of(begin + arrive + wait("0")), "");
  EXPECT_EQ(message_of(begin + wait("1")), "");  // the phase before the first has ended
  EXPECT_THAT(message_of(begin + wait("0")), HasSubstr("waits for what never comes"));
  EXPECT_THAT(message_of(begin + arrive + wait("1")), HasSubstr("waits for what never comes"));
  EXPECT_THAT(message_of("mov.u32 %r1, s; mbarrier.arrive.shared::cta.b64 _, [%r1];"),
              HasSubstr("before mbarrier.init"));
  EXPECT_THAT(message_of(begin + "ld.shared.u32 %r2, [%r1];"), HasSubstr("accesses the mbarrier"));
}

// Each case leaves out one of the fences or waits that wgmma needs.
TEST(PtxInterpreter, WgmmaNeedsItsFences) {
  const auto body = [](const std::string& proxy, const std::string& fence,
                       const std::string& wait) {
    return "mov.u32 %r4, 0; mov.u32 %r1, s; shl.b32 %r2, %r0, 4; add.s32 %r3, %r1, %r2;\n"
           "st.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4};\n"
           "st.shared.v4.u32 [%r3+2048], {%r4, %r4, %r4, %r4};\n" +
           proxy + "bar.sync 0;\n" + "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1;\n" +
           "mov.f32 %f3, %f1; mov.f32 %f4, %f1; setp.eq.u32 %p1, 0, 0;\n" + fence +
           // The descriptor of s is in units of 16 bytes: a 32-byte swizzle, and 256 bytes from
           // eight rows to the next eight.
           "cvt.u64.u32 %rd1, %r1; shr.u64 %rd1, %rd1, 4;\n"
           "or.b64 %rd1, %rd1, -4611685949707911168;\n"
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd1, "
           "%p1, 1, 1, 0, 0;\n"
           "wgmma.commit_group.sync.aligned;\n" +
           wait + "add.f32 %f5, %f1, %f2;\nwgmma.wait_group.sync.aligned 0;";
  };
  const std::string proxy = "fence.proxy.async.shared::cta;\n",
                    fence = "wgmma.fence.sync.aligned;\n",
                    wait = "wgmma.wait_group.sync.aligned 0;\n";
  EXPECT_EQ(message_of(body(proxy, fence, wait), 128), "");
  EXPECT_THAT(message_of(body("", fence, wait), 128), HasSubstr("without fence.proxy.async"));
  EXPECT_THAT(message_of(body(proxy, "", wait), 128), HasSubstr("written after wgmma.fence"));
  EXPECT_THAT(message_of(body(proxy, fence, ""), 128), HasSubstr("before wgmma.wait_group"));
  EXPECT_THAT(message_of(body(proxy, fence, wait), 64), HasSubstr("fewer than 128 threads"));
}

TEST(PtxInterpreter, SetmaxnregStaysWithinThePool) {
  const auto body = [](int fewer, int more) {
    return fmt::format(
        "setp.lt.u32 %p1, %r0, 128; @%p1 bra $P; setmaxnreg.inc.sync.aligned.u32 {}; bra $E;\n"
        "$P: setmaxnreg.dec.sync.aligned.u32 {}; $E:",
        more, fewer);
  };
  EXPECT_EQ(message_of(body(40, 232), 384), "");
  EXPECT_THAT(message_of(body(56, 240), 384), HasSubstr("setmaxnreg leaves"));
  EXPECT_THAT(message_of(body(41, 232), 384), HasSubstr("a multiple of 8"));
}

TEST(PtxLayouts, DescriptorsHaveTheFieldsOfTheIsa) {
  const auto d =
      decode_descriptor(uint64_t{1} << 62 | uint64_t{64} << 32 | uint64_t{32} << 16 | 65);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->start, 65 * 16);
  EXPECT_EQ(d->leading, 512);
  EXPECT_EQ(d->stride, 1024);
  EXPECT_EQ(d->swizzle, 128);
  EXPECT_EQ(decode_descriptor(uint64_t{2} << 62)->swizzle, 64);
  EXPECT_EQ(decode_descriptor(uint64_t{3} << 62)->swizzle, 32);
  EXPECT_FALSE(decode_descriptor(uint64_t{1} << 14));
  EXPECT_FALSE(decode_descriptor(uint64_t{1} << 49));
}

// Compares with addresses that were derived by hand from the figures of the PTX ISA.
TEST(PtxLayouts, CanonicalLayouts) {
  const MatrixDescriptor k128{.start = 1024, .leading = 16, .stride = 1024, .swizzle = 128};
  EXPECT_EQ(element_address(k128, false, 2, 0, 0), 1024);
  EXPECT_EQ(element_address(k128, false, 2, 1, 0), 1024 + 128 + 16);
  EXPECT_EQ(element_address(k128, false, 2, 7, 8), 1024 + 7 * 128 + (1 ^ 7) * 16);
  EXPECT_EQ(element_address(k128, false, 2, 9, 3), 2048 + 128 + 16 + 6);
  const MatrixDescriptor none{.start = 1024, .leading = 128, .stride = 256};
  EXPECT_EQ(element_address(none, false, 2, 9, 9), 1024 + 256 + 16 + 128 + 2);
  const MatrixDescriptor mn{.start = 1024, .leading = 8192, .stride = 1024, .swizzle = 128};
  EXPECT_EQ(element_address(mn, true, 2, 8, 0), 1024 + 16);
  EXPECT_EQ(element_address(mn, true, 2, 64, 0), 1024 + 8192);
  EXPECT_EQ(element_address(mn, true, 2, 0, 9), 1024 + 1024 + 128 + 16);
  EXPECT_EQ(accumulator_place(37, 6), std::make_pair(16 + 1 + 8, 8 + 2));
  EXPECT_EQ(a_fragment_place(5, 3, 1, 2), std::make_pair(1 + 8, 8 + 2 + 1));
  EXPECT_EQ(b_fragment_place(5, 1, 0, 2), std::make_pair(8 + 2, 1));
}

TEST(PtxLayouts, BoxesHaveZerosOutsideOfTheirTensor) {
  // The tensor has 5 rows of 8 elements of 2 bytes. The box of 3 rows of 8 elements begins at row
  // 4.
  const auto elements = box_elements({8, 5}, {2, 16}, {8, 3}, 2, 0, {0, 4}, 1024);
  ASSERT_EQ(elements.size(), 24u);
  EXPECT_EQ(elements[9].to, 1024 + 18);
  EXPECT_EQ(elements[7].from, 4 * 16 + 14);
  EXPECT_EQ(elements[8].from, -1);
  EXPECT_EQ(box_elements({8, 5}, {2, 16}, {8, 1}, 2, 0, {-3, 0}, 1024)[2].from, -1);
  EXPECT_EQ(box_elements({8, 5}, {2, 16}, {8, 1}, 2, 0, {-3, 0}, 1024)[3].from, 0);
  EXPECT_EQ(box_elements({64, 8}, {2, 128}, {64, 2}, 2, 128, {0, 0}, 1024)[64].to, 1024 + 128 + 16);
}

TEST(PtxMatrices, SumsAreCutOff) {
  const double one[] = {1.0};
  EXPECT_EQ(truncated_sum(one, 0x1p24f), 0x1p24f);
  EXPECT_EQ(truncated_sum(one, -0x1p24f), -16777215.0f);
  const double three[] = {3.0};
  EXPECT_EQ(truncated_sum(three, 0x1p24f), 0x1p24f + 2);  // rounding to nearest would give + 4
  const double small[] = {0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26};
  EXPECT_EQ(truncated_sum(small, 1.0f), 1.0f);  // each is below what sums keep
  const double whole[] = {3, -7, 120, 5};
  EXPECT_EQ(truncated_sum(whole, -21.0f), 100.0f);
}

// Each addition of a tensor core truncates towards zero, so its errors add up in a long sum. Errors
// of rounding to nearest would go in both directions. Therefore split TF32 sums outside of the
// tensor cores (codegen/gpu/prelude.cpp).
TEST(PtxMatrices, LongSumsDrift) {
  Random random(1);
  float cut = 0, rounded = 0;
  double exact = 0;
  for (int i = 0; i < 512; ++i) {
    double products[8];
    for (double& product : products) product = static_cast<float>(random.unit());
    cut = truncated_sum(products, cut);
    double sum = 0;
    for (const double product : products) sum += product;
    rounded = static_cast<float>(rounded + sum);
    exact += sum;
  }
  EXPECT_LT(cut, exact);
  EXPECT_GT(exact - cut, 10 * std::fabs(exact - rounded));
}

}  // namespace
}  // namespace tw::ptx
