// SPDX-License-Identifier: Apache-2.0
#include "base/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "base/text.h"

namespace tw {
namespace {

// ---- CPUs -----------------------------------------------------------------------------------

/// Vector operations that the execution ports start per cycle, for vectors of one width.
struct Ports {
  int vector_bytes;
  double fma, loads, stores;
  double word_dots = 0, bf16_dots = 0;  // 0: as many as multiply-adds
  double tile_dots = 0;                 // 0: as many as multiply-adds
};

/// A range of model numbers of a processor family, from `first` to `last` inclusive.
struct Models {
  int first, last;
};

struct CpuRow {
  std::string_view name;
  std::string_view vendor;     // `vendor_id` of /proc/cpuinfo; on Arm `CPU implementer`
  int family;                  // `cpu family`; on Arm `CPU architecture`
  std::vector<Models> models;  // `model`; on Arm `CPU part`
  double clock_ghz, fma_latency_cycles, store_forward_cycles, instructions_per_cycle;
  std::vector<Ports> ports;  // widest first
  std::array<CacheLevel, 3> caches;
  double memory_bytes_per_cycle, cores_that_fill_memory;
};

constexpr std::string_view amd = "AuthenticAMD", intel = "GenuineIntel", arm = "0x41";
constexpr int64_t KiB = 1 << 10, MiB = 1 << 20;

// Sources of ports, latencies and widths: uops.info, Agner Fog's "The microarchitecture of Intel,
// AMD and VIA CPUs" and "Instruction tables", AMD's software optimization guides for families 17h,
// 19h and 1Ah, Intel's optimization reference manual, Arm's software optimization guides of
// Neoverse N1 and V1. SSE has no multiply-add, so on x86-64 the numbers for 16 bytes are for a
// multiplication and an addition. Zen 2 and Haswell multiply integers on one port. `vdpbf16ps`
// takes two cycles on an Intel core, and a full AMX tile takes 16, both as measured on a Granite
// Rapids. Zen 4, and the Zen 5 of laptops, execute a 512-bit operation as two halves. The Zen 5 of
// servers and desktops has 512-bit paths throughout.
//
// Bytes per cycle are the bandwidth that one core sustains by reading. For L2 this is about 0.85 of
// the width of its bus, by measurements of Chips and Cheese. The bus has 32 bytes on Zen 2 to 4 and
// Neoverse N1, and 64 on the others. The numbers of L3 and memory are from Chips and Cheese too,
// for server parts with average clocks. This project measured, on virtual machines: Skylake-X at
// 3.9 GHz (L2 205 GB/s, L3 30 GB/s, memory 17 GB/s), the L3 of Zen 4 (about 80 GB/s) and the memory
// of Zen 3 (25 GB/s). cores_that_fill_memory is the memory bandwidth of the socket divided by that
// of one core. The size of L3 is the size of one instance, which several cores share.
const std::vector<CpuRow>& cpu_rows() {
  // clang-format off
  static const std::vector<CpuRow> rows = {
      {"Zen 2", amd, 23, {{0x30, 0xff}}, 3.3, 5, 8, 6,
       {{32, 2, 2, 1, 1}, {16, 2, 2, 1, 1}},
       {{{32 * KiB, 8, 64, 1, 64}, {512 * KiB, 8, 64, 1, 27}, {16 * MiB, 16, 64, 4, 17}}}, 6.5, 6},
      {"Zen 3", amd, 25, {{0x00, 0x0f}, {0x20, 0x5f}}, 3.5, 4, 8, 6,
       {{32, 2, 2, 1}, {16, 2, 2, 1}},
       {{{32 * KiB, 8, 64, 1, 64}, {512 * KiB, 8, 64, 1, 27}, {32 * MiB, 16, 64, 8, 20}}}, 7, 6},
      {"Zen 4", amd, 25, {{0x10, 0x1f}, {0x60, 0x7f}, {0xa0, 0xaf}}, 3.7, 4, 8, 6,
       {{64, 1, 1, 0.5}, {32, 2, 2, 1}, {16, 2, 2, 1}},
       {{{32 * KiB, 8, 64, 1, 64}, {1 * MiB, 8, 64, 1, 27}, {32 * MiB, 16, 64, 8, 21}}}, 8, 12},
      {"Zen 5", amd, 26, {{0x00, 0x1f}, {0x40, 0x4f}, {0x70, 0x7f}}, 4.0, 4, 8, 8,
       {{64, 2, 2, 1}, {32, 2, 2, 2}, {16, 2, 2, 2}},
       {{{48 * KiB, 12, 64, 1, 128}, {1 * MiB, 16, 64, 1, 54}, {32 * MiB, 16, 64, 8, 24}}}, 9, 12},
      {"Zen 5, 256 bits", amd, 26, {{0x20, 0x2f}, {0x60, 0x6f}}, 4.0, 4, 8, 8,
       {{64, 1, 1, 0.5}, {32, 2, 2, 1}, {16, 2, 2, 1}},
       {{{48 * KiB, 12, 64, 1, 64}, {1 * MiB, 16, 64, 1, 54}, {16 * MiB, 16, 64, 4, 24}}}, 9, 2},
      {"Haswell", intel, 6, {{0x3c, 0x3d}, {0x3f, 0x3f}, {0x45, 0x47}, {0x4f, 0x4f}, {0x56, 0x56}}, 2.9, 5, 7, 4,
       {{32, 2, 2, 1, 1}, {16, 1, 2, 1, 1}},
       {{{32 * KiB, 8, 64, 1, 64}, {256 * KiB, 8, 64, 1, 40}, {30 * MiB, 20, 64, 12, 12}}}, 4, 5},
      {"Skylake", intel, 6, {{0x4e, 0x4e}, {0x5e, 0x5e}, {0x8e, 0x8e}, {0x9e, 0x9e}, {0xa5, 0xa6}}, 4.0, 4, 7, 4,
       {{32, 2, 2, 1}, {16, 1, 2, 1, 2}},
       {{{32 * KiB, 8, 64, 1, 64}, {256 * KiB, 4, 64, 1, 48}, {8 * MiB, 16, 64, 4, 20}}}, 6, 1.5},
      {"Skylake-X", intel, 6, {{0x55, 0x55}}, 3.0, 4, 7, 4,
       {{64, 2, 2, 1}, {32, 2, 2, 1}, {16, 1, 2, 1, 2}},
       {{{32 * KiB, 8, 64, 1, 128}, {1 * MiB, 16, 64, 1, 52}, {33 * MiB, 11, 64, 24, 8}}}, 4.4, 8},
      {"Ice Lake", intel, 6, {{0x6a, 0x6a}, {0x6c, 0x6c}}, 3.1, 4, 7, 5,
       {{64, 2, 2, 1}, {32, 2, 2, 1}, {16, 1, 2, 1, 2}},
       {{{48 * KiB, 12, 64, 1, 128}, {1280 * KiB, 20, 64, 1, 48}, {48 * MiB, 12, 64, 32, 8}}}, 4.2, 12},
      {"Sapphire Rapids", intel, 6, {{0x8f, 0x8f}, {0xcf, 0xcf}}, 3.2, 4, 7, 6,
       {{64, 2, 2, 1, 2, 0.5, 16}, {32, 2, 3, 2}, {16, 1.5, 3, 2, 2}},
       {{{48 * KiB, 12, 64, 1, 128}, {2 * MiB, 16, 64, 1, 50}, {105 * MiB, 15, 64, 56, 9}}}, 4.2, 18},
      {"Alder Lake P", intel, 6, {{0x97, 0x97}, {0x9a, 0x9a}}, 4.8, 4, 7, 6,
       {{32, 2, 3, 2}, {16, 1.5, 3, 2, 2}},
       {{{48 * KiB, 12, 64, 1, 96}, {1280 * KiB, 10, 64, 1, 50}, {30 * MiB, 12, 64, 8, 18}}}, 7, 2},
      {"Neoverse N1", arm, 8, {{0xd0c, 0xd0c}}, 2.6, 4, 7, 4,
       {{16, 2, 2, 1}},
       {{{64 * KiB, 4, 64, 1, 32}, {1 * MiB, 8, 64, 1, 22}, {32 * MiB, 16, 64, 64, 9}}}, 7, 9},
      {"Neoverse V1", arm, 8, {{0xd40, 0xd40}}, 2.6, 4, 7, 8,
       {{16, 4, 3, 2}},
       {{{64 * KiB, 4, 64, 1, 48}, {1 * MiB, 8, 64, 1, 40}, {32 * MiB, 16, 64, 64, 12}}}, 10, 11},
  };
  // clang-format on
  return rows;
}

/// Returns the rates of `row` for vectors of this width. If the processor's registers are narrower,
/// a vector is executed in several parts, and the rates are divided by the number of parts.
Ports ports_for(const CpuRow& row, int vector_bytes) {
  for (const Ports& ports : row.ports)
    if (ports.vector_bytes == vector_bytes) return ports;
  Ports ports = row.ports.front();
  const double passes = vector_bytes * 1.0 / ports.vector_bytes;
  return {vector_bytes,
          ports.fma / passes,
          ports.loads / passes,
          ports.stores / passes,
          ports.word_dots / passes,
          ports.bf16_dots / passes,
          ports.tile_dots / passes};
}

Machine machine_of(const CpuRow& row, VectorSizes vectors) {
  const Ports ports = ports_for(row, vectors.bytes);
  const auto rate_of = [&](double rate) { return rate > 0 ? rate : ports.fma; };
  Machine machine;
  machine.name = row.name;
  machine.origin = MachineOrigin::Table;
  machine.core = {.vector_bytes = vectors.bytes,
                  .vector_registers = vectors.registers,
                  .clock_ghz = row.clock_ghz,
                  .fma_per_cycle = ports.fma,
                  .fma_latency_cycles = row.fma_latency_cycles,
                  .byte_dots_per_cycle = ports.fma,
                  .word_dots_per_cycle = rate_of(ports.word_dots),
                  .bf16_dots_per_cycle = rate_of(ports.bf16_dots),
                  .byte_tile_dots_per_cycle = rate_of(ports.tile_dots),
                  .bf16_tile_dots_per_cycle = rate_of(ports.tile_dots),
                  .loads_per_cycle = ports.loads,
                  .stores_per_cycle = ports.stores,
                  .instructions_per_cycle = row.instructions_per_cycle,
                  .store_forward_cycles = row.store_forward_cycles,
                  .embedded_broadcast = vectors.embedded_broadcast};
  machine.caches = row.caches;
  machine.memory_bytes_per_cycle = row.memory_bytes_per_cycle;
  machine.cores_that_fill_memory = row.cores_that_fill_memory;
  return machine;
}

/// A processor as /proc/cpuinfo identifies it.
struct CpuIdentity {
  std::string vendor;
  int64_t family = -1, model = -1;
};

/// Parses a decimal number, or a hexadecimal number after "0x", as Arm's /proc/cpuinfo has them.
/// Returns `otherwise` for any other text.
int64_t number_or(std::string_view text, int64_t otherwise) {
  if (!text.starts_with("0x")) return parse_int(text).value_or(otherwise);
  const std::string digits(text.substr(2));
  char* end = nullptr;
  const int64_t value = std::strtoll(digits.c_str(), &end, 16);
  return digits.empty() || *end != 0 ? otherwise : value;
}

/// Returns the identity of the first processor that the text lists.
CpuIdentity identity_of(std::string_view cpuinfo) {
  CpuIdentity identity;
  for (const std::string& line : split(cpuinfo, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) {
      if (!identity.vendor.empty()) break;
      continue;
    }
    const std::string_view key = trim(std::string_view(line).substr(0, colon));
    const std::string_view value = trim(std::string_view(line).substr(colon + 1));
    if (key == "vendor_id" || key == "CPU implementer") identity.vendor = value;
    if (key == "cpu family" || key == "CPU architecture") identity.family = number_or(value, -1);
    if (key == "model" || key == "CPU part") identity.model = number_or(value, -1);
  }
  return identity;
}

bool is_of(const CpuRow& row, const CpuIdentity& cpu) {
  return row.vendor == cpu.vendor && row.family == cpu.family &&
         std::any_of(row.models.begin(), row.models.end(), [&](const Models& models) {
           return models.first <= cpu.model && cpu.model <= models.last;
         });
}

// ---- GPUs -----------------------------------------------------------------------------------

struct GpuRow {
  std::string_view name;
  bool has_specific;  // true: sm_90a exists beside sm_90, with the same sizes
  int architecture;
  int multiprocessors;  // of a large chip; a device that is present reports its own
  double clock_ghz, fma_lanes, tensor_fma;
  int resident_threads, resident_blocks;
  int64_t shared_bytes, block_shared_bytes, l1_bytes, l2_bytes;
  double l2_gbps, dram_gbps;
  int block_threads;
};

// The CUDA architectures are those that CUDA 13 compiles for. Sources of the columns: Threads,
// blocks, registers and shared memory are from CUDA's programming guide, "Technical Specifications
// per Compute Capability". Sizes and clocks are from the white papers of a large chip of each
// architecture (TU102, A100, GA102, Orin, AD102, H200, B200, GB202). DRAM is 0.9 of the bandwidth
// in the data sheet, because copies reach that (4.2 of 4.8 TB/s on an H200). The column "tensor"
// has the white papers' rates for sums in f32. With mma.sync an H100 reaches about 0.62 of this
// peak (arXiv 2402.13499), and Blackwell no more than that; with wgmma an H100 reaches 0.99. L2 is
// about 32 bytes per cycle and multiprocessor, half of the nominal 64; the number of sm_90 was
// measured on an H200 with reads of 16 to 32 MiB. Latencies are the defaults of Gpu, from
// micro-benchmarks of Ampere and Hopper (arXiv 2402.13499, 2208.11174). "opencl" is an average chip
// with blocks of 256 threads, which every relevant OpenCL 1.2 device accepts.
constexpr GpuRow gpu_rows[] = {
    // clang-format off
    // name     a             SMs   GHz  FMA tensor thr.  bl.  shared     per block    L1          L2         L2    DRAM  threads
    {"sm_75",  false,  75,    72, 1.70,  64,  512, 1024, 16,  64 * KiB,  64 * KiB,  96 * KiB,   6 * MiB, 2000,  600, 1024},
    {"sm_80",  false,  80,   108, 1.41,  64, 1024, 2048, 32, 164 * KiB, 163 * KiB, 192 * KiB,  40 * MiB, 4500, 1400, 1024},
    {"sm_86",  false,  86,    84, 1.70, 128,  256, 1536, 16, 100 * KiB,  99 * KiB, 128 * KiB,   6 * MiB, 3000,  840, 1024},
    {"sm_87",  false,  87,    16, 1.30, 128,  512, 1536, 16, 164 * KiB, 163 * KiB, 192 * KiB,   4 * MiB,  600,  180, 1024},
    {"sm_89",  false,  89,   142, 2.40, 128,  512, 1536, 24, 100 * KiB,  99 * KiB, 128 * KiB,  96 * MiB, 5000,  860, 1024},
    {"sm_90",  true,   90,   132, 1.75, 128, 1270, 2048, 32, 228 * KiB, 227 * KiB, 256 * KiB,  50 * MiB, 7600, 4200, 1024},
    {"sm_100", true,  100,   148, 1.85, 128, 1270, 2048, 32, 228 * KiB, 227 * KiB, 256 * KiB, 126 * MiB, 8000, 7000, 1024},
    {"sm_120", true,  120,   170, 2.40, 128,  256, 1536, 24, 100 * KiB,  99 * KiB, 128 * KiB,  96 * MiB, 8000, 1600, 1024},
    {"opencl", false,   0,    32, 1.50, 128,    0, 1024, 16,  64 * KiB,  32 * KiB, 128 * KiB,   4 * MiB, 1500,  400,  256},
    // clang-format on
};
constexpr int widest_access_bytes = 16;  // widest load or store of one thread
constexpr double wgmma_speed = 1.6;      // wgmma reaches 0.99 of the peak, mma.sync 0.62

Machine machine_of(const GpuRow& row, std::string_view name) {
  Machine machine;
  machine.name = name;
  machine.origin = row.architecture > 0 ? MachineOrigin::Table : MachineOrigin::Assumed;
  machine.cores = row.multiprocessors;
  machine.core.vector_bytes = widest_access_bytes;
  machine.core.vector_registers = cuda_registers_per_thread;
  machine.core.clock_ghz = row.clock_ghz;
  machine.caches = {};
  machine.caches[0].bytes = row.l1_bytes;
  machine.caches[1].bytes = row.l2_bytes;
  Gpu& gpu = machine.gpu.emplace();
  gpu.architecture = row.architecture;
  gpu.clock_ghz = row.clock_ghz;
  gpu.fma_lanes = row.fma_lanes;
  gpu.tensor_fma = row.tensor_fma;
  gpu.resident_threads = row.resident_threads;
  gpu.resident_blocks = row.resident_blocks;
  gpu.registers = cuda_registers;
  gpu.shared_bytes = row.shared_bytes;
  if (row.architecture == 90) gpu.warpgroup_speed = wgmma_speed;
  gpu.l2_gbps = row.l2_gbps;
  gpu.dram_gbps = row.dram_gbps;
  gpu.block_threads = row.block_threads;
  gpu.block_shared_bytes = row.block_shared_bytes;
  gpu.registers_per_thread = cuda_registers_per_thread;
  return machine;
}

// ---- text -----------------------------------------------------------------------------------

constexpr std::string_view gpu_prefix = "gpu.";
/// A rate of dot products. If the text of a machine lacks it, the rate of multiply-adds is used.
struct DotRate {
  std::string_view name;
  double Core::*rate;
  double most;  ///< largest plausible rate
};
constexpr DotRate dot_rates[] = {
    {"core.byte_dots_per_cycle", &Core::byte_dots_per_cycle, 32},
    {"core.word_dots_per_cycle", &Core::word_dots_per_cycle, 32},
    {"core.bf16_dots_per_cycle", &Core::bf16_dots_per_cycle, 32},
    {"core.byte_tile_dots_per_cycle", &Core::byte_tile_dots_per_cycle, 256},
    {"core.bf16_tile_dots_per_cycle", &Core::bf16_tile_dots_per_cycle, 256},
};

/// Calls visit(name, member) for each member of the machine, and of its GPU if it has one.
template <typename MachineType, typename Visit>
void for_each_field(MachineType& m, Visit&& visit) {
  visit("name", m.name);
  visit("origin", m.origin);
  visit("cores", m.cores);
  visit("core.vector_bytes", m.core.vector_bytes);
  visit("core.vector_registers", m.core.vector_registers);
  visit("core.clock_ghz", m.core.clock_ghz);
  visit("core.fma_per_cycle", m.core.fma_per_cycle);
  visit("core.fma_latency_cycles", m.core.fma_latency_cycles);
  for (const DotRate& dots : dot_rates) visit(dots.name, m.core.*dots.rate);
  visit("core.loads_per_cycle", m.core.loads_per_cycle);
  visit("core.stores_per_cycle", m.core.stores_per_cycle);
  visit("core.instructions_per_cycle", m.core.instructions_per_cycle);
  visit("core.store_forward_cycles", m.core.store_forward_cycles);
  visit("core.embedded_broadcast", m.core.embedded_broadcast);
  for (size_t i = 0; i < m.caches.size(); ++i) {
    auto& cache = m.caches[i];
    const std::string level = fmt::format("l{}.", i + 1);
    visit(level + "bytes", cache.bytes);
    visit(level + "ways", cache.ways);
    visit(level + "line_bytes", cache.line_bytes);
    visit(level + "cores", cache.cores);
    visit(level + "bytes_per_cycle", cache.bytes_per_cycle);
  }
  visit("memory_bytes_per_cycle", m.memory_bytes_per_cycle);
  visit("cores_that_fill_memory", m.cores_that_fill_memory);
  if (!m.gpu) return;
  auto& g = *m.gpu;
  visit("gpu.architecture", g.architecture);
  visit("gpu.clock_ghz", g.clock_ghz);
  visit("gpu.fma_lanes", g.fma_lanes);
  visit("gpu.tensor_fma", g.tensor_fma);
  visit("gpu.resident_threads", g.resident_threads);
  visit("gpu.resident_blocks", g.resident_blocks);
  visit("gpu.registers", g.registers);
  visit("gpu.shared_bytes", g.shared_bytes);
  visit("gpu.schedulers", g.schedulers);
  visit("gpu.integer_lanes", g.integer_lanes);
  visit("gpu.warpgroup_speed", g.warpgroup_speed);
  visit("gpu.fma_latency_cycles", g.fma_latency_cycles);
  visit("gpu.tensor_latency_cycles", g.tensor_latency_cycles);
  visit("gpu.shared_latency_cycles", g.shared_latency_cycles);
  visit("gpu.l1_latency_cycles", g.l1_latency_cycles);
  visit("gpu.l2_latency_cycles", g.l2_latency_cycles);
  visit("gpu.dram_latency_cycles", g.dram_latency_cycles);
  visit("gpu.l2_gbps", g.l2_gbps);
  visit("gpu.dram_gbps", g.dram_gbps);
  visit("gpu.memory_bytes", g.memory_bytes);
  visit("gpu.block_threads", g.block_threads);
  visit("gpu.block_shared_bytes", g.block_shared_bytes);
  visit("gpu.registers_per_thread", g.registers_per_thread);
}

constexpr MachineOrigin origins[] = {MachineOrigin::Table, MachineOrigin::Calibrated,
                                     MachineOrigin::Assumed};

std::string text_of(const std::string& value) { return value; }
std::string text_of(MachineOrigin value) { return std::string(to_string(value)); }
std::string text_of(double value) { return format_double(value); }
std::string text_of(int value) { return std::to_string(value); }
std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(bool value) { return value ? "yes" : "no"; }

bool read_value(const std::string& text, std::string& value) {
  value = text;
  return !text.empty();
}
bool read_value(const std::string& text, MachineOrigin& value) {
  for (const MachineOrigin origin : origins)
    if (to_string(origin) == text) {
      value = origin;
      return true;
    }
  return false;
}
bool read_value(const std::string& text, double& value) {
  const auto parsed = parse_double(text);
  value = parsed.value_or(0);
  return parsed.has_value();
}
bool read_value(const std::string& text, int64_t& value) {
  const auto parsed = parse_int(text);
  value = parsed.value_or(0);
  return parsed.has_value();
}
bool read_value(const std::string& text, int& value) {
  const auto parsed = parse_int(text);
  value = static_cast<int>(parsed.value_or(0));
  return parsed && *parsed == value;
}

bool read_value(const std::string& text, bool& value) {
  value = text == "yes";
  return value || text == "no";
}

using Lines = std::map<std::string, std::string, std::less<>>;

Result<Lines> lines_of(std::string_view text) {
  Lines lines;
  for (const std::string& line : split(text, '\n')) {
    if (trim(line).empty()) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string name = line.substr(0, space);
    if (!lines.emplace(name, std::string(trim(std::string_view(line).substr(space)))).second)
      return fail(ErrorCode::Invalid, fmt::format("[machine] '{}' is given twice", name));
  }
  return lines;
}

bool within(double value, double low, double high) { return low <= value && value <= high; }

bool is_plausible(const Core& core) {
  return within(core.vector_bytes, 8, 1024) && within(core.vector_registers, 8, 1024) &&
         within(core.clock_ghz, 0.1, 20) && within(core.fma_per_cycle, 0.05, 32) &&
         std::ranges::all_of(
             dot_rates,
             [&](const DotRate& dots) { return within(core.*dots.rate, 0.05, dots.most); }) &&
         within(core.fma_latency_cycles, 1, 64) && within(core.loads_per_cycle, 0.05, 32) &&
         within(core.stores_per_cycle, 0.05, 32) && within(core.instructions_per_cycle, 0.2, 64) &&
         within(core.store_forward_cycles, 1, 100);
}

/// True if the numbers of a cache are possible. The bandwidth is checked for CPUs only, because the
/// table has no bandwidth for the caches of GPUs.
bool is_plausible(const CacheLevel& cache, bool is_cpu) {
  if (cache.bytes == 0) return true;
  return within(static_cast<double>(cache.bytes), 1 << 10, 1LL << 40) &&
         within(cache.ways, 1, 4096) && within(cache.line_bytes, 8, 4096) &&
         within(cache.cores, 1, 4096) && (!is_cpu || within(cache.bytes_per_cycle, 0.05, 4096));
}

bool is_plausible(const Gpu& gpu) {
  return within(gpu.architecture, 0, 10'000) && within(gpu.clock_ghz, 0.1, 20) &&
         within(gpu.fma_lanes, 1, 1e5) && within(gpu.tensor_fma, 0, 1e6) &&
         within(gpu.resident_threads, 1, 1e6) && within(gpu.resident_blocks, 1, 1e4) &&
         within(gpu.schedulers, 1, 64) && within(gpu.integer_lanes, 1, 1e5) &&
         within(gpu.warpgroup_speed, 0.1, 10) && within(gpu.fma_latency_cycles, 1, 1e3) &&
         within(gpu.tensor_latency_cycles, 1, 1e3) && within(gpu.shared_latency_cycles, 1, 1e3) &&
         within(gpu.l1_latency_cycles, 1, 1e4) && within(gpu.l2_latency_cycles, 1, 1e4) &&
         within(gpu.dram_latency_cycles, 1, 1e4) &&
         within(static_cast<double>(gpu.registers), 256, 1e9) &&
         within(static_cast<double>(gpu.shared_bytes), 1024, 1e9) && within(gpu.l2_gbps, 1, 1e7) &&
         within(gpu.dram_gbps, 1, 1e7) && gpu.memory_bytes >= 0 &&
         within(gpu.block_threads, 1, 1e6) &&
         within(static_cast<double>(gpu.block_shared_bytes), 1024, 1e9) &&
         within(gpu.registers_per_thread, 8, 4096);
}

}  // namespace

std::string_view to_string(MachineOrigin origin) {
  switch (origin) {
    case MachineOrigin::Table:
      return "table";
    case MachineOrigin::Calibrated:
      return "calibrated";
    case MachineOrigin::Assumed:
      break;
  }
  return "assumed";
}

int64_t CacheLevel::way_bytes() const {
  return std::bit_floor(static_cast<uint64_t>(bytes) / static_cast<uint64_t>(std::max(1, ways)));
}

std::optional<Machine> machine_of_cpuinfo(std::string_view cpuinfo, VectorSizes vectors) {
  const CpuIdentity identity = identity_of(cpuinfo);
  for (const CpuRow& row : cpu_rows())
    if (is_of(row, identity)) return machine_of(row, vectors);
  return std::nullopt;
}

Result<Machine> machine_by_name(std::string_view name, VectorSizes vectors) {
  for (const CpuRow& row : cpu_rows())
    if (row.name == name) return machine_of(row, vectors);
  const auto guess = nearest(name, known_cpus());
  return fail(ErrorCode::Usage,
              fmt::format("[machine] '{}' is no microarchitecture: use {}{}", name,
                          join(known_cpus(), ", "),
                          guess ? fmt::format("; did you mean '{}'?", *guess) : ""));
}

// The numbers are the defaults of Machine: ports of server cores of about 2020, and bandwidths
// between those of Skylake-X and Zen 4.
Machine generic_x86_64(VectorSizes vectors) {
  Machine machine;
  machine.name = "generic x86-64";
  machine.core.vector_bytes = vectors.bytes;
  machine.core.vector_registers = vectors.registers;
  machine.core.embedded_broadcast = vectors.embedded_broadcast;
  return machine;
}

// The numbers are those of Neoverse N1 with a smaller last-level cache.
Machine generic_arm_64(VectorSizes vectors) {
  Machine machine = machine_by_name("Neoverse N1", vectors).value();
  machine.name = "generic arm-64";
  machine.origin = MachineOrigin::Assumed;
  machine.caches[2].bytes = 8 * MiB;
  return machine;
}

Machine with_caches(Machine machine, const std::array<int64_t, 3>& bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] <= 0) continue;
    const bool is_private = i < 2;
    if (is_private && machine.caches[i].bytes != bytes[i]) machine.origin = MachineOrigin::Assumed;
    machine.caches[i].bytes = bytes[i];
  }
  return machine;
}

