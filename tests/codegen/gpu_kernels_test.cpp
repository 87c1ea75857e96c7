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

/// Returns a pipeline that reads nothing for j = 0, where the condition i < j holds nowhere. Its
/// first copies therefore stand behind the wait for them.
Program late_copies() {
  const auto compute = dsl::parse_compute(R"(
input a: f32[11, 7]
r: f32[i=11] = min(j=7) select(i < j, a[i, j], inf)
)");
  return program_of(*compute, R"(tw1
split r i 8
reorder r i.1 j i.0
cache_write r i.0
cache_operand r 1 j i.0
pipeline a@r 2
bind a@r i.0
parallel r i.1
)");
}

/// Runs the cases on the GPU of this machine. Skips the test and says why if there is no GPU or
/// compiler, or if the architecture, e.g. 90 for sm_90, is not in [least, most].
void expect_gpu_agrees(std::span<const GpuCase> cases, int least = 0, int most = 999) {
  const auto device = runtime::open_cuda_device();
  if (!device) GTEST_SKIP() << device.error().message;
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  const std::string& name = (*device)->facts().architecture;  // "sm_90"
  const int architecture = std::stoi(name.substr(3));
  if (architecture < least || architecture > most)
    GTEST_SKIP() << name << " has no such instructions";
  expect_cuda_agrees(**device, *nvrtc, cases);
}

std::vector<GpuCase> row_reductions() {
  std::vector<GpuCase> cases;
  for (const std::string type : {"f32", "i32", "i64"})
    for (const std::string combine : {"sum", "max", "min"}) {
      const Program program = row_reduction(type, combine);
      cases.push_back(gpu_case(type + " " + combine, program, integer_inputs(program, 1), 0));
    }
  return cases;
}

TEST(HostEmulator, RunsReductionsOfWarps) { expect_emulation_agrees(row_reductions()); }

TEST(Cuda, RunsReductionsOfWarps) { expect_gpu_agrees(row_reductions()); }

TEST(OpenCl, RunsReductionsOfWarpsAsLoops) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_opencl_agrees(**device, row_reductions());
}

TEST(Nvrtc, CompilesReductionsOfWarps) {
  const auto nvrtc = open_nvrtc();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  expect_nvrtc_compiles(*nvrtc, row_reductions());
}

/// Returns products by each tensor tile of a warp. Neighbouring elements of a lane are contiguous
/// in shared memory in one product, and not in the other.
std::vector<GpuCase> tensor_tiles() {
  std::vector<GpuCase> cases;
  for (const schedules::TensorTile& tile : tiles_of_warps())
    for (const bool along : {true, false}) {
      const Program program = tensor_gemm(tile, along);
      cases.push_back(gpu_case(std::string(tile.name), program, integer_inputs(program, 1), 4e-6));
    }
  return cases;
}

TEST(HostEmulator, RunsTensorTiles) { expect_emulation_agrees(tensor_tiles()); }

TEST(Cuda, RunsTensorTiles) { expect_gpu_agrees(tensor_tiles(), 80); }

// The accuracy class `fast` bounds errors by 2e-5 of the largest element, which is above 1 here.
// This test allows each element 2e-5 of itself plus 2e-5.
TEST(HostEmulator, SplitTf32IsFastF32) {
  const Program program = tensor_gemm(*schedules::find_tensor_tile("mma_m16n8k8_3xtf32"));
  const std::vector<GpuCase> cases = {gpu_case("", program, real_inputs(program, 5), 2e-5)};
  expect_emulation_agrees(cases);
}

TEST(OpenCl, RunsTensorTilesAsLoops) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  const Program program = tensor_gemm(*schedules::find_tensor_tile("mma_m16n8k16_bf16"));
  const Program wide = warpgroups({.columns = 16, .bytes = 64});
  const std::vector<GpuCase> cases = {gpu_case("", program, integer_inputs(program, 1)),
                                      gpu_case("wide", wide, integer_inputs(wide, 1))};
  expect_opencl_agrees(**device, cases);
}

TEST(Nvrtc, CompilesTensorTiles) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  expect_nvrtc_compiles(*nvrtc, tensor_tiles());
}

/// Returns products of elements of 1, 2 and 4 bytes, with swizzles of 32, 64 and 128 bytes, without
/// a pipeline and in pipelines of 3 and 4 iterations. Some need shared memory that the launch asks
/// for.
std::vector<GpuCase> swizzled_products() {
  std::vector<GpuCase> cases;
  for (const char* name : {"mma_m16n8k32_s8", "mma_m16n8k16_bf16", "mma_m16n8k8_3xtf32"})
    for (const char* steps :
         {"swizzle a@c 32\nswizzle b@c 128\n", "swizzle a@c 64\npipeline a@c 3\npipeline b@c 3\n",
          "swizzle a@c 128\nswizzle b@c 64\npipeline a@c 4\npipeline b@c 4\n"}) {
      const Program program = tensor_gemm(*schedules::find_tensor_tile(name), true, steps);
      cases.push_back(
          gpu_case(fmt::format("{} {}", name, steps), program, integer_inputs(program, 1), 4e-6));
    }
  return cases;
}

TEST(HostEmulator, RunsSwizzledProducts) { expect_emulation_agrees(swizzled_products()); }

TEST(Cuda, RunsSwizzledProducts) { expect_gpu_agrees(swizzled_products(), 80); }

TEST(OpenCl, RunsSwizzledProducts) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_opencl_agrees(**device, swizzled_products());
}

