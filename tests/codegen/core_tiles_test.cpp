// SPDX-License-Identifier: Apache-2.0
// Tests of the object code for tiles of a core (Intel AMX): which instructions it has, and that
// kernels compute what their programs mean. If the processor has no AMX, its instructions are
// emulated.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/isa.h"
#include "codegen/compile.h"
#include "codegen/inspect.h"
#include "dsl/parse.h"
#include "schedules/program/legality.h"
#include "schedules/schedule.h"
#include "schedules/space/space.h"
#include "tests/codegen/amx_emulator.h"
#include "tests/codegen/runs.h"
#include "tests/isa_targets.h"

namespace tw::codegen {
namespace {

using testing::HasSubstr, testing::Not;

Target sapphire_rapids() {
  Target target = parse_target(target_text_of_isa("amx")).value();
  target.machine = machine_by_name("Sapphire Rapids", {64, 32, true}).value();
  return target;
}

/// A product and a schedule that computes it by tiles.
struct TiledProduct {
  std::string a = "u8", b = "i8", sum = "i32", tile = "amx_m16n16k64_i8";
  int64_t terms = 4;  ///< terms in a group
  int64_t row_tiles = 2, column_tiles = 2, rows = 16, columns = 16, groups = 16, blocks = 3;
  std::string more = {};  ///< further steps

  std::string text() const {
    const int64_t m = 2 * row_tiles * rows, n = 2 * column_tiles * columns;
    const int64_t k = blocks * groups * terms;
    return fmt::format(
        "input a: {0}[{3}, {5}]; weight b: {1}[{5}, {4}]; "
        "c: {2}[m={3}, n={4}] = sum(k={5}) {2}(a[m, k]) * {2}(b[k, n])",
        a, b, sum, m, n, k);
  }
  Program program() const {
    const std::string steps = fmt::format(
        "tw1\nset_layout b BA{2}b{4}a\nsplit c n {0}\nsplit c n.1 {2}\nsplit c m {1}\n"
        "split c m.1 {3}\nsplit c k {4}\nsplit c k.0 {5}\n"
        "reorder c n.0 m.0 k.0.0 m.1.0 n.1.0 m.1.1 n.1.1 k.0.1 k.1\ncache_write c m.0 local\n"
        "tensorize c m.1.1 {6}\nunroll c m.1.0\nunroll c n.1.0\n{7}",
        column_tiles * columns, row_tiles * rows, columns, rows, terms, groups, tile, more);
    const auto schedule = schedules::parse_schedule(dsl::parse_compute(text()).value(), steps);
    if (!schedule) throw std::runtime_error(schedule.error().message);
    const auto program = schedule->program();
    if (!program) throw std::runtime_error(program.error().message);
    return *program;
  }
};

TiledProduct bf16_product() {
  return {.a = "bf16", .b = "bf16", .sum = "f32", .tile = "amx_m16n16k32_bf16", .terms = 2};
}

std::string code_of(const Program& program) {
  const NamedProgram named{"k", &program};
  const auto compiled = compile_cpu({&named, 1}, sapphire_rapids());
  if (!compiled) throw std::runtime_error(compiled.error().message);
  return disassemble(compiled->object, sapphire_rapids()).value();
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(CoreTiles, AreInstructions) {
  const std::string code = code_of(TiledProduct{}.program());
  EXPECT_EQ(count_of(code, "tdpbusd"), 4u);
  EXPECT_EQ(count_of(code, "tilezero"), 4u);
  EXPECT_EQ(count_of(code, "tileloadd"), 4u) << "each factor is loaded once a block";
  EXPECT_EQ(count_of(code, "tilestored"), 4u) << "sums stay in their registers";
  EXPECT_THAT(code, Not(HasSubstr("vpdp")));
  EXPECT_EQ(count_spills(code, Architecture::X86_64), 0);
  EXPECT_THAT(code_of(TiledProduct{.a = "i8"}.program()), HasSubstr("tdpbssd"));
  EXPECT_THAT(code_of(TiledProduct{.b = "u8"}.program()), HasSubstr("tdpbuud"));
  EXPECT_THAT(code_of(TiledProduct{.a = "i8", .b = "u8"}.program()), HasSubstr("tdpbsud"));
  EXPECT_THAT(code_of(bf16_product().program()), HasSubstr("tdpbf16ps"));
}

/// True if the processor has all instructions that kernels for Sapphire Rapids use, apart from
/// those of tiles.
bool runs_the_rest() {
  const Target host = host_target();
  const auto features = features_of_isa("avx512_bf16");
  return std::ranges::all_of(*features, [&](const std::string& feature) {
    return feature == "avx_vnni" || host.has(feature);  // avx_vnni is for 256-bit vectors
  });
}

/// Tests that run kernels for Sapphire Rapids.
class RunCoreTiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!runs_the_rest()) GTEST_SKIP() << "[SKIP] the processor has no AVX-512 of Zen 4";
    (void)request_tile_registers();  // without them the processor's own tiles are emulated
  }
};

