// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "codegen/gpu/emitter.h"
#include "codegen/gpu/prelude.h"
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "schedules/program/legality.h"
#include "schedules/program/tensor_tiles.h"
#include "schedules/schedule.h"
#include "tests/codegen/gpu_programs.h"
#include "tests/codegen/gpu_runs.h"
#include "tests/codegen/kernels.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/mn_major_products.h"

namespace tw::codegen {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Expects `actual` to be the text of golden/<name>. If TW_UPDATE_GOLDEN is set, writes it there
/// first.
void expect_golden(const std::string& name, const std::string& actual) {
  const std::string path = std::string(TW_SOURCE_DIR) + "/tests/codegen/golden/" + name;
  if (std::getenv("TW_UPDATE_GOLDEN")) std::ofstream(path) << actual;
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), actual) << name;
}

TEST(GpuEmitter, GoldenTexts) {
  expect_golden("gemm.cu", text_of(gemm()));
  expect_golden("gemm.cl", text_of(gemm(), GpuDialect::OpenCl));
  expect_golden("gemm_mma.cu",
                text_of(tensor_gemm(*schedules::find_tensor_tile("mma_m16n8k8_3xtf32"))));
  expect_golden("gemm_wgmma.cu", text_of(warpgroups({.stages = 3, .has_tails = false})));
  expect_golden("implicit_gemm.cu", text_of(implicit_gemm()));
  expect_golden("implicit_gemm.cl", text_of(implicit_gemm(), GpuDialect::OpenCl));
  expect_golden("row_sum.cu", text_of(row_reduction("f32", "sum")));
  expect_golden("gemm_pipelined.cu", text_of(pipelined_gemm(3)));
  expect_golden("gemm_pipelined.cl", text_of(pipelined_gemm(3), GpuDialect::OpenCl));
}

TEST(GpuEmitter, WarpsReduceByShuffles) {
  EXPECT_THAT(text_of(row_reduction("i32", "max")), HasSubstr("tw_max(tw_own, tw_other)"));
  EXPECT_THAT(text_of(row_reduction("i64", "sum")), Not(HasSubstr("tw_shuffle")));
  EXPECT_THAT(text_of(row_reduction("f32", "sum"), GpuDialect::OpenCl), Not(HasSubstr("shuffle")));
}

TEST(GpuEmitter, TensorTilesAreCalls) {
  for (const schedules::TensorTile& tile : tiles_of_warps()) {
    const std::string type = tile.operand == Float32 ? "float2" : "uint2";
    const std::string text = text_of(tensor_gemm(tile)), across = text_of(tensor_gemm(tile, false));
    for (const std::string& each : {text, across})
      EXPECT_THAT(each, HasSubstr(fmt::format("tw_{}(c_acc[", tile.name)));
    EXPECT_THAT(text, HasSubstr(fmt::format("const {0} tw_b = *(const {0}*)&b_c[", type)));
    EXPECT_THAT(across, HasSubstr(fmt::format("const {} tw_b = {{", type)));
    EXPECT_THAT(text_of(tensor_gemm(tile), GpuDialect::OpenCl), Not(HasSubstr("tw_mma")));
  }
}

TEST(GpuEmitter, SwizzledBuffersAreAligned) {
  const auto& tile = *schedules::find_tensor_tile("mma_m16n8k16_bf16");
  const std::string text = text_of(tensor_gemm(tile, true, "swizzle b@c 64\n"));
  EXPECT_THAT(text, HasSubstr("__shared__ __align__(512) unsigned short b_c[512];"));
  EXPECT_THAT(text, HasSubstr("__shared__ __align__(16) unsigned short a_c[2048];"));
  EXPECT_THAT(text, HasSubstr("*(const uint2*)&b_c[tw_swizzled<64, 2>("));
  EXPECT_LT(text.find("b_c[512]"), text.find("a_c[2048]"));
  EXPECT_THAT(text_of(tensor_gemm(tile, true, "swizzle b@c 64\n"), GpuDialect::OpenCl),
              AllOf(HasSubstr("__local ushort b_c[512];"), Not(HasSubstr("swizzled"))));
}

TEST(GpuEmitter, TilesOfWarpgroupsAreCalls) {
  const std::string text = text_of(warpgroups({.columns = 64, .stages = 3}));
  EXPECT_THAT(text, HasSubstr("tw_wgmma_m64n64k16_bf16(&c_acc[0], tw_descriptor<128>(&a_c["));
  EXPECT_THAT(text_of(warpgroups({}), GpuDialect::OpenCl), Not(HasSubstr("tw_wgmma")));
}

