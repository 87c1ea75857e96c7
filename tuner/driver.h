// SPDX-License-Identifier: Apache-2.0
#pragma once
// A process that measures on a device: how it starts the device's driver and then limits itself.
// Runners do, and `doctor`, so that a driver that does not work within the limits is found before a
// run is.
//
//   TW_TRY(const StartedDriver driver, start_driver(backend, index, directory, Confined::Yes));
//   TW_TRY(const auto device, backend.open({.index = index}));  // the driver runs within limits
//
// The driver of a GPU starts before the limits are put on: starting may need what is forbidden
// afterwards (programs that load kernel modules, files under /dev/shm), and the driver's threads
// run none of a candidate's code. A driver whose device may be this processor runs candidates on
// its threads, so it starts within the limits.

#include <memory>
#include <string>

#include "codegen/backend.h"
#include "runtime/device.h"
#include "tuner/sandbox.h"

namespace tw::tuner {

struct StartedDriver {
  /// Keeps the driver's state of the device alive. Null: the driver was not started before the
  /// limits, or it does not start; opening the device again says why.
  std::shared_ptr<runtime::Device> device;
  Restrictions restrictions;  ///< nothing where the process is not confined
};

/// The limits under which the drivers of a back end work; they write to the directory.
ProcessLimits driver_limits(const codegen::Backend& backend, const std::string& directory);

/// Starts the driver as far as it starts before the limits, and limits this process. Drivers learn
/// from variables of the environment, which it sets, that their files go to the directory. Requires
/// that no driver is loaded and no other thread runs yet. Fails as restrict_self().
Result<StartedDriver> start_driver(const codegen::Backend& backend, int index,
                                   const std::string& directory, Confined confined);

}  // namespace tw::tuner
