// SPDX-License-Identifier: Apache-2.0
#include "cost_model/features.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>

#include "cost_model/resources.h"
#include "schedules/space/space.h"
#include "tests/cost_model/gpu_programs.h"
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

bool is_of_gpus(const FeatureInfo& feature) { return feature.name.starts_with("gpu_"); }

/// Returns rows of features of programs for GPUs, with each kind of program that runs there.
std::vector<std::vector<float>> rows_of_gpus() {
  std::vector<std::vector<float>> rows;
  for (const char* name : {"cuda:sm_90a", "cuda:sm_80", "opencl"}) {
    const Target target = gpu(name);
    rows.push_back(features_of(testing::copy(1 << 20), target));
    rows.push_back(features_of(transposed_copy(8192), target));
    rows.push_back(features_of(shared_walk(4), target));
    for (const char* key : {"dense m=512 n=512 k=512 f32 fast", "softmax rows=64 cols=300 f32 fast",
                            "conv2d n=1 c=8 h=14 w=14 k=8 r=3 s=3 stride=1 pad=1 dilation=1 "
                            "groups=1 f32 fast"}) {
      const auto workload = dsl::parse_workload(key);
      const schedules::Space space = schedules::Space::derive(workload->compute, target);
      Random random(3);
      for (int i = 0; i < 4; ++i) {
        const auto program =
            space.schedule(space.sample(random)).program(schedules::limits_of(target));
        if (program) rows.push_back(features_of(*program, target));
      }
    }
  }
  rows.push_back(features_of(gemm(4096, 4096, 4096, {128, 128, 4, 16, 16}), gpu()));
  rows.push_back(features_of(own_array_walk(LoopKind::Serial), gpu()));
  return rows;
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
  EXPECT_FLOAT_EQ(value(row, "hot_loads"), 16.0F / (28 + 16));
  EXPECT_FLOAT_EQ(value(row, "hot_vector_loads"), 2.0F / (28 + 16));
  EXPECT_FLOAT_EQ(value(row, "hot_broadcasts"), 14.0F / (28 + 16));
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
  EXPECT_LT(analytic_time_of(features_of(conv({.pixels = 14, .vectors = 2}))),
            analytic_time_of(features_of(conv({.pixels = 1, .vectors = 1}))));
}

// A model cannot learn from a feature that never changes. So each feature must differ between some
// of these programs.
TEST(Features, NoneIsConstant) {
  Program mixed = naive_gemm();  // everything that the convolutions lack
  const Expr i = var("i"), j = var("j");
  const Expr padded =
      dsl::select(i < 40, read("a", {i, var("v") * 2}, Float32), dsl::constant(Float32, 0));
  mixed.scratch = {{"s", Float16, {64, 128}, Scope::Scratch}};
  mixed.phases[0].axes = {{"i", 63}};
  const Block gather = {
      assign("s", {i, var("v") % 4}, dsl::cast(Float16, dsl::exp(padded) / padded + padded))};
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
  for (CacheLevel& cache : other.machine.caches) cache.bytes *= 2;
  other.machine.cores = 8;
  other.machine.core.fma_per_cycle = 1;
  other.machine.caches[1].bytes_per_cycle = 20;
  other.machine.caches[2].bytes_per_cycle = 10;
  other.machine.memory_bytes_per_cycle = 2;
  Target small = avx512();
  small.machine.caches[2].bytes = 16 << 10;
  Program shifted = naive_gemm();
  const Expr product =
      read("a", {i, var("k")}, Float32) * read("b", {var("k"), var("v") + 1}, Float32);
  shifted.phases[0].body =
      block(nest({{"k", 128, LoopKind::Serial}, {"v", 16, LoopKind::Vector}},
                 {Stmt{schedules::Assign{"c", {i, var("v")}, product, dsl::Combine::Sum}}}));
  std::vector<std::vector<float>> rows = {
      features_of(shifted, small, 1),
      extract_features(mixed, other, 4, dsl::CacheState::NetworkL3).value(),
      features_of(mixed, other, 4),
      features_of(two_phases, other, 2),
      features_of(conv({})),
      features_of(conv({.pixels = 56, .vectors = 2, .depth = 8})),
      features_of(conv({.pixels = 1, .vectors = 1}))};
  const std::vector<std::vector<float>> gpu_rows = rows_of_gpus();
  rows.insert(rows.end(), gpu_rows.begin(), gpu_rows.end());
  for (size_t f = 0; f < feature_count(); ++f) {
    bool changes = false;
    for (const auto& row : rows) changes = changes || row[f] != rows[0][f];
    EXPECT_TRUE(changes) << feature_table()[f].name << " is always " << rows[0][f];
  }
}

TEST(Features, ThoseOfGpusAreZeroElsewhere) {
  const std::vector<float> cpu = features_of(conv({}));
  for (size_t f = 0; f < feature_count(); ++f)
    if (is_of_gpus(feature_table()[f])) {
      EXPECT_EQ(cpu[f], 0) << feature_table()[f].name;
    }
}

TEST(Features, ThoseOfGpusChangeAmongGpus) {
  const std::vector<std::vector<float>> rows = rows_of_gpus();
  for (size_t f = 0; f < feature_count(); ++f) {
    if (!is_of_gpus(feature_table()[f])) continue;
    bool changes = false;
    for (const auto& row : rows) {
      EXPECT_TRUE(std::isfinite(row[f])) << feature_table()[f].name;
      changes = changes || row[f] != rows[0][f];
    }
    EXPECT_TRUE(changes) << feature_table()[f].name << " is always " << rows[0][f];
  }
}

TEST(Features, OfATiledProductOnAGpu) {
  const std::vector<float> row = features_of(gemm(4096, 4096, 4096), gpu());
  EXPECT_FLOAT_EQ(value(row, "gpu_blocks"), std::log2(1025.0F));
  EXPECT_FLOAT_EQ(value(row, "gpu_threads"), std::log2(257.0F));
  EXPECT_FLOAT_EQ(value(row, "gpu_busy"), 1);
  EXPECT_FLOAT_EQ(value(row, "gpu_multiprocessors"), 132);
  EXPECT_GT(value(row, "gpu_fma_share"), 0.7F);
  EXPECT_GT(value(row, "gpu_l2_refetch"), 4);
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

TEST(Features, RowsOfProgramsSayWhatTheirTimeIsSpentOn) {
  const auto row =
      extract_features(testing::conv({.pixels = 14, .vectors = 2}), testing::avx512(), 1);
  ASSERT_TRUE(row);
  const auto spent = spent_of(*row);
  ASSERT_EQ(spent.size(), resource_count + 1);
  EXPECT_NEAR(std::accumulate(spent.begin(), spent.end() - 1, 0.0), 1, 1e-5);
  EXPECT_GT(spent[static_cast<size_t>(Resource::Arithmetic)], 0.5);
  EXPECT_GT(spent[static_cast<size_t>(Resource::Dispatch)], 0);
}

}  // namespace
}  // namespace tw::cost_model
