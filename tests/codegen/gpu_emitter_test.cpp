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
#include "tests/codegen/gpu_runs.h"
#include "tests/codegen/kernels.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/mn_major_products.h"

namespace tw::codegen {
namespace {

using schedules::Schedule;
using testing::HasSubstr;
using testing::Not;

Program program_of(const dsl::Compute& compute, const char* steps,
                   const schedules::Limits& limits = {}) {
  const auto schedule = schedules::parse_schedule(compute, steps);
  TW_CHECK(schedule, "the test's steps parse");
  const auto program = schedule->program(limits);
  EXPECT_TRUE(program) << program.error().message;
  return program.value();
}

Program gemm() {
  const auto compute = dsl::parse_compute(R"(
input a: f32[64, 32]
weight b: f32[32, 128]
c: f32[m=64, n=128] = sum(k=32) a[m, k] * b[k, n]
)");
  return program_of(*compute, R"(tw1
split c m 32
split c n 64
split c m.1 2
split c n.1 4
split c k 8
reorder c m.0 n.0 k.0 m.1.0 n.1.0 k.1 m.1.1 n.1.1
cache_write c n.0
cache_operand c 1 k.0 k.1 m.1.0 m.1.1
cache_operand c 2 k.0 k.1 n.1.0 n.1.1
parallel c m.0
parallel c n.0
bind c m.1.0
bind c n.1.0
unroll c m.1.1
vectorize c n.1.1
bind a@c k.1
bind a@c m.1.0
bind b@c k.1
bind b@c n.1.0
vectorize b@c n.1.1
)");
}

/// Copies of both operands are ahead; the last block of the reduction has 6 of 8 elements.
Program pipelined_gemm(int depth, DType type = Float32) {
  const auto compute =
      dsl::parse_compute(fmt::format(R"(
input a: {0}[64, 30]
weight b: {0}[30, 128]
c: f32[m=64, n=128] = sum(k=30) {1}(a[m, k]) * {1}(b[k, n])
)",
                                     to_string(type), type == Float32 ? "" : "f32"));
  return program_of(*compute, fmt::format(R"(tw1
split c m 32
split c n 64
split c m.1 2
split c n.1 4
split c k 8
reorder c m.0 n.0 k.0 m.1.0 n.1.0 k.1 m.1.1 n.1.1
cache_write c n.0
cache_operand c 1 k.0 k.1 m.1.0 m.1.1
cache_operand c 2 k.0 k.1 n.1.0 n.1.1
parallel c m.0
parallel c n.0
bind c m.1.0
bind c n.1.0
unroll c m.1.1
vectorize c n.1.1
pipeline a@c {0}
pad a@c m.1.0 4
reorder a@c m.1.0 m.1.1 k.1
fuse a@c m.1.0 m.1.1
fuse a@c m.1.0*m.1.1 k.1
bind a@c m.1.0*m.1.1*k.1
pipeline b@c {0}
fuse b@c k.1 n.1.0
bind b@c k.1*n.1.0
vectorize b@c n.1.1
)",
                                          depth)
                                  .c_str());
}

/// There is nothing to read for j = 0: the first copies stand after the wait for them.
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

/// 3 x 3 with padding as a matrix product: pixels x channels, 36 taps in blocks of 12.
Program implicit_gemm() {
  const auto conv = dsl::make_workload(
      "conv2d",
      {{"n", 1}, {"c", 4}, {"h", 8}, {"w", 8}, {"k", 16}, {"r", 3}, {"s", 3}, {"pad", 1}});
  return program_of(conv->compute, R"(tw1
fuse out y x
fuse out c r
fuse out c*r s
split out k 8
split out y*x 32
split out k.1 2
split out y*x.1 4
split out c*r*s 12
reorder out n k.0 y*x.0 c*r*s.0 k.1.0 y*x.1.0 c*r*s.1 k.1.1 y*x.1.1
cache_write out y*x.0
cache_operand out 1 c*r*s.0 c*r*s.1 y*x.1.0 y*x.1.1
cache_operand out 2 c*r*s.0 c*r*s.1 k.1.0 k.1.1
parallel out n
parallel out k.0
parallel out y*x.0
bind out k.1.0
bind out y*x.1.0
unroll out k.1.1
vectorize out y*x.1.1
fuse in@out y*x.1.0 y*x.1.1
bind in@out y*x.1.0*y*x.1.1
bind w@out c*r*s.1
)");
}