TEST(GpuEmitter, MnMajorFactorsAreTransposed) {
  // The last two flags of the instruction say whether the first and the second factor are
  // transposed. A group of 64 columns has 32 terms of 128 bytes, so that the next group begins 4096
  // bytes later.
  const std::string second = text_of(mn_major(false, true));
  EXPECT_THAT(second, HasSubstr("tw_wgmma_m64n128k16_bf16_tb(&c_acc[0], tw_descriptor<64>(&a_c["));
  EXPECT_THAT(second, HasSubstr("), tw_descriptor_mn<128, 4096>(&b_c["));
  EXPECT_THAT(second, HasSubstr("%64, %65, p, 1, 1, 0, 1;}"));
  const std::string first = text_of(mn_major(true, false));
  EXPECT_THAT(first,
              HasSubstr("tw_wgmma_m64n128k16_bf16_ta(&c_acc[0], tw_descriptor_mn<128, 0>(&a_c["));
  EXPECT_THAT(first, HasSubstr("), tw_descriptor<64>(&b_c["));
  EXPECT_THAT(first, HasSubstr("%64, %65, p, 1, 1, 1, 0;}"));
  const std::string both = text_of(mn_major(true, true));
  EXPECT_THAT(both, HasSubstr("tw_wgmma_m64n128k16_bf16_tab(&c_acc[0], tw_descriptor_mn<128, 0>("));
  EXPECT_THAT(both, HasSubstr("%64, %65, p, 1, 1, 1, 1;}"));
  EXPECT_THAT(both, HasSubstr("*(uint4*)&"));
}

// Threads copy 16 bytes at once, since none of them has to transpose a factor.
TEST(GpuEmitter, MnMajorFactorsAreCopiedBy16Bytes) {
  const Schedule schedule = schedules::schedule_of({2048, 2048, 2048, {{"copies", 0}}});
  const std::string text =
      text_of(schedule.program(schedules::limits_of(*parse_target("cuda:sm_90a"))).value());
  EXPECT_THAT(text, HasSubstr("tw_copy_async<16>(&a_c["));
  EXPECT_THAT(text, HasSubstr("tw_copy_async<16>(&b_c["));
  EXPECT_THAT(text, HasSubstr("tw_descriptor_mn<128, 8192>(&b_c["));
  EXPECT_THAT(text, Not(HasSubstr("tw_v.")));
}

// In a pipeline, the threads copy while their warpgroup instructions run. Without a pipeline, they
// wait for the instructions first.
TEST(GpuEmitter, WarpgroupsRunDuringCopies) {
  const std::string text = text_of(warpgroups({.stages = 3, .has_tails = false}));
  const size_t loop = text.find("tw_wait<1>()");
  const size_t issued = text.find("tw_wgmma_commit();\n", loop);
  const size_t copied = text.find("tw_copy_async<16>(&a_c", loop);
  const size_t committed = text.find("tw_commit();\n", loop);
  const size_t awaited = text.find("tw_wgmma_wait(c_acc);", loop);
  ASSERT_NE(awaited, std::string::npos);
  EXPECT_LT(issued, copied);
  EXPECT_LT(copied, committed);
  EXPECT_LT(committed, awaited);
  const std::string plain = text_of(warpgroups({.has_tails = false}));
  EXPECT_THAT(plain, HasSubstr("tw_wgmma_commit();\n    tw_wgmma_wait(c_acc);\n"));
}

TEST(GpuEmitter, SaysHowToLaunch) {
  const Program program = gemm();
  for (const GpuDialect dialect : {GpuDialect::Cuda, GpuDialect::OpenCl}) {
    const GpuCode code = emit_gpu(program, "gemm", dialect).value();
    ASSERT_EQ(code.kernels.size(), 1);
    EXPECT_EQ(code.kernels[0].name, "gemm_p0");
    EXPECT_EQ(code.kernels[0].blocks, 4);
    EXPECT_EQ(code.kernels[0].threads, 256);
    EXPECT_EQ(code.kernels[0].shared_bytes, (8 * 32 + 8 * 64) * 4);
    EXPECT_EQ(code.kernels[0].dynamic_shared_bytes, 0);
  }
}

TEST(GpuEmitter, LargeSharedMemoryIsAskedForByTheLaunch) {
  const Program fits = neighbours(48 << 10), large = neighbours(64 << 10);
  EXPECT_EQ(emit_gpu(fits, "k", GpuDialect::Cuda)->kernels[0].dynamic_shared_bytes, 0);
  const GpuKernel kernel = emit_gpu(large, "k", GpuDialect::Cuda)->kernels[0];
  EXPECT_EQ(kernel.dynamic_shared_bytes, 64 << 10);
  EXPECT_EQ(kernel.shared_bytes, 64 << 10);
  EXPECT_EQ(emit_gpu(large, "k", GpuDialect::OpenCl)->kernels[0].dynamic_shared_bytes, 0);
  EXPECT_THAT(text_of(fits), Not(HasSubstr("tw_shared")));
  EXPECT_THAT(text_of(large), HasSubstr("extern __shared__ __align__(1024) uint4 tw_shared[];"));
  const std::vector<GpuCase> cases = {gpu_case("large", large, integer_inputs(large, 1))};
  expect_emulation_agrees(cases);
}

