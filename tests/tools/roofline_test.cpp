// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/isa_targets.h"
#include "tuner/workers/device.h"

namespace tw::tools {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

dsl::Workload workload_of(std::string_view key) {
  auto workload = dsl::parse_workload(key);
  if (!workload) throw std::runtime_error(workload.error().message);
  return std::move(*workload);
}

Target machine() {
  Target target;
  target.machine.caches[0].bytes = 32 << 10;
  target.machine.caches[1].bytes = 1 << 20;
  target.machine.caches[2].bytes = 32 << 20;
  return target;
}

constexpr std::string_view scale_rows =
    "expr fast input a: f32[512, 1024]; input s: f32[512]; "
    "out: f32[i=512, j=1024] = a[i, j] * s[i]";

TEST(Traffic, IsEachInputAndOutputOnce) {
  const auto traffic = [](std::string_view key) {
    return dsl::compulsory_traffic(workload_of(key).compute);
  };
  EXPECT_EQ(traffic(scale_rows).read_bytes, 4 * (512 * 1024 + 512));
  EXPECT_EQ(traffic(scale_rows).written_bytes, 4 * 512 * 1024);
  EXPECT_EQ(traffic("dense m=4 n=5 k=6 f16 fast").read_bytes, 2 * (4 * 6 + 5 * 6));
  // The indices and the 10 rows that are looked up count as read, not the whole table.
  const auto lookup = traffic(
      "expr fast input table: f32[1000000, 8]; input ids: i64[10]; "
      "out: f32[i=10, j=8] = table[clamp(ids[i], 0, 999999), j]");
  EXPECT_EQ(lookup.read_bytes, 10 * 8 * 4 + 10 * 8);
}

TEST(Roofline, ThePeakOfIntegersIsThatOfDotProducts) {
  const auto peak = [](const std::string& product, const std::string& target) {
    return roofline(workload_of("expr fast " + product), parse_target(target).value(), 1, 1, 100)
        .peak_gflops;
  };
  const std::string bytes =
      "input a: u8[6, 16]; weight b: i8[16, 24]; "
      "c: i32[m=6, n=24] = sum(k=16) i32(a[m, k]) * i32(b[k, n])";
  const std::string digits =
      "input a: i8[6, 16]; weight b: u8[16, 24]; "
      "c: i32[m=6, n=24] = sum(k=16) i32(a[m, k]) * (i32(b[k, n]) & 15i32)";
  const std::string halves =
      "input a: bf16[6, 16]; weight b: bf16[16, 24]; "
      "c: f32[m=6, n=24] = sum(k=16) f32(a[m, k]) * f32(b[k, n])";
  const std::string zen4 = target_text_of_isa("avx512_bf16");
  EXPECT_EQ(peak(bytes, "x86-64-v3"), 200);   // vpmaddwd
  EXPECT_EQ(peak(digits, "x86-64-v3"), 200);  // vpmaddubsw and vpmaddwd
  EXPECT_EQ(peak(halves, "x86-64-v3"), 100);
  EXPECT_EQ(peak(bytes, zen4), 400);
  EXPECT_EQ(peak(halves, zen4), 200);
  EXPECT_EQ(peak(bytes, "cuda:sm_80"), 100);
}

TEST(Roofline, WhatMovesBytesIsBoundByMemoryAndWhatComputesIsNot) {
  // 4.2 MB are moved and 0.5 MFLOP computed in 100 us.
  Roofline moves = roofline(workload_of(scale_rows), machine(), 1, 100e3, 100);
  EXPECT_EQ(moves.level, "L3");
  EXPECT_NEAR(moves.gb_per_s(), 41.96, 0.01);
  EXPECT_TRUE(moves.is_memory_bound());
  moves.level_gb_per_s = 60;
  EXPECT_TRUE(moves.is_memory_bound());
  EXPECT_NEAR(moves.level_share(), 0.6994, 1e-4);
  // The kernel has 1/8 operation per byte. Other processes may have lowered the measured peak to 5
  // GFLOP/s. The kernel is memory-bound nevertheless.
  moves.peak_gflops = 5;
  EXPECT_TRUE(moves.is_memory_bound());
  Roofline computes =
      roofline(workload_of("dense m=512 n=512 k=512 f32 fast"), machine(), 1, 3e6, 100);
  EXPECT_FALSE(computes.is_memory_bound());
  computes.level_gb_per_s = 60;
  EXPECT_FALSE(computes.is_memory_bound());
  // The kernel does 85 operations a byte. At 1 GB/s memory allows 85 GFLOP/s, below the peak of
  // 100.
  computes.level_gb_per_s = 1;
  EXPECT_TRUE(computes.is_memory_bound());
}

TEST(Roofline, WhatBoundsTheKernelIsSaidFirst) {
  Roofline line = roofline(workload_of(scale_rows), machine(), 1, 100e3, 100);
  EXPECT_THAT(
      speeds(line),
      ElementsAre(Pair("bandwidth", "42.0 GB/s from L3: 2.0 MiB read and 2.0 MiB written once"),
                  Pair("speed", "5.2 GFLOP/s"), Pair("of the peak", "5.2 % of 100.0 GFLOP/s")));
  EXPECT_EQ(leading_speed(line), "42.0 GB/s");
  line.level_gb_per_s = 60;
  EXPECT_EQ(speeds(line)[0].second,
            "42.0 GB/s, 69.9 % of 60.0 GB/s from L3: 2.0 MiB read and 2.0 MiB written once");
  EXPECT_EQ(leading_speed(line), "42.0 GB/s, 69.9 % of L3");
  const Roofline computes =
      roofline(workload_of("dense m=512 n=512 k=512 f32 fast"), machine(), 1, 3e6, 100);
  EXPECT_THAT(speeds(computes), ElementsAre(Pair("speed", "89.5 GFLOP/s"),
                                            Pair("of the peak", "89.5 % of 100.0 GFLOP/s"),
                                            Pair("bandwidth", HasSubstr("1.0 GB/s from L3"))));
  EXPECT_EQ(leading_speed(computes), "89.5 GFLOP/s, 89.5 % of the peak");
}

TEST(Roofline, OtherAlgorithmsAreNamedAndTheirSpeedIsThatOfTheDirectOne) {
  const dsl::Workload conv = workload_of("conv2d n=1 c=8 h=8 w=8 k=8 r=3 s=3 pad=1 f32 fast");
  const Roofline direct = roofline(conv, machine(), 1, 1e3, 100);
  EXPECT_EQ(with_algorithm(direct, conv.compute, "tw1\nunroll out s").algorithm, "");
  EXPECT_EQ(algorithm_json(direct), nullptr);
  const Roofline line =
      with_algorithm(direct, conv.compute, "tw1\nwinograd out x 4\nwinograd out.m y 2");
  EXPECT_EQ(line.algorithm, "winograd out x 4, winograd out.m y 2");
  EXPECT_EQ(line.declared_products, 8 * 8 * 8 * 8 * 9);
  EXPECT_EQ(line.products, 8 * 8 * (2 * 6) * (4 * 4));
  EXPECT_EQ(line.gflops(), direct.gflops());
  EXPECT_THAT(speeds(line), Contains(Pair("speed", "73.7 GFLOP/s as if direct")));
  EXPECT_THAT(speeds(line), Contains(Pair("algorithm",
                                          "winograd out x 4, winograd out.m y 2: 33.3 % of the "
                                          "direct one's products")));
  EXPECT_EQ(algorithm_json(line)["products"], 12288);
}

TEST(Roofline, WithoutOperationsThereIsNoSpeedOfThem) {
  const Roofline copy =
      roofline(workload_of("expr fast input a: f32[64, 64]; out: f32[i=64, j=64] = a[j, i]"),
               machine(), 1, 1000, 100);
  EXPECT_THAT(speeds(copy), ElementsAre(Pair("bandwidth", HasSubstr("32.8 GB/s from L1"))));
}

TEST(Roofline, OfAnotherMachineOnlyWhatItsRecordSays) {
  db::Record record;
  record.latency_ns = 100e3;
  record.peak_gflops = 50;
  record.device = "another";
  const dsl::Workload workload = workload_of(scale_rows);
  const Roofline foreign = roofline(record, workload, machine());
  EXPECT_EQ(foreign.level, "");
  EXPECT_EQ(speeds(foreign)[0].second, "42.0 GB/s: 2.0 MiB read and 2.0 MiB written once");
  const auto never = []() -> int64_t { throw std::logic_error("it was measured"); };
  EXPECT_EQ(with_bandwidth(foreign, machine(), 1, never).level_gb_per_s, 0);
  record.device = tuner::device_text(machine());
  record.target = machine().to_string();
  EXPECT_EQ(roofline(record, workload, machine()).level, "L3");
}

TEST(Roofline, JsonHasUnitsAndLeavesOutWhatIsUnknown) {
  Roofline line = roofline(workload_of(scale_rows), machine(), 1, 100e3, 100);
  auto json = memory_json(line);
  EXPECT_EQ(json.at("read_bytes"), 4 * (512 * 1024 + 512));
  EXPECT_EQ(json.at("level"), "L3");
  EXPECT_EQ(json.at("bounds"), true);
  EXPECT_FALSE(json.contains("level_gb_per_s"));
  line.level_gb_per_s = 60;
  json = memory_json(line);
  EXPECT_NEAR(json.at("gb_per_s").get<double>(), 41.96, 0.01);
  EXPECT_NEAR(json.at("level_share").get<double>(), 0.6994, 1e-4);
}

}  // namespace
}  // namespace tw::tools
