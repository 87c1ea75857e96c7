// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Calibration is the measured description of one device. It is an immutable fact whose hash
// covers every field, so that databases merge as sets. The newest calibration of a device is used.
// Values are thread-safe; functions that take a Store are not.
//
//   TW_RETURN_IF_ERROR(add_calibration(store, {target, device, to_string(machine), "0.3.0"}));
//   TW_TRY(std::optional<Calibration> newest, newest_calibration(store, target, device));

#include <cstdint>
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
  /// One more than the highest generation that the database held for this target and device when
  /// the calibration was added. So the newest calibration has the highest number, even if the
  /// clocks of machines disagree.
  int64_t generation = 0;
  int64_t created_ms = 0;  ///< informative only
  std::string hash;        ///< SHA-256 of canonical_text() in hex, derived by seal()

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

std::string canonical_text(const Calibration& calibration);

/// The calibration with its hash filled in.
Calibration seal(Calibration calibration);

/// Ok if the calibration is sealed and its numbers are possible for a processor; otherwise Invalid.
Status check(const Calibration& calibration);

/// The calibration as one line of JSON without a line feed. Requires: check(calibration) is Ok.
std::string to_json(const Calibration& calibration);

/// Parses a line of to_json(). The hash is taken from the line and not checked: call check().
/// Invalid for any other line.
Result<Calibration> calibration_from_json(std::string_view line);

/// Appends sealed calibrations, for example those of another database, in the way in which
/// Store::append() appends records.
Result<AppendSummary> append_calibrations(Store& store, std::span<const Calibration> calibrations);
/// Sets the generation and the hash of a calibration and adds it as the newest of its target and
/// device, in one durable transaction. Invalid if check() then fails; TryLater as Store::append().
Status add_calibration(Store& store, Calibration calibration);
/// The newest calibration of a device for a target; nullopt if there is none.
Result<std::optional<Calibration>> newest_calibration(Store& store, const std::string& target,
                                                      const std::string& device);
/// All calibrations that agree with their hashes. Those of one device are sorted from newest to
/// oldest.
Result<std::vector<Calibration>> calibrations(Store& store);

}  // namespace tw::db