std::vector<std::string> known_cpus() {
  std::vector<std::string> names;
  for (const CpuRow& row : cpu_rows()) names.emplace_back(row.name);
  return names;
}

std::optional<Machine> gpu_machine(std::string_view name) {
  for (const GpuRow& row : gpu_rows)
    if (name == row.name || (row.has_specific && name == std::string(row.name) + "a"))
      return machine_of(row, name);
  return std::nullopt;
}

std::vector<std::string> known_gpus() {
  std::vector<std::string> names;
  for (const GpuRow& row : gpu_rows) {
    if (row.architecture == 0) continue;
    names.emplace_back(row.name);
    if (row.has_specific) names.push_back(std::string(row.name) + "a");
  }
  return names;
}

bool needs_calibration(const Machine& machine) {
  return machine.origin == MachineOrigin::Assumed && !machine.gpu;
}

std::string describe(const Machine& machine) {
  if (machine.origin == MachineOrigin::Table) return machine.name;
  return fmt::format("{} ({})", machine.name, to_string(machine.origin));
}

bool is_plausible(const Machine& machine) {
  const bool is_cpu = !machine.gpu;
  for (const CacheLevel& cache : machine.caches)
    if (!is_plausible(cache, is_cpu)) return false;
  return !machine.name.empty() && within(machine.cores, 1, 1e5) && machine.l1_bytes() > 0 &&
         is_plausible(machine.core) && within(machine.memory_bytes_per_cycle, 0.01, 4096) &&
         within(machine.cores_that_fill_memory, 0.5, 1e4) && (is_cpu || is_plausible(*machine.gpu));
}

