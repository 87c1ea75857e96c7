// SPDX-License-Identifier: Apache-2.0
#pragma once
// The start of a process that measures on a device: it starts the device's driver and then limits
// itself. Runners and `doctor` start so, and `doctor` thus finds a driver that does not work within
// the limits before a run does.
//
//   TW_TRY(const StartedDriver driver, start_driver(backend, index, directory, Confined::Yes));
//   TW_TRY(const auto device, backend.open({.index = index}));  // the driver runs within limits
//
// The driver of a GPU starts before the limits are put on: its start may need things that the
// limits forbid (programs that load kernel modules, files under /dev/shm), and its threads run no
// code of a candidate. A driver whose device may be this processor runs candidates on its threads,
// so it starts within the limits. Not thread-safe.

#include <memory>
#include <string>

#include "codegen/backend.h"
#include "runtime/device.h"
#include "tuner/processes/sandbox.h"

namespace tw::tuner {

struct StartedDriver {
  /// Keeps the driver's state of the device alive. Null: the driver was not started before the
  /// limits, or it does not start; opening the device again says why.
  std::shared_ptr<runtime::Device> device;
  Restrictions restrictions;  ///< nothing where the process is not confined
};

/// The limits under which the drivers of a back end work. They may write files below the directory.
ProcessLimits driver_limits(const codegen::Backend& backend, const std::string& directory);

/// Starts the driver of a GPU, sets the variables of the environment by which drivers write their
/// files to the directory, and limits this process unless `confined` is No. Requires: no driver is
/// loaded and no other thread runs yet. Errors as restrict_self().
Result<StartedDriver> start_driver(const codegen::Backend& backend, int index,
                                   const std::string& directory, Confined confined);

}  // namespace tw::tuner
