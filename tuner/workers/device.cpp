// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/device.h"

#include <fmt/format.h>

#include <vector>

#include "base/text.h"
#include "codegen/abi.h"

namespace tw::tuner {

std::string device_text(const Target& target) {
  if (!target.device.empty()) return target.device;
  if (target.is_gpu()) return runtime::gpu_text(target);
  return fmt::format("{}; {} cores; L1 {} KiB; L2 {} KiB; L3 {} MiB",
                     target.cpu.empty() ? "unknown processor" : target.cpu, target.machine.cores,
                     target.machine.l1_bytes() >> 10, target.machine.l2_bytes() >> 10,
                     target.machine.l3_bytes() >> 20);
}

db::Key database_key(const dsl::Workload& workload, const Target& target, int threads) {
  return {.workload = workload.key(),
          .target = target.to_string(),
          .device = device_text(target),
          .threads = threads,
          .codegen_abi = codegen::codegen_abi,
          .layouts = workload.asked()};
}

bool is_of_device(const db::Record& record, const Target& target) {
  return record.device == device_text(target) && record.target == target.to_string();
}

// "NVIDIA H200; 132 multiprocessors; 143771 MiB; L2 51200 KiB"
Target described_by(Target target, std::string_view device) {
  if (!target.is_gpu()) return target;
  const std::vector<std::string> parts = split(device, ';');
  if (parts.size() != 4) return target;
  const std::vector<std::string> cores = words(parts[1]), memory = words(parts[2]),
                                 l2 = words(parts[3]);
  if (cores.size() != 2 || cores[1] != "multiprocessors" || memory.size() != 2 || l2.size() != 3)
    return target;
  const auto count = parse_int(cores[0]), mebibytes = parse_int(memory[0]),
             kibibytes = parse_int(l2[1]);
  if (!count || !mebibytes || !kibibytes) return target;
  target.cpu = parts[0];
  target.machine.cores = static_cast<int>(*count);
  target.machine.gpu->memory_bytes = *mebibytes << 20;
  target.machine.caches[1].bytes = *kibibytes << 10;
  return target;
}

namespace {

// Numbers above these limits are ignored, because anybody may have written the texts of a record.
constexpr int64_t most_cores = 1 << 16, most_cache_units = 1 << 20;

// "AMD EPYC; 2 cores; L1 48 KiB; L2 1024 KiB; L3 32 MiB"
void take_cores_and_caches(std::string_view device, Machine& machine) {
  const std::vector<std::string> parts = split(device, ';');
  if (parts.size() != 5) return;
  const auto number = [](const std::vector<std::string>& words, size_t i) {
    const auto value = i < words.size() ? parse_int(words[i]) : std::nullopt;
    return value.value_or(0);
  };
  if (const int64_t cores = number(words(parts[1]), 0); cores > 0 && cores <= most_cores)
    machine.cores = static_cast<int>(cores);
  for (size_t level = 0; level < machine.caches.size(); ++level) {
    const std::vector<std::string> cache = words(parts[level + 2]);
    const int64_t size = number(cache, 1);
    if (size > 0 && size <= most_cache_units)
      machine.caches[level].bytes = size << (cache.back() == "MiB" ? 20 : 10);
  }
}

}  // namespace

Result<Target> target_of(const db::Record& record) {
  TW_TRY(Target target, parse_target(record.target));
  if (target.is_gpu()) return described_by(std::move(target), record.device);
  const std::string name(split(record.machine, ';')[0]);
  if (auto machine = machine_by_name(name, vector_sizes(target)))
    target.machine = std::move(*machine);
  take_cores_and_caches(record.device, target.machine);
  return target;
}

}  // namespace tw::tuner
