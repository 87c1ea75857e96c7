// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/facts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dsl/parse.h"
#include "schedules/schedule.h"
#include "tests/cost_model/programs.h"
#include "tests/isa_targets.h"

namespace tw::cost_model {
namespace {

using namespace testing;

KernelFacts facts_of(const Program& program, const Target& target = avx512()) {
  const Result<KernelFacts> facts = extract_facts(program, target);
  EXPECT_TRUE(facts) << facts.error().message;
  return facts.value_or(KernelFacts{});
}

constexpr double conv_flops = 2.0 * 64 * 64 * 9 * 56 * 56;

TEST(Facts, ConvolutionTileCountsItsInstructions) {
  const KernelFacts facts = facts_of(conv({.pixels = 14, .vectors = 2}));
  EXPECT_DOUBLE_EQ(facts.flops, conv_flops);
  EXPECT_DOUBLE_EQ(facts.fma_flops, conv_flops);
  EXPECT_DOUBLE_EQ(facts.useful_flops, conv_flops);
  EXPECT_DOUBLE_EQ(facts.instructions.fma, conv_flops / 32);
  const BlockFacts& hot = *facts.hot_block();
  EXPECT_EQ(hot.instructions.fma, 28);
  EXPECT_EQ(hot.instructions.vector_loads, 2);      // weights
  EXPECT_EQ(hot.instructions.broadcast_loads, 14);  // pixels
  EXPECT_EQ(hot.instructions.stores, 0);
  EXPECT_EQ(hot.statements, 28);
  EXPECT_EQ(hot.executions, 112.0 * 4 * 4 * 9 * 16);
  EXPECT_EQ(hot.trips, 16);
  EXPECT_EQ(hot.serial_depth, 7);  // k, y, xo, cc, ky, kx, ci
  EXPECT_TRUE(hot.loop_reduces);
  EXPECT_EQ(hot.lanes, 16);
  EXPECT_EQ(hot.lane_use, 1);
}

TEST(Facts, PreparedBuffersAreConstantsOfTheCall) {
  const auto compute = dsl::parse_compute(R"(
input a: f32[6, 8]
weight w: f32[10, 8]
weight bias: f32[10]
u: f32[c=8, k=10] = w[k, c] * w[k, c] + 1.0
p: f32[m=6, k=10] = sum(c=8) a[m, c] * u[c, k]
out: f32[m=6, k=10] = p[m, k] + bias[k]
)");
  const schedules::Schedule schedule = schedules::Schedule(*compute).epilogue("out", "p");
  const KernelFacts each_call = facts_of(schedule.program().value());
  const KernelFacts ahead = facts_of(schedule.prepare("u").program().value());
  EXPECT_EQ(each_call.phases.size(), 2u);
  EXPECT_EQ(ahead.phases.size(), 1u);
  EXPECT_EQ(each_call.constant_bytes, (80 + 10) * 4);
  EXPECT_EQ(ahead.constant_bytes, (80 + 10) * 4);  // u in place of w
  EXPECT_EQ(ahead.argument_bytes, (48 + 80 + 10 + 60) * 4);
  EXPECT_EQ(ahead.scratch_bytes, 0);
  EXPECT_EQ(ahead.flops, each_call.flops - 80 * 2);
}

TEST(Facts, RegistersOfTheTile) {
  const BlockFacts hot = *facts_of(conv({.pixels = 14, .vectors = 2})).hot_block();
  EXPECT_EQ(hot.accumulators, 28);
  EXPECT_EQ(hot.chain, 1);
  EXPECT_EQ(hot.buffer_registers, 28);
  EXPECT_EQ(hot.operand_registers, 3);  // two vectors of weights, one pixel at a time
  EXPECT_EQ(hot.spills, 0);
}

// rows[j / 16, b] is the same for all lanes of a vector, so that it needs no vector register.
TEST(Facts, IndicesThatLanesShareTakeNoVectorRegister) {
  const auto compute = dsl::parse_compute(
      "input x: f32[24, 40]\nweight rows: i32[3, 8]\nweight w: f32[8, 48]\nout: f32[i=24, j=48] = "
      "sum(b=8) x[i, clamp(i64(rows[j / 16, b]), 0, 39)] * w[b, j]");
  ASSERT_TRUE(compute) << compute.error().message;
  const auto schedule = schedules::parse_schedule(
      *compute,
      "tw1\nsplit out j 16\nsplit out j.1 8\nsplit out i 6\nreorder out i.0 j.0 b i.1 j.1.0 "
      "j.1.1\ncache_write out j.0\nvectorize out j.1.1\nunroll out j.1.0\nunroll out i.1");
  ASSERT_TRUE(schedule) << schedule.error().message;
  const BlockFacts hot = *facts_of(*schedule->program(), avx2()).hot_block();
  EXPECT_EQ(hot.accumulators, 12);
  EXPECT_EQ(hot.operand_registers, 2 + 1);  // two vectors of weights, one element of x at a time
  EXPECT_EQ(hot.instructions.broadcast_loads, 6 + 1);
  EXPECT_EQ(hot.spills, 0);
}

TEST(Facts, OrderOfTheUnrolledTileDecidesWhatIsKept) {
  const BlockFacts hot =
      *facts_of(conv({.pixels = 14, .vectors = 2, .vectors_outside = true})).hot_block();
  EXPECT_EQ(hot.operand_registers, 15);  // 14 pixels, one vector of weights at a time
  EXPECT_EQ(hot.spills, 28 + 15 - 32);
}

TEST(Facts, UnrolledReductionMakesChains) {
  const BlockFacts hot = *facts_of(conv({.pixels = 14, .vectors = 2, .depth = 4})).hot_block();
  EXPECT_EQ(hot.instructions.fma, 112);
  EXPECT_EQ(hot.accumulators, 28);
  EXPECT_EQ(hot.chain, 4);
  EXPECT_EQ(hot.reduction_depth, 4);
  EXPECT_EQ(hot.trips, 4);
}

TEST(Facts, StatementsThatUpdateTheSameSumsMakeOneChain) {
  const BlockFacts hot = *facts_of(conv({.pixels = 14, .vectors = 2, .statements = 3})).hot_block();
  EXPECT_EQ(hot.instructions.fma, 84);
  EXPECT_EQ(hot.accumulators, 28);
  EXPECT_EQ(hot.chain, 3);
}

// Each column of the window reads 7 pixels. The next column reads 6 of these again, so that they
// are kept in registers.
TEST(Facts, NeighboursInAWindowAreKept) {
  const BlockFacts hot = *facts_of(conv({.pixels = 7, .vectors = 1, .window = true})).hot_block();
  EXPECT_EQ(hot.instructions.fma, 21);
  EXPECT_EQ(hot.instructions.broadcast_loads, 9);
  EXPECT_EQ(hot.chain, 3);
  EXPECT_EQ(hot.operand_registers, 6 + 1);
}

// A register of AVX2 has 8 lanes, so that a vector of 16 lanes takes 2: the tile needs 14 registers
// for sums, 2 for weights and 1 for a pixel.
TEST(Facts, AnUnrolledReductionNeedsARegisterForTheNextBroadcast) {
  EXPECT_EQ(facts_of(conv({.pixels = 7, .vectors = 1}), avx2()).hot_block()->spills, 1);
  const Program unrolled = conv({.pixels = 7, .vectors = 1, .depth = 2});
  EXPECT_EQ(facts_of(unrolled, avx2()).hot_block()->spills, 2);
  Target embedded = avx2();
  embedded.machine.core.embedded_broadcast = true;
  EXPECT_EQ(facts_of(unrolled, embedded).hot_block()->spills, 1);
}

TEST(Facts, TooLargeTilesSpill) {
  const BlockFacts hot = *facts_of(conv({.pixels = 28, .vectors = 2})).hot_block();
  EXPECT_EQ(hot.buffer_registers, 56);
  EXPECT_EQ(hot.spills, 56 + 3 - 32);
}

TEST(Facts, HalfAsWideVectorsNeedTwiceTheRegisters) {
  const BlockFacts hot = *facts_of(conv({.pixels = 14, .vectors = 2}), avx2()).hot_block();
  EXPECT_EQ(hot.instructions.fma, 56);
  EXPECT_EQ(hot.instructions.vector_loads, 4);
  EXPECT_EQ(hot.instructions.broadcast_loads, 14);
  EXPECT_EQ(hot.buffer_registers, 56);
}

TEST(Facts, LoopsAndTasks) {
  const KernelFacts facts = facts_of(conv({.pixels = 14, .vectors = 2}));
  const PhaseFacts& phase = facts.phases.at(0);
  EXPECT_EQ(phase.tasks, 112);
  const double tiles = 112 * 4;
  EXPECT_EQ(phase.serial_iterations, tiles * (1 + 4 + 12 + 36 + 576));
  EXPECT_EQ(phase.loop_entries, 112 + tiles * (1 + 4 + 12 + 36));
  EXPECT_EQ(phase.dynamic_entries, 0);
}

TEST(Facts, ArgumentsAndOutputs) {
  const KernelFacts facts = facts_of(conv({}));
  EXPECT_EQ(facts.output_bytes, 4 * 56 * 56 * 16 * 4);
  EXPECT_EQ(facts.constant_bytes, 64 * 64 * 9 * 4);
  EXPECT_EQ(facts.output_writes, facts.output_elements);
  EXPECT_EQ(facts.combine_bytes, 0);
}

TEST(Facts, ScalarCodeUsesOneLane) {
  const KernelFacts facts = facts_of(naive_gemm());
  const BlockFacts& hot = *facts.hot_block();
  EXPECT_DOUBLE_EQ(hot.lane_use, 1.0 / 16);
  EXPECT_EQ(hot.instructions.fma, 1);
  EXPECT_EQ(hot.instructions.vector_loads, 1);  // of c: the sum stays in memory
  EXPECT_EQ(hot.instructions.broadcast_loads, 2);
  EXPECT_EQ(hot.instructions.stores, 1);
  EXPECT_DOUBLE_EQ(facts.lane_flops, 16 * facts.flops);
  EXPECT_EQ(facts.combine_bytes, 2.0 * 4 * 64 * 64 * 128);
  EXPECT_EQ(facts.output_writes, 64 * 64 * 128);
}

// For one row of c, a task reads a row of a (512 bytes) and all of b (32 KiB), and writes 256
// bytes. The loop over k touches a column of b, 128 lines, which the next j finds in L1.
TEST(Facts, TrafficIsPaidWhereTheWorkingSetNoLongerFits) {
  const double a = 64 * 128 * 4, b = 128 * 64 * 4, c = 64 * 64 * 4;
  Target target = avx512();
  const PhaseFacts fits = facts_of(naive_gemm(), target).phases.at(0);
  EXPECT_EQ(fits.footprint, a + b + c);
  EXPECT_EQ(fits.task_footprint, 512 + b + 256);
  // A task needs more than the 32 KiB of L1, so that each of 64 rows fetches b again. L2 holds
  // everything, even from the call before.
  EXPECT_EQ(fits.traffic[0], a + 64 * b + c);
  EXPECT_EQ(fits.traffic[1], 0);
  target.machine.caches[0] = {.bytes = 64 << 10, .ways = 16};
  EXPECT_EQ(facts_of(naive_gemm(), target).phases.at(0).traffic[0], a + b + c);
  target.machine.caches[1] = {.bytes = 64 << 10, .ways = 16};
  EXPECT_EQ(facts_of(naive_gemm(), target).phases.at(0).traffic[1], a + b + c);
}

// A tile reads four rows of 6 KiB, which L3 holds. If it reads 256 bytes of each at a time, it
// waits each time for the first lines of the four pieces, at once. If it reads whole rows, it waits
// only for the first four lines.
TEST(Facts, StretchesThatArePagesApartAreWaitedFor) {
  const auto waits_of = [](const std::string& steps) {
    const auto compute = dsl::parse_compute(
        "input a: f32[1200, 1536]; weight b: f32[1536, 32]; "
        "out: f32[m=1200, n=32] = sum(k=1536) a[m, k] * b[k, n]");
    const auto schedule = schedules::parse_schedule(*compute, "tw1; " + steps);
    const auto program = schedule->program();
    EXPECT_TRUE(program) << program.error().message;
    Target target = *parse_target("x86-64-v3");
    target.machine.caches[1] = {.bytes = 512 << 10, .ways = 8, .bytes_per_cycle = 20};
    return facts_of(*program, target).phases.at(0).waits[1];
  };
  const std::string tile =
      "split out n 16; split out n.1 8; split out m 4; split out k 64; "
      "reorder out n.0 {} k.1 m.1 n.1.0 n.1.1; cache_write out m.0; vectorize out n.1.1; "
      "unroll out m.1; unroll out n.1.0; ";
  const double blocks = waits_of(fmt::format(fmt::runtime(tile), "k.0 m.0"));
  const double rows = waits_of(fmt::format(fmt::runtime(tile), "m.0 k.0"));
  EXPECT_NEAR(blocks, 2 * 24 * 300 * 4, 0.1 * blocks);
  EXPECT_NEAR(rows, 2 * 300 * 4, 0.1 * rows);
}

/// Returns the share of weights that memory sends at the beginnings of stretches, in the product of
/// a vector and a matrix of weights with rows of 64 KiB.
double begun_share(const std::string& steps) {
  const auto compute = dsl::parse_compute(
      "input a: f32[512]; weight b: f32[512, 16384]; "
      "out: f32[n=16384] = sum(k=512) a[k] * b[k, n]");
  const auto schedule = schedules::parse_schedule(*compute, "tw1; " + steps);
  EXPECT_TRUE(schedule) << schedule.error().message;
  if (!schedule) return -1;
  const auto facts = extract_facts(*schedule->program(), *parse_target("x86-64-v4"),
                                   dsl::CacheState::NetworkMemory);
  return facts->phases.at(0).begun / (512 * 16384 * 4);
}

// Prefetchers follow a matrix that is read from end to end, and also a few of its rows that are
// read side by side. They do not get far ahead in short pieces of rows, and cannot follow many
// rows.
TEST(Facts, StretchesThatGoOnAreFollowed) {
  const std::string packed =
      "set_layout b BA64b; split out n 64; split out n.1 16; reorder out n.0 k n.1.0 n.1.1; "
      "cache_write out n.0; vectorize out n.1.1; unroll out n.1.0";
  EXPECT_LT(begun_share(packed), 0.01);
  const auto rows = [](int count, const char* order) {
    return begun_share(
        fmt::format("split out n 64; split out n.1 16; split out k {}; "
                    "reorder out {} k.1 n.1.0 n.1.1; cache_write out n.0; vectorize out n.1.1; "
                    "unroll out n.1.0; unroll out k.1",
                    count, order));
  };
  EXPECT_NEAR(rows(4, "n.0 k.0"), 1, 0.02);  // 256 bytes of each row at a time
  EXPECT_NEAR(rows(4, "k.0 n.0"), 8. / 64, 0.02);
  EXPECT_NEAR(rows(32, "k.0 n.0"), 1, 0.02);
}

// If the inner loop leaves gaps within a page, which later iterations of the outer loop fill,
// prefetchers do not follow it. Its stretches are single lines, which count twice.
TEST(Facts, StretchesWhoseGapsAreFilledLaterAreNotFollowed) {
  const auto in_order = [](const char* order) {
    return begun_share(
        fmt::format("set_layout b BA16b; split out n 16; split out k 64; split out k.1 4; "
                    "reorder out n.0 {} n.1; cache_write out n.0; vectorize out n.1",
                    order));
  };
  EXPECT_LT(in_order("k.0 k.1.0 k.1.1"), 0.01);
  EXPECT_NEAR(in_order("k.0 k.1.1 k.1.0"), 2, 0.02);
}

// An inner loop reads four stretches in turns, a line of each at a time. Prefetchers follow the
// stretches from one iteration of the outer loops to the next, however long the stretches get.
TEST(Facts, StretchesInTurnsAreFollowedFromLoopToLoop) {
  const auto in_turns = [](const char* order, const char* unrolled) {
    return begun_share(
        fmt::format("split out n 4096; split out n.1 16; split out k 4; reorder out {} n.1.1; "
                    "cache_write out n.0; vectorize out n.1.1; unroll out {}",
                    order, unrolled));
  };
  EXPECT_LT(in_turns("k.0 n.0 n.1.0 k.1", "k.1"), 0.2);
  EXPECT_GT(in_turns("k.0 n.0 k.1 n.1.0", "n.1.0"), 0.4) << "16 KiB of each at a time";
}

// If the next row begins less than a line behind the end of a row, both are one stretch.
TEST(Facts, AGapWithinALineEndsNoStretch) {
  const auto compute =
      dsl::parse_compute("input a: f32[2048, 4095]; out: f32[i=2048, j=4080] = a[i, j] + 1.0");
  const auto facts = extract_facts(schedules::Schedule(*compute).program().value(),
                                   *parse_target("x86-64-v4"), dsl::CacheState::Hot);
  ASSERT_TRUE(facts);
  EXPECT_LT(facts->phases.at(0).begun, 0.01 * facts->phases.at(0).traffic[2]);
}

// When an operator of a network begins, L1 and L2 hold nothing of its output. Constants come from
// L3 (NetworkL3) or from memory (NetworkMemory). The activation was just written, so that the
// caches hold it.
TEST(Facts, InANetworkConstantsAndOutputsAreFetchedAnew) {
  const double b = 128 * 64 * 4, c = 64 * 64 * 4;
  Program program = naive_gemm();
  program.arguments[1].constant = true;
  const auto traffic = [&](dsl::CacheState state) {
    const auto facts = extract_facts(program, avx512(), state);
    if (!facts) throw std::runtime_error(facts.error().message);
    return facts->phases.at(0).traffic;
  };
  const Traffic hot = traffic(dsl::CacheState::Hot), l3 = traffic(dsl::CacheState::NetworkL3),
                memory = traffic(dsl::CacheState::NetworkMemory);
  EXPECT_EQ(hot[1], 0);
  EXPECT_NEAR(l3[1], b + c, 1);
  EXPECT_EQ(l3[2], 0);
  EXPECT_NEAR(memory[1], b + c, 1);
  EXPECT_NEAR(memory[2], b, 1);
}

TEST(Facts, DataThatPassesTakesAWay) {
  const double a = 64 * 128 * 4, b = 128 * 64 * 4, c = 64 * 64 * 4;
  Target target = avx512();
  CacheLevel& l1 = target.machine.caches[0];
  l1.bytes = 36 << 10;  // a task touches 33.5 KiB
  l1.ways = 64;
  EXPECT_EQ(facts_of(naive_gemm(), target).phases.at(0).traffic[0], a + b + c);
  l1.ways = 8;
  EXPECT_EQ(facts_of(naive_gemm(), target).phases.at(0).traffic[0], a + 64 * b + c);
}

// A vector of 32 bytes at a multiple of 32 lies in one line. A vector that is 16 bytes further may
// lie in two.
TEST(Facts, VectorsThatFillHalfALineDoNotStraddle) {
  const auto splits = [](int64_t shift) {
    Program program = naive_gemm();
    const Expr i = var("i"), k = var("k"), j = var("jo") * 8 + var("ji") + Expr(shift);
    program.phases[0].body =
        block(nest({{"k", 128}, {"jo", 7}, {"ji", 8, LoopKind::Vector}},
                   {assign("c", {i, j}, read("a", {i, k}, Float32) * read("b", {k, j}, Float32),
                           schedules::Combine::Sum)}));
    return facts_of(program, avx2()).hot_block()->instructions.split_accesses;
  };
  EXPECT_EQ(splits(0), 0);
  EXPECT_GT(splits(4), 0);
}

/// Pages lie at random in a cache with ways that are larger than a page. If data fill three
/// quarters of the cache, some of them are evicted before they are touched again. If data fill a
/// quarter, none are.
TEST(Facts, PagesShareSetsByChance) {
  const auto traffic = [](double share_of_l2, const Target& target) {
    const auto elements = static_cast<int64_t>(share_of_l2 * target.machine.l2_bytes() / 4);
    Program program;
    // The second phase reads as much as three caches hold, so that no call finds data of the
    // previous call.
    const int64_t others = 3 * target.machine.l2_bytes() / 4;
    program.arguments = {argument("in", {elements}), argument("out", {16}, true),
                         argument("other", {others})};
    const Expr other = read("other", {var("i") * 16 + var("v")}, Float32);
    const Expr value = read("in", {var("i") * 16 + var("v")}, Float32);
    program.phases = {{"sums",
                       {},
                       block(nest({{"again", 8}, {"i", elements / 16}, {"v", 16, LoopKind::Vector}},
                                  {assign("out", {var("v")}, value, schedules::Combine::Sum)}))},
                      {"others",
                       {},
                       block(nest({{"i", others / 16}, {"v", 16, LoopKind::Vector}},
                                  {assign("out", {var("v")}, other, schedules::Combine::Sum)}))}};
    return facts_of(program, target).phases[0].traffic[1] / (4.0 * elements);
  };
  EXPECT_NEAR(traffic(0.25, avx512()), 1, 0.1);
  EXPECT_GT(traffic(0.75, avx512()), 2);
  EXPECT_LT(traffic(0.75, avx512()), 5);
  EXPECT_NEAR(traffic(3, avx512()), 8, 0.1);
  Target one_page_a_way = avx512();
  one_page_a_way.machine.caches[1].ways = 256;
  EXPECT_NEAR(traffic(0.75, one_page_a_way), 1, 0.1);
}

/// Two phases read the same numbers. The second phase finds those that the first one fetched, as
/// far as a cache holds them.
TEST(Facts, APhaseFindsWhatTheOneBeforeItLeft) {
  const auto traffic = [](double share_of_l2, int phase) {
    const auto elements = static_cast<int64_t>(share_of_l2 * avx512().machine.l2_bytes() / 4);
    Program program;
    program.arguments = {argument("in", {elements}), argument("a", {16}, true),
                         argument("b", {elements}, true)};
    const Expr value = read("in", {var("i") * 16 + var("v")}, Float32);
    const std::vector<Around> loops = {{"i", elements / 16}, {"v", 16, LoopKind::Vector}};
    program.phases = {
        {"sums", {}, block(nest(loops, {assign("a", {var("v")}, value, schedules::Combine::Sum)}))},
        {"copies", {}, block(nest(loops, {assign("b", {var("i") * 16 + var("v")}, value)}))}};
    return facts_of(program, avx512()).phases[static_cast<size_t>(phase)].traffic[1] /
           (4.0 * elements);
  };
  // The data in between decide whether a number is still in the cache. Between two uses of a number
  // of `in`, these are the other numbers of `in` and half of `b`, which fill 0.9 of the cache.
  // Between two uses of a number of `b`, they are all of both arrays.
  EXPECT_NEAR(traffic(0.6, 0), 0.8, 0.05);
  EXPECT_NEAR(traffic(0.6, 1), 0.8 + 1, 0.05);
  EXPECT_EQ(traffic(0.2, 0), 0);
  EXPECT_EQ(traffic(0.2, 1), 0);
}

TEST(Facts, WhatIsStoredAndDoesNotStayInL3IsWrittenBack) {
  const auto traffic = [](double share_of_l3) {
    const Target target = avx512();
    const auto elements =
        static_cast<int64_t>(share_of_l3 * static_cast<double>(target.machine.caches[2].bytes) / 4 /
                             16) *
        16;
    Program program;
    program.arguments = {argument("in", {elements}), argument("out", {elements}, true)};
    const Expr at = var("i") * 16 + var("v");
    program.phases = {{"copy",
                       {},
                       block(nest({{"i", elements / 16}, {"v", 16, LoopKind::Vector}},
                                  {assign("out", {at}, read("in", {at}, Float32))}))}};
    return facts_of(program, target).phases[0].traffic[2] / (4.0 * static_cast<double>(elements));
  };
  EXPECT_EQ(traffic(0.2), 0);
  EXPECT_NEAR(traffic(2), 3, 0.01);  // both are fetched, and one is written
}

/// Sums a row as schedules do: first into lanes of partial sums, which are then added.
Program sum_of_lanes(LoopKind lanes_loop) {
  Program program;
  program.arguments = {argument("in", {64, 16}), argument("out", {64}, true)};
  const schedules::Buffer lanes{"lanes", Float32, {16}, Scope::Local};
  const Expr row = var("row"), lane = var("lane");
  Block body = nest({{"lane", 16, LoopKind::Vector}},
                    {assign("lanes", {lane}, read("in", {row, lane}, Float32))});
  body.push_back(assign("out", {row}, dsl::constant(Float32, 0)));
  for (Stmt& stmt :
       nest({{"lane", 16, lanes_loop}},
            {assign("out", {row}, read("lanes", {lane}, Float32), schedules::Combine::Sum)}))
    body.push_back(std::move(stmt));
  program.phases = {
      {"sums", {{"row", 64}}, block({Stmt{schedules::Allocate{lanes, block(std::move(body))}}})}};
  return program;
}

TEST(Facts, LanesAreAddedUpAsATree) {
  const KernelFacts tree = facts_of(sum_of_lanes(LoopKind::Unrolled), avx512());
  const BlockFacts& unrolled = tree.phases[0].blocks.at(0);
  EXPECT_EQ(unrolled.instructions.arithmetic, 2 * 4);  // four times a shuffle and an addition
  EXPECT_EQ(unrolled.chain, 1.5 * 4);
  EXPECT_EQ(unrolled.sum_iterations, 1);
  EXPECT_LE(unrolled.instructions.stores, 3);
  EXPECT_EQ(tree.flops, facts_of(sum_of_lanes(LoopKind::Serial), avx512()).flops);
}

// A convolution y[x] += in[x + tap] * w[tap] with one statement per tap of its window. Convolutions
// have this form if padding cuts some taps off.
Program taps(int64_t pixels) {
  Program program;
  program.arguments = {argument("in", {16, 66}), argument("w", {16, 3, 16}),
                       argument("out", {pixels, 16}, true)};
  const std::vector<Around> tile = {{"x", pixels, LoopKind::Unrolled}, {"v", 16, LoopKind::Vector}};
  const std::vector<Expr> sum = {var("x"), var("v")};
  Block body;
  for (int tap = 0; tap < 3; ++tap)
    body =
        together(body, nest(tile, {assign("acc", sum,
                                          read("in", {var("c"), var("x") + Expr(tap)}, Float32) *
                                              read("w", {var("c"), Expr(tap), var("v")}, Float32),
                                          schedules::Combine::Sum)}));
  const Block store = nest(tile, {assign("out", sum, read("acc", sum, Float32))});
  program.phases = {{"conv",
                     {},
                     block({Stmt{Allocate{{"acc", Float32, {pixels, 16}, Scope::Register},
                                          block(together(nest({{"c", 16}}, body), store))}}})}};
  return program;
}

TEST(Facts, TapsThatAreStatementsLoadAPixelOnce) {
  const BlockFacts small = *facts_of(taps(4)).hot_block();
  EXPECT_EQ(small.instructions.fma, 12);
  EXPECT_EQ(small.instructions.broadcast_loads, 6);
  EXPECT_EQ(small.instructions.vector_loads, 3);
  EXPECT_EQ(small.chain, 3);
  EXPECT_EQ(small.reloads, 0);
}

// 28 sums and the operands leave 2 of 32 registers for the 27 pixels that a tap shares with the
// next.
TEST(Facts, TapsThatAreStatementsReloadWhatNoRegisterKeeps) {
  const BlockFacts large = *facts_of(taps(28)).hot_block();
  EXPECT_EQ(large.spills, 0);
  EXPECT_DOUBLE_EQ(large.reloads, 2 * 27 * (1 - 2.0 / 27));
}

/// Computes out[x, j] = sum over c of in[c, x] * w[c, j] for j in [0, 20). That is one whole vector
/// and 4 lanes of a second one, which have separate statements in the unrolled loop over the
/// pixels.
Program tail_of_channels(int64_t pixels) {
  Program program;
  program.arguments = {argument("in", {16, 66}), argument("w", {16, 2, 16}),
                       argument("out", {pixels, 2, 16}, true)};
  const auto part = [](int64_t lanes, int vector, const std::string& to, const Expr& value,
                       schedules::Combine combine) {
    return nest({{"v", lanes, LoopKind::Vector}},
                {assign(to, {var("x"), Expr(vector), var("v")}, value, combine)});
  };
  const auto product = [&](int64_t lanes, int vector) {
    return part(lanes, vector, "acc",
                read("in", {var("c"), var("x")}, Float32) *
                    read("w", {var("c"), Expr(vector), var("v")}, Float32),
                schedules::Combine::Sum);
  };
  const auto store = [&](int64_t lanes, int vector) {
    return part(lanes, vector, "out", read("acc", {var("x"), Expr(vector), var("v")}, Float32),
                schedules::Combine::None);
  };
  const Around c = {"c", 16}, x = {"x", pixels, LoopKind::Unrolled};
  program.phases = {
      {"conv",
       {},
       block({Stmt{Allocate{{"acc", Float32, {pixels, 2, 16}, Scope::Register},
                            block(together(nest({c, x}, together(product(16, 0), product(4, 1))),
                                           nest({x}, together(store(16, 0), store(4, 1)))))}}})}};
  return program;
}

// The two statements for a pixel update different sums. Both need the pixel at the same time.
TEST(Facts, TheTailOfAVectorIsAChainOfItsOwn) {
  const BlockFacts tile = *facts_of(tail_of_channels(13)).hot_block();
  EXPECT_EQ(tile.instructions.fma, 26);
  EXPECT_EQ(tile.instructions.broadcast_loads, 13);
  EXPECT_EQ(tile.accumulators, 26);
  EXPECT_EQ(tile.chain, 1);
  EXPECT_EQ(tile.reloads, 0);
  EXPECT_EQ(tile.spills, 0);
}

// The program computes two tiles one after the other, which never need registers at the same time.
TEST(Facts, BuffersThatFollowEachOtherShareRegisters) {
  const Program tile = taps(20);
  Program twice = tile;
  twice.phases[0].body = block(together(*tile.phases[0].body, *tile.phases[0].body));
  const auto most = [](const Program& program) {
    const KernelFacts facts = facts_of(program);
    double registers = 0;
    for (const BlockFacts& b : facts.phases[0].blocks)
      registers = std::max(registers, b.buffer_registers);
    return registers;
  };
  EXPECT_EQ(most(tile), 20);
  EXPECT_EQ(most(twice), 20);
}

TEST(Facts, TapsThatAreStatementsTouchTheirUnion) {
  // Per channel, the pixels are in 2 lines (30 floats of 66) and the weights in 3.
  EXPECT_EQ(facts_of(taps(28)).hot_block()->footprints[0], (2 + 3) * 64);
  // Per channel, the pixels are in 1 line (6 floats).
  EXPECT_EQ(facts_of(taps(4)).hot_block()->footprints[0], (1 + 3) * 64);
}

TEST(Facts, FootprintsGrowOutward) {
  const BlockFacts hot = *facts_of(naive_gemm()).hot_block();
  // One iteration of k touches a line of each array. The loop over k touches 512 bytes of a and 128
  // lines of b. A task touches all of b.
  ASSERT_EQ(hot.footprints.size(), 3u);
  EXPECT_EQ(hot.footprints[0], 3 * 64);
  EXPECT_EQ(hot.footprints[1], 512 + 128 * 64 + 64);
  EXPECT_EQ(hot.footprints[2], 512 + 128 * 256 + 256);
}

TEST(Facts, GuardsCountTestsAndSkippedWork) {
  Program program = naive_gemm();
  const Expr product =
      read("a", {var("i"), var("k")}, Float32) * read("b", {var("k"), var("j")}, Float32);
  const Block sum = {assign("c", {var("i"), var("j")}, product, schedules::Combine::Sum)};
  program.phases[0].body =
      block(nest({{"j", 64}}, {Stmt{If{var("j") < 48, block(nest({{"k", 128}}, sum))}}}));
  const KernelFacts facts = facts_of(program);
  EXPECT_EQ(facts.if_tests, 64 * 64);
  EXPECT_DOUBLE_EQ(facts.flops, 2.0 * 64 * 48 * 128);
}

// A vector executes a statement for all lanes even if the condition holds for only some of them.
TEST(Facts, MasksSkipNoWorkAndTakeInstructions) {
  const auto facts_under = [](const Expr& condition, const Target& target) {
    Program program = naive_gemm();
    const Expr product =
        read("a", {var("i"), var("k")}, Float32) * read("b", {var("k"), var("j")}, Float32);
    const Block sum = {Stmt{If{
        condition, block({assign("c", {var("i"), var("j")}, product, schedules::Combine::Sum)})}}};
    const Loop lanes{"j", 0, 16, LoopKind::Vector, block(sum)};
    program.phases[0].body = block(nest({{"k", 128}}, {Stmt{lanes}}));
    return facts_of(program, target);
  };
  const Target avx2 = *parse_target("x86-64-v3");
  const KernelFacts masked = facts_under(var("j") < 8, avx2),
                    always = facts_under(var("k") >= 0, avx2);
  EXPECT_EQ(masked.if_tests, 0);
  EXPECT_DOUBLE_EQ(masked.flops, always.flops);
  EXPECT_DOUBLE_EQ(masked.useful_flops, always.useful_flops / 2);
  EXPECT_DOUBLE_EQ(masked.partial_flops, masked.flops / 2);
  EXPECT_DOUBLE_EQ(masked.instructions.fma, always.instructions.fma);
  // One instruction for the mask, and one for the addition, which no multiply-add does.
  EXPECT_DOUBLE_EQ(masked.instructions.arithmetic,
                   always.instructions.arithmetic + 2 * masked.instructions.fma);
  EXPECT_DOUBLE_EQ(facts_under(var("j") < 8, avx512()).instructions.arithmetic, 0);
}

TEST(Facts, PaddingThatIsMultipliedIsNotUseful) {
  Program program = naive_gemm();
  const Expr padded = dsl::select(var("k") < 96, read("a", {var("i"), var("k")}, Float32),
                                  dsl::constant(Float32, 0));
  const Block sum = {assign("c", {var("i"), var("j")},
                            padded * read("b", {var("k"), var("j")}, Float32),
                            schedules::Combine::Sum)};
  program.phases[0].body = block(nest({{"j", 64}, {"k", 128}}, sum));
  const KernelFacts facts = facts_of(program);
  EXPECT_DOUBLE_EQ(facts.flops, 2.0 * 64 * 64 * 128);
  EXPECT_DOUBLE_EQ(facts.useful_flops, 0.75 * facts.flops);
  EXPECT_EQ(facts.selects, 64 * 64 * 128);
}

TEST(Facts, CopiesComputeOnceWhatTheyShare) {
  const auto compute = dsl::parse_compute(R"(
input a: f32[6, 32]
weight w: u8[32, 48]
out: f32[m=6, n=48] = sum(k=32) a[m, k] * f32(w[k, n] >> 4)
)");
  const auto facts_with = [&](const std::string& last_step) {
    const auto schedule = schedules::read_schedule(
        *compute,
        "tw1\nsplit out n 16\nreorder out n.0 k m n.1\ncache_write out n.0\nvectorize out n.1\n" +
            last_step,
        "test");
    return facts_of(schedule.value().program().value());
  };
  const KernelFacts unrolled = facts_with("unroll out m\n"), loops = facts_with("");
  EXPECT_DOUBLE_EQ(unrolled.instructions.fma, 6 * 32 * 3);
  EXPECT_DOUBLE_EQ(loops.instructions.fma, 6 * 32 * 3);
  EXPECT_DOUBLE_EQ(unrolled.instructions.arithmetic, 2 * 32 * 3);  // a shift and a cast
  EXPECT_DOUBLE_EQ(loops.instructions.arithmetic, 2 * 6 * 32 * 3);
  EXPECT_DOUBLE_EQ(unrolled.flops, loops.flops);
}

TEST(Facts, DotProductsCountTheirOperations) {
  const auto compute = dsl::parse_compute(R"(
input a: u8[6, 16]
weight b: i8[16, 24]
c: i32[m=6, n=24] = sum(k=16) i32(a[m, k]) * i32(b[k, n])
)");
  const auto schedule = schedules::read_schedule(
      *compute,
      "tw1\nset_layout b BA8b2a\nsplit c n 8\nsplit c k 2\nreorder c m n.0 k.0 n.1 k.1\n"
      "cache_write c n.0\nvectorize c n.1\nvectorize c k.1\n",
      "test");
  const Program program = schedule.value().program().value();
  const KernelFacts with = facts_of(program, parse_target("x86-64-v3").value());
  const KernelFacts without = facts_of(program, parse_target("x86-64-linux").value());
  EXPECT_DOUBLE_EQ(with.flops, 2 * 6 * 24 * 16);
  EXPECT_DOUBLE_EQ(with.useful_flops, with.flops);
  EXPECT_LT(with.instructions.fma, without.instructions.fma);
  // A vector of weights has 8 lanes of 2 neighbours. Each begins at a multiple of its size.
  EXPECT_GT(with.instructions.vector_loads, 0);
  EXPECT_EQ(with.instructions.split_accesses, 0);
}

KernelFacts facts_of_text(const std::string& compute, const std::string& steps,
                          const Target& target = avx512()) {
  const auto schedule =
      schedules::read_schedule(dsl::parse_compute(compute).value(), "tw1\n" + steps, "test");
  return facts_of(schedule.value().program().value(), target);
}

// Two tiles share the factor of the columns. The tile registers of sums begin as zeros, and the
// sums are stored once.
TEST(Facts, TilesOfACoreAreInstructions) {
  const std::string compute =
      "input a: u8[32, 128]; weight b: i8[128, 48]; "
      "c: i32[m=32, n=48] = sum(k=128) i32(a[m, k]) * i32(b[k, n])";
  const std::string steps =
      "set_layout b BA16b4a\nsplit c n 16\nsplit c m 16\nsplit c k 4\nsplit c k.0 16\n"
      "reorder c n.0 k.0.0 m.0 m.1 n.1 k.0.1 k.1\ncache_write c n.0 local\n"
      "tensorize c m.1 amx_m16n16k64_i8\nunroll c m.0\n";
  Target target = parse_target(target_text_of_isa("amx")).value();
  Core& core = target.machine.core;
  core.fma_per_cycle = 2;
  core.fma_latency_cycles = 4;
  core.byte_tile_dots_per_cycle = 16;
  const KernelFacts facts = facts_of_text(compute, steps, target);
  const double tiles = 3 * 2 * 2, rows = 3 * 32;
  EXPECT_DOUBLE_EQ(facts.flops, 2 * 32 * 48 * 128);
  EXPECT_DOUBLE_EQ(facts.useful_flops, facts.flops);
  EXPECT_DOUBLE_EQ(facts.instructions.fma, tiles);
  EXPECT_DOUBLE_EQ(facts.instructions.slow_dots, tiles * (16 * 2 - 1)) << "16 cycles each";
  EXPECT_DOUBLE_EQ(facts.instructions.vector_loads, tiles * 16 + tiles / 2 * 16 + rows);
  EXPECT_DOUBLE_EQ(facts.instructions.stores, 2 * rows);
  ASSERT_EQ(facts.phases[0].blocks.size(), 2u) << "no block sets the sums to 0";
  const BlockFacts& block = facts.phases[0].blocks[0];
  EXPECT_EQ(block.statements, 2);
  EXPECT_EQ(block.accumulators, 2);
  EXPECT_EQ(block.chain, 52.0 / 4);
  EXPECT_TRUE(block.loop_reduces);
  const KernelFacts loops = facts_of_text(compute, steps, parse_target("x86-64-v4").value());
  EXPECT_DOUBLE_EQ(loops.instructions.fma, 32 * 48 * 128) << "one by one";
}

// The rows of an unrolled tile share a vector of digits, and two digits come from one load.
TEST(Facts, DigitsAreTakenOnceFromALoad) {
  const auto arithmetic = [](const std::string& loops, const std::string& last) {
    const KernelFacts facts = facts_of_text(
        "input a: i8[6, 2, 16]; weight b: u8[16, 24]; c: i32[m=6, n=24] = sum(d=2, k=16) "
        "i32(a[m, d, k]) * (i32(b[k, n]) >> i32(d * 4) & 15i32)",
        "set_layout b BA8b4a\nsplit c n 8\nsplit c k 4\nreorder c n.0 " + loops +
            " d n.1 k.1\ncache_write c n.0\nvectorize c n.1\nvectorize c k.1\nunroll c d\n" + last,
        parse_target("x86-64-v3").value());
    return facts.instructions.arithmetic;
  };
  // A dot product has two additions. A digit has a shift and a mask.
  const double loads = 3 * 4, dots = loads * 6 * 2, sums = 2 * dots;
  const double one_by_one = sums + 2 * loads * 6 * 2, shared = sums + 2 * loads * 2;
  EXPECT_NEAR(arithmetic("k.0 m", "unroll c m\n") / arithmetic("m k.0", ""), shared / one_by_one,
              1e-9);
}

TEST(Facts, CopiesDoNotShareTheirOwnBuffers) {
  const std::string sums = R"(
input a: f32[6, 16]
input b: f32[6, 16]
sums: f32[m=6, n=16] = a[m, n] + b[m, n]
out: f32[m=6, n=16] = exp(sums[m, n])
)";
  const std::string steps = "compute_at sums out m\nvectorize sums n\nvectorize out n\n";
  EXPECT_DOUBLE_EQ(facts_of_text(sums, steps + "unroll out m\n").instructions.calls, 6);
  // The loop over rows stores to the number that exp() reads, so that each row computes exp()
  // again.
  const std::string roots = R"(
input a: f32[6, 16]
sums: f32[m=6] = sum(k=16) a[m, k]
out: f32[m=6, n=16] = a[m, n] * exp(sums[m])
)";
  for (const std::string last : {"", "unroll out m\n"})
    EXPECT_DOUBLE_EQ(
        facts_of_text(roots, "compute_at sums out m\nvectorize out n\n" + last).instructions.calls,
        6)
        << last;
}