/// Two warps, each of 2 x 2 tiles. `order` of a lane's neighbours in shared memory: along k, or
/// across. `more` steps come last.
Program tensor_gemm(const schedules::TensorTile& tile, bool along = true,
                    const std::string& more = "") {
  const DType type = tile.operand, sum = tile.accumulator;
  const std::string widen = type == sum ? "" : std::string(to_string(sum));
  const auto compute =
      dsl::parse_compute(fmt::format("input a: {0}[64, 96]\nweight b: {0}[96, 48]\n"
                                     "c: {1}[m=64, n=48] = sum(k=96) {2}(a[m, k]) * {2}(b[k, n])",
                                     to_string(type), to_string(sum), widen));
  const std::string k = "k.1.0 ", depth = " k.1.1";
  const auto ordered = [&](const std::string& loops) {
    return along ? k + loops + depth : k + "k.1.1 " + loops;
  };
  return program_of(*compute, fmt::format(R"(tw1
split c m 64
split c m.1 32
split c m.1.1 16
split c m.1.1.1 8
split c n 16
split c n.1 8
split c n.1.1 2
split c k {0}
split c k.1 {1}
reorder c m.0 n.0 k.0 m.1.0 m.1.1.1.1 n.1.1.0 k.1.0 m.1.1.0 n.1.0 m.1.1.1.0 n.1.1.1 k.1.1
cache_write c n.0
cache_operand c 1 k.0 {2}
cache_operand c 2 k.0 {3}
parallel c m.0
parallel c n.0
bind c m.1.0
bind c m.1.1.1.1
bind c n.1.1.0
unroll c k.1.0
unroll c m.1.1.0
unroll c n.1.0
tensorize c m.1.1.1.0 {4}
reorder a@c m.1.0 m.1.1.1.1 m.1.1.0 m.1.1.1.0 k.1.0 k.1.1
bind a@c m.1.0
bind a@c m.1.1.1.1
reorder b@c n.1.1.0 n.1.1.1 n.1.0 k.1.0 k.1.1
bind b@c n.1.1.0
bind b@c n.1.1.1
{5})",
                                          2 * tile.depth, tile.depth,
                                          ordered("m.1.0 m.1.1.0 m.1.1.1.0 m.1.1.1.1"),
                                          ordered("n.1.0 n.1.1.0 n.1.1.1"), tile.name, more)
                                  .c_str());
}

/// 40 partial results of each row, by threads, which a warp combines.
Program row_reduction(const std::string& type, const std::string& combine) {
  const auto compute = dsl::parse_compute(
      fmt::format("input a: {0}[3, 101]; r: {0}[i=3] = {1}(j=101) a[i, j]", type, combine));
  return program_of(*compute, R"(tw1
rfactor r j 40
compute_at r.rf r i
parallel r i
reorder r.rf i j_rf j
cache_write r.rf j_rf
bind r.rf j_rf
bind r j_rf
)");
}

/// Warpgroups below each other and side by side, each of one or two tiles of 64 rows; a block of
/// the reduction has rows of `bytes`.
struct Groups {
  std::string tile = "wgmma_m64k16_bf16";
  int64_t below = 1, beside = 1, tiles = 1;
  int64_t columns = 32, bytes = 128, stages = 1;
  bool has_tails = true;
};

