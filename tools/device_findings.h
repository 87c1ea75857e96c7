// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `doctor` finds, and its findings about GPUs: drivers, each device, what compiles for them.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// One examined thing. A failure carries the exit code that it means for tuning on the processor.
struct Finding {
  std::string name, text;
  std::optional<ErrorCode> failure = std::nullopt;
  bool present = true;  ///< false: not here or of no use now, which is no failure
};

/// Every device is opened and asked to fill memory, which one that is lost does not.
std::vector<Finding> device_findings(const Surroundings& here);

}  // namespace tw::tools
