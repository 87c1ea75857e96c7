// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/gpu_network.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "codegen/compile.h"
#include "schedules/schedule.h"
#include "tests/cost_model/gpu_programs.h"

namespace tw::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A kernel of one phase with 64 blocks of 32 threads. It reads two arrays of 8 KiB.
constexpr const char* product = R"(
input a: f32[64, 32]
input b: f32[64, 32]
out: f32[m=64, n=32] = a[m, n] * b[m, n]
)";
// A kernel of two phases. It reads 8 KiB and writes 256 B.
constexpr const char* row_sums = R"(
input a: f32[64, 32]
t: f32[m=64] = sum(k=32) a[m, k]
out: f32[m=64] = t[m] + 1.0
)";
// A kernel with a preparation, which computes the 4 KiB of u from the 128 B of w.
constexpr const char* prepared = R"(
input a: f32[64, 32]
weight w: f32[32]
u: f32[j=32, n=32] = w[j] * w[n]
out: f32[m=64, n=32] = sum(j=32) a[m, j] * u[j, n]
)";
constexpr double array_bytes = 64 * 32 * 4, sums_bytes = 64 * 4, prepared_bytes = 32 * 32 * 4;

/// Returns an OpenCL target with 8 multiprocessors, each of which has room for 32 blocks and 2048
/// threads.
Target small_gpu() {
  Target target = parse_target("opencl").value();
  target.machine.cores = 8;
  target.machine.gpu->resident_threads = 2048;
  target.machine.gpu->resident_blocks = 32;
  target.machine.gpu->registers = 65536;
  target.machine.gpu->shared_bytes = 64 << 10;
  return target;
}

Result<runtime::Artifact> compiled_for(const Target& target, const char* declarations,
                                       const std::string& steps) {
  TW_TRY(const dsl::Workload workload, dsl::parse_workload(declarations));
  TW_TRY(const schedules::Schedule schedule,
         schedules::parse_schedule(workload.compute, "tw1\n" + steps));
  TW_TRY(schedules::Program program, schedule.program(schedules::limits_of(target)));
  const codegen::KernelSpec spec{workload.key(), schedule.to_string(), std::move(program)};
  TW_TRY(const auto compiled, codegen::compile({&spec, 1}, target));
  return compiled.front();
}

runtime::Artifact kernel_of(const char* declarations, const std::string& steps) {
  return compiled_for(small_gpu(), declarations, steps).value();
}

/// Returns a network of four steps: the row sums of x; the product of x and x; the prepared kernel,
/// which runs five times; the product of x and y.
runtime::ModelFile network() {
  runtime::ModelFile model;
  model.target = "opencl";
  model.kernels = {kernel_of(row_sums, "parallel t m\nparallel out m"),
                   kernel_of(product, "parallel out m\nbind out n"),
                   kernel_of(prepared, "prepare u\nparallel out m\nbind out n")};
  model.constants = std::string(1000, ' ');
  model.variants.resize(1);
  runtime::ModelVariant& variant = model.variants[0];
  variant.arena_bytes = 24;
  variant.steps = {{"sums", 0, {0, 1}},
                   {"square", 1, {0, 0, 2}},
                   {"layer", 2, {0, 3, 4, 5}},
                   {"product", 1, {0, 2, 6}}};
  variant.loops = {{"loop", 2, 1, 5}};
  return model;
}

std::string fact_of(const GpuCall& call, std::string_view name) {
  for (const auto& [each, text] : facts_of(call))
    if (each == name) return text;
  return "";
}

TEST(GpuNetworkReport, BytesAndLaunchesFollowFromTheShapes) {
  const runtime::ModelFile model = network();
  const GpuNetwork gpu = gpu_network_of(model, small_gpu());
  const GpuCall call = explain_call(model, 0, gpu);
  std::vector<int64_t> launches;
  std::vector<double> read, written;
  for (const GpuStep& step : call.steps) {
    ASSERT_TRUE(*step.kernel) << step.kernel->error().message;
    launches.push_back(step.sums.launches);
    read.push_back(step.sums.read_bytes);
    written.push_back(step.sums.written_bytes);
  }
  EXPECT_THAT(launches, ElementsAre(2, 1, 5, 1));
  // The product of x and x reads x once. The prepared kernel reads prepared weights in place of w.
  EXPECT_THAT(read, ElementsAre(array_bytes, array_bytes, 5 * (array_bytes + prepared_bytes),
                                2 * array_bytes));
  EXPECT_THAT(written, ElementsAre(sums_bytes, array_bytes, 5 * array_bytes, array_bytes));
  EXPECT_EQ(call.sums.launches, 9);
  EXPECT_EQ(call.sums.read_bytes, 9 * array_bytes + 5 * prepared_bytes);
  EXPECT_EQ(call.array_bytes, 1024);
}

