// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Calibration is the measured description of one device: ports, latencies, bandwidths. It never
// changes, and its hash covers every field, so databases merge as sets of calibrations. Of several
// calibrations of a device the newest is used. Values are thread-safe; functions that take a Store
// are not.
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
  /// The newest calibration of a target and device is the one with the highest generation; of equal
  /// generations, the one with the highest `created_ms`, then that with the highest hash. It is
  /// found even if the clocks of machines disagree, because add_calibration() sets the generation
  /// to one more than the highest that the database has for this target and device.
  int64_t generation = 0;
  int64_t created_ms = 0;  ///< time of the measurement, in ms since 1970
  std::string hash;        ///< SHA-256 of canonical_text() in hex, derived by seal()

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

std::string canonical_text(const Calibration& calibration);

/// Returns the calibration with its member `hash` set.
Calibration seal(Calibration calibration);

/// Ok if the hash of the calibration is right and its numbers are possible for a processor;
/// otherwise Invalid.
Status check(const Calibration& calibration);

/// Returns the calibration as one line of JSON without a line feed. Requires: check(calibration) is
/// Ok.
std::string to_json(const Calibration& calibration);

/// Parses a line that to_json() wrote; Invalid if the line has another form. Takes the hash from
/// the line without checking it: call check() on the result.
Result<Calibration> calibration_from_json(std::string_view line);

/// Appends calibrations whose hashes are set, for example those of another database, as
/// Store::append() appends records.
Result<AppendSummary> append_calibrations(Store& store, std::span<const Calibration> calibrations);
/// Sets the generation and the hash of a calibration, and adds it as the newest calibration of its
/// target and device, in one durable transaction. Invalid if check() then fails; TryLater if
/// another process holds the database for writing too long.
Status add_calibration(Store& store, Calibration calibration);
/// Returns the newest calibration of a device for a target; nullopt if there is none.
Result<std::optional<Calibration>> newest_calibration(Store& store, const std::string& target,
                                                      const std::string& device);

using VisitCalibration = std::function<Status(const Calibration&)>;
/// Visits all calibrations that agree with their hashes. They are sorted by target, then by device,
/// and those of one device from the newest to the oldest. They are read some at a time, so that
/// memory does not grow with their number. Stops at the first error of `visit` and returns it.
Status for_each_calibration(Store& store, const VisitCalibration& visit);
/// Returns all calibrations that for_each_calibration() visits.
Result<std::vector<Calibration>> calibrations(Store& store);

}  // namespace tw::db
