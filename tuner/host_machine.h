// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses the description of the processor that a run tunes for. It is the calibration that the
// database has of this device, else the table's entry for the processor. A processor that is in no
// table is calibrated once, and the result is kept in the database. A run never fails for lack of a
// calibration: it uses the assumed machine.

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
  int64_t now_ms = 0;  ///< wall clock: provenance only
};

/// The target with the machine that a run uses, and one line for a person: that the machine was
/// calibrated, or why it could not be or the calibration was not stored; empty where neither is so.
struct HostMachine {
  Target target;
  std::string note;
};

/// The same target and device, tuned for that machine: what the database calls the device stays
/// what the system reports.
Target with_machine(Target target, tw::Machine machine);

/// The machine of the newest calibration that the database holds for the target and its device;
/// nullopt where there is none that can be used.
std::optional<tw::Machine> known_machine(db::Store& store, const Target& target);

/// The target as a run with this database would tune for it, if it measured nothing: with the
/// machine of the newest calibration, where there is one. GPUs are as their drivers say.
Target with_known_machine(db::Store& store, Target target);

/// Stores what was measured of the target's device.
Status store_calibration(db::Store& store, const Target& target, const tw::Machine& machine,
                         const Measurer& measurer);

/// Chooses the machine for a run on the target's processor. `calibrate` measures it, and is called
/// at most once, where the machine needs it. GPUs are as their drivers say.
HostMachine choose_machine(db::Store& store, const Target& target,
                           const std::function<Result<tw::Machine>()>& calibrate,
                           const Measurer& measurer);

/// Name of a machine in records: "Zen 4; table; " and 16 hex digits of the hash of its text.
std::string provenance(const tw::Machine& machine);

}  // namespace tw::tuner