TEST(Facts, CopiesDoNotShareRunningValues) {
  const std::string running = R"(
input a: f32[4, 8]
sums: f32[i=4, j=8] = sum(k <= j) a[i, k]
out: f32[i=4, j=8] = exp(sums[i, j])
)";
  for (const std::string last : {"", "unroll sums j\n"})
    EXPECT_DOUBLE_EQ(facts_of_text(running, "epilogue out sums\n" + last).instructions.calls, 4 * 8)
        << last;
}

TEST(Facts, TrimmedLoopsCountTheirAverage) {
  Program program = naive_gemm();
  const Expr product =
      read("a", {var("i"), var("k")}, Float32) * read("b", {var("k"), var("j")}, Float32);
  const Loop trimmed{"k", 0, dsl::min(128, var("i") * 4 + 4), LoopKind::Serial,
                     block({assign("c", {var("i"), var("j")}, product, schedules::Combine::Sum)})};
  program.phases[0].body = block(nest({{"j", 64}}, {Stmt{trimmed}}));
  const KernelFacts facts = facts_of(program);
  const double average = (4.0 * 32 * 33 / 2 + 32 * 128) / 64;
  EXPECT_DOUBLE_EQ(facts.flops, 2 * 64 * 64 * average);
  EXPECT_NEAR(facts.partial_flops / facts.flops, 1 - average / 128, 1e-12);
  EXPECT_EQ(facts.phases[0].dynamic_entries, 64 * 64);
}

TEST(Facts, AProgramWithoutStatementsHasNoHotBlock) {
  Program program = naive_gemm();
  program.phases[0].body = block({});
  EXPECT_EQ(facts_of(program).hot_block(), nullptr);
}

TEST(Facts, UnknownBuffersAreNamed) {
  Program program = naive_gemm();
  program.arguments.erase(program.arguments.begin());
  const auto facts = extract_facts(program, avx512());
  ASSERT_FALSE(facts);
  EXPECT_NE(facts.error().message.find("accesses a,"), std::string::npos) << facts.error().message;
}

TEST(Facts, WrongRankIsNamed) {
  Program program = naive_gemm();
  program.arguments[1].buffer.extents = {128 * 64};
  const auto facts = extract_facts(program, avx512());
  ASSERT_FALSE(facts);
  EXPECT_NE(facts.error().message.find("buffer b has 1 dimensions"), std::string::npos);
}

}  // namespace
}  // namespace tw::cost_model
