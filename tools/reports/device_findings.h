// SPDX-License-Identifier: Apache-2.0
#pragma once
// The type of the findings that `doctor` prints, and the findings about GPUs: their drivers, each
// device, and the compilers for the devices.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Result of one check. If tuning on the processor cannot work because of the finding, `failure` is
/// the exit code of `doctor`.
struct Finding {
  std::string name, text;
  std::optional<ErrorCode> failure = std::nullopt;
  bool present = true;  ///< false: the thing is missing or unusable; that alone is no failure
};

/// A finding that makes tuning fail, with the error as its reason.
Finding failed(std::string name, const Error& error);
/// A finding that something is missing or unusable, with the error as its reason. Tuning does not
/// fail because of it.
Finding absent(std::string name, const Error& error);

/// The findings about a driver, "cuda" or "opencl", and its devices. Each device is opened and
/// fills some memory, because a device that is lost may open but cannot do work.
std::vector<Finding> driver_findings(std::string_view driver);

/// Calls driver_findings() under the limits of a process that measures on the driver's first
/// device, and returns the findings as a line of JSON for parse_findings(). The limits stay in
/// force until this process ends. Usage for an unknown driver; errors as tuner::start_driver().
Result<std::string> confined_driver_findings(std::string_view driver);
/// Parses the last line of the text. Invalid if the line is no JSON from
/// confined_driver_findings().
Result<std::vector<Finding>> parse_findings(const std::string& text);

/// The findings about all drivers and about the compilers for their devices.
/// confined_driver_findings() runs for each driver in a process of its own.
std::vector<Finding> device_findings(const Surroundings& here);

}  // namespace tw::tools
