// SPDX-License-Identifier: Apache-2.0
#include "tuner/device.h"

#include <fmt/format.h>

namespace tw::tuner {

std::string device_text(const Target& target) {
  return fmt::format("{}; {} cores; L1 {} KiB; L2 {} KiB; L3 {} MiB",
                     target.cpu.empty() ? "unknown processor" : target.cpu, target.cores,
                     target.l1_bytes >> 10, target.l2_bytes >> 10, target.l3_bytes >> 20);
}

}  // namespace tw::tuner
