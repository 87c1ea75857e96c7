// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `doctor` finds, and its findings about GPUs: drivers, each device, what compiles for them.

#include <optional>
#include <string>
#include <string_view>
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

/// The findings of a driver, "cuda" or "opencl". Every device is opened and asked to fill memory, which
/// a device that is lost does not.
std::vector<Finding> driver_findings(std::string_view driver);

/// The same within the limits of a process that measures on the driver's first device, as lines of
/// JSON for parse_findings(). Irrevocable for this process.
Result<std::string> confined_driver_findings(std::string_view driver);
/// Invalid for another text.
Result<std::vector<Finding>> parse_findings(const std::string& text);

/// The drivers, each asked in a process with those limits, and the compilers for their devices.
std::vector<Finding> device_findings(const Surroundings& here);

}  // namespace tw::tools