TEST(Nvrtc, CompilesSwizzledProducts) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  expect_nvrtc_compiles(*nvrtc, swizzled_products());
}

/// Expects that tw_swizzled<...>(i) of CUDA texts gives the place of Buffer::swizzled() for each
/// element i of a buffer of 4 KiB.
template <typename Element>
void expect_swizzled(int swizzle) {
  constexpr size_t count = 4096 / sizeof(Element);
  const GpuKernel kernel = {.name = "k", .blocks = 1, .threads = 1};
  const std::string text = fmt::format(
      R"(extern "C" __global__ void k(int* out, unsigned char* scratch) {{
  for (int i = 0; i < {}; ++i) out[i] = tw_swizzled<{}, {}>(i);
}}
)",
      count, swizzle, sizeof(Element));
  std::vector<int> out(count);
  const auto emulator = HostEmulator::compile(cuda_functions_for(text) + text, {"k"});
  ASSERT_TRUE(emulator) << emulator.error().message;
  ASSERT_TRUE(emulator->launch(kernel, {out.data(), nullptr}));
  const schedules::Buffer buffer{"b", Int8, {4096}, Scope::Shared, swizzle};
  for (size_t i = 0; i < count; ++i)
    ASSERT_EQ(out[i] * sizeof(Element),
              static_cast<size_t>(buffer.swizzled(static_cast<int64_t>(i * sizeof(Element)))));
}

TEST(HostEmulator, SwizzlesAsBuffersSay) {
  for (const int swizzle : {32, 64, 128}) {
    expect_swizzled<int8_t>(swizzle);
    expect_swizzled<int16_t>(swizzle);
    expect_swizzled<float>(swizzle);
  }
}

std::vector<GpuCase> warpgroup_cases() {
  std::vector<GpuCase> cases;
  const auto add = [&](const Groups& g) {
    const Program program = warpgroups(g);
    cases.push_back(gpu_case(fmt::format("{} {}x{} of {} {}, {} bytes, {}", g.tile, g.below,
                                         g.beside, g.tiles, g.columns, g.bytes, g.stages),
                             program, integer_inputs(program, 1), 4e-6));
  };
  for (const schedules::TensorTile& tile : schedules::tensor_tiles())
    if (tile.is_of_warpgroup)
      for (const int64_t bytes : {32, 64, 128})
        add({.tile = std::string(tile.name), .columns = bytes / 2, .bytes = bytes});
  add({.below = 2, .beside = 2, .columns = 24});
  add({.tiles = 2, .columns = 16, .stages = 3});
  add({.below = 2, .columns = 256, .bytes = 64, .stages = 4});
  add({.tile = "wgmma_m64k32_s8", .columns = 64, .stages = 2});
  add({.columns = 64, .stages = 3, .has_tails = false});
  return cases;
}

TEST(HostEmulator, RunsWarpgroups) { expect_emulation_agrees(warpgroup_cases()); }

TEST(Cuda, RunsWarpgroups) { expect_gpu_agrees(warpgroup_cases(), 90, 90); }

TEST(Nvrtc, CompilesWarpgroupsForSm90aAlone) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  for (const GpuCase& each : warpgroup_cases()) {
    const std::string text = text_of(each.program);
    const auto code = nvrtc->compile(text, "sm_90a");
    ASSERT_TRUE(code) << each.title << "\n" << code.error().message << text;
    EXPECT_EQ(code->functions[0].spill_store_bytes, 0) << each.title << "\n" << text;
    EXPECT_EQ(code->functions[0].stack_bytes, 0) << each.title;
  }
  EXPECT_FALSE(nvrtc->compile(text_of(warpgroup_cases()[0].program), "sm_120"));
}

std::vector<GpuCase> rounding_stores() {
  std::vector<GpuCase> cases;
  const auto add = [&](DType type, int64_t stride, int64_t lanes, int64_t offset, int64_t bound) {
    const Program program = rounding_store(type, stride, lanes, offset, bound);
    cases.push_back(
        gpu_case(fmt::format("{} {} {} {} {}", to_string(type), stride, lanes, offset, bound),
                 program, integer_inputs(program, 3)));
  };
  const std::pair<int64_t, int64_t> rows[] = {{2, 2}, {4, 2}, {4, 4},  {5, 4},
                                              {6, 4}, {8, 8}, {16, 16}};
  for (const DType type : {Float16, BFloat16})
    for (const auto& [stride, lanes] : rows) {
      for (const int64_t offset : {0, 1, 4}) add(type, stride, lanes, offset, 1000);
      for (const int64_t bound : {6, 7}) add(type, stride, lanes, 0, bound);
    }
  return cases;
}

TEST(HostEmulator, RunsRoundingStores) { expect_emulation_agrees(rounding_stores()); }

TEST(Cuda, RunsRoundingStores) { expect_gpu_agrees(rounding_stores()); }

TEST(OpenCl, RunsRoundingStores) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_opencl_agrees(**device, rounding_stores());
}

