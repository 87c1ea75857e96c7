// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the machine description (base/machine.h) of the processor that a run tunes for. If the
// database has a calibration of this device, the calibration is used; otherwise the entry for the
// processor in the table of known processors is used. A processor that is not in the table is
// calibrated once, and the database keeps the result. If the calibration fails, the run goes on
// with assumed numbers.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/machine.h"
#include "base/result.h"
#include "base/target.h"
#include "db/store.h"

namespace tw::tuner {

/// The program that makes a calibration, and the time. The database stores both with the
/// calibration.
struct Measurer {
  std::string program_version;
  int64_t now_ms = 0;  ///< wall-clock time at which the calibration is stored
};

/// The target with the machine description that a run uses, and a note for people. The note says
/// that the machine was calibrated, why it could not be calibrated, or why the calibration was not
/// stored. The note is empty if no calibration was needed.
struct HostMachine {
  Target target;
  std::string note;
};

/// Returns the target with another machine description. The device keeps its name: Target::device,
/// the text by which the database names the device, is set to the text for the old description, so
/// that records are stored under the same device as before.
Target with_machine(Target target, tw::Machine machine);

/// Returns the machine of the newest calibration that the database holds for the target and its
/// device. Returns nullopt if there is no calibration, if the database cannot be read, or if this
/// program cannot use the calibration, for instance because it lacks numbers.
std::optional<tw::Machine> known_machine(db::Store& store, const Target& target);

/// Returns the target with the machine of known_machine(), or the target as it is if there is none.
/// Nothing is calibrated. GPU targets are returned unchanged.
Target with_known_machine(db::Store& store, Target target);

/// Stores the machine as a calibration of the target's device. Fails with the errors of
/// db::add_calibration().
Status store_calibration(db::Store& store, const Target& target, const tw::Machine& machine,
                         const Measurer& measurer);

/// Chooses the machine for a run on the target's processor. If neither the table nor the database
/// has the processor's numbers, calls `calibrate` once, which measures the processor, and stores
/// its result together with `measurer`. GPU targets are returned unchanged.
HostMachine choose_machine(db::Store& store, const Target& target,
                           const std::function<Result<tw::Machine>()>& calibrate,
                           const Measurer& measurer);

/// Returns the text by which records name the machine: its name, the origin of its numbers, and the
/// first 16 hex digits of the SHA-256 of its description, for example "Zen 4; table;
/// 0f3a9c52d1e7b846".
std::string provenance(const tw::Machine& machine);

}  // namespace tw::tuner
