// SPDX-License-Identifier: Apache-2.0
#include "base/machine.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "base/target.h"

namespace tw {
namespace {

using testing::HasSubstr;

constexpr VectorSizes sse = {16, 16}, avx2 = {32, 16}, avx512 = {64, 32, true};

std::string cpuinfo(const std::string& vendor, int family, int model) {
  return "processor\t: 0\nvendor_id\t: " + vendor + "\ncpu family\t: " + std::to_string(family) +
         "\nmodel\t\t: " + std::to_string(model) +
         "\nmodel name\t: Some model 99\nflags\t\t: fpu avx avx2\n\n" +
         "processor\t: 1\nvendor_id\t: SomebodyElse\n";
}

std::string name_of(const std::string& text, VectorSizes vectors = avx2) {
  const auto machine = machine_of_cpuinfo(text, vectors);
  return machine ? machine->name : "";
}

Machine named(std::string_view name, VectorSizes vectors) {
  const auto machine = machine_by_name(name, vectors);
  EXPECT_TRUE(machine) << machine.error().message;
  return machine.value_or(Machine{});
}

TEST(Machine, ProcessorsAreFoundByVendorFamilyAndModel) {
  struct Case {
    const char* vendor;
    int family, model;
    const char* name;
  };
  for (const Case& c :
       {Case{"AuthenticAMD", 23, 0x31, "Zen 2"},            // Rome
        Case{"AuthenticAMD", 23, 0x71, "Zen 2"},            // Matisse
        Case{"AuthenticAMD", 23, 0x01, ""},                 // Naples: Zen 1
        Case{"AuthenticAMD", 25, 0x01, "Zen 3"},            // Milan
        Case{"AuthenticAMD", 25, 0x11, "Zen 4"},            // Genoa
        Case{"AuthenticAMD", 25, 0x50, "Zen 3"},            // Cezanne
        Case{"AuthenticAMD", 25, 0x61, "Zen 4"},            // Raphael
        Case{"AuthenticAMD", 25, 0xa0, "Zen 4"},            // Bergamo
        Case{"AuthenticAMD", 26, 0x02, "Zen 5"},            // Turin
        Case{"AuthenticAMD", 26, 0x24, "Zen 5, 256 bits"},  // Strix Point
        Case{"AuthenticAMD", 26, 0x44, "Zen 5"},            // Granite Ridge
        Case{"GenuineIntel", 6, 85, "Skylake-X"},           // and Cascade Lake
        Case{"GenuineIntel", 6, 106, "Ice Lake"}, Case{"GenuineIntel", 6, 143, "Sapphire Rapids"},
        Case{"GenuineIntel", 6, 151, "Alder Lake P"}, Case{"GenuineIntel", 6, 1000, ""},
        Case{"GenuineIntel", 25, 0x11, ""}})
    EXPECT_EQ(name_of(cpuinfo(c.vendor, c.family, c.model)), c.name)
        << c.vendor << " " << c.family << " " << c.model;
}

TEST(Machine, ArmProcessorsAreFoundByImplementerAndPart) {
  const auto text = [](const char* implementer, const char* part) {
    return std::string(
               "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: ") +
           implementer + "\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: " + part + "\n";
  };
  EXPECT_EQ(name_of(text("0x41", "0xd0c"), {16, 32}), "Neoverse N1");
  EXPECT_EQ(name_of(text("0x41", "0xd40"), {16, 32}), "Neoverse V1");
  EXPECT_EQ(name_of(text("0x61", "0xd40"), {16, 32}), "");
}

TEST(Machine, TextThatIsNoCpuinfoIsOfNoProcessor) {
  for (const char* text : {"", "\n", "vendor_id", "vendor_id:\ncpu family: 25\nmodel: 17",
                           "vendor_id: AuthenticAMD\ncpu family: 25\nmodel: 0x",
                           "vendor_id: AuthenticAMD\ncpu family: many\nmodel: 17"})
    EXPECT_FALSE(machine_of_cpuinfo(text, avx2)) << text;
}

TEST(Machine, RowsOfCpusAreCompleteAndPlausible) {
  std::set<std::string> names;
  for (const std::string& name : known_cpus()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    for (const VectorSizes vectors : {sse, avx2, avx512}) {
      const Machine machine = named(name, vectors);
      SCOPED_TRACE(to_string(machine));
      EXPECT_EQ(machine.name, name);
      EXPECT_EQ(machine.origin, MachineOrigin::Table);
      EXPECT_TRUE(is_plausible(machine));
      EXPECT_EQ(machine.core.vector_bytes, vectors.bytes);
      EXPECT_EQ(machine.core.vector_registers, vectors.registers);
      EXPECT_EQ(machine.core.embedded_broadcast, vectors.embedded_broadcast);
      EXPECT_FALSE(machine.gpu);
      // Higher cache levels are larger and slower, and memory is slower than all of them.
      EXPECT_LT(machine.l1_bytes(), machine.l2_bytes());
      EXPECT_LT(machine.l2_bytes(), machine.l3_bytes());
      EXPECT_GE(machine.caches[0].bytes_per_cycle, machine.caches[1].bytes_per_cycle);
      EXPECT_GT(machine.caches[1].bytes_per_cycle, machine.caches[2].bytes_per_cycle);
      EXPECT_GT(machine.caches[2].bytes_per_cycle, machine.memory_bytes_per_cycle);
      for (const CacheLevel& cache : machine.caches)
        EXPECT_EQ(cache.bytes % (cache.ways * cache.line_bytes), 0);
      // 8 to 16 accumulators keep the units of a core busy. Fewer suffice if the core processes a
      // vector in several parts.
      EXPECT_GE(machine.core.accumulators_needed(), 2);
      EXPECT_LE(machine.core.accumulators_needed(), 16);
    }
  }
  EXPECT_GE(names.size(), 10u);
}

TEST(Machine, WideOperationsOfZen4TakeTwoTurns) {
  const Core wide = named("Zen 4", avx512).core, narrow = named("Zen 4", avx2).core;
  EXPECT_EQ(2 * wide.fma_per_cycle, narrow.fma_per_cycle);
  EXPECT_EQ(2 * wide.loads_per_cycle, narrow.loads_per_cycle);
  EXPECT_EQ(2 * wide.stores_per_cycle, narrow.stores_per_cycle);
  EXPECT_EQ(named("Zen 5", avx512).core.fma_per_cycle, 2);
}

// The table has no row of Zen 3 for vectors of 64 bytes. The core processes such a vector as two of
// 32.
TEST(Machine, VectorsBeyondTheRowTakeSeveralTurns) {
  const Core wide = named("Zen 3", avx512).core, own = named("Zen 3", avx2).core;
  EXPECT_EQ(2 * wide.fma_per_cycle, own.fma_per_cycle);
  EXPECT_EQ(2 * wide.loads_per_cycle, own.loads_per_cycle);
}

TEST(Machine, AnUnknownNameIsAnErrorThatListsThem) {
  const auto machine = machine_by_name("Zen 33", avx2);
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().code, ErrorCode::Usage);
  EXPECT_THAT(machine.error().message, HasSubstr("Zen 2, Zen 3, Zen 4"));
  EXPECT_THAT(machine.error().message, HasSubstr("did you mean 'Zen 3'?"));
}

TEST(Machine, ThatNobodyKnowsIsAssumedAndNamedSo) {
  for (const Machine& machine : {generic_x86_64(avx2), generic_arm_64({16, 32})}) {
    EXPECT_EQ(machine.origin, MachineOrigin::Assumed);
    EXPECT_TRUE(is_plausible(machine));
    EXPECT_TRUE(needs_calibration(machine));
  }
  EXPECT_EQ(describe(generic_x86_64(avx2)), "generic x86-64 (assumed)");
  EXPECT_EQ(describe(named("Zen 4", avx512)), "Zen 4");
  EXPECT_EQ(describe(parse_target("x86-64-v3")->machine), "generic x86-64 (assumed)");
  EXPECT_EQ(describe(parse_target("arm-64-linux")->machine), "generic arm-64 (assumed)");
  EXPECT_EQ(describe(parse_target("opencl")->machine), "opencl (assumed)");
  EXPECT_EQ(describe(parse_target("cuda:sm_90a")->machine), "sm_90a");
}

TEST(Machine, CachesOfTheSystemWinOverTheRow) {
  const Machine row = named("Zen 3", avx2);
  EXPECT_EQ(with_caches(row, {0, 0, 0}), row);
  EXPECT_EQ(with_caches(row, {32 << 10, 512 << 10, 32 << 20}), row);
  // Virtual machines see a part of L3. The processor is a known Zen 3 all the same.
  const Machine part = with_caches(row, {32 << 10, 512 << 10, 16 << 20});
  EXPECT_EQ(part.l3_bytes(), 16 << 20);
  EXPECT_FALSE(needs_calibration(part));
  const Machine other = with_caches(row, {64 << 10, 2 << 20, 32 << 20});
  EXPECT_EQ(other.l1_bytes(), 64 << 10);
  EXPECT_EQ(other.l2_bytes(), 2 << 20);
  EXPECT_EQ(describe(other), "Zen 3 (assumed)");
  EXPECT_TRUE(needs_calibration(other));
}

// A calibration may find 48 KiB in a machine that is described with 8 ways. The number of sets must
// stay a power of two: 64, not 96.
TEST(Machine, SetsOfACacheAreAPowerOfTwo) {
  EXPECT_EQ((CacheLevel{.bytes = 32 << 10, .ways = 8}.way_bytes()), 4096);
  EXPECT_EQ((CacheLevel{.bytes = 48 << 10, .ways = 12}.way_bytes()), 4096);
  EXPECT_EQ((CacheLevel{.bytes = 48 << 10, .ways = 8}.way_bytes()), 4096);
  EXPECT_EQ(CacheLevel{}.way_bytes(), 0);
}

TEST(Machine, NeedsCalibrationWhereItIsAssumedAndACpu) {
  Machine machine = named("Zen 3", avx2);
  EXPECT_FALSE(needs_calibration(machine));
  machine.origin = MachineOrigin::Calibrated;
  EXPECT_FALSE(needs_calibration(machine));
  machine.origin = MachineOrigin::Assumed;
  EXPECT_TRUE(needs_calibration(machine));
  EXPECT_FALSE(needs_calibration(*gpu_machine("opencl")));
}

TEST(Machine, RowsOfGpusAreCompleteAndPlausible) {
  std::set<int> architectures;
  for (const std::string& name : known_gpus()) {
    SCOPED_TRACE(name);
    const Machine machine = gpu_machine(name).value();
    EXPECT_TRUE(is_plausible(machine));
    EXPECT_EQ(machine.origin, MachineOrigin::Table);
    EXPECT_EQ(machine.name, name);
    EXPECT_THAT(name, HasSubstr("sm_" + std::to_string(machine.gpu->architecture)));
    architectures.insert(machine.gpu->architecture);
    EXPECT_LE(machine.gpu->block_shared_bytes, machine.gpu->shared_bytes);
    EXPECT_LE(machine.gpu->shared_bytes, machine.l1_bytes());
    EXPECT_LE(machine.gpu->block_threads, machine.gpu->resident_threads);
    EXPECT_GT(machine.gpu->l2_gbps, machine.gpu->dram_gbps);
    EXPECT_GT(machine.gpu->tensor_fma, machine.gpu->fma_lanes);
  }
  EXPECT_THAT(architectures, testing::ElementsAre(75, 80, 86, 87, 89, 90, 100, 120));
  EXPECT_TRUE(is_plausible(gpu_machine("opencl").value()));
  EXPECT_FALSE(gpu_machine("sm_70"));
  EXPECT_FALSE(gpu_machine("sm_80a")) << "it has no variant of its own";
}

TEST(Machine, TextParsesBack) {
  std::vector<Machine> machines = {Machine{}, generic_x86_64(avx2), *gpu_machine("sm_90a"),
                                   *gpu_machine("opencl")};
  for (const std::string& name : known_cpus()) machines.push_back(named(name, avx512));
  machines.push_back(named("Zen 4", sse));
  machines.back().origin = MachineOrigin::Calibrated;
  machines.back().core.clock_ghz = 1.0 / 3;
  machines.back().caches[2] = {};
  for (const Machine& machine : machines) {
    const auto parsed = parse_machine(to_string(machine));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, machine) << to_string(machine);
  }
  EXPECT_THAT(to_string(named("Zen 4", avx512)), HasSubstr("name Zen 4\norigin table\n"));
  EXPECT_THAT(to_string(named("Zen 4", avx512)), HasSubstr("\ncore.stores_per_cycle 0.5\n"));
}

