// SPDX-License-Identifier: Apache-2.0
#include "tuner/device.h"

#include <fmt/format.h>

#include <vector>

#include "base/text.h"

namespace tw::tuner {

std::string device_text(const Target& target) {
  if (!target.device.empty()) return target.device;
  if (target.is_gpu()) return runtime::gpu_text(target);
  return fmt::format("{}; {} cores; L1 {} KiB; L2 {} KiB; L3 {} MiB",
                     target.cpu.empty() ? "unknown processor" : target.cpu, target.machine.cores,
                     target.machine.l1_bytes() >> 10, target.machine.l2_bytes() >> 10,
                     target.machine.l3_bytes() >> 20);
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

}  // namespace tw::tuner