TEST(GpuNetworkReport, TimesOfLoopsCountAllRuns) {
  const runtime::ModelFile model = network();
  const GpuNetwork gpu = gpu_network_of(model, small_gpu());
  const GpuCall call = explain_call(model, 0, gpu);
  const KernelLimits& layer = gpu.kernels[2]->limits;
  EXPECT_DOUBLE_EQ(call.steps[2].sums.analytic_ns, 5 * layer.analytic_ns);
  EXPECT_DOUBLE_EQ(call.steps[2].sums.launch_ns, 5 * layer.dispatch_ns);
  EXPECT_EQ(call.steps[2].name, "layer, 5 times");
  double all = 0, launches = 0;
  for (const GpuStep& step : call.steps) {
    all += step.sums.analytic_ns;
    launches += step.sums.launch_ns;
  }
  EXPECT_DOUBLE_EQ(call.sums.analytic_ns, all);
  EXPECT_DOUBLE_EQ(as_json(call).at("launch_share"), launches / all);
}

/// Returns the explanation of a product in 16 tasks. A block has 384 threads, 128 of which are
/// producers. `copies` is the knob of the strategy: with 2 each block computes one task, and with 3
/// blocks are persistent.
GpuPhase specialised_phase(int copies, int multiprocessors) {
  Target target = parse_target("cuda:sm_90a").value();
  target.machine.cores = multiprocessors;
  const schedules::Program program = cost_model::testing::configured(
      "dense m=512 n=512 k=1024 bf16 fast",
      fmt::format("product: gpu_wgmma warps.rows=2 warps.columns=1 tiles=4 block.rows=128 "
                  "copy.rows=1 block.columns=128 copy.columns=2 stages=3 copies={} unroll=4 "
                  "staged=0 raster=1 split=1",
                  copies),
      target);
  const auto facts = cost_model::extract_gpu_facts(program, target).value();
  // Without a compiler, registers are estimates.
  return explain_gpu(program, facts, target, {.usual_places = false}).value().phases.at(0);
}

TEST(GpuExplanation, ProducersAreThreadsOfABlock) {
  const GpuPhase phase = specialised_phase(2, 8);
  const Gpu gpu = *parse_target("cuda:sm_90a")->machine.gpu;
  EXPECT_EQ(phase.residency.by_threads, 5);  // 2048 / 384
  EXPECT_EQ(phase.occupancy(gpu), phase.residency.blocks() * 384 / 2048);
  EXPECT_EQ(phase.bank_cycles(), 0);
}

TEST(GpuExplanation, APersistentPhaseLaunchesTheBlocksThatRunAtOnce) {
  Machine machine = parse_target("cuda:sm_90a")->machine;
  machine.cores = 3;
  const GpuPhase phase = specialised_phase(3, machine.cores);
  const double at_once = 3 * phase.residency.blocks();
  ASSERT_LT(at_once, 16);
  EXPECT_EQ(phase.blocks(machine), at_once);
  EXPECT_EQ(phase.waves(machine), 16 / at_once);
  EXPECT_EQ(specialised_phase(2, machine.cores).blocks(machine), 16);
}

TEST(GpuNetworkReport, OccupancyFollowsFromTheBlocks) {
  const runtime::ModelFile model = network();
  const GpuNetwork gpu = gpu_network_of(model, small_gpu());
  const GpuCall call = explain_call(model, 0, gpu);
  const nlohmann::json step = as_json(call.steps[1]), phase = step.at("phases").at(0);
  EXPECT_EQ(phase.at("blocks"), 64);
  EXPECT_EQ(phase.at("threads"), 32);
  EXPECT_EQ(phase.at("resident_blocks"), 32);
  EXPECT_EQ(phase.at("occupancy"), 32 * 32 / 2048.0);
  EXPECT_EQ(phase.at("limited_by"), "slots for blocks");
  EXPECT_EQ(phase.at("waves"), 64 / (8 * 32.0));
  EXPECT_EQ(phase.at("registers_estimated"), true);
  EXPECT_EQ(step.at("estimated_because"), "the driver compiles it");
  EXPECT_EQ(step.at("limited_by"), step.at("resources").at(0).at("resource"));
}

TEST(GpuNetworkReport, RegistersAreThoseOfTheCode) {
  const Target target = parse_target("cuda:sm_90a").value();
  const auto compiled = compiled_for(target, product, "parallel out m\nbind out n");
  if (!compiled && compiled.error().code == ErrorCode::Environment)
    GTEST_SKIP() << "[SKIP] " << compiled.error().message;
  ASSERT_TRUE(compiled) << compiled.error().message;
  runtime::ModelFile model;
  model.kernels = {*compiled, *compiled};
  model.kernels[1].info.spills = 2;
  const GpuNetwork gpu = gpu_network_of(model, target);
  const GpuPhase& phase = gpu.kernels[0]->gpu.phases.at(0);
  EXPECT_EQ(gpu.kernels[0]->gpu.compiler, compiled->info.toolchain);
  ASSERT_TRUE(phase.compiled);
  EXPECT_GT(phase.compiled->registers, 0);
  EXPECT_EQ(phase.spilled_bytes, 0);
  EXPECT_EQ(gpu.kernels[1]->gpu.phases.at(0).spilled_bytes, std::nullopt);
  EXPECT_TRUE(phases_json(gpu.kernels[1]->gpu).at(0).at("spilled_bytes").is_null());
}

