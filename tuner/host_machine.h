// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the machine description of the processor that a run tunes for: the calibration of this
// device in the database, or else the table's entry for the processor. A processor that is in no
// table is calibrated once, and the database keeps the result. A run never fails for lack of a
// calibration: it then uses the assumed machine.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/machine.h"
#include "base/result.h"
#include "base/target.h"
#include "db/store.h"

namespace tw::tuner {

/// Provenance of a calibration in the database.
struct Measurer {
  std::string program_version;
  int64_t now_ms = 0;  ///< wall-clock time; stored for provenance only
};

/// The target with the machine description that a run uses, and a line for people. The line says
/// that the machine was calibrated, why it could not be, or why the calibration was not stored; it
/// is empty if no calibration was needed.
struct HostMachine {
  Target target;
  std::string note;
};

/// Replaces the target's machine description. `device`, by which the database names the target's
/// device, keeps the text that the system reports.
Target with_machine(Target target, tw::Machine machine);

/// The machine of the newest calibration that the database holds for the target and its device;
/// nullopt if there is none or it cannot be used.
std::optional<tw::Machine> known_machine(db::Store& store, const Target& target);

/// The target as a run with this database would tune for it without calibrating: with the machine
/// of the newest calibration, if there is one. GPU targets are returned unchanged.
Target with_known_machine(db::Store& store, Target target);

/// Stores the machine that was measured on the target's device.
Status store_calibration(db::Store& store, const Target& target, const tw::Machine& machine,
                         const Measurer& measurer);

/// Chooses the machine for a run on the target's processor. `calibrate` measures the processor; it
/// is called at most once, and only if the machine needs a calibration. GPU targets are returned
/// unchanged.
HostMachine choose_machine(db::Store& store, const Target& target,
                           const std::function<Result<tw::Machine>()>& calibrate,
                           const Measurer& measurer);

/// The name of a machine in records: "Zen 4; table; " followed by 16 hex digits of the hash of its
/// description's text.
std::string provenance(const tw::Machine& machine);

}  // namespace tw::tuner
