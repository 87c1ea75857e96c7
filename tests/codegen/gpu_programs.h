// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs for GPUs that several tests of their code use.

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

using schedules::Schedule;

inline Program program_of(const dsl::Compute& compute, const char* steps,
                          const schedules::Limits& limits = {}) {
  const auto schedule = schedules::parse_schedule(compute, steps);
  TW_CHECK(schedule, "the test's steps parse");
  const auto program = schedule->program(limits);
  EXPECT_TRUE(program) << program.error().message;
  return program.value();
}

inline Program gemm() {
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

/// Returns a matrix product in a pipeline of `depth` iterations, in which both operands are copied
/// ahead. The last block of the reduction has 6 of 8 terms.
inline Program pipelined_gemm(int depth, DType type = Float32) {
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

/// Returns a padded 3 x 3 convolution as a product of pixels and channels. Each result sums 36
/// terms, 9 taps of 4 channels, in blocks of 12.
inline Program implicit_gemm() {
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

/// Returns a product with two warps per block, each of which computes 2 x 2 tiles. A lane's
/// neighbouring elements in shared memory are consecutive terms if `along`, otherwise consecutive
/// rows or columns. `more` is appended to the steps.
inline Program tensor_gemm(const schedules::TensorTile& tile, bool along = true,
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

/// Returns a reduction of rows. Threads reduce a row to 40 partial results, which a warp then
/// combines.
inline Program row_reduction(const std::string& type, const std::string& combine) {
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

/// The sizes of warpgroups(). A block has `below` x `beside` warpgroups, each of which computes
/// `tiles` tiles of 64 rows and `columns` columns. In shared memory, a row of an operand has
/// `bytes` bytes.
struct Groups {
  std::string tile = "wgmma_m64k16_bf16";
  int64_t below = 1, beside = 1, tiles = 1;
  int64_t columns = 32, bytes = 128, stages = 1;
  bool has_tails = true;
};

inline Program warpgroups(const Groups& g) {
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

inline std::string text_of(const Program& program, GpuDialect dialect = GpuDialect::Cuda) {
  const auto code = emit_gpu(program, "k", dialect);
  return code ? code->text : code.error().message;
}

inline std::vector<schedules::TensorTile> tiles_of_warps() {
  std::vector<schedules::TensorTile> tiles;
  std::ranges::copy_if(schedules::tensor_tiles(), std::back_inserter(tiles),
                       [](const auto& tile) { return tile.is_of_warp(); });
  return tiles;
}

/// Returns a product with two groups of 64 columns. The first factor is MN-major if `a`, the second
/// if `b`.
inline Program mn_major(bool a, bool b) {
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

inline Stmt threads(const std::string& variable, int64_t extent, Block body) {
  return loop(variable, 0, extent, LoopKind::Thread, std::move(body));
}

inline const Stmt barrier = {schedules::Barrier{}};

/// Returns a program in which each of 48 threads stores an element in a shared buffer of `bytes`
/// bytes, and reads its neighbour's element after a barrier, if there is one.
inline Program neighbours(int64_t bytes, bool has_barrier = true) {
  const Expr i = var("i"), j = var("j");
  Block body = {threads("i", 48, {assign("s", {i}, f32("in", {i}))}), barrier,
                threads("j", 48, {assign("out", {j}, f32("s", {(j + 1) % 48}))})};
  if (!has_barrier) body.erase(body.begin() + 1);
  return single_phase({argument("in", Float32, {48}, false), argument("out", Float32, {48}, true)},
                      {}, {allocate("s", Float32, {bytes / 4}, Scope::Shared, std::move(body))});
}

/// Returns a program with four threads t: out[t] is in[t, 0] plus the sum of row t of `in`, and
/// `doubled` is in + in.
inline Program rows(int64_t columns) {
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

/// Returns a program in which threads t store, for v < lanes, out[i] = factor * in[i] + bias[v],
/// rounded to `type`, where i = t * stride + v + offset is below `bound`. The factor is 257, or
/// 2049 for f16, so that for odd in[i] the product is halfway between two numbers of the type.
inline Program rounding_store(DType type, int64_t stride, int64_t lanes, int64_t offset = 0,
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

inline std::string without(std::string text, const std::string& part) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.erase(at, part.size());
}

/// Returns a schedule of a[m, k] * b[k, n] in blocks, in which TMA copies both operands.
inline Schedule bulk_schedule(int64_t depth, int64_t m = 20, int64_t k = 44) {
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

}  // namespace tw::codegen