std::vector<GpuCase> kernels_written_by_hand() {
  std::vector<GpuCase> cases;
  for (const Program& program :
       {gemm(), implicit_gemm(), pipelined_gemm(2), pipelined_gemm(3), pipelined_gemm(4),
        pipelined_gemm(3, Float16), pipelined_gemm(3, Int8), late_copies(),
        blocked_gemm(12, 64, 13, 8), guarded_tail(37), padded_row_conv(3, 7, Float16),
        padded_row_conv(3, 7, BFloat16), gather(19, 3, Int64), max_pool(13), large_local(96),
        direct_conv(32, 32, 3, 14, 2, 7), neighbours(64 << 10)})
    cases.push_back(gpu_case("", program, integer_inputs(program, 1)));
  cases.push_back(gpu_case("", subtract_mean(5, 8), integer_inputs(subtract_mean(5, 8), 1), 1e-6));
  return cases;
}

TEST(HostEmulator, RunsKernelsThatWereWrittenByHand) {
  expect_emulation_agrees(kernels_written_by_hand());
}

TEST(OpenCl, RunsKernelsThatWereWrittenByHand) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_opencl_agrees(**device, kernels_written_by_hand());
}

TEST(Cuda, RunsKernelsThatWereWrittenByHand) { expect_gpu_agrees(kernels_written_by_hand()); }

TEST(Nvrtc, CompilesKernelsThatWereWrittenByHand) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  expect_nvrtc_compiles(*nvrtc, kernels_written_by_hand());
}

TEST(Nvrtc, CopiesAreAsynchronousFromSm80On) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  for (const char* architecture : {"sm_75", "sm_80", "sm_90", "sm_120"}) {
    const auto compiled = nvrtc->compile(text_of(pipelined_gemm(3)), architecture, true);
    ASSERT_TRUE(compiled) << compiled.error().message;
    const bool is_asynchronous = std::string(architecture) != "sm_75";
    for (const char* instruction : {"cp.async.ca.shared.global", "cp.async.cg.shared.global",
                                    "cp.async.commit_group", "cp.async.wait_group"})
      EXPECT_EQ(compiled->code.text.find(instruction) != std::string::npos, is_asynchronous)
          << architecture << " " << instruction;
    EXPECT_EQ(compiled->functions[0].spill_store_bytes, 0) << architecture;
  }
}

TEST(Nvrtc, CompilesEachOperator) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  std::vector<GpuCase> cases;
  for (const dsl::Operator& op : dsl::operators()) {
    const auto shape = dsl::parse_shape(op.example, op.name);
    ASSERT_TRUE(shape) << shape.error().message;
    const auto workload = dsl::make_workload(op.name, *shape);
    ASSERT_TRUE(workload) << workload.error().message;
    const Program program = Schedule(workload->compute).program().value();
    cases.push_back({std::string(op.name), program, {}, {}});
  }
  expect_nvrtc_compiles(*nvrtc, cases);
}

TEST(Nvrtc, KeepsAThreadsTileInRegisters) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  for (const Program& program : {gemm(), implicit_gemm()}) {
    const auto compiled = nvrtc->compile(text_of(program), "sm_90a");
    ASSERT_TRUE(compiled) << compiled.error().message;
    // No array is on the stack: it only has what ptxas spills. For sm_90a ptxas spills a few bytes,
    // because with more registers fewer blocks would run at once.
    EXPECT_EQ(compiled->functions[0].stack_bytes, compiled->functions[0].spill_store_bytes);
    EXPECT_LE(compiled->functions[0].spill_store_bytes, 64);
    EXPECT_EQ(compiled->functions[0].shared_bytes,
              emit_gpu(program, "k", GpuDialect::Cuda)->kernels[0].shared_bytes);
  }
}

/// Returns the error of compiling and launching the kernel in the emulator, or "".
std::string emulator_error(const std::string& text, const GpuKernel& kernel,
                           const std::vector<void*>& arguments,
                           const EmulatorOptions& options = {}) {
  const auto emulator = HostEmulator::compile(text, {kernel.name});
  if (!emulator) return emulator.error().message;
  const Status launched = emulator->launch(kernel, arguments, options);
  return launched ? "" : launched.error().message;
}

TEST(HostEmulator, AMissingBarrierShows) {
  const Program program = neighbours(256, false);
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  std::vector<float> in(48, 1), forward(48), backward(48);
  EXPECT_EQ(emulator_error(code.text, code.kernels[0], {in.data(), forward.data(), nullptr}), "");
  EXPECT_EQ(emulator_error(code.text, code.kernels[0], {in.data(), backward.data(), nullptr},
                           {.order = ThreadOrder::Backward}),
            "");
  // The neighbour has not written yet, so that a thread reads the NaN with which the memory was
  // filled.
  EXPECT_TRUE(std::isnan(forward[0]));
  EXPECT_EQ(backward[0], 1);
  EXPECT_TRUE(std::isnan(backward[47]));
}

TEST(HostEmulator, AMissingWaitShows) {
  const Program program = pipelined_gemm(3);
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  const std::vector<float> a(64 * 30, 1), b(30 * 128, 1);
  const auto sum = [&](const std::string& text) {
    std::vector<float> c(64 * 128);
    EXPECT_EQ(emulator_error(
                  text, code.kernels[0],
                  {const_cast<float*>(a.data()), const_cast<float*>(b.data()), c.data(), nullptr}),
              "");
    return c[0];
  };
  EXPECT_EQ(sum(code.text), 30);
  EXPECT_TRUE(std::isnan(sum(without(code.text, "tw_wait<1>();"))));
  EXPECT_TRUE(std::isnan(sum(without(code.text, "tw_commit();"))));
  EXPECT_TRUE(std::isnan(sum(without(code.text, "__syncthreads();"))));
}

