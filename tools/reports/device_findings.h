// SPDX-License-Identifier: Apache-2.0
#pragma once
// The type of the findings that `doctor` prints, and the findings about GPUs: their drivers, their
// devices, and the compiler for CUDA.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Result of one check. `failure` is set if tuning on the processor cannot work because of the
/// finding. `doctor` ends with the first `failure` of its findings, unless its calibration failed.
struct Finding {
  std::string name, text;
  std::optional<ErrorCode> failure = std::nullopt;
  /// False: the checked thing is missing or unusable, but tuning works without it.
  bool present = true;
};

/// Returns a finding that makes tuning fail, with the error as its reason.
Finding failed(std::string name, const Error& error);
/// Returns a finding that something is missing or unusable, with the error as its reason. The
/// finding is no failure of `doctor`.
Finding absent(std::string name, const Error& error);

/// Returns the findings about a driver, "cuda" or "opencl", and its devices; no findings for any
/// other name. Each device is opened and fills some memory, because a lost device may still open
/// but cannot do any work.
std::vector<Finding> driver_findings(std::string_view driver);

/// Limits this process as a process that measures on the driver's first device is limited, calls
/// driver_findings(), and returns the findings as a line of JSON for parse_findings(). The limits
/// stay in force until this process ends. Fails with Usage for an unknown driver, and with the
/// errors of tuner::start_driver().
Result<std::string> confined_driver_findings(std::string_view driver);
/// Parses the last line of the text. Fails with Invalid if that line is not JSON from
/// confined_driver_findings().
Result<std::vector<Finding>> parse_findings(const std::string& text);

/// Returns the findings about all drivers and about the compiler for CUDA. For each driver,
/// confined_driver_findings() runs in a process of its own.
std::vector<Finding> device_findings(const Surroundings& here);

}  // namespace tw::tools
