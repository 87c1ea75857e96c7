// SPDX-License-Identifier: Apache-2.0
#include "cost_model/features.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/cost_model/programs.h"

namespace tw::cost_model {
namespace {

using namespace testing;

std::vector<float> features_of(const Program& program, const Target& target = avx512(),
                               int threads = 1) {
  const auto row = extract_features(program, target, threads);
  EXPECT_TRUE(row) << row.error().message;
  return row.value_or(std::vector<float>(feature_count(), 0));
}

float value(const std::vector<float>& row, std::string_view name) {
  for (size_t i = 0; i < feature_count(); ++i)
    if (feature_table()[i].name == name) return row[i];
  ADD_FAILURE() << "no feature " << name;
  return 0;
}

TEST(Features, NamesAreUniqueAndDescribed) {
  std::set<std::string_view> names;
  for (const FeatureInfo& feature : feature_table()) {
    EXPECT_TRUE(names.insert(feature.name).second) << feature.name;
    EXPECT_FALSE(feature.unit.empty() || feature.formula.empty()) << feature.name;
  }
  EXPECT_GE(names.size(), 60u);
}

TEST(Features, ConvolutionTile) {
  const std::vector<float> row = features_of(conv({.pixels = 14, .vectors = 2}), avx512(), 2);
  ASSERT_EQ(row.size(), feature_count());
  EXPECT_FLOAT_EQ(value(row, "flops"), std::log2(1 + 2.0 * 64 * 64 * 9 * 56 * 56));
  EXPECT_FLOAT_EQ(value(row, "fma_share"), 1);
  EXPECT_FLOAT_EQ(value(row, "lane_share"), 1);
  EXPECT_FLOAT_EQ(value(row, "hot_fmas"), std::log2(29.0));
  EXPECT_FLOAT_EQ(value(row, "accumulators"), 28);
  EXPECT_FLOAT_EQ(value(row, "accumulators_missing"), 0);
  EXPECT_FLOAT_EQ(value(row, "register_pressure"), 31.0F / 32);
  EXPECT_FLOAT_EQ(value(row, "loads_per_fma"), 16.0F / 28);
  EXPECT_FLOAT_EQ(value(row, "vector_loads_per_fma"), 2.0F / 28);
  EXPECT_FLOAT_EQ(value(row, "broadcasts_per_fma"), 14.0F / 28);
  EXPECT_FLOAT_EQ(value(row, "tasks"), std::log2(113.0));
  EXPECT_FLOAT_EQ(value(row, "imbalance"), 1);
  EXPECT_FLOAT_EQ(value(row, "threads"), 2);
  EXPECT_FLOAT_EQ(value(row, "vector_bytes"), 64);
  EXPECT_FLOAT_EQ(value(row, "output_rewrites"), 1);
}

TEST(Features, ImbalanceCountsIdleThreads) {
  Program program = conv({});
  program.phases[0].axes = {{"k", 1}, {"y", 5}};
  EXPECT_FLOAT_EQ(value(features_of(program, avx512(), 4), "imbalance"), 8.0F / 5);
}

TEST(Features, AllAreFiniteEvenWithoutWork) {
  Program empty = naive_gemm();
  empty.phases[0].body = schedules::block({});
  Program nothing;
  Program no_tasks = naive_gemm();
  no_tasks.phases[0].axes[0].extent = 0;
  for (const Program& program : {empty, nothing, no_tasks, naive_gemm(), conv({})})
    for (const float v : features_of(program)) EXPECT_TRUE(std::isfinite(v));
}

TEST(Features, AreDeterministic) { EXPECT_EQ(features_of(conv({})), features_of(conv({}))); }

TEST(Features, DraftIsOneOfThem) {
  EXPECT_LT(draft_of(features_of(conv({.pixels = 14, .vectors = 2}))),
            draft_of(features_of(conv({.pixels = 1, .vectors = 1}))));
}

// A column that never changes teaches nothing: every row of the table must move over these
// programs.
TEST(Features, NoneIsConstant) {
  Program mixed = naive_gemm();  // everything that the convolutions lack
  const Expr i = var("i"), j = var("j");
  const Expr padded =
      dsl::select(i < 40, read("a", {i, var("v") * 2}, Float32), dsl::constant(Float32, 0));
  mixed.scratch = {{"s", Float16, {64, 128}, Scope::Scratch}};
  mixed.phases[0].axes = {{"i", 63}};
  const Block gather = {
      assign("s", {i, var("v") % 4}, dsl::cast(Float16, dsl::exp(padded) * padded + padded))};
  const Block sum = {assign(
      "l", {var("k")}, read("l", {var("k")}, Float32) + read("a", {i, var("k") % 4 + 7}, Float32))};
  const Block guarded = {
      Stmt{If{j < var("i"), block(together(nest({{"v", 24, LoopKind::Vector}}, gather),
                                           nest({{"k", 16, LoopKind::Vector}}, sum)))}}};
  mixed.phases[0].body = block({Stmt{Allocate{
      {"l", Float32, {64}, Scope::Local},
      block(Block{Stmt{Loop{"j", 0, dsl::min(64, i + 1), LoopKind::Serial, block(guarded)}}})}}});
  Program two_phases = mixed;
  two_phases.phases.push_back(naive_gemm().phases[0]);
  Target other = avx2();
  other.l1_bytes *= 2;
  other.l2_bytes *= 2;
  other.l3_bytes *= 2;
  other.cores = 8;
  Target small = avx512();
  small.l3_bytes = 16 << 10;
  Program shifted = naive_gemm();
  const Expr product =
      read("a", {i, var("k")}, Float32) * read("b", {var("k"), var("v") + 1}, Float32);
  shifted.phases[0].body =
      block(nest({{"k", 128, LoopKind::Serial}, {"v", 16, LoopKind::Vector}},
                 {Stmt{schedules::Assign{"c", {i, var("v")}, product, dsl::Combine::Sum}}}));
  const std::vector<std::vector<float>> rows = {
      features_of(shifted, small, 1),
      features_of(mixed, other, 4),
      features_of(two_phases, other, 2),
      features_of(conv({})),
      features_of(conv({.pixels = 56, .vectors = 2, .depth = 8})),
      features_of(conv({.pixels = 1, .vectors = 1}))};
  for (size_t f = 0; f < feature_count(); ++f) {
    bool changes = false;
    for (const auto& row : rows) changes = changes || row[f] != rows[0][f];
    EXPECT_TRUE(changes) << feature_table()[f].name << " is always " << rows[0][f];
  }
}

TEST(Features, NoThreadsIsAnError) {
  const auto row = extract_features(conv({}), avx512(), 0);
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().code, ErrorCode::Usage);
}

TEST(Features, DocumentationListsTheTable) {
  std::ifstream file(TW_SOURCE_DIR "/docs/cost_model.md");
  std::stringstream text;
  text << file.rdbuf();
  std::string table = "| feature | unit | is |\n|---|---|---|\n";
  for (const FeatureInfo& f : feature_table())
    table += fmt::format("| `{}` | {} | {} |\n", f.name, f.unit, f.formula);
  EXPECT_NE(text.str().find(table), std::string::npos)
      << "docs/cost_model.md must contain this table:\n"
      << table;
}

}  // namespace
}  // namespace tw::cost_model