std::string with(std::string text, const std::string& part, const std::string& instead) {
  size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  for (; at != std::string::npos; at = text.find(part, at + instead.size()))
    text.replace(at, part.size(), instead);
  return text;
}

/// Returns part of a prelude as it stands in CUDA texts.
std::string in_cuda(const std::string& part) { return with(part, "ULONG", "unsigned long long"); }

// Each factor has one element that is 1, and all others are 0. So a wrong address changes the
// result.
TEST(HostEmulator, AWarpgroupWhoseMatricesLieElsewhereIsWrong) {
  const Program program = warpgroups({.columns = 16});
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  constexpr uint16_t one = 0x3f80;
  std::vector<uint16_t> a(54 * 140), b(22 * 140);
  a[13 * 140 + 77] = b[5 * 140 + 77] = one;
  const auto outcome = [&](const std::string& text) -> std::string {
    std::vector<float> c(54 * 22, 7);
    const std::string error =
        emulator_error(text, code.kernels[0], {a.data(), b.data(), c.data(), nullptr});
    if (!error.empty()) return error;
    if (std::ranges::any_of(c, [](float value) { return std::isnan(value); })) return "NaN";
    for (size_t i = 0; i < c.size(); ++i)
      if (c[i] != (i == 13 * 22 + 5 ? 1 : 0)) return "wrong";
    return "right";
  };
  EXPECT_EQ(outcome(code.text), "right");
  // Threads store without the swizzle that the instruction expects, or with another one; or the
  // descriptor has another swizzle or another step between rows.
  EXPECT_EQ(outcome(with(code.text, "a_c[tw_swizzled<128, 2>(", "a_c[(")), "wrong");
  EXPECT_EQ(outcome(with(code.text, "a_c[tw_swizzled<128, 2>(", "a_c[tw_swizzled<64, 2>(")),
            "wrong");
  EXPECT_EQ(outcome(with(code.text, "tw_descriptor<128>(&b_c", "tw_descriptor<64>(&b_c")), "wrong");
  EXPECT_EQ(outcome(with(code.text, "(8 * swizzle / 16) << 32", "(4 * swizzle / 16) << 32")),
            "wrong");
  EXPECT_THAT(outcome(with(code.text, "mode << 62", "0ull << 62")),
              HasSubstr("is not in shared memory, swizzled"));
  // The emulator stores sums only when a thread waits for them. It also reports an instruction that
  // comes without the fence or the barrier that the hardware needs before it.
  EXPECT_EQ(outcome(without(code.text, "tw_wgmma_commit();")), "NaN");
  EXPECT_EQ(outcome(without(code.text, "tw_wgmma_wait(c_acc);")), "NaN");
  EXPECT_THAT(outcome(without(code.text, "tw_wgmma_fence(c_acc);")),
              HasSubstr("before tw_wgmma_fence"));
  EXPECT_THAT(outcome(with(code.text, "tw_fence_async();", "")),
              HasSubstr("without tw_fence_async before the last barrier"));
  EXPECT_THAT(outcome(with(code.text, "tw_descriptor<128>(&a_c[",
                           "tw_descriptor<128>(&a_c[1024 * "
                           "(threadIdx.x / 32) + ")),
              HasSubstr("threads of a warpgroup have different matrices"));
  EXPECT_THAT(outcome(with(code.text, "tw_wgmma_m64n16k16_bf16(&c_acc",
                           "if (threadIdx.x != 40) tw_wgmma_m64n16k16_bf16(&c_acc")),
              HasSubstr("an instruction of a warpgroup that not all lanes of threads 0 to 127"));
}

// Each row of the first factor has a single 1, so that each result is one element of the second
// factor. A factor that is read from a wrong place gives another element.
TEST(HostEmulator, AnMnMajorFactorThatLiesElsewhereIsWrong) {
  const Program program = mn_major(true, true);
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  constexpr size_t m = 64, n = 128, k = 64;
  const auto term_of = [](size_t row) { return (row * 7 + 3) % k; };
  const auto value = [](size_t term, size_t column) {
    return static_cast<float>((term * n + column) % 251);
  };
  const auto bf16 = [](float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); };
  std::vector<uint16_t> a(k * m), b(k * n);
  for (size_t row = 0; row < m; ++row) a[term_of(row) * m + row] = bf16(1);
  for (size_t i = 0; i < b.size(); ++i) b[i] = bf16(value(i / n, i % n));
  const auto outcome = [&](const std::string& text) -> std::string {
    std::vector<float> c(m * n, 7);
    const std::string error =
        emulator_error(text, code.kernels[0], {a.data(), b.data(), c.data(), nullptr});
    if (!error.empty()) return error;
    for (size_t i = 0; i < c.size(); ++i)
      if (c[i] != value(term_of(i / n), i % n)) return "wrong";
    return "right";
  };
  EXPECT_EQ(outcome(code.text), "right") << code.text;
  // The instruction must transpose the factors that are MN-major, and no others. Otherwise the
  // result is wrong, or the instruction reads past the buffers, which is an error.
  EXPECT_NE(outcome(with(code.text, "k16_bf16_tab(", "k16_bf16_ta(")), "right");
  EXPECT_NE(outcome(with(code.text, "k16_bf16_tab(", "k16_bf16_tb(")), "right");
  EXPECT_NE(outcome(with(code.text, "k16_bf16_tab(", "k16_bf16(")), "right");
  // An offset of the descriptor is wrong or missing, or its two offsets are exchanged.
  const std::string leading = "(ULONG)(group_bytes / 16) << 16";
  const std::string stride = "(ULONG)(8 * swizzle / 16) << 32";
  EXPECT_EQ(
      outcome(with(code.text, "tw_descriptor_mn<128, 4096>(", "tw_descriptor_mn<128, 2048>(")),
      "wrong");
  EXPECT_EQ(outcome(with(code.text, in_cuda(leading), "0ull")), "wrong");
  EXPECT_EQ(outcome(with(code.text, in_cuda(stride), in_cuda("(ULONG)(4 * swizzle / 16) << 32"))),
            "wrong");
  EXPECT_EQ(
      outcome(with(with(code.text, in_cuda(leading), in_cuda("(ULONG)(8 * swizzle / 16) << 16")),
                   in_cuda(stride), in_cuda("(ULONG)(group_bytes / 16) << 32"))),
      "wrong");
  // The instruction expects another swizzle than the stores have, or the stores have none.
  EXPECT_NE(outcome(with(code.text, "tw_descriptor_mn<128, 4096>(", "tw_descriptor_mn<64, 4096>(")),
            "right");
  EXPECT_EQ(outcome(with(code.text, "a_c[tw_swizzled<128, 2>(", "a_c[(")), "wrong");
  EXPECT_EQ(outcome(with(code.text, "b_c[tw_swizzled<128, 2>(", "b_c[(")), "wrong");
}

