// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Calibration is the measured description of one processor: its ports, latencies and bandwidths.
// It never changes, and its hash covers every field, so databases merge as sets of calibrations. If
// a device has several calibrations, the newest is used. Values are thread-safe; functions that
// take a Store are not.
//
//   TW_RETURN_IF_ERROR(add_calibration(store, {target, device, to_string(machine), "0.3.0"}));
//   TW_TRY(std::optional<Calibration> newest, newest_calibration(store, target, device));

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tw::db {

class Store;
struct AppendSummary;

struct Calibration {
  std::string target;           ///< canonical Target text, which determines the vector width
  std::string device;           ///< text of the device, as in Record::device
  std::string machine;          ///< to_string(Machine)
  std::string program_version;  ///< version of the program that measured
  /// Number by which calibrations of a target and device are ordered: the newest has the highest
  /// generation. Among equal generations, the newest has the highest `created_ms`, then the highest
  /// hash. add_calibration() sets the generation to one more than the highest that the database has
  /// for this target and device. So the order is right even if the clocks of machines disagree.
  int64_t generation = 0;
  int64_t created_ms = 0;  ///< time of the measurement, in ms since 1970
  std::string hash;        ///< SHA-256 of canonical_text() in hex, derived by seal()

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

std::string canonical_text(const Calibration& calibration);

/// Returns the calibration with its member `hash` set.
Calibration seal(Calibration calibration);

/// Ok if the hash of the calibration is right, its target is a canonical text, and its machine is a
/// calibrated processor whose numbers are possible; otherwise Invalid. A GPU is Invalid.
Status check(const Calibration& calibration);

/// Returns the calibration as one line of JSON without a line feed. Requires: check(calibration) is
/// Ok.
std::string to_json(const Calibration& calibration);

/// Parses a line that to_json() wrote. Fails with Invalid if the line has another form. Takes the
/// hash from the line without checking it: call check() on the result.
Result<Calibration> calibration_from_json(std::string_view line);

/// Appends calibrations as Store::append() appends records. Requires: the hashes of the
/// calibrations are set, for example because they come from another database.
Result<AppendSummary> append_calibrations(Store& store, std::span<const Calibration> calibrations);
/// Sets the generation and the hash of a calibration, and adds it as the newest calibration of its
/// target and device, in one durable transaction. Fails with Invalid if check() then fails, and
/// with TryLater if another process holds the database for writing too long.
Status add_calibration(Store& store, Calibration calibration);
/// Returns the newest calibration of a device for a target; nullopt if there is none.
Result<std::optional<Calibration>> newest_calibration(Store& store, const std::string& target,
                                                      const std::string& device);

using VisitCalibration = std::function<Status(const Calibration&)>;
/// Visits all calibrations that agree with their hashes, sorted by target, then by device, and for
/// one device from the newest to the oldest. At most 256 calibrations are in memory at a time.
/// Stops at the first error of `visit` and returns this error.
Status for_each_calibration(Store& store, const VisitCalibration& visit);
/// Returns all calibrations that for_each_calibration() visits.
Result<std::vector<Calibration>> calibrations(Store& store);

}  // namespace tw::db
