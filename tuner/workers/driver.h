// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prepares this process for measuring on a device: starts the driver of the device, and then limits
// what the process may do. Runners and the command `doctor` start in this way. So `doctor` already
// finds a driver that does not work within the limits.
//
//   TW_TRY(const StartedDriver driver, start_driver(backend, index, directory, Confined::Yes));
//   TW_TRY(const auto device, backend.open({.index = index}));  // the driver runs within limits
//
// The driver of a GPU starts before the limits apply: its start may need things that the limits
// forbid (programs that load kernel modules, files under /dev/shm), and its threads run no code of
// a candidate. A driver whose device may be this processor runs candidates on its own threads, so
// it starts within the limits. Not thread-safe.

#include <memory>
#include <string>

#include "codegen/backend.h"
#include "runtime/device.h"
#include "tuner/processes/sandbox.h"

namespace tw::tuner {

struct StartedDriver {
  /// Keeps the driver's state for the device alive. Null if the driver was not started before the
  /// limits, or could not start; opening the device again gives the reason.
  std::shared_ptr<runtime::Device> device;
  Restrictions restrictions;  ///< empty if the process is not confined
};

/// Returns the limits of a process that runs drivers of this back end. Drivers may write files
/// below `directory`.
ProcessLimits driver_limits(const codegen::Backend& backend, const std::string& directory);

/// Sets the environment variables that make drivers write their files to `directory`, starts the
/// driver of a GPU, and limits this process unless `confined` is No. Requires: no driver is loaded,
/// and no other thread runs yet. Fails with the errors of restrict_self().
Result<StartedDriver> start_driver(const codegen::Backend& backend, int index,
                                   const std::string& directory, Confined confined);

}  // namespace tw::tuner