TEST(GpuNetworkReport, TheTableHasARowForEachStep) {
  runtime::ModelFile model = network();
  const GpuNetwork gpu = gpu_network_of(model, small_gpu());
  for (size_t i = 0; i < 4; ++i)
    model.variants[0].steps[i].predicted_ns = explain_call(model, 0, gpu).steps[i].sums.analytic_ns;
  const Table table = table_of_launches(explain_call(model, 0, gpu));
  EXPECT_THAT(table.header,
              ElementsAre("step", "launches", "expected", "limited by", "read", "written", "DRAM",
                          "occupancy %", "occupancy limit", "waves"));
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_THAT(table.rows[1],
              ElementsAre("square", "1", HasSubstr(" µs"), HasSubstr(" %"), "8.0 KiB", "8.0 KiB",
                          "0 B", "50", "slots for blocks", "0.25"));
  EXPECT_EQ(table.rows[0][1], "2");
  EXPECT_EQ(table.rows[2][4], "60.0 KiB");
  // The time of a step that was measured differs from the time that the model predicts.
  model.variants[0].steps[3].predicted_ns *= 2;
  const Table with_times = table_of_launches(explain_call(model, 0, gpu));
  EXPECT_EQ(with_times.header[2], "time");
  EXPECT_EQ(with_times.rows[1][2], with_times.rows[1][3]);
  EXPECT_NE(with_times.rows[3][2], with_times.rows[3][3]);
}

TEST(GpuNetworkReport, LimitsAreSums) {
  const runtime::ModelFile model = network();
  const GpuNetwork gpu = gpu_network_of(model, small_gpu());
  const GpuCall call = explain_call(model, 0, gpu);
  int64_t steps = 0;
  double ns = 0;
  const nlohmann::json json = as_json(call);
  for (const nlohmann::json& limit : json.at("limits")) {
    steps += limit.at("steps").get<int64_t>();
    ns += limit.at("analytic_ns").get<double>();
  }
  EXPECT_EQ(steps, 4);
  EXPECT_DOUBLE_EQ(ns, call.sums.analytic_ns);
  EXPECT_EQ(table_of_limits(call).rows.size(), json.at("limits").size());
}

TEST(GpuNetworkReport, ACallIsOneGraphOnCudaAlone) {
  const runtime::ModelFile model = network();
  const GpuNetwork opencl = gpu_network_of(model, small_gpu());
  EXPECT_EQ(fact_of(explain_call(model, 0, opencl), "call"),
            "9 launches, submitted one by one: OpenCL has no graphs");
  const nlohmann::json json = as_json(explain_call(model, 0, opencl));
  EXPECT_EQ(json.at("is_graph"), false);
  EXPECT_EQ(json.at("no_graph_because"), "OpenCL has no graphs");
  const GpuNetwork cuda = gpu_network_of(model, parse_target("cuda:sm_90a").value());
  EXPECT_EQ(fact_of(explain_call(model, 0, cuda), "call"), "one CUDA graph of 9 launches");
  EXPECT_FALSE(as_json(explain_call(model, 0, cuda)).contains("no_graph_because"));
}

TEST(GpuNetworkReport, ArraysThatDoNotFitIntoL2AreNamed) {
  runtime::ModelFile model = network();
  Target target = small_gpu();
  target.machine.caches[1].bytes = 1024;
  const GpuNetwork fits = gpu_network_of(model, target);
  EXPECT_THAT(fact_of(explain_call(model, 0, fits), "DRAM"),
              HasSubstr("constants and arena have 1.0 KiB, L2 has 1.0 KiB"));
  EXPECT_THAT(fact_of(explain_call(model, 0, fits), "DRAM"), Not(HasSubstr("more from DRAM")));
  model.constants.push_back(' ');
  EXPECT_THAT(fact_of(explain_call(model, 0, fits), "DRAM"),
              HasSubstr("so a call reads more from DRAM"));
}

TEST(GpuNetworkReport, AKernelOfAnotherVersionLeavesTheOthersExplained) {
  runtime::ModelFile model = network();
  model.kernels[0].info.schedule = "tw1\nnew_step out";
  model.kernels[2].info.phases.push_back(model.kernels[2].info.phases[0]);
  const GpuNetwork gpu = gpu_network_of(model, small_gpu());
  const GpuCall call = explain_call(model, 0, gpu);
  EXPECT_EQ(call.sums.launches, 14);  // those of the file
  EXPECT_EQ(call.sums.read_bytes, 3 * array_bytes);
  EXPECT_THAT(fact_of(call, "left out"), HasSubstr("2 steps: "));
  EXPECT_THAT(fact_of(call, "left out"), HasSubstr("new_step"));
  EXPECT_EQ(table_of_launches(call).rows[0][3], "-");
  EXPECT_EQ(as_json(call.steps[2]).at("launches"), 10);
  EXPECT_THAT(as_json(call.steps[2]).at("unexplained").get<std::string>(),
              HasSubstr("2 phases, and this version of the program makes 1"));
}

}  // namespace
}  // namespace tw::tools