Schedule with_staged_results(const Schedule& schedule) {
  return schedule.cache_result("c", {"m.1", "n"})
      .pad("c@c", "n", 4)
      .split("c@c", "n", 4)
      .bind("c@c", "m.1")
      .bind("c@c", "n.0")
      .vectorize("c@c", "n.1");
}

std::vector<GpuCase> boxes_in_pipelines() {
  std::vector<GpuCase> cases;
  for (const int64_t depth : {2, 3, 4})
    for (const int64_t trips : {1, 2, 3, 4, 5, 11})
      for (const int64_t less : {0, 4}) {
        const Program program = bulk_schedule(depth, 21, 8 * trips - less).program().value();
        cases.push_back(gpu_case("", program, integer_inputs(program, 1)));
      }
  return cases;
}

TEST(HostEmulator, CopiesBoxesInPipelines) { expect_emulation_agrees(boxes_in_pipelines()); }

TEST(Cuda, CopiesBoxesInPipelines) { expect_gpu_agrees(boxes_in_pipelines(), 90); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(HostEmulator, WrongBulkCopiesShow) {
  const Program program = bulk_schedule(3).program().value();
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  std::vector<float> a(20 * 44, 1), b(44 * 16, 1), c(20 * 16);
  const auto run = [&](const std::string& text, const GpuKernel& kernel,
                       ThreadOrder order = ThreadOrder::Forward) {
    return emulator_error(text, kernel, {a.data(), b.data(), c.data(), nullptr}, {.order = order});
  };
  const auto sum = [&](const std::string& text, const GpuKernel& kernel) {
    EXPECT_EQ(run(text, kernel), "");
    return c[0];
  };
  const GpuKernel kernel = code.kernels[0];
  EXPECT_EQ(sum(code.text, kernel), 44);
  GpuKernel wrong = kernel;
  wrong.maps[0].extents[0] = 40;
  EXPECT_EQ(sum(code.text, wrong), 40);
  wrong = kernel;
  wrong.maps[1].strides[0] = 80;
  b[2 * 16] = 5;
  EXPECT_EQ(sum(code.text, kernel), 48);
  wrong.maps[1].extents[1] = 30;
  EXPECT_NE(sum(code.text, wrong), 48);
  // With a swizzle of 64 bytes, a box must go to a multiple of 512, and this buffer begins
  // elsewhere.
  wrong = kernel;
  wrong.maps[1].swizzle = 64;
  EXPECT_EQ(run(code.text, wrong),
            "[host emulator] a box goes to an address that is no multiple of 512");
  b[2 * 16] = 1;
  const std::string wait = "tw_wait_at(&tw_barriers[tw_arrived & 3], tw_arrived >> 2 & 1);";
  const std::string short_box = replaced(code.text, ", 256, ", ", 252, ");
  EXPECT_THAT(run(without(short_box, wait), kernel),
              HasSubstr("used again before its boxes have arrived"));
  const std::string never = "waits for boxes that never arrive";
  EXPECT_THAT(run(short_box, kernel), HasSubstr(never));
  EXPECT_THAT(run(replaced(code.text, "if (thread == 0) tw_arrive(", "(void)("), kernel),
              HasSubstr(never));
  EXPECT_THAT(run(without(code.text, "__syncthreads();"), kernel, ThreadOrder::Backward),
              HasSubstr("used before it is opened"));
  EXPECT_THAT(run(replaced(code.text, "&a_c[k_0 * 8 * 8]", "&a_c[k_0 * 8 * 8 + 4]"), kernel),
              HasSubstr("an address that is no multiple of 128"));
  wrong = kernel;
  wrong.maps[0].box.push_back(1);
  wrong.maps[0].extents.push_back(1);
  wrong.maps[0].strides.push_back(16);
  EXPECT_THAT(run(code.text, wrong), HasSubstr("a box of 3 dimensions is copied by 2"));
}

TEST(HostEmulator, AMissingWaitForBoxesShows) {
  const Program program = bulk_schedule(2, 8, 16).program().value();
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  std::vector<float> a(8 * 16, 1), b(16 * 16, 1), c(8 * 16);
  const auto error = [&](const std::string& text) {
    return emulator_error(text, code.kernels[0], {a.data(), b.data(), c.data(), nullptr});
  };
  EXPECT_EQ(error(code.text), "");
  EXPECT_EQ(c[0], 16);
  EXPECT_EQ(
      error(without(code.text, "tw_wait_at(&tw_barriers[tw_arrived & 1], tw_arrived >> 1 & 1);")),
      "[host emulator] a block ends while boxes are on their way");
  EXPECT_TRUE(std::isnan(c[0]));
}

std::vector<GpuCase> specialised_phases() {
  std::vector<GpuCase> cases;
  for (const int64_t depth : {2, 3, 4})
    for (const int64_t trips : {2, 3, 4, 5, 11}) {
      const Schedule schedule = bulk_schedule(depth, 21, 8 * trips - 4).specialise("c");
      const Schedule persistent = schedule.persist("c");
      for (const Schedule& each : {schedule, persistent, with_staged_results(persistent)}) {
        const Program program = each.program().value();
        cases.push_back(gpu_case("", program, integer_inputs(program, 1)));
      }
    }
  // A GPU cannot run a block for each of these tasks at once.
  const Program many = bulk_schedule(3, 20003, 28).specialise("c").persist("c").program().value();
  cases.push_back(gpu_case("", many, integer_inputs(many, 1)));
  return cases;
}

TEST(HostEmulator, SpecialisedPhasesCompute) { expect_emulation_agrees(specialised_phases()); }

TEST(Cuda, SpecialisedPhasesCompute) { expect_gpu_agrees(specialised_phases(), 90); }

TEST(HostEmulator, WrongSpecialisedPhasesShow) {
  const Program program = bulk_schedule(2).specialise("c").program().value();
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  std::vector<float> a(20 * 44, 1), b(44 * 16, 1), c(20 * 16);
  const auto run = [&](const std::string& text, ThreadOrder order) {
    return emulator_error(text, code.kernels[0], {a.data(), b.data(), c.data(), nullptr},
                          {.order = order});
  };
  const std::string leave = "tw_leave(&tw_emptied[tw_arrived & 1]);";
  const std::string emptied = "tw_wait_at(&tw_emptied[tw_arrived & 1], tw_arrived >> 1 & 1);";
  for (const ThreadOrder order : {ThreadOrder::Forward, ThreadOrder::Backward}) {
    EXPECT_EQ(run(code.text, order), "");
    EXPECT_EQ(c[0], 44);
    EXPECT_THAT(run(without(code.text, leave), order), HasSubstr("waits for boxes that never"));
    // The producer copies to a slot again without waiting until the consumers have read it.
    const std::string error = run(without(code.text, emptied), order);
    EXPECT_TRUE(!error.empty() || c[0] != 44) << error;
  }
}

TEST(HostEmulator, WrongPersistentPhasesShow) {
  const Program program = bulk_schedule(3).specialise("c").persist("c").program().value();
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  EXPECT_TRUE(code.kernels[0].persistent);
  EXPECT_FALSE(emit_gpu(program, "k", GpuDialect::OpenCl)->kernels[0].persistent);
  EXPECT_THAT(code.text, HasSubstr("for (unsigned block = blockIdx.x; block < 3; block += "
                                   "gridDim.x) {"));
  std::vector<float> a(20 * 44, 1), b(44 * 16, 1), c(20 * 16);
  const auto run = [&](const std::string& text, ThreadOrder order) {
    std::ranges::fill(c, 0.0F);
    return emulator_error(text, code.kernels[0], {a.data(), b.data(), c.data(), nullptr},
                          {.order = order, .persistent_blocks = 1});
  };
  const auto is_right = [&](const std::string& text, ThreadOrder order) {
    return run(text, order).empty() && std::ranges::all_of(c, [](float sum) { return sum == 44; });
  };
  // In the text, the end of the producer's pipeline is the first of these loops, and the end of the
  // consumers' pipeline is the last.
  const std::string end = "for (; tw_arrived < tw_committed; ++tw_arrived) {";
  std::string of_consumers = code.text, of_producer = code.text;
  of_producer.replace(of_producer.find(end), end.size(), "while (false) {");
  of_consumers.replace(of_consumers.rfind(end), end.size(), "while (false) {");
  ASSERT_NE(of_consumers, of_producer);
  for (const ThreadOrder order : {ThreadOrder::Forward, ThreadOrder::Backward}) {
    EXPECT_TRUE(is_right(code.text, order));
    EXPECT_FALSE(is_right(of_producer, order) && is_right(of_consumers, order));
  }
}

TEST(HostEmulator, ABarrierOfSomeThreadsThatOneDoesNotReachIsAnError) {
  const GpuKernel kernel = {.name = "k", .blocks = 1, .threads = 64};
  const std::string text = R"(extern "C" __global__ void k(int* out, unsigned char* scratch) {
  if (threadIdx.x >= 32) return;
  if (threadIdx.x != 5) tw_sync<32>();
  out[threadIdx.x] = 1;
}
)";
  std::vector<int> out(64);
  EXPECT_EQ(emulator_error(without(text, "if (threadIdx.x != 5) "), kernel, {out.data(), nullptr}),
            "");
  EXPECT_THAT(emulator_error(text, kernel, {out.data(), nullptr}),
              HasSubstr("the first threads of a block part at a barrier"));
}