/// Runs the object code and compares its results with those of the interpreter. If the processor
/// has no AMX, the instructions are emulated, and there must be some. Returns the number of
/// emulated products of tiles.
int expect_tiles_agree(const Program& program, const Storage& inputs, double tolerance = 0) {
  Storage expected = inputs;
  EXPECT_TRUE(schedules::evaluate(program, expected));
  const AmxEmulator emulator;
  const auto actual = run_object(program, inputs, sapphire_rapids());
  if (!actual) throw std::runtime_error(actual.error().message);
  EXPECT_EQ(difference(program, expected, *actual, tolerance, tolerance), "") << to_string(program);
  const int products = AmxEmulator::products();
  EXPECT_TRUE(products > 0 || host_target().has("amx_tile")) << to_string(program);
  return products;
}

TEST_F(RunCoreTiles, ComputeWhatTheirLoopsMean) {
  for (const char* a : {"u8", "i8"})
    for (const char* b : {"u8", "i8"}) {
      const Program program = TiledProduct{.a = a, .b = b}.program();
      const int products = expect_tiles_agree(program, extreme_inputs(program));
      EXPECT_TRUE(products == 0 || products == 2 * 2 * 3 * 4);
      expect_tiles_agree(program, integer_inputs(program, 1));
    }
}

TEST_F(RunCoreTiles, MayBeParts) {
  for (const TiledProduct& product :
       {TiledProduct{.rows = 14, .columns = 12, .groups = 5},
        TiledProduct{.row_tiles = 3, .column_tiles = 2, .rows = 3, .columns = 2, .groups = 2},
        TiledProduct{.row_tiles = 2, .column_tiles = 3, .rows = 7, .columns = 16, .groups = 9}}) {
    const Program program = product.program();
    expect_tiles_agree(program, extreme_inputs(program));
  }
}

TEST_F(RunCoreTiles, SumFloats) {
  for (const int64_t groups : {16, 3}) {
    TiledProduct product = bf16_product();
    product.groups = groups;
    const Program program = product.program();
    expect_tiles_agree(program, integer_inputs(program, 1));
    expect_tiles_agree(program, real_inputs(program, 2), 1e-5);
  }
}

TEST_F(RunCoreTiles, ContinueSumsFromMemory) {
  const Program program =
      TiledProduct{.more = "reorder c k.0.0 n.0 m.0 m.1.0 n.1.0 m.1.1 n.1.1 k.0.1 k.1\n"}.program();
  EXPECT_THAT(code_of(program), Not(HasSubstr("tilezero")));
  expect_tiles_agree(program, extreme_inputs(program));
}