TEST(Machine, RatesOfDotProductsMayBeAbsentFromText) {
  Machine machine = named("Sapphire Rapids", avx512);
  EXPECT_LT(machine.core.bf16_dots_per_cycle, machine.core.fma_per_cycle);
  EXPECT_GT(machine.core.byte_tile_dots_per_cycle, machine.core.fma_per_cycle);
  std::string text = to_string(machine);
  const size_t from = text.find("core.byte_dots"), to = text.find("core.loads");
  text.erase(from, to - from);
  machine.core.bf16_dots_per_cycle = machine.core.fma_per_cycle;
  machine.core.byte_tile_dots_per_cycle = machine.core.fma_per_cycle;
  machine.core.bf16_tile_dots_per_cycle = machine.core.fma_per_cycle;
  EXPECT_EQ(parse_machine(text).value(), machine);
}

TEST(Machine, BadTextIsNamed) {
  const std::string good = to_string(named("Zen 4", avx512));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::pair<std::string, std::string> bad[] = {
      {"", "'name' is missing"},
      {with("origin table\n", ""), "'origin' is missing"},
      {with("origin table", "origin hearsay"), "'hearsay' is no value of 'origin'"},
      {with("broadcast yes", "broadcast maybe"),
       "'maybe' is no value of 'core.embedded_broadcast'"},
      {with("cores 1", "cores one"), "'one' is no value of 'cores'"},
      {with("cores 1", "cores 4294967297"), "'4294967297' is no value of 'cores'"},
      {good + "cores 1\n", "'cores' is given twice"},
      {good + "wheels 4\n", "'wheels' is unknown"},
      {good + "gpu.architecture 90\n", "'gpu.clock_ghz' is missing"},
      {with("core.fma_per_cycle 1", "core.fma_per_cycle 0"), "no device is like this"},
      {with("core.fma_per_cycle 1", "core.fma_per_cycle nan"), "no device is like this"},
      {with("l1.bytes 32768", "l1.bytes 0"), "no device is like this"}};
  for (const auto& [text, message] : bad) {
    const auto parsed = parse_machine(text);
    ASSERT_FALSE(parsed) << message;
    EXPECT_EQ(parsed.error().code, ErrorCode::Invalid);
    EXPECT_THAT(parsed.error().message, HasSubstr(message));
  }
}

TEST(Machine, AtHandIsPlausibleAndFollowsTheFeatures) {
  const Target host = host_target();
  EXPECT_TRUE(is_plausible(host.machine)) << to_string(host.machine);
  EXPECT_EQ(on_this_machine(host).machine, host.machine);
  Target plain = host;
  plain.features.clear();
  plain.cpu.clear();
  const Target at_hand = on_this_machine(plain);
  EXPECT_TRUE(at_hand.features.empty());
  EXPECT_EQ(at_hand.cpu, host.cpu);
  const Machine& narrow = at_hand.machine;
  EXPECT_EQ(narrow.core.vector_bytes, 16);
  EXPECT_EQ(narrow.caches, host.machine.caches);
  EXPECT_EQ(narrow.cores, host.machine.cores);
}

}  // namespace
}  // namespace tw