TEST(Nvrtc, CompilesSpecialisedPhases) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  for (const int64_t rows : {8, 16, 32}) {
    const auto compute = dsl::parse_compute(R"(input a: f32[128, 256]
weight b: f32[256, 16]
c: f32[m=128, n=16] = sum(k=256) a[m, k] * b[k, n])");
    const Schedule schedule = Schedule(*compute)
                                  .split("c", "m", rows)
                                  .split("c", "k", 32)
                                  .reorder("c", {"m.0", "k.0", "m.1", "n", "k.1"})
                                  .cache_write("c", "m.0")
                                  .cache_operand("c", 1, "k.0", {"m.1", "k.1"})
                                  .cache_operand("c", 2, "k.0", {"k.1", "n"})
                                  .pipeline("a@c", 3)
                                  .pipeline("b@c", 3)
                                  .bulk("a@c")
                                  .bulk("b@c")
                                  .specialise("c")
                                  .parallel("c", "m.0")
                                  .bind("c", "m.1")
                                  .bind("c", "n");
    const std::string text = text_of(schedule.program().value());
    EXPECT_EQ(text.find("tw_more_registers<") != std::string::npos, rows > 8);
    for (const char* architecture : {"sm_90", "sm_90a", "sm_100", "sm_120"}) {
      if (std::ranges::count(nvrtc->architectures(), architecture) == 0) continue;
      const auto compiled = nvrtc->compile(text, architecture);
      ASSERT_TRUE(compiled) << compiled.error().message;
      const CudaFunctionFacts& facts = compiled->functions[0];
      EXPECT_EQ(facts.spill_store_bytes, 0) << architecture;
      // Tensor maps are parameters of 128 bytes each. None of them is copied to the stack.
      EXPECT_LT(facts.stack_bytes, 64) << architecture;
      // Producers hand registers to consumers, but the sum of all threads' registers stays that of
      // the start.
      if (architecture != std::string("sm_90a") || rows == 8) continue;
      EXPECT_EQ(facts.registers, rows == 16 ? 168 : 96);
    }
  }
}

