// SPDX-License-Identifier: Apache-2.0
#include "tuner/device.h"

#include <fmt/format.h>

namespace tw::tuner {

std::string device_text(const Target& target) {
  if (target.is_gpu())
    return fmt::format("{}; {} multiprocessors; {} MiB; L2 {} KiB",
                       target.cpu.empty() ? "unknown GPU" : target.cpu, target.cores,
                       target.memory_bytes >> 20, target.l2_bytes >> 10);
  return fmt::format("{}; {} cores; L1 {} KiB; L2 {} KiB; L3 {} MiB",
                     target.cpu.empty() ? "unknown processor" : target.cpu, target.cores,
                     target.l1_bytes >> 10, target.l2_bytes >> 10, target.l3_bytes >> 20);
}

Target with_facts(Target target, const runtime::DeviceFacts& facts) {
  target.cpu = facts.name;
  // What a driver does not say stays as the architecture has it.
  if (facts.multiprocessors > 0) target.cores = facts.multiprocessors;
  if (facts.l2_bytes > 0) target.l2_bytes = facts.l2_bytes;
  target.memory_bytes = facts.memory_bytes;
  return target;
}

}  // namespace tw::tuner
