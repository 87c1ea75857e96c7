// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/device.h"

#include <gtest/gtest.h>

namespace tw::tuner {
namespace {

TEST(Device, Fault49_TheProcessorsThatMayBeUsedArePartOfTheFingerprint) {
  Target all = host_target(), few = all;
  all.machine.cores = 8;
  few.machine.cores = 1;
  EXPECT_NE(device_text(all), device_text(few));
  EXPECT_NE(device_text(few).find("; 1 cores;"), std::string::npos) << device_text(few);
}

TEST(Device, AGpuIsWhatItsDriverSays) {
  runtime::DeviceFacts facts;
  facts.name = "NVIDIA H200";
  facts.multiprocessors = 132;
  facts.l2_bytes = int64_t{50} << 20;
  facts.memory_bytes = int64_t{143771} << 20;
  const Target target = parse_target("cuda:sm_90a").value();
  const Target machine = with_facts(target, facts);
  EXPECT_EQ(device_text(machine), "NVIDIA H200; 132 multiprocessors; 143771 MiB; L2 51200 KiB");
  EXPECT_EQ(machine.to_string(), target.to_string());
  EXPECT_NE(device_text(target).find("unknown GPU; 132 "), std::string::npos);
  // Facts that the driver does not report keep the values of the architecture.
  EXPECT_EQ(with_facts(target, {}).machine, target.machine);
}

TEST(Device, AGpuIsWhatARecordSaysOfIt) {
  const Target target = parse_target("cuda:sm_90a").value();
  const std::string text = "NVIDIA H200; 66 multiprocessors; 143771 MiB; L2 51200 KiB";
  const Target described = described_by(target, text);
  EXPECT_EQ(device_text(described), text);
  EXPECT_EQ(described.to_string(), target.to_string());
  for (const char* other : {"", "AMD EPYC; 2 cores; L1 32 KiB; L2 1024 KiB", "a; b; c; d",
                            "GPU; x multiprocessors; 1 MiB; L2 1 KiB"})
    EXPECT_EQ(device_text(described_by(target, other)), device_text(target)) << other;
}

TEST(Device, AProcessorIsWhatARecordSaysOfIt) {
  db::Record record;
  record.target = parse_target("x86-64-v4").value().to_string();
  record.machine = "Zen 5; table; 8fbb0143a227ba28";
  record.device = "AMD EPYC; 24 cores; L1 48 KiB; L2 2048 KiB; L3 96 MiB";
  const Target target = target_of(record).value();
  EXPECT_EQ(target.to_string(), record.target);
  EXPECT_EQ(target.machine.name, "Zen 5");
  EXPECT_EQ(target.machine.core.vector_bytes, 64);
  EXPECT_EQ(target.machine.cores, 24);
  EXPECT_EQ(target.machine.l1_bytes(), 48 << 10);
  EXPECT_EQ(target.machine.l2_bytes(), 2 << 20);
  EXPECT_EQ(target.machine.l3_bytes(), 96 << 20);
  // Records may come from strangers, so numbers that no device can have are ignored.
  record.machine = "Zen 55; table";
  record.device = "X; 99999999999999999999 cores; L1 -1 KiB; L2 9223372036854775807 KiB; L3";
  const tw::Machine generic = parse_target(record.target).value().machine;
  EXPECT_EQ(target_of(record).value().machine, generic);
  record.target = "a target";
  EXPECT_FALSE(target_of(record));
}

}  // namespace
}  // namespace tw::tuner