TEST(Nvrtc, BulkCopiesAreOfSm90On) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
  const std::string text = text_of(bulk_schedule(3).program().value());
  for (const char* architecture : {"sm_90", "sm_90a", "sm_100", "sm_120"}) {
    if (std::ranges::count(nvrtc->architectures(), architecture) == 0) continue;
    const bool has_ptx = architecture != std::string("sm_90a");
    const auto compiled = nvrtc->compile(text, architecture, has_ptx);
    ASSERT_TRUE(compiled) << compiled.error().message;
    EXPECT_EQ(compiled->functions[0].spill_store_bytes, 0) << architecture;
    if (!has_ptx) continue;
    for (const char* instruction :
         {"mbarrier.init.shared::cta.b64", "fence.mbarrier_init.release.cluster",
          "mbarrier.expect_tx.relaxed.cta.shared::cta.b64",
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes",
          "mbarrier.arrive.shared::cta.b64", "mbarrier.try_wait.parity.shared::cta.b64"})
      EXPECT_THAT(compiled->code.text, HasSubstr(instruction)) << architecture;
  }
  // Boxes of each number of dimensions.
  for (int rank = 1; rank <= 5; ++rank) {
    std::string first;
    for (int d = 0; d < rank; ++d) first += fmt::format(", {}", d);
    const std::string kernel = fmt::format(
        R"(extern "C" __global__ void k(const __grid_constant__ tw_tensor_map map) {{
  __shared__ __align__(128) float s[64];
  __shared__ unsigned long long barrier;
  tw_copy_box<{}>(s, map, &barrier, 256{});
}}
)",
        rank, first);
    const auto compiled = nvrtc->compile(cuda_functions_for(kernel) + kernel, "sm_90", true);
    ASSERT_TRUE(compiled) << compiled.error().message;
    EXPECT_THAT(compiled->code.text, HasSubstr(fmt::format("cp.async.bulk.tensor.{}d.", rank)));
  }
}

TEST(HostEmulator, ThreadsThatPartAtABarrierAreAnError) {
  const GpuKernel kernel = {.name = "k", .blocks = 1, .threads = 4};
  EXPECT_THAT(emulator_error(R"(extern "C" __global__ void k(unsigned char* scratch) {
  if (threadIdx.x < 3) __syncthreads();
}
)",
                             kernel, {nullptr}),
              HasSubstr("thread 0 waits in line 2, thread 3 has ended"));
  EXPECT_THAT(emulator_error(R"(extern "C" __global__ void k(unsigned char* scratch) {
  if (threadIdx.x < 3) __syncthreads();
  else
    __syncthreads();
}
)",
                             kernel, {nullptr}),
              HasSubstr("thread 0 waits in line 2, thread 3 waits in line 4"));
}

TEST(HostEmulator, ALaneThatIsMissingFromAnInstructionOfItsWarpIsAnError) {
  const GpuKernel kernel = {.name = "k", .blocks = 1, .threads = 64};
  const std::string text = R"(extern "C" __global__ void k(float* out, unsigned char* scratch) {
  float c[4] = {};
  if (threadIdx.x != 40) tw_mma_tf32(c[0], c[1], c[2], c[3], 0, 0, 0, 0, 0, 0);
  out[threadIdx.x] = c[0];
}
)";
  std::vector<float> out(64);
  EXPECT_THAT(emulator_error(text, kernel, {out.data(), nullptr}),
              HasSubstr("an instruction of a warp that not all lanes of threads 32 to 63 reach"));
}

