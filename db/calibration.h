// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Calibration says what was measured of one device: an immutable fact, whose hash covers every
// field, so that databases merge as sets. The newest one of a device is used. Plain data;
// everything here is thread-safe.
//
//   TW_RETURN_IF_ERROR(store.calibrate({target, device, to_string(machine), "0.3.0"}));
//   TW_TRY(std::optional<Calibration> newest, store.calibration(target, device));

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::db {

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

}  // namespace tw::db
