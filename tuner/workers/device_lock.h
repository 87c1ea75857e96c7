// SPDX-License-Identifier: Apache-2.0
#pragma once
// One user of a device at a time: two tuners on one machine that measured at once would measure
// each other, whoever started them. A lock is two files in a directory that all users share; Linux
// releases what a killed process held.
//
//   TW_TRY(DeviceLock lock, DeviceLock::open(places_of_all, "cuda"));
//   TW_TRY(const DeviceTurn turn, lock.take(clock, {clock() + patience_ns}));
//   ... measure; the turn ends with its value
//
// Who waits is next: a tuner that gives the device back and wants it again queues behind. Not
// thread-safe; each process, or part of one, has a lock of its own.

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
  /// Makes the files where they are not there yet. Environment when it cannot, or when there is
  /// something else in their place.
  static Result<DeviceLock> open(const std::string& directory, std::string_view device);

  /// TryLater, saying who to look for, when the deadline passes first; Interrupted when it is
  /// cancelled.
  Result<DeviceTurn> take(const Clock& clock, const Deadline& deadline);

 private:
  std::string path_;
  std::shared_ptr<const int> device_, queue_;  ///< open files
};

/// The turn of this process on a device, where one program measures at a time; it ends with the
/// value. TryLater: another program has had the device for a minute.
Result<DeviceTurn> turn_on(const runtime::Device& device, const Clock& clock);

}  // namespace tw::tuner