TEST(GpuEmitter, OneThreadDoesWhatStandsOutsideOfNests) {
  const Expr i = var("i");
  const Program program = single_phase(
      {argument("in", Float32, {8}, false), argument("out", Float32, {8}, true)}, {},
      {allocate("s", Float32, {1}, Scope::Shared,
                {assign("s", {0}, f32("in", {3})),
                 serial("k", 8, {assign("s", {0}, f32("in", {var("k")}), Combine::Sum)}), barrier,
                 when(f32("in", {0}) < f32("s", {0}),
                      {threads("i", 8, {assign("out", {i}, f32("s", {0}))})}),
                 when(!(f32("in", {0}) < f32("s", {0})),
                      {threads("i", 4,
                               {assign("out", {i * 2}, f32("in", {i})),
                                assign("out", {i * 2 + 1}, f32("in", {i}))})})})});
  const std::string text = text_of(program);
  EXPECT_THAT(text, HasSubstr(R"(  if (thread == 0) {
    s[0] = in[3];
    #pragma unroll 4
    for (int k = 0; k < 8; ++k) {
      s[0] += in[k];
    }
  }
  __syncthreads();
  if (in[0] < s[0]) {
    {
      const int i = thread;
      out[i] = s[0];
    }
  }
  if (!(in[0] < s[0])) {
    if (thread < 4) {
      const int i = thread;
)"));
  std::vector<GpuCase> cases;
  for (uint64_t seed = 1; seed < 5; ++seed)
    cases.push_back(gpu_case("", program, integer_inputs(program, seed)));
  expect_emulation_agrees(cases);
}

TEST(GpuEmitter, LoopsOverRowsHaveFourLoadsInFlight) {
  const std::string text = text_of(rows(9));
  EXPECT_THAT(text, HasSubstr("#pragma unroll 4\n    for (int k "));
  EXPECT_THAT(text, HasSubstr("#pragma unroll 4\n    for (int j "));
  EXPECT_THAT(text_of(rows(9), GpuDialect::OpenCl), HasSubstr("#pragma unroll 4\n"));
  EXPECT_THAT(text_of(rows(3)), Not(HasSubstr("#pragma unroll 4")));
  const std::vector<GpuCase> cases = {gpu_case("", rows(9), integer_inputs(rows(9), 1))};
  expect_emulation_agrees(cases);
}

/// Returns a program in which threads t store, for v < lanes, out[i] = in[i], where i = t * stride
/// + v + offset.
Program copies(DType type, int64_t stride, int64_t lanes, int64_t offset = 0) {
  const Expr t = var("t"), v = var("v");
  const Expr i = t * stride + v + offset;
  const int64_t size = 4 * stride + lanes + offset;
  return single_phase(
      {argument("in", type, {size}, false), argument("out", type, {size}, true)}, {},
      {threads("z", size, {assign("out", {var("z")}, dsl::constant(type, 5))}), barrier,
       threads("t", 4, {vector("v", lanes, {assign("out", {i}, dsl::read("in", {i}, type))})})});
}

TEST(GpuEmitter, AlignedCopiesAreVectors) {
  EXPECT_THAT(text_of(copies(Float32, 8, 4)),
              HasSubstr("*(float4*)&out[t * 8] = *(const float4*)&in[t * 8];"));
  EXPECT_THAT(text_of(copies(Float32, 6, 4)), HasSubstr("*(float2*)&out[t * 6 + v] ="));
  EXPECT_THAT(text_of(copies(Float32, 8, 4, 2)), HasSubstr("*(float2*)&out[t * 8 + v + 2] ="));
  EXPECT_THAT(text_of(copies(Float16, 8, 8)), HasSubstr("*(uint4*)&out[t * 8] ="));
  EXPECT_THAT(text_of(copies(BFloat16, 4, 4)), HasSubstr("*(uint2*)&out[t * 4] ="));
  EXPECT_THAT(text_of(copies(Int8, 16, 16)), HasSubstr("*(uint4*)&out[t * 16] ="));
  EXPECT_THAT(text_of(copies(Int8, 4, 4)), HasSubstr("*(unsigned*)&out[t * 4] ="));
  EXPECT_THAT(text_of(copies(Float32, 16, 8)), HasSubstr("v < 8; v += 4"));
  EXPECT_THAT(text_of(copies(Float32, 8, 4), GpuDialect::OpenCl),
              HasSubstr("vstore4(vload4(0, &in[t * 8]), 0, &out[t * 8]);"));
  for (const Program& program :
       {copies(Float32, 5, 4), copies(Float32, 8, 4, 1), copies(Float32, 8, 3), copies(Int8, 8, 3)})
    EXPECT_THAT(text_of(program), Not(testing::AnyOf(HasSubstr("2*)"), HasSubstr("4*)"))));
  std::vector<GpuCase> cases;
  for (const DType type : {Float32, Int32, Float16, BFloat16, Int8, Int64})
    for (const int64_t stride : {4, 5, 6, 8})
      for (const int64_t lanes : {2, 3, 4})
        for (const int64_t offset : {0, 1, 2}) {
          const Program program = copies(type, stride, lanes, offset);
          cases.push_back(gpu_case("", program, integer_inputs(program, 3)));
        }
  for (const int64_t lanes : {8, 16})
    for (const int64_t offset : {0, 2, 8}) {
      const Program program = copies(Int8, 16, lanes, offset);
      cases.push_back(gpu_case("", program, integer_inputs(program, 3)));
    }
  expect_emulation_agrees(cases);
}

/// Returns a program in which threads t store, for v < lanes, out[v, t] = in[t, v + offset].
Program transposing_copy(DType type, int64_t lanes, int64_t offset = 0) {
  const Expr t = var("t"), v = var("v");
  return single_phase(
      {argument("in", type, {4, 16}, false), argument("out", type, {lanes, 4}, true)}, {},
      {threads(
          "t", 4,
          {vector("v", lanes, {assign("out", {v, t}, dsl::read("in", {t, v + offset}, type))})})});
}

TEST(GpuEmitter, CopiesThatAreDenseWhereTheyReadAreScattered) {
  EXPECT_THAT(text_of(transposing_copy(Float32, 4)), HasSubstr(R"(
      const float4 tw_v = *(const float4*)&in[t * 16];
      out[t] = tw_v.x;
      out[4 + t] = tw_v.y;
      out[8 + t] = tw_v.z;
      out[12 + t] = tw_v.w;
)"));
  EXPECT_THAT(text_of(transposing_copy(BFloat16, 8)),
              HasSubstr("out[12 + t] = (unsigned short)(tw_v.y >> 16);"));
  EXPECT_THAT(text_of(transposing_copy(Int8, 8, 8)), HasSubstr("*(const uint2*)&in[t * 16 + 8];"));
  for (const Program& program :
       {transposing_copy(Float32, 4, 1), transposing_copy(Float32, 3), transposing_copy(Int8, 4)})
    EXPECT_THAT(text_of(program), Not(HasSubstr("tw_v")));
  std::vector<GpuCase> cases;
  for (const DType type : {Float32, Int32, Float16, BFloat16, Int8, Int64})
    for (const int64_t lanes : {2, 4, 8})
      for (const int64_t offset : {0, 1, 8}) {
        const Program program = transposing_copy(type, lanes, offset);
        cases.push_back(gpu_case("", program, integer_inputs(program, 3)));
      }
  expect_emulation_agrees(cases);
}

TEST(GpuEmitter, RoundedVectorsArePacked) {
  EXPECT_THAT(text_of(rounding_store(BFloat16, 2, 2)),
              HasSubstr("*(unsigned*)&out[t * 2] = tw_pack_bf16(tw_v0.x * 257.0f + tw_v1.x, "
                        "tw_v0.y * 257.0f + tw_v1.y);"));
  EXPECT_THAT(text_of(rounding_store(Float16, 4, 4)),
              AllOf(HasSubstr("const float4 tw_v0 = ((const float4*)&in[t * 4])[0];"),
                    HasSubstr("*(uint2*)&out[t * 4] = {tw_pack_f16(tw_v0.x * 2049.0f + ")));
  EXPECT_THAT(text_of(rounding_store(BFloat16, 8, 8)), HasSubstr("*(uint4*)&out[t * 8] = {"));
  EXPECT_THAT(text_of(rounding_store(BFloat16, 16, 16)), HasSubstr("v < 16; v += 8"));
  EXPECT_THAT(text_of(rounding_store(BFloat16, 6, 4)), HasSubstr("v < 4; v += 2"));
  EXPECT_THAT(text_of(rounding_store(BFloat16, 4, 4), GpuDialect::OpenCl),
              HasSubstr("vstore4((ushort4)(tw_to_bf16(in[t * 4] * 257.0f + bias[0]), "));
  // Rows begin at odd elements, or the number of lanes is odd.
  for (const Program& program : {rounding_store(BFloat16, 5, 4), rounding_store(BFloat16, 4, 4, 1),
                                 rounding_store(Float16, 8, 3)})
    EXPECT_THAT(text_of(program), AllOf(Not(HasSubstr("tw_pack")), HasSubstr("] = tw_to_")));
}

TEST(GpuEmitter, ConditionsOfPackedStores) {
  // The bound 12 is a multiple of 4, so that the condition of the first lane holds for all four
  // lanes.
  EXPECT_THAT(text_of(rounding_store(BFloat16, 4, 4, 0, 12)),
              AllOf(HasSubstr("if (t * 4 < 12) {\n      {\n        const float4 tw_v0"),
                    HasSubstr("        *(uint2*)&out[t * 4] = "), Not(HasSubstr("} else {"))));
  // The bound 7 is odd, so that the condition may hold for one of two lanes only. Both are tested.
  EXPECT_THAT(text_of(rounding_store(BFloat16, 2, 2, 0, 7)), HasSubstr(R"(
    if ((t * 2 < 7) && (t * 2 + 1 < 7)) {
      {
        const float2 tw_v0 = ((const float2*)&in[t * 2])[0];
        const float2 tw_v1 = ((const float2*)&bias[0])[0];
        *(unsigned*)&out[t * 2] = tw_pack_bf16(tw_v0.x * 257.0f + tw_v1.x, tw_v0.y * 257.0f + tw_v1.y);
      }
    } else {
      if (t * 2 < 7) {
        out[t * 2] = tw_to_bf16(in[t * 2] * 257.0f + bias[0]);
      }
      if (t * 2 + 1 < 7) {
        out[t * 2 + 1] = tw_to_bf16(in[t * 2 + 1] * 257.0f + bias[1]);
      }
    }
)"));
}

/// Returns a program in which threads t store, for v < lanes, out[i] = f(in[i], i), where i = t *
/// stride + v.
Program computing_store(DType type, int64_t stride, int64_t lanes,
                        const std::function<Expr(const Expr& element, const Expr& i)>& f) {
  const Expr t = var("t"), i = t * stride + var("v");
  const int64_t size = 4 * stride + lanes;
  return single_phase(
      {argument("in", type, {size}, false), argument("out", Float32, {size}, true)}, {},
      {threads("z", size, {assign("out", {var("z")}, dsl::constant(Float32, 5))}), barrier,
       threads("t", 4,
               {vector("v", lanes, {assign("out", {i}, f(dsl::read("in", {i}, type), i))})})});
}

TEST(GpuEmitter, ComputedVectorsAreLoadedAndStoredAtOnce) {
  const auto add = [](const Expr& element, const Expr&) {
    return dsl::cast(Float32, element) + dsl::constant(Float32, 1);
  };
  EXPECT_THAT(text_of(computing_store(Float32, 4, 4, add)),
              AllOf(HasSubstr("const float4 tw_v0 = ((const float4*)&in[t * 4])[0];"),
                    HasSubstr("*(float4*)&out[t * 4] = {tw_v0.x + 1.0f, tw_v0.y + 1.0f, ")));
  EXPECT_THAT(text_of(computing_store(Float32, 6, 6, add)), HasSubstr("*(float2*)&out["));
  EXPECT_THAT(text_of(computing_store(BFloat16, 4, 4, add)),
              HasSubstr("tw_from_bf16((unsigned short)((tw_v0.x >> 16)))"));
  EXPECT_THAT(text_of(computing_store(Float32, 4, 4, add), GpuDialect::OpenCl),
              HasSubstr("vstore4((float4)(in[t * 4] + 1.0f, "));
  const Program words = computing_store(UInt32, 4, 4, add);
  EXPECT_THAT(text_of(words), HasSubstr("const uint4 tw_v0 = ((const uint4*)&in[t * 4])[0];"));
  Storage large = integer_inputs(words, 3);
  for (int64_t i = 0; i < 20; ++i)
    store_int(UInt32, large["in"].data(), i, int64_t{4294967040} - 256 * i);
  std::vector<GpuCase> cases = {gpu_case("", words, large)};
  for (const DType type : {Float32, Float16, BFloat16})
    for (const auto& [stride, lanes] :
         {std::pair{2, 2}, {4, 4}, {5, 4}, {6, 6}, {8, 8}, {16, 16}}) {
      const Program program = computing_store(type, stride, lanes, add);
      cases.push_back(gpu_case("", program, integer_inputs(program, 3)));
    }
  expect_emulation_agrees(cases);
}

/// Returns a program in which four threads, with a vector of four lanes each, store out[i] =
/// f(in[i], i) as i32.
Program integer_store(DType from,
                      const std::function<Expr(const Expr& element, const Expr& i)>& f) {
  const Expr i = var("t") * 4 + var("v");
  return single_phase(
      {argument("in", from, {16}, false), argument("out", Int32, {16}, true)}, {},
      {threads("t", 4, {vector("v", 4, {assign("out", {i}, f(dsl::read("in", {i}, from), i))})})});
}

// A cast to i32 wraps, and its operand must not be converted to f32 first.
TEST(GpuEmitter, IntegersAreStoredAtOnceWithoutFloats) {
  const auto cast = [](const Expr& element, const Expr&) { return dsl::cast(Int32, element); };
  const auto axis = [](const Expr&, const Expr& i) { return dsl::cast(Int32, i + Expr(16777217)); };
  std::vector<GpuCase> cases;
  for (const DType from : {Int64, Float32}) {
    const Program program = integer_store(from, cast);
    EXPECT_THAT(text_of(program), AllOf(HasSubstr("*(int4*)&out["), Not(HasSubstr("(float)"))));
    cases.push_back(gpu_case("", program, integer_inputs(program, 3)));
  }
  EXPECT_THAT(text_of(integer_store(Float32, cast)), HasSubstr("tw_to_i32("));
  const Program numbers = integer_store(Float32, axis);
  EXPECT_THAT(text_of(numbers), Not(HasSubstr("(float)")));
  cases.push_back(gpu_case("", numbers, integer_inputs(numbers, 3)));
  expect_emulation_agrees(cases);
}

// The second operand of && or || may read outside of the array where the first one decides. So a
// vector load must not load it for all lanes.
TEST(GpuEmitter, WhatAConditionGuardsIsNotLoadedAtOnce) {
  const Expr zero = dsl::constant(Float32, 0), one = dsl::constant(Float32, 1);
  std::vector<GpuCase> cases;
  for (const bool both : {true, false}) {
    const Program program = computing_store(Float32, 4, 4, [&](const Expr&, const Expr& i) {
      const Expr earlier = dsl::read("in", {i - 4}, Float32) > zero;
      return dsl::select(both ? i >= 4 && earlier : i < 4 || earlier, one, zero);
    });
    EXPECT_THAT(text_of(program), Not(HasSubstr("tw_v0")));
    cases.push_back(gpu_case("", program, integer_inputs(program, 3)));
  }
  expect_emulation_agrees(cases);
}

// A vector load would also read elements that no lane reads, perhaps beyond the end of the array.
TEST(GpuEmitter, WhatOnlySomeLanesReadIsNotLoadedAtOnce) {
  const auto chosen = [](const Expr& element, const Expr& i) {
    return dsl::select(i < Expr(3), element, dsl::constant(Float32, 2));
  };
  const std::string text = text_of(computing_store(Float32, 4, 4, chosen));
  EXPECT_THAT(text, AllOf(HasSubstr("*(float4*)&out[t * 4] = {"), Not(HasSubstr("tw_v0"))));
}

// A buffer of a thread's own elements stays in registers, so that stores to it are not packed.
TEST(GpuEmitter, OwnElementsAreNotPacked) {
  const Expr t = var("t"), v = var("v");
  const Program program = single_phase(
      {argument("in", Float32, {4, 2}, false), argument("out", BFloat16, {4}, true)}, {},
      {threads(
          "t", 4,
          {allocate("own", BFloat16, {2}, Scope::Register,
                    {vector("v", 2, {assign("own", {v}, dsl::cast(BFloat16, f32("in", {t, v})))}),
                     assign("out", {t}, dsl::read("own", {1}, BFloat16))})})});
  EXPECT_THAT(text_of(program), Not(HasSubstr("tw_pack")));
}

TEST(GpuEmitter, NamesNeverCollide) {
  const Expr t = var("thread"), b = var("block");
  const Program program = single_phase(
      {argument("scratch", Float32, {3, 4}, false), argument("half", Float32, {3, 4}, true)},
      {{"block", 3}}, {threads("thread", 4, {assign("half", {b, t}, f32("scratch", {b, t}))})});
  const std::vector<GpuCase> cases = {gpu_case("", program, integer_inputs(program, 1))};
  expect_emulation_agrees(cases);
}

TEST(GpuEmitter, CopiesOf4BytesAndMoreAreAsynchronous) {
  const std::string f32 = text_of(pipelined_gemm(2)), f16 = text_of(pipelined_gemm(2, Float16));
  EXPECT_THAT(f32, HasSubstr("tw_copy_async<4>("));
  EXPECT_THAT(f32, HasSubstr("tw_copy_async<16>("));
  EXPECT_THAT(f16, Not(HasSubstr("tw_copy_async<4>(")));
  EXPECT_THAT(f16, HasSubstr("tw_copy_async<8>("));
  EXPECT_THAT(text_of(pipelined_gemm(2, Int8)), HasSubstr("tw_copy_async<4>("));
  EXPECT_THAT(text_of(pipelined_gemm(2), GpuDialect::OpenCl),
              Not(testing::AnyOf(HasSubstr("tw_copy_async"), HasSubstr("tw_commit"),
                                 HasSubstr("tw_wait"))));
}

TEST(GpuEmitter, SlotsAreCounted) {
  for (const int depth : {2, 3})
    EXPECT_THAT(text_of(pipelined_gemm(depth)), HasSubstr("a_c[(slot_of_k_0 * 8 + k_1) * 36"));
  // If there are as many slots as iterations, the slot is the loop variable.
  EXPECT_THAT(text_of(pipelined_gemm(4)), HasSubstr("a_c[(k_0 * 8 + k_1) * 36"));
}

TEST(GpuEmitter, TablesAreReadOnlyWhereTheConditionHolds) {
  const Expr i = var("i");
  const Expr entry = dsl::cast(Int64, dsl::read("table", {i}, Int32));
  schedules::Assign copy{"s", {i}, f32("in", {dsl::clamp(entry, 0, 7)}), Combine::None, true};
  copy.guard = schedules::Guard{i < 4, dsl::constant(Float32, 0)};
  const Program program = single_phase(
      {argument("table", Int32, {4}, false), argument("in", Float32, {8}, false),
       argument("out", Float32, {8}, true)},
      {},
      {allocate("s", Float32, {8}, Scope::Shared,
                {threads("i", 8, {{copy}}),
                 {schedules::Commit{}},
                 {schedules::Wait{0}},
                 barrier,
                 threads("j", 8, {assign("out", {var("j")}, f32("s", {7 - var("j")}))})})});
  EXPECT_THAT(text_of(program), HasSubstr("if (i < 4) {\n      tw_copy_async<4>("));
  const std::vector<GpuCase> cases = {gpu_case("", program, integer_inputs(program, 1))};
  expect_emulation_agrees(cases);
}

TEST(GpuEmitter, BulkCopiesAreAskedForByOneThread) {
  const Program program = bulk_schedule(3).program().value();
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  for (const char* part :
       {"unsigned char* scratch, const __grid_constant__ tw_tensor_map tw_map_0, "
        "const __grid_constant__ tw_tensor_map tw_map_1) {",
        "  __shared__ __align__(128) float a_c[192];\n",
        "  __shared__ __align__(8) unsigned long long tw_barriers[4];\n"
        "  int tw_committed = 0, tw_arrived = 0;\n"
        "  if (thread == 0) tw_open_barriers(tw_barriers, 4, 1);\n"
        "  __syncthreads();\n",
        "    if (thread == 0) {\n"
        "      tw_copy_box<2>(&a_c[k_0 * 8 * 8], tw_map_0, &tw_barriers[tw_committed & 3], 256, "
        "k_0 * 8, "
        "m_0 * 8);\n"
        "      tw_copy_box<2>(&b_c[k_0 * 8 * 16], tw_map_1, &tw_barriers[tw_committed & 3], 512, "
        "0, "
        "k_0 * 8);\n"
        "    }\n"
        "    if (thread == 0) tw_arrive(&tw_barriers[tw_committed & 3]);\n"
        "    ++tw_committed;\n",
        "    for (; tw_arrived < tw_committed - 1; ++tw_arrived) {\n"
        "      tw_wait_at(&tw_barriers[tw_arrived & 3], tw_arrived >> 2 & 1);\n"
        "    }\n"
        "    __syncthreads();\n"})
    EXPECT_THAT(code.text, HasSubstr(part));
  // No thread copies, so that nothing commits such copies or waits for them.
  EXPECT_THAT(code.text, Not(testing::AnyOf(HasSubstr("tw_commit()"), HasSubstr("tw_wait<"))));
  const runtime::TensorMap a{.argument = 0, .extents = {44, 20}, .strides = {176}, .box = {8, 8}};
  const runtime::TensorMap b{.argument = 1, .extents = {16, 44}, .strides = {64}, .box = {16, 8}};
  EXPECT_EQ(code.kernels[0].maps, (std::vector{a, b}));
  EXPECT_EQ(code.kernels[0].shared_bytes, 3 * (64 + 128) * 4 + 4 * 8);
  // OpenCL text has loops in place of TMA copies.
  const GpuCode opencl = emit_gpu(program, "k", GpuDialect::OpenCl).value();
  EXPECT_TRUE(opencl.kernels[0].maps.empty());
  EXPECT_THAT(opencl.text, Not(HasSubstr("tw_")));
}

TEST(GpuEmitter, BulkCopiesOfScratchAndIntoLargeMemory) {
  const auto compute = dsl::parse_compute(R"(input a: f32[40, 64]
weight b: f32[64, 64]
t: f32[i=40, k=64] = a[i, k] * 2.0
c: f32[m=40, n=64] = sum(k=64) t[m, k] * b[k, n])");
  const Schedule schedule = Schedule(*compute)
                                .split("c", "m", 16)
                                .split("c", "k", 32)
                                .reorder("c", {"m.0", "k.0", "m.1", "n", "k.1"})
                                .cache_write("c", "m.0")
                                .cache_operand("c", 1, "k.0", {"m.1", "k.1"})
                                .cache_operand("c", 2, "k.0", {"k.1", "n"})
                                .pipeline("t@c", 2)
                                .pipeline("b@c", 2)
                                .bulk("t@c")
                                .bulk("b@c")
                                .parallel("c", "m.0")
                                .bind("c", "m.1")
                                .bind("c", "n");
  const Program program = schedule.program({.shared_bytes = 200 << 10}).value();
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  ASSERT_EQ(code.kernels.size(), 2U);
  EXPECT_EQ(code.kernels[1].maps[0].argument, 3);  // scratch
  const std::vector<GpuCase> cases = {gpu_case("", program, integer_inputs(program, 1))};
  expect_emulation_agrees(cases);
}

TEST(GpuEmitter, BoxesThatOneThreadAloneReadsAreLoops) {
  const auto compute = dsl::parse_compute(R"(input a: f32[16, 16]
weight b: f32[16, 16]
t: f32[i=16, j=16] = b[i, j] * 2.0
c: f32[m=16, n=16] = sum(k=16) a[m, k] * t[k, n])");
  const Program program = program_of(*compute, R"(tw1
split c m 8
split c k 8
reorder c m.0 k.0 m.1 n k.1
cache_write c m.0
cache_operand c 1 k.0 m.1 k.1
pipeline a@c 2
bulk a@c
compute_at t c m.0
bind t j
)");
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  EXPECT_THAT(code.text, Not(HasSubstr("tw_copy_box")));
  EXPECT_TRUE(code.kernels[0].maps.empty());
  const std::vector<GpuCase> cases = {gpu_case("", program, integer_inputs(program, 1))};
  expect_emulation_agrees(cases);
}

TEST(GpuEmitter, SpecialisedPhasesHaveThreadsThatAsk) {
  const Program program = bulk_schedule(3).specialise("c").program().value();
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  for (const char* part : {"__launch_bounds__(256, 1)",
                           "  __shared__ __align__(8) unsigned long long tw_emptied[4];\n",
                           "  if (thread == 0) tw_open_barriers(tw_emptied, 4, 4);\n"
                           "  __syncthreads();\n"
                           "  if (thread >= 128) {\n"
                           "    if (thread == 128) {\n"
                           "      #pragma unroll 1\n"
                           "      for (int k_0 = 0; k_0 < 2; ++k_0) {\n"
                           "        tw_copy_box<2>(",
                           "        tw_arrive(&tw_barriers[tw_committed & 3]);\n"
                           "        ++tw_committed;\n"
                           "      }\n"
                           "      #pragma unroll 1\n"
                           "      for (int k_0 = 0; k_0 < 6; ++k_0) {\n"
                           "        tw_wait_at(&tw_emptied[tw_arrived & 3], tw_arrived >> 2 & 1);\n"
                           "        ++tw_arrived;\n"
                           "        if (k_0 + 2 < 6) {\n",
                           "    return;\n  }\n",
                           "    tw_leave(&tw_emptied[tw_arrived & 3]);\n"
                           "    #pragma unroll 1\n"
                           "    for (; tw_arrived < tw_committed - 1; ++tw_arrived) {\n"})
    EXPECT_THAT(code.text, HasSubstr(part));
  EXPECT_EQ(code.kernels[0].threads, 256);
  EXPECT_EQ(code.kernels[0].shared_bytes, 3 * (64 + 128) * 4 + 2 * 4 * 8);
  // Without TMA there are no producers.
  EXPECT_EQ(emit_gpu(program, "k", GpuDialect::OpenCl)->kernels[0].threads, 128);
}

// Each of 512 threads has 128 of 65,536 registers at first. A producer keeps a quarter of them.
TEST(GpuEmitter, LaunchBoundsDivideTheRegisters) {
  const Program program = bulk_schedule(3).specialise("c").launch_bounds("c", 2).program().value();
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  for (const char* part :
       {"__launch_bounds__(256, 2)", "tw_fewer_registers<32>();", "tw_more_registers<224>();"})
    EXPECT_THAT(code.text, HasSubstr(part));
  EXPECT_THAT(emit_gpu(program, "k", GpuDialect::OpenCl)->text, Not(HasSubstr("launch_bounds")));
}

}  // namespace
}  // namespace tw::codegen
