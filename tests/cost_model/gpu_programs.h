// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs for GPUs from schedules with relative speeds that are known from the literature.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/target.h"
#include "cost_model/facts/gpu_facts.h"
#include "dsl/workload.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"
#include "tests/cost_model/programs.h"

namespace tw::cost_model::testing {

inline Target gpu(const std::string& name = "cuda:sm_90a") { return parse_target(name).value(); }

inline Program scheduled(const std::string& workload, const std::string& steps,
                         const Target& target = gpu()) {
  const auto parsed = dsl::parse_workload(workload);
  EXPECT_TRUE(parsed) << parsed.error().message;
  const auto schedule = schedules::parse_schedule(parsed->compute, "tw1\n" + steps);
  EXPECT_TRUE(schedule) << schedule.error().message;
  if (!schedule) return {};
  const auto program = schedule->program(schedules::limits_of(target));
  EXPECT_TRUE(program) << program.error().message;
  return program.value_or(Program{});
}

inline std::string dense(int64_t m, int64_t n, int64_t k) {
  return fmt::format("dense m={} n={} k={} f32 fast", m, n, k);
}

/// Returns the program of the default point of the workload's space, with which a search begins.
inline Program first_program(const std::string& workload, const Target& target = gpu()) {
  const auto parsed = dsl::parse_workload(workload);
  EXPECT_TRUE(parsed) << parsed.error().message;
  const auto space = schedules::Space::derive(parsed->compute, target);
  return space.schedule(space.default_point()).program(schedules::limits_of(target)).value();
}

/// Returns the program of a configuration of the workload's space.
inline Program configured(const std::string& workload, const std::string& configuration,
                          const Target& target = gpu()) {
  const auto parsed = dsl::parse_workload(workload);
  EXPECT_TRUE(parsed) << parsed.error().message;
  const auto space = schedules::Space::derive(parsed->compute, target);
  const auto point = space.parse(configuration);
  EXPECT_TRUE(point && space.allowed(*point)) << configuration;
  if (!point) return {};
  return space.schedule(*point).program(schedules::limits_of(target)).value_or(Program{});
}

/// The sizes of a product. A block computes `rows` x `columns` results, in steps of `depth` terms
/// that pass through shared memory. A thread computes `tile_rows` x `tile_columns` of them, in
/// groups of four neighbours. Shared memory holds `stages` steps at once. `padding` elements are
/// added to the rows of the first operand there.
struct GemmTile {
  int64_t rows = 128, columns = 128, depth = 8;
  int64_t tile_rows = 8, tile_columns = 8;
  int64_t stages = 1, padding = 0;
};

inline std::string gemm_steps(const GemmTile& g) {
  const int64_t threads = g.rows / g.tile_rows * (g.columns / g.tile_columns);
  std::string steps = fmt::format(
      "split out m {0}\nsplit out m.1 {1}\nsplit out m.1.1 4\n"
      "split out n {2}\nsplit out n.1 {3}\nsplit out n.1.1 4\nsplit out k {4}\n"
      "reorder out m.0 n.0 k.0 m.1.1.0 n.1.1.0 k.1 m.1.0 m.1.1.1 n.1.0 n.1.1.1\n"
      "cache_write out n.0\n"
      "cache_operand out 1 k.0 k.1 m.1.0 m.1.1.0 m.1.1.1\n"
      "cache_operand out 2 k.0 k.1 n.1.0 n.1.1.0 n.1.1.1\n"
      "parallel out m.0\nparallel out n.0\nbind out m.1.1.0\nbind out n.1.1.0\n"
      "unroll out k.1\nunroll out m.1.0\nunroll out m.1.1.1\nunroll out n.1.0\n"
      "vectorize out n.1.1.1\n",
      g.rows, 4 * g.rows / g.tile_rows, g.columns, 4 * g.columns / g.tile_columns, g.depth);
  if (g.stages > 1) steps += fmt::format("pipeline a@out {0}\npipeline b@out {0}\n", g.stages);
  if (g.padding > 0) steps += fmt::format("pad a@out m.1.0 {}\n", g.padding);
  // Rows of a are contiguous along k, so that neighbouring threads copy neighbours along k.
  steps += fmt::format(
      "reorder a@out m.1.0 m.1.1.0 m.1.1.1 k.1\nfuse a@out m.1.0 m.1.1.0\n"
      "fuse a@out m.1.0*m.1.1.0 m.1.1.1\nfuse a@out m.1.0*m.1.1.0*m.1.1.1 k.1\n"
      "split a@out m.1.0*m.1.1.0*m.1.1.1*k.1 {0}\nbind a@out m.1.0*m.1.1.0*m.1.1.1*k.1.1\n"
      "fuse b@out k.1 n.1.0\nfuse b@out k.1*n.1.0 n.1.1.0\n"
      "split b@out k.1*n.1.0*n.1.1.0 {0}\nbind b@out k.1*n.1.0*n.1.1.0.1\n"
      "vectorize b@out n.1.1.1\n",
      threads);
  return steps;
}

inline Program gemm(int64_t m, int64_t n, int64_t k, const GemmTile& tile = {}) {
  return scheduled(dense(m, n, k), gemm_steps(tile));
}

/// Returns a product in blocks of 256 threads. Each thread computes one result; neighbouring
/// threads are neighbours in a row.
inline Program naive_gpu_gemm(int64_t size) {
  return scheduled(dense(size, size, size),
                   "fuse out m n\nsplit out m*n 256\nreorder out m*n.0 m*n.1 k\n"
                   "cache_write out m*n.1\nparallel out m*n.0\nbind out m*n.1\n");
}

/// Returns out[i] = in[i], in blocks of 256 threads, each of which copies `together` neighbouring
/// elements.
inline Program copy(int64_t elements, int64_t together = 1) {
  Program program;
  program.arguments = {argument("in", {elements}), argument("out", {elements}, true)};
  const Expr i = (var("b") * 256 + var("t")) * Expr(together) + var("v");
  program.phases = {{"copy",
                     {{"b", elements / (256 * together)}},
                     block(nest({{"t", 256, LoopKind::Thread}, {"v", together, LoopKind::Vector}},
                                {assign("out", {i}, read("in", {i}, Float32))}))}};
  return program;
}

/// Returns a program in which each thread fills an array of its own in a loop of the given kind.
inline Program own_array_walk(LoopKind kind) {
  Program program = copy(1 << 20);
  const Expr i = var("b") * 256 + var("t");
  const Block body = nest({{"j", 8, kind}}, {assign("own", {var("j")}, read("in", {i}, Float32))});
  const Stmt own{Allocate{{"own", Float32, {8}, Scope::Local}, block(body)}};
  program.phases[0].body = block(nest({{"t", 256, LoopKind::Thread}}, {own}));
  return program;
}

/// Returns out[c, r] = in[r, c] of a square matrix. A warp writes a row and reads a column.
inline Program transposed_copy(int64_t size) {
  Program program;
  program.arguments = {argument("in", {size, size}), argument("out", {size, size}, true)};
  const Expr c = var("c"), r = var("b") * 256 + var("t");
  program.phases = {{"transpose",
                     {{"c", size}, {"b", size / 256}},
                     block(nest({{"t", 256, LoopKind::Thread}},
                                {assign("out", {c, r}, read("in", {r, c}, Float32))}))}};
  return program;
}

/// Returns a program in which each thread reads `turns` words of shared memory, one after the
/// other. The words of the next thread are `stride` words further.
inline Program shared_walk(int64_t stride, int64_t turns = 256) {
  Program program;
  program.arguments = {argument("out", {132 * 64, 128}, true)};
  const Expr t = var("t");
  const Expr word = (t * Expr(stride) + var("j")) % 4096;
  const Block sum = nest({{"j", turns}},
                         {assign("acc", {t}, read("s", {word}, Float32), schedules::Combine::Sum)});
  const Block fill = nest({{"t", 128, LoopKind::Thread}, {"j", 32}},
                          {assign("s", {var("j") * 128 + t}, dsl::constant(Float32, 1))});
  const Block use = nest({{"t", 128, LoopKind::Thread}}, sum);
  const Block store = nest({{"t", 128, LoopKind::Thread}},
                           {assign("out", {var("b"), t}, read("acc", {t}, Float32))});
  const Block body = together(together(fill, {Stmt{schedules::Barrier{}}}), together(use, store));
  const Stmt own{Allocate{{"acc", Float32, {128}, Scope::Register}, block(body)}};
  const Stmt all{Allocate{{"s", Float32, {4096}, Scope::Shared}, block({own})}};
  program.phases = {{"walk", {{"b", 132 * 64}}, block({all})}};
  return program;
}

}  // namespace tw::cost_model::testing