Program warpgroups(const Groups& g) {
  const schedules::TensorTile& tile = *schedules::find_tensor_tile(g.tile);
  const DType type = tile.operand, sum = tile.accumulator;
  const std::string widen = type == sum ? "" : std::string(to_string(sum));
  const int64_t lanes = 16 / size_bytes(type), steps = g.bytes / 32;
  int64_t m = 64 * g.below * g.tiles, n = g.columns * g.beside, k = 3 * steps * tile.depth;
  if (g.has_tails) m -= 10, n += g.columns > 32 ? -6 : 6, k = 140;
  const auto compute = dsl::parse_compute(
      fmt::format("input a: {0}[{3}, {5}]\nweight b: {0}[{4}, {5}]\n"
                  "c: {1}[m={3}, n={4}] = sum(k={5}) {2}(a[m, k]) * {2}(b[n, k])",
                  to_string(type), to_string(sum), widen, m, n, k));
  TW_CHECK(compute);
  return program_of(*compute,
                    fmt::format(R"(tw1
split c m {0}
split c m.1 {1}
split c m.1.1 64
split c m.1.1.1 16
split c m.1.1.1.1 8
split c n {2}
split c n.1 {3}
split c n.1.1 8
split c n.1.1.1 2
split c k {4}
split c k.1 {5}
reorder c m.0 n.0 k.0 m.1.0 n.1.0 m.1.1.1.0 m.1.1.1.1.1 n.1.1.1.0 k.1.0 m.1.1.0 m.1.1.1.1.0 n.1.1.0 n.1.1.1.1 k.1.1
cache_write c n.0
cache_operand c 1 k.0 m.1.0 m.1.1.0 m.1.1.1.0 m.1.1.1.1.0 m.1.1.1.1.1 k.1.0 k.1.1
cache_operand c 2 k.0 n.1.0 n.1.1.0 n.1.1.1.0 n.1.1.1.1 k.1.0 k.1.1
swizzle a@c {6}
swizzle b@c {6}
{9}parallel c m.0
parallel c n.0
bind c m.1.0
bind c n.1.0
bind c m.1.1.1.0
bind c m.1.1.1.1.1
bind c n.1.1.1.0
unroll c m.1.1.0
tensorize c m.1.1.1.1.0 {7}
split a@c k.1.1 {8}
vectorize a@c k.1.1.1
bind a@c m.1.0
bind a@c m.1.1.0
bind a@c m.1.1.1.0
split b@c k.1.1 {8}
vectorize b@c k.1.1.1
bind b@c n.1.0
bind b@c n.1.1.0
bind b@c n.1.1.1.0
)",
                                64 * g.below * g.tiles, 64 * g.tiles, g.columns * g.beside,
                                g.columns, steps * tile.depth, tile.depth, g.bytes, g.tile, lanes,
                                g.stages > 1 ? fmt::format("pipeline a@c {0}\n"
                                                           "pipeline b@c {0}\n",
                                                           g.stages)
                                             : "")
                        .c_str(),
                    schedules::limits_of(*parse_target("cuda:sm_90a")));
}

std::string text_of(const Program& program, GpuDialect dialect = GpuDialect::Cuda) {
  const auto code = emit_gpu(program, "k", dialect);
  return code ? code->text : code.error().message;
}

/// Compares with golden/<name>, or writes it where the caller of the test asks for it.
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

/// Runs the cases on the GPU of this machine if its architecture is between `least` and `most`;
/// else the test says why it skips.
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

