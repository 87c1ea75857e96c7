// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gives a device to one tuner at a time, because two tuners that measure on a device at the same
// time slow each other. The tuners may belong to different users. A lock is two files in a
// directory that all users share. Linux releases the lock of a process that is killed.
//
//   TW_TRY(DeviceLock lock, DeviceLock::open(places_of_all, "cuda"));
//   TW_TRY(const DeviceTurn turn, lock.take(clock, {clock() + patience_ns}));
//   ... measure; the turn ends with its value
//
// Tuners queue for the device: if a tuner gives the device back and asks for it again, a tuner that
// is waiting gets the device first. Not thread-safe; each process, or each part of a process that
// takes turns, opens a lock of its own.

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

/// Returns the name of the lock of a back end's device: "cuda" for device 0, "opencl-1" for device
/// 1.
std::string device_lock_name(const codegen::Backend& backend, int index);

class DeviceLock {
 public:
  /// Opens the lock files, and creates those that are missing. Fails with Environment if this is
  /// not possible, or if a name belongs to something that is no file.
  static Result<DeviceLock> open(const std::string& directory, std::string_view device);

  /// Waits for the device. Fails with TryLater if the deadline passes first; the message names the
  /// file by which to find the process that holds the device. Fails with Interrupted if the wait is
  /// cancelled, and with Environment if a file cannot be locked.
  Result<DeviceTurn> take(const Clock& clock, const Deadline& deadline);

 private:
  std::string path_;
  std::shared_ptr<const int> device_, queue_;  ///< open files
};

/// Waits for exclusive use of a GPU or another device with a back end, by the lock that all
/// programs on this machine share. Fails with TryLater if another program holds the device for a
/// minute.
Result<DeviceTurn> turn_on(const runtime::Device& device, const Clock& clock);

}  // namespace tw::tuner