std::string to_string(const Machine& machine) {
  std::string text;
  for_each_field(machine, [&](std::string_view name, const auto& value) {
    text += fmt::format("{} {}\n", name, text_of(value));
  });
  return text;
}

Result<Machine> parse_machine(std::string_view text) {
  TW_TRY(Lines lines, lines_of(text));
  Machine machine;
  if (const auto fma = lines.find("core.fma_per_cycle"); fma != lines.end())
    for (const DotRate& dots : dot_rates) lines.emplace(dots.name, fma->second);
  const auto gpu = lines.lower_bound(gpu_prefix);
  if (gpu != lines.end() && gpu->first.starts_with(gpu_prefix)) machine.gpu.emplace();
  std::string bad;
  for_each_field(machine, [&](std::string_view name, auto& value) {
    const auto line = lines.find(name);
    if (line == lines.end()) {
      if (bad.empty()) bad = fmt::format("'{}' is missing", name);
      return;
    }
    if (!read_value(line->second, value) && bad.empty())
      bad = fmt::format("'{}' is no value of '{}'", line->second, name);
    lines.erase(line);
  });
  if (bad.empty() && !lines.empty()) bad = fmt::format("'{}' is unknown", lines.begin()->first);
  if (bad.empty() && !is_plausible(machine)) bad = "no device is like this";
  if (!bad.empty()) return fail(ErrorCode::Invalid, fmt::format("[machine] {}", bad));
  return machine;
}

}  // namespace tw
