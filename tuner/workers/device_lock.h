// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gives a device to one user at a time: if two tuners measured on it at once, each would slow the
// other, whoever started them. A lock is two files in a directory that all users share. Linux
// releases the lock of a process that is killed.
//
//   TW_TRY(DeviceLock lock, DeviceLock::open(places_of_all, "cuda"));
//   TW_TRY(const DeviceTurn turn, lock.take(clock, {clock() + patience_ns}));
//   ... measure; the turn ends with its value
//
// A tuner that waits is next: a tuner that gives the device back and asks for it again queues
// behind. Not thread-safe; each process, or part of a process, opens its own lock.
// lock.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/backend.h"
#include "runtime/device.h"
#include "tuner/processes/clock.h"
#include "tuner/processes/deadline.h"

namespace tw::tuner {

/// Directory of the lock files, shared by all users of a machine.
inline constexpr const char* places_of_all = "/tmp";

/// Exclusive use of the device, which ends when the last copy of this value is destroyed.
using DeviceTurn = std::shared_ptr<const int>;

/// Name of the lock of a back end's device: "cuda", "opencl-1".
std::string device_lock_name(const codegen::Backend& backend, int index);

class DeviceLock {
 public:
  /// Opens the lock files, and creates those that are missing. Environment if this fails or if
  /// something else has their names.
  static Result<DeviceLock> open(const std::string& directory, std::string_view device);

  /// Waits for the device. TryLater, naming the file by which to find the process that holds the
  /// device, if the deadline passes first; Interrupted if the wait is cancelled.
  Result<DeviceTurn> take(const Clock& clock, const Deadline& deadline);

 private:
  std::string path_;
  std::shared_ptr<const int> device_, queue_;  ///< open files
};

/// The turn of this process on a device on which one program measures at a time; it ends when the
/// value is destroyed. TryLater if another program holds the device for a minute.
Result<DeviceTurn> turn_on(const runtime::Device& device, const Clock& clock);

}  // namespace tw::tuner
