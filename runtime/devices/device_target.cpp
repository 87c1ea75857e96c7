// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/device_target.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tw::runtime {
namespace {

constexpr int64_t oldest = 50;  // oldest architecture that a current toolkit compiles for

void add(const std::string& name, std::vector<Target>& targets) {
  if (auto target = parse_target(name)) targets.push_back(std::move(*target));
}

}  // namespace

std::vector<Target> targets_of(const DeviceFacts& facts) {
  std::vector<Target> targets;
  if (!facts.is_cuda()) {
    add(facts.architecture, targets);
    return targets;
  }
  const int64_t own = parse_int(facts.architecture.substr(3)).value_or(0);
  add(fmt::format("cuda:sm_{}a", own), targets);
  for (int64_t number = own; number >= oldest; --number)
    add(fmt::format("cuda:sm_{}", number), targets);
  return targets;
}

Target with_facts(Target target, const DeviceFacts& facts) {
  target.cpu = facts.name;
  // A number that the driver does not report is 0; the target then keeps the number from the table
  // of architectures.
  if (facts.multiprocessors > 0) target.machine.cores = facts.multiprocessors;
  if (facts.l2_bytes > 0) target.machine.caches[1].bytes = facts.l2_bytes;
  target.machine.gpu->memory_bytes = facts.memory_bytes;
  return target;
}

std::string gpu_text(const Target& target) {
  return fmt::format("{}; {} multiprocessors; {} MiB; L2 {} KiB",
                     target.cpu.empty() ? "unknown GPU" : target.cpu, target.machine.cores,
                     target.machine.gpu->memory_bytes >> 20, target.machine.l2_bytes() >> 10);
}

}  // namespace tw::runtime
