// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dsl/parse.h"
#include "tests/nightly.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/strategies/configurations.h"

namespace tw::schedules {
namespace {

using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* window =
    "conv2d n=1 c=16 h=14 w=14 k=32 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 fast";
constexpr const char* window_tile =
    "out: cpu_tile vector=0 vectors=2 tile.k=8 tile.y=3 tile.x=2 block=8 unroll=1 kblock=0 taps=2 "
    "reduction_order=0 outer_order=1 tasks=4 layout.in=1 layout.out=1";
// `window` and `window_tile` without padding. In a padded image, a tile along both axes needs 9
// forms: 3 for rows at the upper border, inside and at the lower border, times 3 for columns.
constexpr const char* inner_window =
    "conv2d n=1 c=16 h=14 w=14 k=32 r=3 s=3 stride=1 pad=0 dilation=1 groups=1 f32 fast";
constexpr const char* inner_tile =
    "out: cpu_tile vector=0 vectors=2 tile.k=8 tile.y=3 tile.x=2 tile.y*x=0 block=8 unroll=1 "
    "kblock=0 taps=2 reduction_order=0 outer_order=1 tasks=4 layout.in=1 layout.out=1";

TEST(CpuTile, IsARegisterTileOverAVectorAxisWithLayoutsThatFollowIt) {
  EXPECT_EQ(steps_of(space_of_workload(inner_window, "x86-64-v3"), inner_tile),
            R"(set_layout in NCHW8c
set_layout w OIHW8i16o
set_layout out NCHW8c
split out k 16
split out k.1 8
split out y 3
split out x 2
split out c 8
reorder out n y.0 x.0 k.0 c.0 r s c.1 y.1 x.1 k.1.0 k.1.1
cache_write out k.0
vectorize out k.1.1
unroll out y.1
unroll out x.1
unroll out k.1.0
unroll out r
unroll out s
parallel out n
parallel out y.0
parallel out x.0
parallel out k.0
)");
}

TEST(CpuTile, AStripOfTilesSharesTheStagesThatItReads) {
  const Space space = space_of_workload("attention b=2 m=48 n=64 d=32 f32 fast", "x86-64-v3");
  const auto configuration = [&](const std::string& strip) {
    return "mixed: cpu_tile vector=0 vectors=2 tile.batch=1 tile.m=6 tile.d=1 block=64 unroll=1 "
           "kblock=0 outer_order=1 tasks=2 layout.in=0 layout.out=0" +
           strip +
           "; total: cpu_lanes place=1 lanes=1 tasks=1; e: cpu_elementwise place=1 tile=1 "
           "vectors=1 columns=0 tasks=1; peak: cpu_lanes place=1 lanes=1 tasks=1; score: cpu_tile "
           "place=1 vector=0 vectors=2 tile.batch=1 tile.m=6 tile.n=1 block=32 unroll=1 kblock=0 "
           "outer_order=1 tasks=1 layout.in=0 layout.out=0";
  };
  const std::string strips = steps_of(space, configuration(" strip=2")),
                    tiles = steps_of(space, configuration(" strip=1"));
  EXPECT_THAT(strips, HasSubstr("split mixed m 6\n"));
  EXPECT_THAT(strips, HasSubstr("split mixed m.0 2\n"));
  EXPECT_THAT(strips, HasSubstr("reorder mixed batch m.0.0 m.0.1 d.0 n m.1 d.1.0 d.1.1\n"));
  EXPECT_THAT(strips, HasSubstr("parallel mixed m.0.0\n"));
  EXPECT_THAT(strips, HasSubstr("compute_at score mixed m.0.0\n"));
  // No other stage reads the keys k, so that the stage inside may choose their layout.
  EXPECT_THAT(strips, HasSubstr("set_layout k BND8n\n"));
  EXPECT_THAT(tiles, HasSubstr("compute_at score mixed m.0\n"));
  // Older records have no knob `strip`; they mean strip=1.
  EXPECT_EQ(space.parse(configuration("")), space.parse(configuration(" strip=1")));
}

constexpr const char* streamed = "dense m=128 n=1536 k=1536 f32 fast";
constexpr const char* streamed_tile =
    "out: cpu_tile vector=1 vectors=2 tile.m=12 tile.n=1 block=128 unroll=4 kblock=0 outer_order=0 "
    "tasks=1 layout.in=0 layout.out=0 prefetch=1";

Space space_from_memory(const std::string& key) {
  const auto workload = dsl::parse_workload(key + " {network:memory}");
  return Space::derive(problem_of(workload.value()), parse_target("x86-64-v4").value()).value();
}

TEST(CpuTile, PrefetchesTheWeightsOfTheNextTile) {
  EXPECT_EQ(steps_of(space_from_memory(streamed), streamed_tile), R"(set_layout b NK32n
split out n 32
split out n.1 16
split out m 12
split out k 128
split out k.1 4
reorder out n.0 m.0 k.0 k.1.0 k.1.1 m.1 n.1.0 n.1.1
cache_write out m.0
vectorize out n.1.1
unroll out m.1
unroll out n.1.0
unroll out k.1.1
parallel out n.0
prefetch out b n.0 k.1.0
)");
}

// Records of calls that find their weights in the caches have no knob `prefetch`. In a space with
// that knob, they are points with prefetch=0.
TEST(CpuTile, AConfigurationWithoutPrefetchIsAPoint) {
  const Space space = space_from_memory(streamed);
  const std::string off = with(streamed_tile, "prefetch=1", "prefetch=0");
  const std::string none = with(streamed_tile, " prefetch=1", "");
  ASSERT_TRUE(space.parse(none));
  EXPECT_EQ(space.to_string(*space.parse(none)), off);
  const Space hot = space_of_workload(streamed, "x86-64-v4");
  ASSERT_TRUE(hot.parse(none));
  EXPECT_EQ(hot.schedule(*hot.parse(none)).to_string(),
            space.schedule(*space.parse(off)).to_string());
  EXPECT_FALSE(hot.parse(off));
  EXPECT_FALSE(space.parse(with(streamed_tile, " layout.out=0 prefetch=1", "")));
}

TEST(CpuTile, GroupsOfBlocksOfTheReductionGoAroundTheLoopsThatReuseThem) {
  const Space space = space_of_workload("dense m=64 n=64 k=64 f32 fast", "x86-64-v3");
  EXPECT_EQ(steps_of(space,
                     "out: cpu_tile vector=0 vectors=2 tile.m=1 tile.n=4 block=16 unroll=2 "
                     "kblock=2 outer_order=0 tasks=1 layout.in=0 layout.out=0"),
            R"(set_layout a MK16k8m
set_layout out MN8m
split out m 16
split out m.1 8
split out n 4
split out k 16
split out k.0 2
split out k.1 2
reorder out m.0 k.0.0 n.0 k.0.1 k.1.0 k.1.1 n.1 m.1.0 m.1.1
cache_write out n.0
vectorize out m.1.1
unroll out n.1
unroll out m.1.0
unroll out k.1.1
parallel out m.0
)");
}

// A matrix in row-major layout that is larger than L2, and each element of which is used once. The
// tile reads four rows of the matrix at a time, each from end to end.
TEST(CpuTile, RowsOfAStreamedMatrixAreReadSideBySide) {
  const char* one =
      "out: cpu_tile vector=0 vectors=4 tile.n=1 block=4 unroll=4 kblock=1 "
      "outer_order=1 tasks=1 layout.in=0 layout.out=0";
  const auto space_of_product = [](const char* key) {
    const auto workload = dsl::parse_workload(key);
    return Space::derive(problem_of(workload.value()), *parse_target("x86-64-v4")).value();
  };
  EXPECT_EQ(steps_of(space_of_product("dense m=1 n=4096 k=512 f32 fast {b=KN}"), one),
            R"(split out n 64
split out n.1 16
split out k 4
split out k.0 1
reorder out m k.0.0 n.0 k.0.1 k.1 n.1.0 n.1.1
cache_write out n.0
vectorize out n.1.1
unroll out n.1.0
unroll out k.1
parallel out m
)");
  EXPECT_FALSE(allows(space_of_product("dense m=8 n=4096 k=512 f32 fast {b=KN}"), one));
  EXPECT_FALSE(allows(space_of_product("dense m=1 n=256 k=512 f32 fast {b=KN}"), one));
}

TEST(CpuTile, WeightsLieInTheOrderOfTheLoops) {
  const Space space = space_of_workload("dense m=64 n=64 k=64 f32 fast", "x86-64-v3");
  const auto steps = [&](const std::string& kblock) {
    return steps_of(space,
                    "out: cpu_tile vector=1 vectors=2 tile.m=4 tile.n=1 block=16 unroll=2 kblock=" +
                        kblock + " outer_order=0 tasks=1 layout.in=0 layout.out=0");
  };
  EXPECT_THAT(steps("0"), HasSubstr("set_layout b NK16n\n"));
  EXPECT_THAT(steps("2"), HasSubstr("set_layout b KN16k16n\n"));
}

// Each group of 32 weights of a column has a scale. The sums of the groups are computed inside the
// loops over columns, so that the layout of w begins with a split of the columns: panel follows
// panel.
TEST(CpuTile, WeightsOfAStageWithinLoopsLieAPanelAfterTheOther) {
  const auto compute = dsl::parse_compute(
      "input x: f32[8, 32]; weight w: f32[8, 32, 64]; weight s: f32[8, 64]; "
      "t: f32[g=8, n=64] = sum(k=32) x[g, k] * w[g, k, n]; "
      "out: f32[n=64] = sum(g=8) t[g, n] * s[g, n]");
  const auto space = Space::derive({.compute = compute.value()}, parse_target("x86-64-v3").value());
  Random random(1);
  int placed = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string steps = space.value().schedule(space.value().sample(random)).to_string();
    const std::string step = "set_layout w ";
    const size_t at = steps.find(step);
    const bool is_placed = steps.find("compute_at t ") != std::string::npos;
    if (at == std::string::npos || !is_placed || steps.find("vectorize t n") == std::string::npos)
      continue;
    const std::string layout =
        steps.substr(at + step.size(), steps.find('\n', at) - at - step.size());
    if (layout.back() == 'C') continue;  // one panel
    ++placed;
    EXPECT_EQ(layout.front(), 'C') << steps;
  }
  EXPECT_GT(placed, 10);
}

constexpr const char* pixels =
    "conv2d n=1 c=64 h=7 w=7 k=32 r=1 s=1 stride=1 pad=0 dilation=1 groups=1 f32 fast";
constexpr const char* pixels_tile =
    "out: cpu_tile vector=0 vectors=2 tile.k=1 tile.y=1 tile.x=1 tile.y*x=6 block=32 unroll=1 "
    "kblock=0 taps=0 reduction_order=0 outer_order=0 tasks=2 layout.in=1 layout.out=1";

// The 49 pixels are tiled as one loop by 6, and their addresses are linear in it. The last tile has
// 1 pixel.
TEST(CpuTile, TilesNeighbouringAxesAsOneLoop) {
  const Space space = space_of_workload(pixels, "x86-64-v3");
  EXPECT_EQ(steps_of(space, pixels_tile), R"(set_layout in NCHW32c
set_layout w OIHW32i16o
set_layout out NCHW8c
split out k 16
split out k.1 8
fuse out y x
split out y*x 6
split out c 32
reorder out n k.0 y*x.0 c.0 r s c.1 y*x.1 k.1.0 k.1.1
cache_write out y*x.0
vectorize out k.1.1
unroll out y*x.1
unroll out k.1.0
parallel out n
parallel out k.0
)");
}

TEST(CpuTile, FusedAxesHaveNoTilesOfTheirOwn) {
  const Space space = space_of_workload(pixels, "x86-64-v3");
  EXPECT_TRUE(allows(space, pixels_tile));
  EXPECT_FALSE(allows(space, with(pixels_tile, "tile.x=1", "tile.x=7")));
  EXPECT_TRUE(allows(space, with(with(pixels_tile, "tile.x=1", "tile.x=7"), "y*x=6", "y*x=0")));
  EXPECT_TRUE(allows(space, with(with(pixels_tile, "y*x=6", "y*x=4"), "vectors=2", "vectors=3")));
  EXPECT_FALSE(allows(space, with(pixels_tile, "vectors=2", "vectors=3")));  // 18 accumulators
  const Space wide = space_of_workload(with(pixels, "k=32", "k=64"), "x86-64-v4");
  EXPECT_TRUE(allows(wide, with(with(pixels_tile, "y*x=6", "y*x=9"), "vectors=2", "vectors=3")));
  // Tiles of 7 or 14 pixels are one or two whole rows, which tiles of the separate axes can do as
  // well.
  EXPECT_FALSE(allows(space, with(pixels_tile, "y*x=6", "y*x=7")));
  EXPECT_FALSE(allows(space_of_workload(pixels, "x86-64-v4"),
                      with(with(pixels_tile, "y*x=6", "y*x=14"), "vectors=2", "vectors=1")));
  // A fused axis cannot be the vector axis.
  EXPECT_FALSE(allows(space, with(pixels_tile, "vector=0", "vector=1")));
}

// In a fused loop over padded axes, the innermost loop would have to test each pixel.
TEST(CpuTile, PaddedAxesStayApart) {
  const auto fuses = [](const std::string& key) {
    Random random(2);
    const Space space = space_of_workload(key, "x86-64-v3");
    return space.to_string(space.sample(random)).find("tile.y*x=") != std::string::npos;
  };
  EXPECT_TRUE(fuses(with(window, "pad=1", "pad=0")));
  EXPECT_TRUE(fuses(with(pixels, "stride=1", "stride=2")));
  EXPECT_FALSE(fuses(window));
  EXPECT_FALSE(fuses("dense m=64 n=64 k=64 f32 fast"));
  EXPECT_FALSE(fuses("batch_matmul b=8 m=16 n=16 k=16 f32 fast"));
}

TEST(CpuTile, FusedTilesComputeWhatTheComputeMeans) {
  Random random(9);
  int fused = 0;
  for (int i = 0; i < 60; ++i) {
    const int64_t kernel = 1 + random.below(3);
    const std::string key = fmt::format(
        "conv2d n={} c={} h={} w={} k={} r={} s={} stride={} pad=0 dilation=1 groups=1 f32 fast",
        1 + random.below(2), 1 + random.below(9), 3 + random.below(6), 3 + random.below(6),
        1 + random.below(20), kernel, kernel, 1 + random.below(2));
    const Space space = space_of_workload(key, i % 2 == 0 ? "x86-64-v3" : "x86-64-v4");
    for (int j = 0; j < 24; ++j) {
      const Point point = space.sample(random);
      if (value_of(space, point, "tile.y*x") == 0) continue;
      const Schedule schedule = space.schedule(point);
      const auto program = schedule.program();
      ASSERT_TRUE(program) << key << "\n" << schedule.to_string() << program.error().message;
      EXPECT_EQ(disagreement(schedule.compute(), *program, 7, 1e-4), std::nullopt)
          << key << "\n"
          << space.to_string(point) << "\n"
          << to_string(*program);
      ++fused;
    }
  }
  EXPECT_GT(fused, 40);
}

TEST(CpuTile, FusedTilesOfAStageInsideAnotherComputeWhatTheComputeMeans) {
  const dsl::Compute compute = dsl::parse_compute(R"(input a: f32[1, 6, 5, 7]
weight v: f32[9, 6]
weight w: f32[8, 9]
mid: f32[n=1, k=9, y=5, x=7] = sum(c=6) a[n, c, y, x] * v[k, c]
out: f32[n=1, o=8, y=5, x=7] = sum(k=9) mid[n, k, y, x] * w[o, k])")
                                   .value();
  const Space space = space_of(compute, "x86-64-v3");
  Random random(4);
  int fused = 0;
  for (int i = 0; i < 400; ++i) {
    const Point point = space.sample(random);
    const std::string text = space.to_string(point);
    const std::string producer = text.substr(text.find("; mid:"));
    if (value_of(producer, "tile.y*x") == 0 || value_of(producer, "place") == 0) continue;
    const Schedule schedule = space.schedule(point);
    const auto program = schedule.program();
    if (!program) continue;  // too much in one task
    EXPECT_EQ(disagreement(compute, *program, 7, 1e-4), std::nullopt) << text;
    ++fused;
  }
  EXPECT_GT(fused, 10);
}

TEST(CpuTile, PointsWithFusedTilesAreFoundBack) {
  const int points = cases_of(15, 40);
  for (const std::string& key :
       {std::string(pixels), with(pixels, "stride=1", "stride=2"), with(window, "pad=1", "pad=0")})
    for (const char* target : {"x86-64-v3", "x86-64-v4"})
      EXPECT_EQ(found_back(space_of_workload(key, target), points, 11), points)
          << key << " " << target;
}

// All axes of one operand that are neighbours in memory are fused. It may be either of the two
// operands.
TEST(CpuTile, FusesAsManyAxesAsOneOperandHas) {
  const dsl::Compute compute = dsl::parse_compute(R"(weight w: f32[5, 16]
input a: f32[2, 3, 5, 5]
out: f32[n=2, y=3, x=5, k=16] = sum(c=5) w[c, k] * a[n, y, x, c])")
                                   .value();
  const Space space = space_of(compute, "x86-64-v3");
  const std::string tile =
      "out: cpu_tile vector=0 vectors=2 tile.n=1 tile.y=1 tile.x=1 tile.k=1 tile.n*y*x=6 block=5 "
      "unroll=1 kblock=0 outer_order=0 tasks=1 layout.in=0 layout.out=0";
  const std::string steps = steps_of(space, tile);
  EXPECT_NE(steps.find("fuse out n y\nfuse out n*y x\nsplit out n*y*x 6\n"), std::string::npos)
      << steps;
  const auto program = space.schedule(*space.parse(tile)).program();
  ASSERT_TRUE(program);
  EXPECT_EQ(disagreement(compute, *program, 7, 1e-4), std::nullopt);
}

// Tiles of 4 divide 7 pixels into 4 and 3. With three vectors per pixel, a tile needs 12
// accumulators, as many as 16 registers leave room for.
TEST(CpuTile, ShortAxesHaveTilesWithAShorterRest) {
  const auto allowed = [](const std::string& target, int64_t extent, int64_t tile) {
    const std::string key = with(with(window, "w=14", fmt::format("w={}", extent)), "k=32", "k=96");
    const std::string one =
        with(with(window_tile, "tile.y=3", "tile.y=1"), "vectors=2", "vectors=1");
    return allows(space_of_workload(key, target), with(with(one, "tile.k=8", "tile.k=1"),
                                                       "tile.x=2", fmt::format("tile.x={}", tile)));
  };
  EXPECT_TRUE(allowed("x86-64-v3", 7, 4));
  EXPECT_TRUE(allowed("x86-64-v4", 7, 4));
  EXPECT_FALSE(allowed("x86-64-v3", 7, 6));   // 6 and 1
  EXPECT_FALSE(allowed("x86-64-v3", 14, 8));  // leaves registers for one vector only
  EXPECT_TRUE(allowed("x86-64-v4", 14, 8));
  EXPECT_FALSE(allowed("x86-64-v4", 56, 13));  // there are 12 and 14
}

TEST(CpuTile, AccumulatorsFitTheRegisters) {
  const std::string larger = with(inner_tile, "tile.x=2", "tile.x=7");  // 42 of them
  EXPECT_FALSE(allows(space_of_workload(inner_window, "x86-64-v3"), larger));
  const std::string twelve = with(inner_tile, "tile.x=2", "tile.x=2");
  EXPECT_TRUE(allows(space_of_workload(inner_window, "x86-64-v3"), twelve));
  const std::string full = with(inner_tile, "tile.x=2", "tile.x=5");  // 30
  EXPECT_FALSE(allows(space_of_workload(inner_window, "x86-64-v3"), full));
  EXPECT_TRUE(allows(space_of_workload(inner_window, "x86-64-v4"), with(full, "taps=2", "taps=0")));
  // Nine unrolled taps times thirty accumulators are more statements than are worth compiling.
  EXPECT_FALSE(allows(space_of_workload(inner_window, "x86-64-v4"), full));
}

// Tiles at the upper and at the lower border have loops of their own, with their own unrolled taps.
// All of these statements count.
TEST(CpuTile, TilesAtBordersCountAsStatements) {
  const Space padded = space_of_workload(window, "x86-64-v3");
  EXPECT_FALSE(allows(padded, window_tile));
  EXPECT_TRUE(allows(padded, with(window_tile, "tile.x=2", "tile.x=1")));
}

TEST(CpuTile, ChoicesDoNotContradict) {
  const Space space = space_of_workload(inner_window, "x86-64-v3");
  const std::string plain = with(inner_tile, "taps=2", "taps=0");
  EXPECT_TRUE(allows(space, with(plain, "unroll=1", "unroll=8")));
  EXPECT_FALSE(allows(space, with(with(plain, "unroll=1", "unroll=8"), "block=8", "block=4")));
  EXPECT_FALSE(allows(space, with(plain, "kblock=0", "kblock=2")));    // two blocks are all
  EXPECT_FALSE(allows(space, with(plain, "vectors=2", "vectors=6")));  // more than channels
  EXPECT_FALSE(allows(space, with(plain, "block=8", "block=5")));      // no such value
}

// If the reduction is computed in groups of blocks, sums wait in the result for the next group. A
// result of u8 cannot hold sums of i32.
TEST(CpuTile, SumsOfAnotherTypeThanTheResultAreNotStoredBetweenBlocks) {
  const auto groups = [](const std::string& result) {
    const auto compute = dsl::parse_compute(
        "input a: u8[8, 64]; weight b: i8[64, 32]; t: i32[m=8, n=32] = sum(k=64) i32(a[m, k]) * "
        "i32(b[k, n]); out: " +
        result);
    const Space space = Space::derive(*compute, parse_target("x86-64-v3").value());
    const auto knob = std::ranges::find(space.decisions(), "t.kblock", &Knob::name);
    return knob == space.decisions().end() ? std::vector<int64_t>{} : knob->values;
  };
  EXPECT_THAT(groups("i32[m=8, n=32] = max(t[m, n], 0i32)"), SizeIs(Gt(1)));
  EXPECT_THAT(groups("u8[m=8, n=32] = u8(clamp(t[m, n], 0i32, 255i32))"), ElementsAre(0));
}

// A group of 256 blocks with 32 terms each reads 8192 vectors of 8 floats. These 256 KiB are half
// of the L2 that the target is assumed to have.
TEST(CpuTile, GroupsOfManyBlocksAreThoseWhoseWeightsStayInL2) {
  const auto group = [](int64_t terms, int64_t vectors, int64_t block, int64_t kblock) {
    const std::string key = fmt::format("dense m=128 n=64 k={} f32 fast", terms);
    return allows(space_of_workload(key, "x86-64-v3"),
                  fmt::format("out: cpu_tile vector=0 vectors={} tile.m=1 tile.n=1 block={} "
                              "unroll=1 kblock={} outer_order=0 tasks=1 layout.in=0 layout.out=0",
                              vectors, block, kblock));
  };
  EXPECT_TRUE(group(16384, 1, 32, 256));
  EXPECT_FALSE(group(16384, 2, 32, 256));
  EXPECT_TRUE(group(16384, 2, 16, 256));
  EXPECT_TRUE(group(16384, 2, 512, 16));   // a few blocks, whatever the caches hold
  EXPECT_FALSE(group(1024, 1, 32, 32));    // all of it
  EXPECT_FALSE(group(16384, 1, 4, 4096));  // no value of the knob
}

TEST(CpuTile, MatchesReductionsWithAVectorAxisOnCpus) {
  EXPECT_TRUE(offers(space_of_workload(window, "arm-64-linux"), "cpu_tile"));
  EXPECT_FALSE(offers(space_of_workload(window, "opencl"), "cpu_tile"));
  const char* rows = "reduce_sum rows=64 cols=1000 f32 fast";
  EXPECT_FALSE(offers(space_of_workload(rows, "x86-64-v3"), "cpu_tile"));
  EXPECT_FALSE(
      offers(space_of_workload("gelu rows=64 cols=100 f32 fast", "x86-64-v3"), "cpu_tile"));
}

std::string sparse_product(int columns) {
  return fmt::format(
      "expr fast input x: f32[12, 40]; weight rows: i32[{}, 3]; weight w: f32[3, 48]; "
      "out: f32[i=12, j=48] = sum(b=3) x[i, clamp(i64(rows[j / {}, b]), 0, 39)] * "
      "w[b, j]",
      48 / columns, columns);
}

// The columns of a block read the same row of x. If a block has whole vectors, all lanes of a
// vector read one element of x.
TEST(CpuTile, VectorsMayLieInBlocksThatShareAnIndex) {
  const Space space = space_of_workload(sparse_product(16), "x86-64-v3");
  const auto point = space.parse(
      "out: cpu_tile vector=1 vectors=2 tile.i=6 tile.j=1 outer_order=0 tasks=2 layout.in=0 "
      "layout.out=0");
  ASSERT_TRUE(point);
  const Schedule schedule = space.schedule(*point);
  EXPECT_THAT(schedule.to_string(), HasSubstr("vectorize out j.1.1\n"));
  const auto program = schedule.program(limits_of(space.target()));
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_THAT(to_string(*program), HasSubstr("rows[j.0, b]"));
  const Space narrow = space_of_workload(sparse_product(4), "x86-64-v3");
  Random random(1);
  for (int i = 0; i < 50; ++i)
    EXPECT_THAT(narrow.schedule(narrow.sample(random)).to_string(),
                testing::Not(HasSubstr("vectorize out j")));
}

// The workload is a depthwise convolution in channels-last layout with two output channels per
// input channel. So the results for neighbouring input channels are two elements apart in the
// output.
TEST(CpuTile, VectorsMayBeStoredElementByElementWhereNoOtherAxisFillsThem) {
  const auto workload =
      dsl::parse_workload("conv2d n=1 c=32 h=5 w=5 k=64 r=3 s=3 stride=2 pad=1 groups=32 f32 fast");
  const auto asked = [&](const std::string& in, const std::string& out) {
    return Space::derive(
               problem_of(dsl::with_layouts(*workload, {{"in", in}, {"out", out}}).value()),
               parse_target("x86-64-v4").value())
        .value();
  };
  for (const auto& [in, out] : {std::pair("NHWGC", "NHWGC"), std::pair("NGHW16gC", "NGHW16gC")}) {
    const Space space = asked(in, out);
    Random random(1);
    int vectors = 0;
    for (int i = 0; i < 40; ++i) {
      const Schedule schedule = space.schedule(space.sample(random));
      const auto program = schedule.program(limits_of(space.target()));
      if (!program) continue;
      vectors += schedule.to_string().find("vectorize out g") != std::string::npos;
      EXPECT_EQ(disagreement(workload->compute, *program), std::nullopt) << schedule.to_string();
    }
    EXPECT_GT(vectors, 5) << in;
  }
}

}  // namespace
}  // namespace tw::schedules
