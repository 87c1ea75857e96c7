// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/tensor_tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "dsl/parse.h"
#include "schedules/program/legality.h"
#include "tests/schedules/agreement.h"
#include "tests/schedules/mn_major_products.h"
#include "tests/schedules/random_tensor_product.h"

namespace tw::schedules {
namespace {

using testing::HasSubstr;

dsl::Compute tile_product(DType type, int64_t m = 35, int64_t n = 21, int64_t k = 40) {
  const DType sum = type == Int8 ? Int32 : Float32;
  const std::string widen = type == sum ? "" : std::string(tw::to_string(sum));
  const auto operand = [&](const std::string& read) {
    return widen.empty() ? read : fmt::format("{}({})", widen, read);
  };
  const auto compute = dsl::parse_compute(fmt::format(
      "input a: {0}[{1}, {3}]\nweight b: {0}[{3}, {2}]\n"
      "c: {4}[m={1}, n={2}] = sum(k={3}) {5} * {6}",
      tw::to_string(type), m, n, k, tw::to_string(sum), operand("a[m, k]"), operand("b[k, n]")));
  EXPECT_TRUE(compute) << compute.error().message;
  return compute.value();
}

/// Returns a product with one warp per block. The warp computes a tile of 16 by 8 results and has
/// its operands in shared memory.
Schedule tiled(const TensorTile& tile) {
  return Schedule(tile_product(tile.operand))
      .split("c", "m", 16)
      .split("c", "m.1", 8)
      .split("c", "n", 8)
      .split("c", "n.1", 2)
      .split("c", "k", tile.depth)
      .reorder("c", {"m.0", "n.0", "k.0", "m.1.1", "n.1.0", "m.1.0", "n.1.1", "k.1"})
      .cache_write("c", "n.0")
      .cache_operand("c", 1, "k.0", {"m.1.0", "m.1.1", "k.1"})
      .cache_operand("c", 2, "k.0", {"n.1.0", "n.1.1", "k.1"})
      .parallel("c", "m.0")
      .parallel("c", "n.0")
      .bind("c", "m.1.1")
      .bind("c", "n.1.0")
      .bind("a@c", "m.1.0")
      .bind("b@c", "n.1.0")
      .tensorize("c", "m.1.0", std::string(tile.name));
}

/// Sizes of the product of warpgroup(): a block is one warpgroup, with 64 rows and `columns`
/// columns, and a block of the reduction has `bytes` bytes.
struct Group {
  int64_t columns = 24, bytes = 64;
};

Schedule warpgroup(const TensorTile& tile, const Group& g = {}) {
  const int64_t depth = tile.depth, steps = g.bytes / 32;
  return Schedule(tile_product(tile.operand, 70, 40, 100))
      .split("c", "m", 64)
      .split("c", "m.1", 16)
      .split("c", "m.1.1", 8)
      .split("c", "n", g.columns)
      .split("c", "n.1", 8)
      .split("c", "n.1.1", 2)
      .split("c", "k", steps * depth)
      .split("c", "k.1", depth)
      .reorder("c", {"m.0", "n.0", "k.0", "m.1.0", "m.1.1.1", "n.1.1.0", "k.1.0", "m.1.1.0",
                     "n.1.0", "n.1.1.1", "k.1.1"})
      .cache_write("c", "n.0")
      .cache_operand("c", 1, "k.0", {"m.1.0", "m.1.1.0", "m.1.1.1", "k.1.0", "k.1.1"})
      .cache_operand("c", 2, "k.0", {"n.1.0", "n.1.1.0", "n.1.1.1", "k.1.0", "k.1.1"})
      .parallel("c", "m.0")
      .parallel("c", "n.0")
      .bind("c", "m.1.0")
      .bind("c", "m.1.1.1")
      .bind("c", "n.1.1.0")
      .bind("a@c", "m.1.0")
      .bind("b@c", "n.1.0")
      .swizzle("a@c", g.bytes)
      .swizzle("b@c", g.bytes)
      .tensorize("c", "m.1.1.0", std::string(tile.name));
}

const TensorTile& tf32() { return *find_tensor_tile("mma_m16n8k8_3xtf32"); }

TEST(TensorTiles, AreFoundByTheirNames) {
  EXPECT_EQ(tensor_tiles().size(), 11u);
  for (const TensorTile& tile : tensor_tiles()) {
    EXPECT_EQ(find_tensor_tile(tile.name), &tile);
    if (tile.is_of_warpgroup) {
      EXPECT_NE(tile.name.find(fmt::format("m{}k{}_", warpgroup_rows, tile.depth)),
                std::string_view::npos);
      EXPECT_EQ(tile.depth * size_bytes(tile.operand), 32);
      continue;
    }
    if (tile.is_of_core()) {
      EXPECT_NE(tile.name.find(fmt::format("m16n16k{}_", tile.depth)), std::string_view::npos);
      EXPECT_EQ(tile.depth * size_bytes(tile.operand), 64);
      continue;
    }
    EXPECT_NE(tile.name.find(fmt::format("m{}n{}k{}_", tile_rows, tile_columns, tile.depth)),
              std::string_view::npos);
    // A lane has 8 bytes of each row or column of a tile.
    EXPECT_EQ(lane_elements(tile) * size_bytes(tile.operand), 8);
  }
  EXPECT_EQ(find_tensor_tile("mma_m16n8k8"), nullptr);
}

TEST(TensorTiles, ComputeWhatTheirLoopsMean) {
  for (const TensorTile& tile : tensor_tiles()) {
    if (tile.is_of_core()) continue;
    const Schedule schedule = tile.is_of_warpgroup ? warpgroup(tile) : tiled(tile);
    const auto program = schedule.program();
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(disagreement(schedule.compute(), *program), std::nullopt) << tile.name;
    EXPECT_THAT(to_string(*program),
                HasSubstr(fmt::format("tensor m.1{}.0 in 0..2 {}\n",
                                      tile.is_of_warpgroup ? ".1" : "", tile.name)));
    const auto parsed = parse_schedule(schedule.compute(), schedule.to_string());
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(to_string(parsed->program().value()), to_string(*program));
  }
}

TEST(TensorTiles, PointsOfSpacesComputeWhatTheComputeMeans) {
  Random random(3);
  for (int i = 0; i < 24; ++i) {
    const auto [workload, schedule] = random_tensor_product(random);
    const auto program = schedule.program(limits_of(*parse_target("cuda:sm_80")));
    ASSERT_TRUE(program) << schedule.to_string() << "\n" << program.error().message;
    EXPECT_EQ(disagreement(workload.compute, *program, 3), std::nullopt) << schedule.to_string();
  }
}

// ---- what is refused -----------------------------------------------------------------------

/// Returns "legal", or the first line of the reason why the schedule or its program is illegal.
std::string refusal(const Schedule& schedule, const Limits& limits = {}) {
  const auto program = schedule.program(limits);
  return program ? "legal" : program.error().message.substr(0, program.error().message.find('\n'));
}

TEST(TensorTiles, StepsSayWhatDoesNotFit) {
  const auto with = [](int64_t rows, int64_t columns, int64_t depth, const std::string& loop,
                       const std::string& tile, DType type = Float32) {
    return refusal(Schedule(tile_product(type))
                       .split("c", "m", rows)
                       .split("c", "n", columns)
                       .split("c", "k", depth)
                       .reorder("c", {"m.0", "n.0", "k.0", "m.1", "n.1", "k.1"})
                       .tensorize("c", loop, tile));
  };
  EXPECT_EQ(with(2, 2, 8, "m.1", "mma_m16n8k8"),
            "[tensorize] there is no tile 'mma_m16n8k8': they are mma_m16n8k8_tf32, "
            "mma_m16n8k8_3xtf32, mma_m16n8k16_f16, mma_m16n8k16_bf16, mma_m16n8k32_s8, "
            "wgmma_m64k8_tf32, wgmma_m64k16_f16, wgmma_m64k16_bf16, wgmma_m64k32_s8, "
            "amx_m16n16k64_i8, amx_m16n16k32_bf16");
  EXPECT_EQ(with(2, 2, 8, "n.1", "mma_m16n8k8_tf32"),
            "[tensorize] 'n.1' is to be the third loop from within");
  EXPECT_EQ(with(4, 2, 8, "m.1", "mma_m16n8k8_tf32"),
            "[tensorize] 'mma_m16n8k8_tf32' is loops of 2 and 2, and of 8 that reduces, not 'm.1' "
            "of 4");
  EXPECT_EQ(with(2, 2, 4, "m.1", "mma_m16n8k8_tf32"),
            "[tensorize] 'mma_m16n8k8_tf32' is loops of 2 and 2, and of 8 that reduces, not 'k.1' "
            "of 4");
  EXPECT_EQ(with(2, 2, 16, "m.1", "mma_m16n8k16_bf16"),
            "[tensorize] 'mma_m16n8k16_bf16' sums products of bf16 in f32, which 'c' does not");
  EXPECT_EQ(with(2, 2, 8, "m.1", "mma_m16n8k8_tf32", BFloat16),
            "[tensorize] 'mma_m16n8k8_tf32' sums products of f32 in f32, which 'c' does not");
  EXPECT_EQ(refusal(tiled(tf32()).unroll("c", "m.1.0")),
            "[unroll] loop 'm.1.0' is already vectorized or parallel");
  EXPECT_EQ(refusal(tiled(tf32()).tensorize("c", "m.1.0", "mma_m16n8k8_tf32")),
            "[tensorize] loop 'm.1.0' is unrolled, vectorized, bound or parallel");
}

/// Like refusal(tiled(tf32())), without the steps for whose text `drops` is true.
template <typename F>
std::string refusal_without(F&& drops) {
  Schedule schedule(tile_product(Float32));
  const Schedule whole = tiled(tf32());
  for (const Step& step : whole.steps())
    if (!drops(to_string(step))) schedule = schedule.then(step);
  return refusal(schedule);
}

TEST(TensorTiles, AreComputedByWarps) {
  EXPECT_EQ(refusal_without([](const std::string& step) { return step.starts_with("bind"); }),
            "[tensorize] mma_m16n8k8_3xtf32 is computed by threads: bind loops around it");
  EXPECT_EQ(refusal_without([](const std::string& step) { return step == "bind c n.1.0"; }),
            "[tensorize] mma_m16n8k8_3xtf32 is computed by a warp: the innermost threads are 8 by "
            "4");
}

TEST(TensorTiles, SumWithoutAConditionIntoWhatIsAThreadsOwn) {
  const auto is_cache = [](const std::string& step) {
    return step.starts_with("cache_operand") || step.starts_with("bind a@c") ||
           step.starts_with("bind b@c");
  };
  EXPECT_THAT(refusal_without(is_cache), HasSubstr("[tensorize] mma_m16n8k8_3xtf32 is "));
  EXPECT_THAT(
      refusal_without([](const std::string& step) { return step.starts_with("cache_write"); }),
      HasSubstr("[tensorize] "));
}

TEST(TensorTiles, NeedANewEnoughTarget) {
  EXPECT_EQ(refusal(tiled(tf32()), limits_of(*parse_target("cuda:sm_75"))),
            "[tensorize] mma_m16n8k8_3xtf32 is of sm_80 and newer, the target is sm_75");
  for (const char* target : {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_120", "opencl", "x86-64-v3"})
    EXPECT_EQ(refusal(tiled(tf32()), limits_of(*parse_target(target))), "legal") << target;
}

Stmt loop(const std::string& variable, int64_t extent, LoopKind kind, Block body,
          const TensorTile* tile = nullptr) {
  return {Loop{variable, Expr(0), Expr(extent), kind, block(std::move(body)), tile}};
}

Expr tile_index(const std::string& text) { return dsl::parse_expr(text).value(); }
Expr element(const std::string& buffer, const std::string& row, const std::string& k) {
  return dsl::read(buffer, {tile_index(row), tile_index(k)}, Float32);
}

/// Parts of the statement acc[r, c, h, e] += a[h * 8 + r, k] * b[c * 2 + e, k]. A test replaces one
/// of them.
struct Parts {
  Expr a = element("a", "h * 8 + r", "k"), b = element("b", "c * 2 + e", "k");
  std::string sums = "acc";
  std::vector<Expr> sums_at = {tile_index("r"), tile_index("c"), tile_index("h"), tile_index("e")};
  Combine combine = Combine::Sum;
  Expr condition = dsl::constant_int(Bool, 1);
  Scope acc = Scope::Register;
  Block beside = {};  ///< other statements of the same nest
  int64_t rows = 8;   ///< rows of lanes
};

std::string tile_verdict(const Parts& p) {
  const Stmt tile = loop(
      "h", 2, LoopKind::Tensor,
      {loop("e", 2, LoopKind::Tensor,
            {loop("k", 8, LoopKind::Tensor, {{Assign{p.sums, p.sums_at, p.a * p.b, p.combine}}})})},
      &tf32());
  Block body = p.beside;
  body.push_back(dsl::is_int(p.condition, 1) ? tile : Stmt{If{p.condition, block({tile})}});
  const Block nest = {
      loop("r", p.rows, LoopKind::Thread, {loop("c", 4, LoopKind::Thread, std::move(body))})};
  const Buffer acc{"acc", Float32, {8, 4, 2, 2}, p.acc};
  const Block all = {{Allocate{acc, block(nest)}}};
  const Status status = check_tensor_tiles({"p", {}, block(all)}, {});
  return status ? "legal" : status.error().message.substr(0, status.error().message.find('\n'));
}

TEST(TensorTiles, ProgramsSayWhatIsWrong) {
  const std::string name = "[tensorize] mma_m16n8k8_3xtf32 ";
  EXPECT_EQ(tile_verdict({}), "legal");
  EXPECT_EQ(
      tile_verdict({.a = element("a", "c * 2 + e", "k"), .b = element("b", "h * 8 + r", "k")}),
      "legal");
  const std::string apart =
      "[tensorize] one factor of mma_m16n8k8_3xtf32 depends on 'h' and 'r' and the other on 'c' "
      "and 'e', neither on both";
  EXPECT_EQ(tile_verdict({.a = element("a", "h * 8 + r + c", "k")}), apart);
  EXPECT_EQ(tile_verdict({.a = element("a", "h * 8 + r + e", "k")}), apart);
  EXPECT_EQ(tile_verdict({.b = element("b", "c * 2 + e + r", "k")}), apart);
  EXPECT_EQ(tile_verdict({.b = element("b", "c * 2 + e + h", "k")}), apart);
  EXPECT_EQ(tile_verdict({.a = element("a", "h * 8 + r", "k") + dsl::constant(Float32, 1)}),
            "[tensorize] the factors of mma_m16n8k8_3xtf32 are elements of memory, of f32 summed "
            "as f32");
  EXPECT_EQ(tile_verdict({.combine = Combine::Max}),
            name + "is one sum of products, without a condition");
  EXPECT_EQ(tile_verdict({.sums_at = {tile_index("r"), tile_index("c"), tile_index("h"),
                                      tile_index("k / 4")}}),
            name + "sums over 'k', which indexes the result");
  EXPECT_EQ(tile_verdict({.rows = 16}),
            name + "is computed by a warp: the innermost threads are 8 by 4");
  EXPECT_EQ(tile_verdict({.acc = Scope::Shared}),
            "[tensorize] 'acc' takes the sums of mma_m16n8k8_3xtf32, which are a thread's own: "
            "cache_write");
  EXPECT_EQ(tile_verdict({.condition = tile_index("r < 4")}),
            name + "is computed by all lanes of a warp, but r < 4 decides which");
  const Expr own = dsl::read(
      "acc", {tile_index("r"), tile_index("0"), tile_index("h"), tile_index("0")}, Float32);
  EXPECT_EQ(tile_verdict({.a = own}),
            "[tensorize] a factor of mma_m16n8k8_3xtf32 is read from 'acc', which each thread has "
            "for itself");
  const Stmt write{
      Assign{"a", {tile_index("r"), tile_index("c")}, dsl::constant(Float32, 1), Combine::None}};
  EXPECT_EQ(tile_verdict({.beside = {write}}),
            "[tensorize] a factor of mma_m16n8k8_3xtf32 is read from 'a', which the same threads "
            "write");
}

TEST(TensorTiles, AreWhole) {
  const auto with = [](Block inside) {
    const Block nest = {loop("r", 8, LoopKind::Thread, {loop("c", 4, LoopKind::Thread, inside)})};
    const Status status = check_tensor_tiles({"p", {}, block(nest)}, {});
    return status ? "legal" : status.error().message.substr(0, status.error().message.find('\n'));
  };
  const Stmt sum{Assign{"acc", {tile_index("0")}, element("a", "h", "k"), Combine::Sum}};
  EXPECT_EQ(with({loop("h", 2, LoopKind::Tensor, {sum})}),
            "[tensorize] a loop of a tensor tile stands outside of one");
  EXPECT_EQ(with({loop("h", 2, LoopKind::Tensor, {sum}, &tf32())}),
            "[tensorize] mma_m16n8k8_3xtf32 is loops of 2, 2 and 8 inside each other");
  EXPECT_EQ(
      with({loop("h", 2, LoopKind::Tensor,
                 {loop("e", 2, LoopKind::Tensor, {loop("k", 8, LoopKind::Tensor, {sum, sum})})},
                 &tf32())}),
      "[tensorize] mma_m16n8k8_3xtf32 is one sum of products, without a condition");
}

// ---- warpgroups ----------------------------------------------------------------------------

const TensorTile& wgmma() { return *find_tensor_tile("wgmma_m64k16_bf16"); }

TEST(Warpgroups, AreOfOneArchitecture) {
  const Schedule schedule = warpgroup(wgmma());
  const auto on = [&](const std::string& target) {
    return refusal(schedule, limits_of(*parse_target("cuda:" + target)));
  };
  EXPECT_EQ(on("sm_90a"), "legal");
  EXPECT_EQ(on("sm_80"), "[tensorize] wgmma_m64k16_bf16 is of sm_90a alone, the target is sm_80");
  EXPECT_EQ(on("sm_120"), "[tensorize] wgmma_m64k16_bf16 is of sm_90a alone, the target is sm_120");
  for (const TensorTile& tile : tensor_tiles()) {
    EXPECT_EQ(has_tile(tile, 90, false), tile.is_of_warp());
    EXPECT_EQ(has_tile(tile, 100, true), tile.is_of_warp());
    EXPECT_FALSE(has_tile(tile, 75, false));
  }
}

TEST(Warpgroups, PointsOfSpacesComputeWhatTheComputeMeans) {
  Random random(4);
  for (int i = 0; i < 6; ++i) {
    const auto [workload, schedule] = random_warpgroup_product(random);
    const auto program = schedule.program(limits_of(*parse_target("cuda:sm_90a")));
    ASSERT_TRUE(program) << schedule.to_string() << "\n" << program.error().message;
    EXPECT_EQ(disagreement(workload.compute, *program, 3), std::nullopt) << schedule.to_string();
  }
}

/// Expects that all tensor tiles of the phase read their rows in MN-major layout if `mn_rows`, and
/// their columns if `mn_columns`; otherwise the layouts are K-major.
void expect_layouts(const Phase& phase, bool mn_rows, bool mn_columns) {
  const std::vector<Buffer> buffers = local_buffers(*phase.body);
  const auto of = [&](const std::string& name) {
    return *std::ranges::find(buffers, name, &Buffer::name);
  };
  int tiles = 0;
  for_each(*phase.body, [&](const Stmt& stmt) {
    const Loop* outer = stmt.as<Loop>();
    if (!outer || outer->kind != LoopKind::Thread) return;
    const ThreadNest nest = thread_nest(*outer);
    for_each(*nest.loops.back()->body, [&](const Stmt& inner) {
      const Loop* loop = inner.as<Loop>();
      const auto tile =
          loop && loop->tile ? tensor_nest(*loop, nest) : fail(ErrorCode::Invalid, "");
      if (!tile) return;
      EXPECT_EQ(layout_of_rows(*tile, of(tile->by_row->tensor)).is_mn_major, mn_rows);
      EXPECT_EQ(layout_of_columns(*tile, of(tile->by_column->tensor)).is_mn_major, mn_columns);
      ++tiles;
    });
  });
  EXPECT_GE(tiles, 1);
}

TEST(Warpgroups, MnMajorFactorsComputeWhatTheComputeMeans) {
  for (const MnMajorProduct& p : mn_major_products()) {
    SCOPED_TRACE(title_of(p));
    const Schedule schedule = schedule_of(p);
    const auto program = schedule.program(limits_of(*parse_target("cuda:sm_90a")));
    ASSERT_TRUE(program) << schedule.to_string() << "\n" << program.error().message;
    expect_layouts(program->phases[0], p.across_a, p.across_b);
    if (p.m * p.n * p.k > 1'200'000) continue;  // too slow for the interpreter
    EXPECT_EQ(disagreement(compute_of(p), *program, 3), std::nullopt) << to_string(*program);
  }
}

TEST(Warpgroups, HaveColumnsByEights) {
  for (const int64_t columns : {16, 24, 40, 248, 256}) EXPECT_TRUE(has_columns(wgmma(), columns));
  for (const int64_t columns : {0, 8, 20, 264}) EXPECT_FALSE(has_columns(wgmma(), columns));
  const TensorTile& bytes = *find_tensor_tile("wgmma_m64k32_s8");
  for (const int64_t columns : {16, 24, 32, 48, 256}) EXPECT_TRUE(has_columns(bytes, columns));
  for (const int64_t columns : {40, 56, 248}) EXPECT_FALSE(has_columns(bytes, columns));
  EXPECT_THAT(refusal(warpgroup(wgmma(), {.columns = 264})),
              HasSubstr("'wgmma_m64k16_bf16' has no 264 columns, 8 for each turn of the loop"));
}

/// Returns the verdict on warpgroup() with one part of its steps replaced, e.g. the loops of a
/// buffer.
std::string changed(const std::string& from, const std::string& to, const Group& g = {}) {
  std::string text = warpgroup(wgmma(), g).to_string();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const auto schedule = parse_schedule(tile_product(BFloat16, 70, 40, 100), text);
  return schedule ? refusal(*schedule) : schedule.error().message;
}

TEST(Warpgroups, SayHowTheirFactorsAreToLie) {
  const std::string a = "[tensorize] wgmma_m64k16_bf16 reads 'a@c' from shared memory: ";
  const std::string b = "[tensorize] wgmma_m64k16_bf16 reads 'b@c' from shared memory: ";
  EXPECT_EQ(changed("swizzle a@c 64\n", ""), a + "swizzle it by the bytes of a row");
  EXPECT_EQ(changed("swizzle a@c 64\n", "pad a@c k.1.0 8\n"),
            a + "swizzle it by the bytes of a row");
  EXPECT_EQ(changed("swizzle b@c 64\n", "swizzle b@c 32\n"),
            b + "rows of 16 elements, one after the other, with 'k.1.1' innermost");
  EXPECT_EQ(
      changed("k.0 m.1.0 m.1.1.0 m.1.1.1 k.1.0 k.1.1", "k.0 m.1.0 m.1.1.1 m.1.1.0 k.1.0 k.1.1"),
      a + "rows of 32 elements, one after the other, with 'k.1.1' innermost");
  EXPECT_EQ(
      changed("k.0 n.1.0 n.1.1.0 n.1.1.1 k.1.0 k.1.1", "k.0 n.1.0 n.1.1.0 k.1.0 n.1.1.1 k.1.1"),
      b + "rows of 32 elements, one after the other, with 'k.1.1' innermost");
  EXPECT_EQ(
      changed("k.0 m.1.0 m.1.1.0 m.1.1.1 k.1.0 k.1.1", "k.0 m.1.0 m.1.1.0 m.1.1.1 k.1.1 k.1.0"),
      a + "rows of 32 elements, one after the other, with 'k.1.1' innermost");
  // Here the loop over parts of the block of the reduction is outside of the rows. So a row has the
  // 32 bytes of one tile, which does not match the swizzle of 64 bytes.
  EXPECT_EQ(
      changed("k.0 m.1.0 m.1.1.0 m.1.1.1 k.1.0 k.1.1", "k.0 k.1.0 m.1.0 m.1.1.0 m.1.1.1 k.1.1"),
      a + "rows of 32 elements, one after the other, with 'k.1.1' innermost");
}

TEST(Warpgroups, SayWhichThreadsTheyWant) {
  EXPECT_EQ(changed("bind c m.1.0\n", ""),
            "[tensorize] wgmma_m64k16_bf16 is computed by a warpgroup: the innermost threads are 4 "
            "by 8 by 4");
}

/// Parts of acc[w, r, c, h, j, e] += a[w * 16 + h * 8 + r, k] * b[j * 8 + c * 2 + e, k], which sums
/// 16 terms in each of `steps` iterations. A test replaces some of the parts.
struct WideParts {
  std::string a_row = "w * 16 + h * 8 + r", a_term = "s * 16 + k";
  std::vector<int64_t> a_extents = {64, 32};
  Scope a_scope = Scope::Shared;
  std::vector<Expr> sums_at = {tile_index("w"), tile_index("r"), tile_index("c"),
                               tile_index("h"), tile_index("j"), tile_index("e")};
  std::vector<int64_t> sums_extents = {4, 8, 4, 2, 2, 2};
  int64_t steps = 2, columns = 2;
  Expr condition = dsl::constant_int(Bool, 1);
};

std::string wide_verdict(const WideParts& p) {
  const auto factor = [](const std::string& buffer, const std::string& row,
                         const std::string& term) {
    return dsl::cast(Float32, dsl::read(buffer, {tile_index(row), tile_index(term)}, BFloat16));
  };
  const Assign sum{"acc", p.sums_at,
                   factor("a", p.a_row, p.a_term) * factor("b", "j * 8 + c * 2 + e", "s * 16 + k"),
                   Combine::Sum};
  const Stmt tile =
      loop("h", 2, LoopKind::Tensor,
           {loop("j", p.columns, LoopKind::Tensor,
                 {loop("e", 2, LoopKind::Tensor, {loop("k", 16, LoopKind::Tensor, {{sum}})})})},
           &wgmma());
  const Stmt inner = dsl::is_int(p.condition, 1) ? tile : Stmt{If{p.condition, block({tile})}};
  const Block nest = {loop(
      "w", 4, LoopKind::Thread,
      {loop("r", 8, LoopKind::Thread,
            {loop("c", 4, LoopKind::Thread, {loop("s", p.steps, LoopKind::Serial, {inner})})})})};
  const Buffer acc{"acc", Float32, p.sums_extents, Scope::Register};
  const Buffer a{"a", BFloat16, p.a_extents, p.a_scope, 64};
  const Buffer b{"b", BFloat16, {16, 32}, Scope::Shared, 64};
  const Block with_b = {{Allocate{b, block(nest)}}}, with_a = {{Allocate{a, block(with_b)}}};
  const Block all = {{Allocate{acc, block(with_a)}}};
  const Status status = check_tensor_tiles({"p", {}, block(all)}, {});
  return status ? "legal" : status.error().message.substr(0, status.error().message.find('\n'));
}

/// Parts of acc[w, r, c, h, i, j, e] += a[w * 16 + h * 8 + r, k] * b[i * 64 + j * 8 + c * 2 + e, k]
/// with MN-major factors, which sums 16 terms per iteration. A test replaces some of the parts.
struct MnParts {
  std::vector<std::string> a_at = {"s * 16 + k", "w * 16 + h * 8 + r"};
  std::vector<int64_t> a_extents = {32, 64};
  std::vector<std::string> b_at = {"i", "s * 16 + k", "j * 8 + c * 2 + e"};
  std::vector<int64_t> b_extents = {2, 32, 64};
  int a_swizzle = 128, b_swizzle = 128;
  int64_t groups = 2, eights = 8;
  const TensorTile* tile = &wgmma();
};

std::string mn_verdict(const MnParts& p) {
  const auto factor = [&](const std::string& buffer, const std::vector<std::string>& indices) {
    std::vector<Expr> at_indices;
    for (const std::string& index : indices) at_indices.push_back(tile_index(index));
    return dsl::cast(p.tile->accumulator, dsl::read(buffer, at_indices, p.tile->operand));
  };
  const Assign sum{"acc",
                   {tile_index("w"), tile_index("r"), tile_index("c"), tile_index("h"),
                    tile_index("i"), tile_index("j"), tile_index("e")},
                   factor("a", p.a_at) * factor("b", p.b_at),
                   Combine::Sum};
  const Stmt terms =
      loop("e", 2, LoopKind::Tensor, {loop("k", p.tile->depth, LoopKind::Tensor, {{sum}})});
  const Stmt columns =
      loop("i", p.groups, LoopKind::Tensor, {loop("j", p.eights, LoopKind::Tensor, {terms})});
  const Stmt tile = loop("h", 2, LoopKind::Tensor, {columns}, p.tile);
  const Block nest = {
      loop("w", 4, LoopKind::Thread,
           {loop("r", 8, LoopKind::Thread,
                 {loop("c", 4, LoopKind::Thread, {loop("s", 2, LoopKind::Serial, {tile})})})})};
  const Buffer acc{
      "acc", p.tile->accumulator, {4, 8, 4, 2, p.groups, p.eights, 2}, Scope::Register};
  const Buffer a{"a", p.tile->operand, p.a_extents, Scope::Shared, p.a_swizzle};
  const Buffer b{"b", p.tile->operand, p.b_extents, Scope::Shared, p.b_swizzle};
  const Block with_b = {{Allocate{b, block(nest)}}}, with_a = {{Allocate{a, block(with_b)}}};
  const Block all = {{Allocate{acc, block(with_a)}}};
  const Status status = check_tensor_tiles({"p", {}, block(all)}, {});
  return status ? "legal" : status.error().message.substr(0, status.error().message.find('\n'));
}

TEST(Warpgroups, MnMajorProgramsSayWhatIsWrong) {
  EXPECT_EQ(mn_verdict({}), "legal");
  // There may be gaps between groups of columns, and a tile may begin at any multiple of eight
  // terms.
  EXPECT_EQ(mn_verdict({.b_extents = {2, 40, 64}}), "legal");
  EXPECT_EQ(
      mn_verdict({.b_at = {"i", "s * 16 + k + 8", "j * 8 + c * 2 + e"}, .b_extents = {2, 40, 64}}),
      "legal");
  EXPECT_EQ(
      mn_verdict({.b_at = {"s * 16 + k", "i", "j * 8 + c * 2 + e"}, .b_extents = {32, 1, 64}}),
      "[tensorize] wgmma_m64k16_bf16 reads 'b' from shared memory: rows of 64 neighbours for "
      "each 'k', one after the other, swizzled by their 128 bytes");
  const auto rows = [](const std::string& name) {
    return fmt::format(
        "[tensorize] wgmma_m64k16_bf16 reads '{}' from shared memory: rows of 64 "
        "neighbours for each 'k', one after the other, swizzled by their 128 bytes",
        name);
  };
  EXPECT_EQ(mn_verdict({.a_at = {"s * 16 + k", "w * 16 + r * 2 + h"}}), rows("a"));
  EXPECT_EQ(mn_verdict({.a_at = {"s * 16 + k", "w * 8 + h * 32 + r"}}), rows("a"));
  EXPECT_EQ(mn_verdict({.b_at = {"i", "s * 16 + k", "j * 8 + e * 4 + c"}}), rows("b"));
  // Groups that are 32 elements apart do not match the lines of 64 elements that the instruction
  // reads.
  EXPECT_EQ(mn_verdict({.b_at = {"0", "s * 16 + k", "i * 32 + j * 8 + c * 2 + e"}}), rows("b"));
  const std::string begins =
      "[tensorize] wgmma_m64k16_bf16 reads 'a' from shared memory: a tile begins at a multiple of "
      "8 rows, and of 16 terms in them";
  EXPECT_EQ(mn_verdict({.a_at = {"s * 16 + k + 4", "w * 16 + h * 8 + r"}, .a_extents = {40, 64}}),
            begins);
  EXPECT_EQ(mn_verdict({.a_at = {"s * 20 + k", "w * 16 + h * 8 + r"}, .a_extents = {40, 64}}),
            begins);
  EXPECT_EQ(mn_verdict({.a_at = {"s * 16 + k", "w * 16 + h * 8 + r + 16"}}), begins);
  EXPECT_EQ(mn_verdict({.a_at = {"s * 16 + k", "w * 16 + h * 8 + r + s * 16"}}), begins);
  // A row of 72 elements is refused with the message for K-major factors, since nobody can tell
  // which layout was meant.
  EXPECT_EQ(mn_verdict({.a_extents = {32, 72}}),
            "[tensorize] wgmma_m64k16_bf16 reads 'a' from shared memory: rows of 64 elements, one "
            "after the other, with 'k' innermost");
  EXPECT_EQ(mn_verdict({.a_extents = {32, 32}, .a_swizzle = 64}), rows("a"));
  EXPECT_EQ(
      mn_verdict({.a_at = {"s * 32 + k", "w * 16 + h * 8 + r"},
                  .a_extents = {64, 128},
                  .b_at = {"i", "s * 32 + k", "j * 8 + c * 2 + e"},
                  .b_extents = {2, 64, 128},
                  .tile = find_tensor_tile("wgmma_m64k32_s8")}),
      "[tensorize] wgmma_m64k32_s8 reads 'a' from shared memory: neighbours are terms of 'k', "
      "but for 16 bits");
  EXPECT_EQ(mn_verdict({.groups = 5}),
            "[tensorize] wgmma_m64k16_bf16 has groups of 64 columns, up to 256: 'j' of 8 turns in "
            "'i', not 8 in 5");
  EXPECT_EQ(mn_verdict({.eights = 4}),
            "[tensorize] wgmma_m64k16_bf16 has groups of 64 columns, up to 256: 'j' of 8 turns in "
            "'i', not 4 in 2");
}

TEST(Warpgroups, ProgramsSayWhatIsWrong) {
  const std::string a = "[tensorize] wgmma_m64k16_bf16 reads 'a' from shared memory: ";
  const std::string begins = a + "a tile begins at a multiple of 8 rows, and of 16 terms in them";
  EXPECT_EQ(wide_verdict({}), "legal");
  EXPECT_EQ(wide_verdict({.a_row = "w * 16 + h * 8 + r + 8", .a_extents = {72, 32}}), "legal");
  EXPECT_EQ(wide_verdict({.a_row = "w * 16 + h * 8 + r + 4", .a_extents = {72, 32}}), begins);
  EXPECT_EQ(wide_verdict({.a_row = "w * 16 + h * 8 + r + s * 4", .a_extents = {72, 32}}), begins);
  EXPECT_EQ(wide_verdict({.a_term = "s * 16 + k + 8"}), begins);
  EXPECT_EQ(wide_verdict({.a_term = "s * 8 + k"}), begins);
  EXPECT_EQ(wide_verdict({.steps = 3}), begins);
  EXPECT_EQ(wide_verdict({.a_term = "(s + r) % 2 * 16 + k"}), begins);
  const std::string rows = a + "rows of 32 elements, one after the other, with 'k' innermost";
  EXPECT_EQ(wide_verdict({.a_extents = {64, 40}}), rows);
  EXPECT_EQ(wide_verdict({.a_row = "w * 16 + r * 2 + h"}), rows);
  EXPECT_EQ(wide_verdict({.a_term = "s * 16 + (15 - k)"}), rows);
  EXPECT_EQ(wide_verdict({.a_scope = Scope::Scratch}), a + "cache_operand outside of the threads");
  EXPECT_EQ(wide_verdict({.columns = 33}),
            "[tensorize] wgmma_m64k16_bf16 has 16 columns, 8 for each turn of 'j', up to 256, not "
            "33 turns");
  const std::string sums =
      "[tensorize] a thread's sums of wgmma_m64k16_bf16 are 'h', 'j' and 'e' of 'acc', innermost";
  EXPECT_EQ(wide_verdict({.sums_at = {tile_index("w"), tile_index("r"), tile_index("c"),
                                      tile_index("j"), tile_index("h"), tile_index("e")}}),
            sums);
  EXPECT_EQ(wide_verdict({.sums_extents = {4, 8, 4, 2, 3, 2}}), sums);
  EXPECT_EQ(wide_verdict({.condition = tile_index("w") < Expr(2)}),
            "[tensorize] wgmma_m64k16_bf16 is computed by all lanes of a warpgroup, but w < 2 "
            "decides which");
}

}  // namespace
}  // namespace tw::schedules
