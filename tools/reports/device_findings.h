// SPDX-License-Identifier: Apache-2.0
#pragma once
// The type of the findings that `doctor` prints, and the findings about GPUs: the drivers, each
// device, and the compiler for them.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Result of one check. If tuning on the processor fails because of it, `failure` is the exit code.
struct Finding {
  std::string name, text;
  std::optional<ErrorCode> failure = std::nullopt;
  bool present = true;  ///< false: missing or unusable, which alone is no failure
};

/// The finding that tuning fails for this reason.
Finding failed(std::string name, const Error& error);
/// The finding that something is not here or of no use now, for this reason.
Finding absent(std::string name, const Error& error);

/// The findings of a driver, "cuda" or "opencl". Every device is opened and fills memory, which
/// fails on a lost device.
std::vector<Finding> driver_findings(std::string_view driver);

/// driver_findings() within the limits of a process that measures on the driver's first device, as
/// a line of JSON for parse_findings(). The limits are irrevocable for this process. Usage for
/// another name; errors as tuner::start_driver().
Result<std::string> confined_driver_findings(std::string_view driver);
/// Reads the last line of the text. Invalid where it is no JSON of confined_driver_findings().
Result<std::vector<Finding>> parse_findings(const std::string& text);

/// The findings of all drivers, each in a process of its own with those limits, and of the
/// compilers for their devices.
std::vector<Finding> device_findings(const Surroundings& here);

}  // namespace tw::tools
