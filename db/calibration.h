// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Calibration says what was measured of one device: an immutable fact, whose hash covers every
// field, so that databases merge as sets. The newest one of a device is used. Values are
// thread-safe; functions over a Store are not, as it is not.
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
  std::string target;           ///< canonical Target text: what the vector width follows from
  std::string device;           ///< as a record's
  std::string machine;          ///< to_string(Machine)
  std::string program_version;  ///< of the program that measured
  /// One more than the highest that the database held for this target and device when it was
  /// added: the newest has the highest, whatever the clocks of several machines say.
  int64_t generation = 0;
  int64_t created_ms = 0;  ///< informative only
  std::string hash;        ///< SHA-256 of canonical_text() in hex, derived by seal()

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

std::string canonical_text(const Calibration& calibration);

/// Fills the hash.
Calibration seal(Calibration calibration);

/// Ok for a sealed calibration of a processor that can exist; otherwise Invalid.
Status check(const Calibration& calibration);

/// One line of JSON without a line feed. Requires: check(calibration), as to_json(Record).
std::string to_json(const Calibration& calibration);

/// The calibration of a line, its hash as the line states it; Invalid for any other line. Does not
/// check().
Result<Calibration> calibration_from_json(std::string_view line);

/// Appends sealed calibrations, such as those of another database, as Store::append() does records.
Result<AppendSummary> append_calibrations(Store& store, std::span<const Calibration> calibrations);
/// Adds a calibration as the newest of its target and device, in one durable transaction: sets
/// its generation and its hash. Invalid where check() then fails; TryLater as Store::append().
Status add_calibration(Store& store, Calibration calibration);
/// The newest calibration of a device for a target; nullopt where there is none.
Result<std::optional<Calibration>> newest_calibration(Store& store, const std::string& target,
                                                      const std::string& device);
/// Every calibration that agrees with its hash, of each device the newest first.
Result<std::vector<Calibration>> calibrations(Store& store);

}  // namespace tw::db