TEST(GpuEmitter, WarpsReduceByShuffles) {
  EXPECT_THAT(text_of(row_reduction("i32", "max")), HasSubstr("tw_max(tw_own, tw_other)"));
  EXPECT_THAT(text_of(row_reduction("i64", "sum")), Not(HasSubstr("tw_shuffle")));
  EXPECT_THAT(text_of(row_reduction("f32", "sum"), GpuDialect::OpenCl), Not(HasSubstr("shuffle")));
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

std::vector<schedules::TensorTile> tiles_of_warps() {
  std::vector<schedules::TensorTile> tiles;
  std::ranges::copy_if(schedules::tensor_tiles(), std::back_inserter(tiles),
                       [](const auto& tile) { return tile.is_of_warp(); });
  return tiles;
}

/// Products by all tiles of a warp, with factors that are contiguous in memory and ones that are
/// not.
std::vector<GpuCase> tensor_tiles() {
  std::vector<GpuCase> cases;
  for (const schedules::TensorTile& tile : tiles_of_warps())
    for (const bool along : {true, false}) {
      const Program program = tensor_gemm(tile, along);
      cases.push_back(gpu_case(std::string(tile.name), program, integer_inputs(program, 1), 4e-6));
    }
  return cases;
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

TEST(HostEmulator, RunsTensorTiles) { expect_emulation_agrees(tensor_tiles()); }

TEST(Cuda, RunsTensorTiles) { expect_gpu_agrees(tensor_tiles(), 80); }

// Every element meets the relative bound that the accuracy class `fast` sets for the largest one,
// which is above 1 here.
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

/// Elements of 1, 2 and 4 bytes, swizzled by each number of bytes, in one slot and in three, some
/// of them in memory that the launch asks for.
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

/// The element at each place of a buffer of 4 KiB, whose text is `tw_swizzled<...>(i)`.
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

TEST(GpuEmitter, TilesOfWarpgroupsAreCalls) {
  const std::string text = text_of(warpgroups({.columns = 64, .stages = 3}));
  EXPECT_THAT(text, HasSubstr("tw_wgmma_m64n64k16_bf16(&c_acc[0], tw_descriptor<128>(&a_c["));
  EXPECT_THAT(text_of(warpgroups({}), GpuDialect::OpenCl), Not(HasSubstr("tw_wgmma")));
}

/// Factors that are contiguous across the reduction, two groups of columns.
Program mn_major(bool a, bool b) {
  const schedules::MnMajorProduct p = {64,
                                       128,
                                       64,
                                       {{"stages", 1},
                                        {"copies", 0},
                                        {"block.rows", 64},
                                        {"block.columns", 128},
                                        {"warps.rows", 1},
                                        {"warps.columns", 1},
                                        {"tiles", 2},
                                        {"copy.rows", a ? 2 : 1},
                                        {"copy.columns", b ? 2 : 1}},
                                       a,
                                       b};
  return schedule_of(p).program(schedules::limits_of(*parse_target("cuda:sm_90a"))).value();
}

TEST(GpuEmitter, MnMajorFactorsAreTransposed) {
  // The flags are of the first factor and of the second; steps from 64 columns to the next 64 are
  // those of 32 terms.
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

// No thread transposes a factor.
TEST(GpuEmitter, MnMajorFactorsAreCopiedBy16Bytes) {
  const Schedule schedule = schedules::schedule_of({2048, 2048, 2048, {{"copies", 0}}});
  const std::string text =
      text_of(schedule.program(schedules::limits_of(*parse_target("cuda:sm_90a"))).value());
  EXPECT_THAT(text, HasSubstr("tw_copy_async<16>(&a_c["));
  EXPECT_THAT(text, HasSubstr("tw_copy_async<16>(&b_c["));
  EXPECT_THAT(text, HasSubstr("tw_descriptor_mn<128, 8192>(&b_c["));
  EXPECT_THAT(text, Not(HasSubstr("tw_v.")));
}

// In a pipeline warpgroup instructions run while their threads copy; without a pipeline there is a
// barrier between the two.
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

Stmt threads(const std::string& variable, int64_t extent, Block body) {
  return loop(variable, 0, extent, LoopKind::Thread, std::move(body));
}
const Stmt barrier = {schedules::Barrier{}};

/// Each thread puts an element into a shared buffer of `bytes` and takes its neighbour's.
Program neighbours(int64_t bytes, bool has_barrier = true) {
  const Expr i = var("i"), j = var("j");
  Block body = {threads("i", 48, {assign("s", {i}, f32("in", {i}))}), barrier,
                threads("j", 48, {assign("out", {j}, f32("s", {(j + 1) % 48}))})};
  if (!has_barrier) body.erase(body.begin() + 1);
  return single_phase({argument("in", Float32, {48}, false), argument("out", Float32, {48}, true)},
                      {}, {allocate("s", Float32, {bytes / 4}, Scope::Shared, std::move(body))});
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

/// out[t] = the sum of a row of in, and doubled = the rows twice, by four threads.
Program rows(int64_t columns) {
  const Expr t = var("t"), k = var("k"), j = var("j");
  return single_phase(
      {argument("in", Float32, {4, columns}, false), argument("out", Float32, {4}, true),
       argument("doubled", Float32, {4, columns}, true)},
      {},
      {threads("t", 4,
               {assign("out", {t}, f32("in", {t, 0})),
                serial("k", columns, {assign("out", {t}, f32("in", {t, k}), Combine::Sum)}),
                serial("j", columns,
                       {assign("doubled", {t, j}, f32("in", {t, j}) + f32("in", {t, j}))})})});
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

/// out[t * stride + v] = in[t * stride + v] for v < lanes, by threads t.
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

/// out[v, t] = in[t, v + offset] for v < lanes, by threads t.
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

/// out[i] = 257 in[i] + bias[v], rounded, where i = t * stride + v + offset is below `bound`, for v
/// < lanes, by threads t: halfway between two bf16 for odd in[i].
Program rounding_store(DType type, int64_t stride, int64_t lanes, int64_t offset = 0,
                       int64_t bound = 1000) {
  const Expr t = var("t"), v = var("v");
  const Expr i = t * stride + v + offset;
  const int64_t size = 4 * stride + lanes + offset;
  const double factor = type == Float16 ? 2049 : 257;
  Stmt store =
      assign("out", {i},
             dsl::cast(type, f32("in", {i}) * dsl::constant(Float32, factor) + f32("bias", {v})));
  if (bound < size) store = when(i < Expr(bound), {std::move(store)});
  return single_phase(
      {argument("in", Float32, {size}, false), argument("bias", Float32, {lanes}, false),
       argument("out", type, {size}, true)},
      {},
      {threads("z", size, {assign("out", {var("z")}, dsl::constant(type, 5))}), barrier,
       threads("t", 4, {vector("v", lanes, {std::move(store)})})});
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
  // Rows that do not begin at pairs, and lanes that are no pairs.
  for (const Program& program : {rounding_store(BFloat16, 5, 4), rounding_store(BFloat16, 4, 4, 1),
                                 rounding_store(Float16, 8, 3)})
    EXPECT_THAT(text_of(program), AllOf(Not(HasSubstr("tw_pack")), HasSubstr("] = tw_to_")));
}

TEST(GpuEmitter, ConditionsOfPackedStores) {
  // All four lanes have the condition of the first.
  EXPECT_THAT(text_of(rounding_store(BFloat16, 4, 4, 0, 12)),
              AllOf(HasSubstr("if (t * 4 < 12) {\n      {\n        const float4 tw_v0"),
                    HasSubstr("        *(uint2*)&out[t * 4] = "), Not(HasSubstr("} else {"))));
  // One of two lanes may have it: each is tested.
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

/// out[i] = f(in[i]), where i = t * stride + v, for v < lanes, by threads t; f takes an element.
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
  std::vector<GpuCase> cases;
  for (const DType type : {Float32, Float16, BFloat16})
    for (const auto& [stride, lanes] :
         {std::pair{2, 2}, {4, 4}, {5, 4}, {6, 6}, {8, 8}, {16, 16}}) {
      const Program program = computing_store(type, stride, lanes, add);
      cases.push_back(gpu_case("", program, integer_inputs(program, 3)));
    }
  expect_emulation_agrees(cases);
}

/// out[i] = f(in[i]) as i32, by threads of four lanes.
Program integer_store(DType from,
                      const std::function<Expr(const Expr& element, const Expr& i)>& f) {
  const Expr i = var("t") * 4 + var("v");
  return single_phase(
      {argument("in", from, {16}, false), argument("out", Int32, {16}, true)}, {},
      {threads("t", 4, {vector("v", 4, {assign("out", {i}, f(dsl::read("in", {i}, from), i))})})});
}

// A cast to i32 wraps, and may not pass through f32.
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

// The second operand of && and || may lie outside of the array where the first one decides.
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

// An element beyond the end would be read.
TEST(GpuEmitter, WhatOnlySomeLanesReadIsNotLoadedAtOnce) {
  const auto chosen = [](const Expr& element, const Expr& i) {
    return dsl::select(i < Expr(3), element, dsl::constant(Float32, 2));
  };
  const std::string text = text_of(computing_store(Float32, 4, 4, chosen));
  EXPECT_THAT(text, AllOf(HasSubstr("*(float4*)&out[t * 4] = {"), Not(HasSubstr("tw_v0"))));
}

// Elements that are a thread's own stay in registers.
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

TEST(HostEmulator, RunsRoundingStores) { expect_emulation_agrees(rounding_stores()); }

TEST(Cuda, RunsRoundingStores) { expect_gpu_agrees(rounding_stores()); }

TEST(OpenCl, RunsRoundingStores) {
  const auto device = opencl_device();
  if (!device) GTEST_SKIP() << device.error().message;
  expect_opencl_agrees(**device, rounding_stores());
}

TEST(GpuEmitter, NamesNeverCollide) {
  const Expr t = var("thread"), b = var("block");
  const Program program = single_phase(
      {argument("scratch", Float32, {3, 4}, false), argument("half", Float32, {3, 4}, true)},
      {{"block", 3}}, {threads("thread", 4, {assign("half", {b, t}, f32("scratch", {b, t}))})});
  const std::vector<GpuCase> cases = {gpu_case("", program, integer_inputs(program, 1))};
  expect_emulation_agrees(cases);
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
  // With as many slots as iterations, the loop variable is the slot.
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
    // No array is on the stack. On sm_90 ptxas spills a few bytes rather than have fewer blocks.
    EXPECT_EQ(compiled->functions[0].stack_bytes, compiled->functions[0].spill_store_bytes);
    EXPECT_LE(compiled->functions[0].spill_store_bytes, 64);
    EXPECT_EQ(compiled->functions[0].shared_bytes,
              emit_gpu(program, "k", GpuDialect::Cuda)->kernels[0].shared_bytes);
  }
}

/// The error of compiling and launching the kernel in the emulator; "" if there is none.
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
  // The neighbour has not written: NaN from the pattern.
  EXPECT_TRUE(std::isnan(forward[0]));
  EXPECT_EQ(backward[0], 1);
  EXPECT_TRUE(std::isnan(backward[47]));
}

std::string without(std::string text, const std::string& part) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.erase(at, part.size());
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

/// The part of a prelude as it stands in texts for CUDA.
std::string in_cuda(const std::string& part) { return with(part, "ULONG", "unsigned long long"); }

// One element of each factor is 1 and all others are 0, so that a wrong address changes the result.
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
  // Dense where the hardware swizzles, or another swizzle, or another step between rows.
  EXPECT_EQ(outcome(with(code.text, "a_c[tw_swizzled<128, 2>(", "a_c[(")), "wrong");
  EXPECT_EQ(outcome(with(code.text, "a_c[tw_swizzled<128, 2>(", "a_c[tw_swizzled<64, 2>(")),
            "wrong");
  EXPECT_EQ(outcome(with(code.text, "tw_descriptor<128>(&b_c", "tw_descriptor<64>(&b_c")), "wrong");
  EXPECT_EQ(outcome(with(code.text, "(8 * swizzle / 16) << 32", "(4 * swizzle / 16) << 32")),
            "wrong");
  EXPECT_THAT(outcome(with(code.text, "mode << 62", "0ull << 62")),
              HasSubstr("is not in shared memory, swizzled"));
  // Sums arrive when they are waited for, and the hardware has orders of its own.
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

// c[m, n] is one term, which another row or column has in another place.
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
  // The instruction transposes what is MN-major, and nothing else; it may read past the buffers
  // too.
  EXPECT_NE(outcome(with(code.text, "k16_bf16_tab(", "k16_bf16_ta(")), "right");
  EXPECT_NE(outcome(with(code.text, "k16_bf16_tab(", "k16_bf16_tb(")), "right");
  EXPECT_NE(outcome(with(code.text, "k16_bf16_tab(", "k16_bf16(")), "right");
  // One of the two offsets is missing, or the two are exchanged.
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
  // Another swizzle of the hardware, or none by those who store.
  EXPECT_NE(outcome(with(code.text, "tw_descriptor_mn<128, 4096>(", "tw_descriptor_mn<64, 4096>(")),
            "right");
  EXPECT_EQ(outcome(with(code.text, "a_c[tw_swizzled<128, 2>(", "a_c[(")), "wrong");
  EXPECT_EQ(outcome(with(code.text, "b_c[tw_swizzled<128, 2>(", "b_c[(")), "wrong");
}

/// a[m, k] * b[k, n] in blocks, both copied in bulk.
Schedule bulk_schedule(int64_t depth, int64_t m = 20, int64_t k = 44) {
  const auto compute = dsl::parse_compute(fmt::format(R"(input a: f32[{0}, {1}]
weight b: f32[{1}, 16]
c: f32[m={0}, n=16] = sum(k={1}) a[m, k] * b[k, n])",
                                                      m, k));
  return Schedule(*compute)
      .split("c", "m", 8)
      .split("c", "k", 8)
      .reorder("c", {"m.0", "k.0", "m.1", "n", "k.1"})
      .cache_write("c", "m.0")
      .cache_operand("c", 1, "k.0", {"m.1", "k.1"})
      .cache_operand("c", 2, "k.0", {"k.1", "n"})
      .pipeline("a@c", depth)
      .pipeline("b@c", depth)
      .bulk("a@c")
      .bulk("b@c")
      .parallel("c", "m.0")
      .bind("c", "m.1")
      .bind("c", "n");
}

Schedule with_staged_results(const Schedule& schedule) {
  return schedule.cache_result("c", {"m.1", "n"})
      .pad("c@c", "n", 4)
      .split("c@c", "n", 4)
      .bind("c@c", "m.1")
      .bind("c@c", "n.0")
      .vectorize("c@c", "n.1");
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
  // No copies by threads are to be waited for.
  EXPECT_THAT(code.text, Not(testing::AnyOf(HasSubstr("tw_commit()"), HasSubstr("tw_wait<"))));
  const runtime::TensorMap a{.argument = 0, .extents = {44, 20}, .strides = {176}, .box = {8, 8}};
  const runtime::TensorMap b{.argument = 1, .extents = {16, 44}, .strides = {64}, .box = {16, 8}};
  EXPECT_EQ(code.kernels[0].maps, (std::vector{a, b}));
  EXPECT_EQ(code.kernels[0].shared_bytes, 3 * (64 + 128) * 4 + 4 * 8);
  // OpenCL has loops.
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
  // Addresses are swizzled, and this buffer begins anywhere.
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
  // More tasks than a GPU runs blocks at once.
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
    // Whoever asks does not wait for those who read.
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
  // The end of the producer's pipeline comes first in the text, that of the consumers last.
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
      // No tensor map, of 128 bytes, which is a parameter, is copied to the stack.
      EXPECT_LT(facts.stack_bytes, 64) << architecture;
      // Consumers cannot take more registers than all threads have at the start.
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

// Tensor cores truncate their sums: 8,192 terms that are summed inside of them, here as `inside`,
// are beyond what `fast` allows.
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