// The loop over tiles also computes a stage, so that only one tile at a time has its sums in
// registers.
TEST_F(RunCoreTiles, MayBeComputedBesideStages) {
  const auto compute = dsl::parse_compute(
      "input a: u8[32, 64]; weight b: i8[64, 16]; p: u8[m=32, k=64] = a[m, k]; "
      "c: i32[m=32, n=16] = sum(k=64) i32(p[m, k]) * i32(b[k, n])");
  const auto schedule = schedules::parse_schedule(
      compute.value(),
      "tw1\nset_layout b AB4a\nsplit c m 16\nsplit c m.0 2\nsplit c k 4\n"
      "reorder c m.0.0 m.0.1 m.1 n k.0 k.1\ncache_write c m.0.0 local\n"
      "tensorize c m.1 amx_m16n16k64_i8\ncompute_at p c m.0.1\nunroll c m.0.1\n");
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto program = schedule->program();
  ASSERT_TRUE(program) << program.error().message;
  expect_tiles_agree(*program, extreme_inputs(*program));
}

TEST_F(RunCoreTiles, OfSearchSpacesAgree) {
  const std::string requantized =
      "out: u8[{}] = u8(min(max(round(f32(c[{}]) * 0.125) + 3.0, 0.0), 255.0))";
  const std::vector<std::string> texts = {
      "input a: u8[24, 64]; weight b: i8[64, 96]; "
      "c: i32[m=24, n=96] = sum(k=64) i32(a[m, k]) * i32(b[k, n]); " +
          fmt::format(fmt::runtime(requantized), "m=24, n=96", "m, n"),
      "input a: i8[2, 8, 9, 32]; weight w: i8[48, 32, 3, 3]; "
      "c: i32[b=2, y=6, x=7, k=48] = sum(e=32, r=3, s=3) "
      "i32(a[b, y + r, x + s, e]) * i32(w[k, e, r, s])",
      "input a: u8[32, 6, 7]; weight w: i8[32, 32, 3, 3]; c: i32[k=32, y=6, x=7] = "
      "sum(e=32, r=3, s=3) i32(select(0 <= y + r - 1 && y + r - 1 < 6 && 0 <= x + s - 1 && "
      "x + s - 1 < 7, a[e, y + r - 1, x + s - 1], 0u8)) * i32(w[k, e, r, s])",
      // The rows of tiles run along the images b, so that a tap of the window is inside of the
      // image for all of a tile or for nothing of it.
      "input a: i8[6, 5, 4, 16]; weight w: i8[16, 16, 3, 3]; c: i32[b=6, y=5, x=4, k=16] = "
      "sum(e=16, r=3, s=3) i32(select(0 <= y + r - 1 && y + r - 1 < 5 && 0 <= x + s - 1 && "
      "x + s - 1 < 4, a[b, y + r - 1, x + s - 1, e], 0i8)) * i32(w[k, e, r, s])",
      "input a: bf16[2, 10, 64]; input b: bf16[2, 12, 64]; "
      "c: f32[h=2, m=10, n=12] = sum(k=64) f32(a[h, m, k]) * f32(b[h, n, k])"};
  int tiles = 0;
  for (const std::string& text : texts) {
    const auto compute = dsl::parse_compute(text);
    ASSERT_TRUE(compute) << compute.error().message;
    const auto space =
        schedules::Space::derive({.compute = *compute, .algorithms = true}, sapphire_rapids());
    ASSERT_TRUE(space) << space.error().message;
    Random random(1);
    for (int i = 0; i < 60; ++i) {
      const schedules::Point point = space->sample(random);
      const auto program = space->schedule(point).program(schedules::limits_of(sapphire_rapids()));
      if (!program || space->to_string(point).find("cpu_core_tile") == std::string::npos) continue;
      SCOPED_TRACE(space->to_string(point));
      expect_tiles_agree(*program, integer_inputs(*program, 1));
      ++tiles;
    }
  }
  EXPECT_GT(tiles, 40);
}

}  // namespace
}  // namespace tw::codegen
