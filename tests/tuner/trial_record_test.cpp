// SPDX-License-Identifier: Apache-2.0
#include "tuner/trial_record.h"

#include <gtest/gtest.h>

namespace tw::tuner {
namespace {

db::Record record_on(const Machine& machine, int threads) {
  Target target = parse_target("x86-64-linux-avx-avx2-fma").value();
  target.machine = machine;
  const dsl::Workload dense = dsl::parse_workload("dense m=64 n=128 k=512 f32 fast").value();
  return trial_record(dense, target, threads, "toolchain", "tw1", {}, 100);
}

TEST(TrialRecord, SaysWhatTheWorkloadMovesAndWhatTheMachineCan) {
  const Machine machine = machine_by_name("Zen 4", {.bytes = 32, .registers = 16}).value();
  const db::Record record = record_on(machine, 2);
  EXPECT_EQ(record.bytes, 4 * (64 * 512 + 512 * 128 + 64 * 128));
  const Core& core = machine.core;
  EXPECT_EQ(record.peak_gb_per_s,
            2 * 32 * core.clock_ghz * (core.loads_per_cycle + core.stores_per_cycle));
  EXPECT_EQ(record_on(gpu_machine("sm_90a").value(), 1).peak_gb_per_s,
            gpu_machine("sm_90a")->gpu->l2_gbps);
}

TEST(TrialRecord, ThePeakForDoublePrecisionIsHalfOfThatForSingle) {
  const auto peak = [](const char* workload) {
    return peak_for(dsl::parse_workload(workload).value(), host_target(), 100);
  };
  EXPECT_EQ(peak("dense m=4 n=4 k=4 f32 fast"), 100);
  EXPECT_EQ(peak("dense m=4 n=4 k=4 bf16 fast"), 100);
  EXPECT_EQ(peak("dense m=4 n=4 k=4 f64 fast"), 50);
  EXPECT_EQ(peak("argmax rows=4 cols=4 f64 fast"), 50);  // the result is i64, the input f64
}

// Records that are far above the peak are refused. The tensor cores of sm_90a have sixteen times
// the rate of the f32 units, so the f32 peak would refuse true records.
TEST(TrialRecord, ThePeakOfAGpuIsThatOfItsTensorCoresWhereTheyMultiplyTheInputs) {
  const auto peak = [](const char* workload, const char* target) {
    return peak_for(dsl::parse_workload(workload).value(), parse_target(target).value(), 100);
  };
  const Gpu gpu = *gpu_machine("sm_90a")->gpu;
  const double by_warps = 100 * gpu.tensor_fma / gpu.fma_lanes;
  EXPECT_DOUBLE_EQ(peak("dense m=4 n=4 k=4 bf16 fast", "cuda:sm_90"), by_warps);
  EXPECT_DOUBLE_EQ(peak("dense m=4 n=4 k=4 bf16 fast", "cuda:sm_90a"),
                   by_warps * gpu.warpgroup_speed);
  EXPECT_DOUBLE_EQ(peak("dense m=4 n=4 k=4 f32 fast", "cuda:sm_90a"), by_warps / 6);
  EXPECT_DOUBLE_EQ(peak("dense m=4 n=4 k=4 bf16 fast", "cuda:sm_75"), 100);
  EXPECT_DOUBLE_EQ(peak("softmax rows=4 cols=4 bf16 fast", "cuda:sm_90a"), 100);
  EXPECT_DOUBLE_EQ(peak("add_relu n=4 c=4 h=4 w=4 bf16 fast", "cuda:sm_90a"), 100);
}

// With a bandwidth that is only assumed, true measurements could look impossible.
TEST(TrialRecord, OfAMachineThatIsAssumedNoBandwidthIsKnown) {
  EXPECT_EQ(record_on(generic_x86_64({}), 1).peak_gb_per_s, 0);
}

}  // namespace
}  // namespace tw::tuner
