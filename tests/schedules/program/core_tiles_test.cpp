// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/core_tiles.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "dsl/parse.h"
#include "schedules/program/dot_products.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"
#include "schedules/space/find_point.h"
#include "schedules/space/space.h"
#include "tests/isa_targets.h"
#include "tests/schedules/agreement.h"

namespace tw::schedules {
namespace {

using ::testing::HasSubstr;

Target amx() { return parse_target(target_text_of_isa("amx")).value(); }

const std::string tiled_product =
    "input a: u8[32, 128]; weight b: i8[128, 48]; "
    "c: i32[m=32, n=48] = sum(k=128) i32(a[m, k]) * i32(b[k, n])";
/// Steps for two tiles of 16 rows that are computed together, in blocks of 64 terms.
const std::string tile_steps =
    "tw1\nset_layout b BA16b4a\nsplit c n 16\nsplit c m 16\nsplit c k 4\nsplit c k.0 16\n"
    "reorder c n.0 k.0.0 m.0 m.1 n.1 k.0.1 k.1\ncache_write c n.0 local\n"
    "tensorize c m.1 amx_m16n16k64_i8\nunroll c m.0\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

Result<Program> program_of(const std::string& compute, const std::string& text) {
  TW_TRY(const Schedule schedule, parse_schedule(dsl::parse_compute(compute).value(), text));
  return schedule.program();
}

std::string error_of_tile(const std::string& compute, const std::string& text) {
  const auto program = program_of(compute, text);
  return program ? "" : program.error().message;
}

TEST(CoreTiles, DependOnTypesAndTargets) {
  const auto tile_of = [](const Target& target, const std::string& a, const std::string& b,
                          const std::string& sum) {
    const auto compute =
        dsl::parse_compute(fmt::format("input a: {0}[6, 16]; weight b: {1}[16, 24]; "
                                       "c: {2}[m=6, n=24] = sum(k=16) {2}(a[m, k]) * {2}(b[k, n])",
                                       a, b, sum));
    const TensorTile* tile = core_tile_for(target, compute.value().stages[0]);
    return tile ? std::string(tile->name) : "";
  };
  for (const char* a : {"u8", "i8"})
    for (const char* b : {"u8", "i8"}) EXPECT_EQ(tile_of(amx(), a, b, "i32"), "amx_m16n16k64_i8");
  EXPECT_EQ(tile_of(amx(), "bf16", "bf16", "f32"), "amx_m16n16k32_bf16");
  EXPECT_EQ(tile_of(amx(), "bf16", "f16", "f32"), "");
  EXPECT_EQ(tile_of(amx(), "i16", "i8", "i32"), "");
  const std::string fp16 = target_text_of_isa("avx512_fp16");
  EXPECT_EQ(tile_of(parse_target(fp16).value(), "u8", "i8", "i32"), "");
  EXPECT_EQ(tile_of(parse_target("cuda:sm_90a").value(), "i8", "i8", "i32"), "");
  EXPECT_TRUE(has_core_tiles(amx()));
  EXPECT_FALSE(has_core_tiles(parse_target(fp16).value()));
}

TEST(CoreTiles, AreAsFastAsTheCoreStartsThem) {
  Target target = amx();
  Core& core = target.machine.core;
  core.byte_tile_dots_per_cycle = 8 * core.fma_per_cycle;
  core.bf16_tile_dots_per_cycle = 4 * core.fma_per_cycle;
  core.bf16_dots_per_cycle = core.fma_per_cycle / 4;
  EXPECT_EQ(dot_speed(target, dsl::parse_compute(tiled_product).value()), 32);
  EXPECT_TRUE(multiplies(target, BFloat16));
  EXPECT_TRUE(multiplies(target, UInt8));
  EXPECT_FALSE(multiplies(target, Int8)) << "u8 has dot products besides";
  EXPECT_FALSE(multiplies(target, Float16));
  core.bf16_tile_dots_per_cycle = core.fma_per_cycle / 4;
  EXPECT_FALSE(multiplies(target, BFloat16)) << "f32 is faster";
}

TEST(CoreTiles, AreLoopsInPrograms) {
  const auto program = program_of(tiled_product, tile_steps);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(to_string(*program),
            "kernel(a: u8[32, 128], b: i8[3, 32, 16, 4] @BA16b4a, out c: i32[32, 48])\n"
            "phase 0 c, tasks 1\n"
            "  for n.0 in 0..3\n"
            "    c.acc: local i32[2, 16, 16]\n"
            "    unroll m.0 in 0..2\n"
            "      for m.1 in 0..16\n"
            "        vector n.1 in 0..16\n"
            "          c.acc[m.0, m.1, n.1] = 0i32\n"
            "    for k.0.0 in 0..2\n"
            "      unroll m.0 in 0..2\n"
            "        tensor m.1 in 0..16 amx_m16n16k64_i8\n"
            "          tensor n.1 in 0..16\n"
            "            tensor k.0.1 in 0..16\n"
            "              tensor k.1 in 0..4\n"
            "                c.acc[m.0, m.1, n.1] += "
            "i32(a[m.0 * 16 + m.1, k.0.0 * 64 + k.0.1 * 4 + k.1]) * "
            "i32(b[n.0, k.0.0 * 16 + k.0.1, n.1, k.1])\n"
            "    unroll m.0 in 0..2\n"
            "      for m.1 in 0..16\n"
            "        vector n.1 in 0..16\n"
            "          c[m.0 * 16 + m.1, n.0 * 16 + n.1] = c.acc[m.0, m.1, n.1]\n");
}

TEST(CoreTiles, ComputeWhatTheirLoopsMean) {
  const auto program = program_of(tiled_product, tile_steps);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(disagreement(dsl::parse_compute(tiled_product).value(), *program), std::nullopt);
}

TEST(CoreTiles, ContinueSumsOfEarlierBlocks) {
  const std::string steps = replaced(tile_steps, "reorder c n.0 k.0.0", "reorder c k.0.0 n.0");
  const auto program = program_of(tiled_product, steps);
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(disagreement(dsl::parse_compute(tiled_product).value(), *program), std::nullopt);
}

TEST(CoreTiles, MayBeSmall) {
  const std::string compute =
      "input a: bf16[3, 12]; weight b: bf16[12, 10]; "
      "c: f32[m=3, n=10] = sum(k=12) f32(a[m, k]) * f32(b[k, n])";
  const auto program =
      program_of(compute,
                 "tw1\nset_layout b BA5b2a\nsplit c n 5\nsplit c k 2\nreorder c n.0 m n.1 k.0 k.1\n"
                 "cache_write c n.0 local\ntensorize c m amx_m16n16k32_bf16\n");
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(disagreement(dsl::parse_compute(compute).value(), *program), std::nullopt);
}

TEST(CoreTiles, KeepSumsInRegistersWhileNothingElseIsComputed) {
  const auto program = program_of(tiled_product, tile_steps);
  ASSERT_TRUE(program) << program.error().message;
  const Loop& columns = *program->phases[0].body->front().as<Loop>();
  const Allocate& allocate = *columns.body->front().as<Allocate>();
  const Block& body = *allocate.body;
  ASSERT_EQ(body.size(), 3u);
  EXPECT_TRUE(sets_to_zero(body[0], allocate.buffer));
  EXPECT_FALSE(sets_to_zero(body[2], allocate.buffer));
  Buffer longer = allocate.buffer;
  longer.extents[0] = 3;
  EXPECT_FALSE(sets_to_zero(body[0], longer)) << "some elements keep their values";
  EXPECT_EQ(sums_of_tiles(body[0], amx()), nullptr);
  ASSERT_NE(sums_of_tiles(body[1], amx()), nullptr);
  EXPECT_EQ(*sums_of_tiles(body[1], amx()), "c.acc");
  EXPECT_EQ(sums_of_tiles(body[2], amx()), nullptr);
  EXPECT_EQ(sums_of_tiles(body[1], parse_target("x86-64-v4").value()), nullptr);
  EXPECT_EQ(sums_of_tiles(program->phases[0].body->front(), amx()), nullptr);
}

TEST(CoreTiles, HaveOneForm) {
  EXPECT_EQ(error_of_tile(tiled_product, tile_steps), "");
  const auto with = [&](const std::string& from, const std::string& to) {
    return error_of_tile(tiled_product, replaced(tile_steps, from, to));
  };
  EXPECT_THAT(with(" m.1 amx", " n.1 amx"),
              HasSubstr("'n.1' is to be the fourth loop from within"));
  EXPECT_THAT(with("split c k.0 16", "split c k.0 32"),
              HasSubstr("'amx_m16n16k64_i8' is loops of 2 to 16 rows and columns, and of as many "
                        "groups of 4 terms that reduce, not 'k.0.1' of 32"));
  EXPECT_THAT(with("m.0 m.1 n.1 k.0.1 k.1", "m.0 m.1 k.0.1 n.1 k.1"),
              HasSubstr("not 'k.0.1' of 16"));
  EXPECT_THAT(with("m16n16k64_i8", "m16n16k32_bf16"), HasSubstr("not 'k.1' of 4"));
  EXPECT_THAT(error_of_tile("input a: i16[32, 128]; weight b: i8[128, 48]; "
                            "c: i32[m=32, n=48] = sum(k=128) i32(a[m, k]) * i32(b[k, n])",
                            tile_steps),
              HasSubstr("'amx_m16n16k64_i8' sums products of i8 in i32, which 'c' does not"));
  EXPECT_THAT(with("unroll c m.0\n", ""),
              HasSubstr("the loop over 'm.0' around it, which indexes them, is not unrolled"));
  EXPECT_THAT(with("cache_write c n.0 local\n", ""),
              HasSubstr("which stay in registers of a task"));
  EXPECT_THAT(with("set_layout b BA16b4a\n", ""),
              HasSubstr("'b' is to have groups of terms for each column side by side"));
  EXPECT_THAT(with("set_layout b", "set_layout a BA4a\nset_layout b"),
              HasSubstr("'a' is to have the terms of a sum side by side"));
}

TEST(CoreTiles, FillEightRegisters) {
  const std::string wide =
      "input a: u8[64, 64]; weight b: i8[64, 64]; "
      "c: i32[m=64, n=64] = sum(k=64) i32(a[m, k]) * i32(b[k, n])";
  const auto of_tiles = [&](int64_t tiles) {
    return error_of_tile(
        wide, fmt::format("tw1\nset_layout b BA16b4a\nsplit c m 8\nsplit c m.0 {}\nsplit c n 16\n"
                          "split c k 4\nreorder c n.0 m.0.0 m.0.1 m.1 n.1 k.0 k.1\n"
                          "cache_write c m.0.0 local\ntensorize c m.1 amx_m16n16k64_i8\n"
                          "unroll c m.0.1\n",
                          tiles));
  };
  EXPECT_EQ(of_tiles(4), "");
  EXPECT_THAT(of_tiles(7), HasSubstr("which are not 1 to 6 tiles of 8 rows and 16 columns"));
}

// The last block has 4 of 10 rows, so that its tiles do not follow each other in the accumulator,
// which has room for tiles of 6 rows.
TEST(CoreTiles, HaveNoTails) {
  EXPECT_THAT(error_of_tile("input a: u8[10, 64]; weight b: i8[64, 32]; "
                            "c: i32[m=10, n=32] = sum(k=64) i32(a[m, k]) * i32(b[k, n])",
                            "tw1\nset_layout b BA16b4a\nsplit c m 6\nsplit c n 16\nsplit c k 4\n"
                            "reorder c m.0 n.0 m.1 n.1 k.0 k.1\ncache_write c m.0 local\n"
                            "tensorize c m.1 amx_m16n16k64_i8\nunroll c n.0\n"),
              HasSubstr("the tiles of amx_m16n16k64_i8 are to follow each other in 'c.acc'"));
}

// 11 groups of 4 terms are split into a block of 8 groups and one of 3, which would be two tile
// shapes.
TEST(CoreTiles, HaveOneShape) {
  EXPECT_THAT(error_of_tile("input a: u8[16, 44]; weight b: i8[44, 16]; "
                            "c: i32[m=16, n=16] = sum(k=44) i32(a[m, k]) * i32(b[k, n])",
                            "tw1\nset_layout b AB4a\nsplit c m 8\nsplit c k 4\nsplit c k.0 8\n"
                            "reorder c m.0 k.0.0 m.1 n k.0.1 k.1\ncache_write c m.0 local\n"
                            "tensorize c m.1 amx_m16n16k64_i8\n"),
              HasSubstr("the tiles that sum in 'c.acc' have one shape"));
}

TEST(CoreTiles, PointsAreFoundBack) {
  const auto space = Space::derive({.compute = dsl::parse_compute(tiled_product).value()}, amx());
  ASSERT_TRUE(space) << space.error().message;
  Random random(1);
  int points = 0;
  for (int i = 0; i < 40; ++i) {
    const Point point = space->sample(random);
    if (space->to_string(point).find("cpu_core_tile") == std::string::npos) continue;
    const Schedule schedule = space->schedule(point);
    const auto found = point_of(*space, schedule);
    ASSERT_TRUE(found) << space->to_string(point);
    EXPECT_EQ(space->schedule(*found).to_string(), schedule.to_string());
    ++points;
  }
  EXPECT_GT(points, 5);
}

TEST(CoreTiles, AreOfThreadsNowhere) {
  const auto program = program_of(tiled_product, tile_steps);
  ASSERT_TRUE(program) << program.error().message;
  for (const char* gpu : {"cuda:sm_90a", "opencl"})
    EXPECT_THAT(check_legal(*program, limits_of(parse_target(gpu).value())).error().message,
                HasSubstr("amx_m16n16k64_i8 is computed by one thread of a CPU"));
}

/// Samples 200 points of the space and checks that each legal one computes what the compute means.
/// Returns a word for each legal point: "tile" if the last phase has a tensor tile, else "other".
std::vector<std::string> sampled(const std::string& text, const Target& target) {
  const dsl::Compute compute = dsl::parse_compute(text).value();
  const auto space = Space::derive({.compute = compute}, target);
  if (!space) throw std::runtime_error(space.error().message);
  Random random(1);
  std::vector<std::string> strategies;
  for (int i = 0; i < 200; ++i) {
    const Point point = space->sample(random);
    const auto program = space->schedule(point).program(limits_of(target));
    if (!program) continue;
    bool is_tile = false;
    for_each(*program->phases.back().body, [&](const Stmt& stmt) {
      const Loop* loop = stmt.as<Loop>();
      is_tile |= loop && loop->tile;
    });
    strategies.push_back(is_tile ? "tile" : "other");
    EXPECT_EQ(disagreement(compute, *program), std::nullopt) << space->to_string(point);
  }
  return strategies;
}

TEST(CoreTiles, AreSampled) {
  for (const std::string& text :
       {std::string("input a: u8[12, 32]; weight b: i8[32, 24]; "
                    "c: i32[m=12, n=24] = sum(k=32) i32(a[m, k]) * i32(b[k, n])"),
        std::string("input a: i8[2, 6, 8, 16]; weight w: i8[12, 16, 3, 3]; "
                    "c: i32[b=2, y=4, x=6, k=12] = sum(e=16, r=3, s=3) "
                    "i32(a[b, y + r, x + s, e]) * i32(w[k, e, r, s])")}) {
    const auto with = sampled(text, amx());
    EXPECT_GT(std::ranges::count(with, "tile"), 20) << text;
  }
}

}  // namespace
}  // namespace tw::schedules