TEST(HostEmulator, TensorTilesRoundToTf32) {
  const GpuKernel kernel = {.name = "k", .blocks = 1, .threads = 32};
  const std::string text = R"(extern "C" __global__ void k(float* out, unsigned char* scratch) {
  const float third = 1.0f / 3.0f;
  float one[4] = {}, three[4] = {};
  tw_mma_m16n8k8_tf32(one[0], one[1], one[2], one[3], third, third, third, third, third, third);
  tw_mma_m16n8k8_3xtf32(three[0], three[1], three[2], three[3], third, third, third, third, third,
                        third);
  out[threadIdx.x] = one[threadIdx.x % 4];
  out[32 + threadIdx.x] = three[threadIdx.x % 4];
}
)";
  std::vector<float> out(64);
  EXPECT_EQ(emulator_error(cuda_functions_for(text) + text, kernel, {out.data(), nullptr}), "");
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_GT(std::abs(out[i] - 8.0 / 9), 1e-5);
    EXPECT_LT(std::abs(out[i] - 8.0 / 9), 1e-3);
    EXPECT_LT(std::abs(out[i + 32] - 8.0 / 9), 3e-7);
  }
}

// Tensor cores truncate their sums. If all 8,192 terms are summed inside of a tensor core, as in
// `inside`, the error is larger than the class `fast` allows.
TEST(HostEmulator, Fault81_SplitTf32IsFastF32AlsoInLongSums) {
  constexpr int terms = 8192, rows = 16, columns = 8;
  const std::string text =
      R"(extern "C" __global__ void k(float* out, float* a, float* b, unsigned char* scratch) {
  const int lane = threadIdx.x, row = lane / 4, of_four = lane % 4;
  float split[4] = {}, inside[4] = {};
  for (int k = 0; k < 8192; k += 8) {
    const float a0 = a[row * 8192 + k + of_four], a1 = a[(row + 8) * 8192 + k + of_four];
    const float a2 = a[row * 8192 + k + of_four + 4], a3 = a[(row + 8) * 8192 + k + of_four + 4];
    const float b0 = b[(k + of_four) * 8 + row], b1 = b[(k + of_four + 4) * 8 + row];
    tw_mma_m16n8k8_3xtf32(split[0], split[1], split[2], split[3], a0, a1, a2, a3, b0, b1);
    tw_mma_tf32(inside[0], inside[1], inside[2], inside[3], tw_small(a0), tw_small(a1), tw_small(a2),
                tw_small(a3), tw_big(b0), tw_big(b1));
    tw_mma_tf32(inside[0], inside[1], inside[2], inside[3], tw_big(a0), tw_big(a1), tw_big(a2),
                tw_big(a3), tw_small(b0), tw_small(b1));
    tw_mma_tf32(inside[0], inside[1], inside[2], inside[3], tw_big(a0), tw_big(a1), tw_big(a2),
                tw_big(a3), tw_big(b0), tw_big(b1));
  }
  for (int i = 0; i < 4; ++i) {
    const int at = (row + i / 2 * 8) * 8 + of_four * 2 + i % 2;
    out[at] = split[i];
    out[128 + at] = inside[i];
  }
}
)";
  Random random(7);
  const auto normal = [&] {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
    return static_cast<float>(radius * std::cos(2 * M_PI * random.unit()));
  };
  std::vector<float> a(rows * terms), b(terms * columns), out(2 * rows * columns);
  std::ranges::generate(a, normal);
  std::ranges::generate(b, normal);
  const GpuKernel kernel = {.name = "k", .blocks = 1, .threads = 32};
  ASSERT_EQ(emulator_error(cuda_functions_for(text) + text, kernel,
                           {out.data(), a.data(), b.data(), nullptr}),
            "");
  double largest = 0, split = 0, inside = 0;
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < columns; ++x) {
      double sum = 0;
      for (int k = 0; k < terms; ++k)
        sum += static_cast<double>(a[y * terms + k]) * b[k * columns + x];
      largest = std::max(largest, std::abs(sum));
      split = std::max(split, std::abs(out[y * columns + x] - sum));
      inside = std::max(inside, std::abs(out[rows * columns + y * columns + x] - sum));
    }
  EXPECT_LT(split / largest, 2e-6);
  EXPECT_GT(inside / largest, 2e-5);
}

TEST(HostEmulator, WritesPastDynamicSharedMemoryAreAnError) {
  const Program program = neighbours(64 << 10);
  const GpuCode code = emit_gpu(program, "k", GpuDialect::Cuda).value();
  GpuKernel kernel = code.kernels[0];
  kernel.dynamic_shared_bytes = 47 * 4;
  std::vector<float> in(48, 1), out(48);
  EXPECT_THAT(emulator_error(code.text, kernel, {in.data(), out.data(), nullptr}),
              HasSubstr("k_p0 writes past its 188 bytes of shared memory"));
}

TEST(HostEmulatorDeathTest, UnalignedVectorsEndTheProcess) {
  const GpuKernel kernel = {.name = "k", .blocks = 1, .threads = 1};
  alignas(16) float data[8] = {};
  EXPECT_DEATH(emulator_error(R"(extern "C" __global__ void k(float* data, unsigned char* scratch) {
  *(float4*)&data[2] = float4{};
}
)",
                              kernel, {data, nullptr}),
               "misaligned address");
}

}  // namespace
}  // namespace tw::codegen
