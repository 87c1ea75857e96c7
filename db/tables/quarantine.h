// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the table of quarantined lines. These are lines of input, or rows of a migrated
// database, that are neither a valid record nor a valid calibration.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/store.h"

namespace tw::db {

/// Largest number of lines in the table.
inline constexpr int64_t most_quarantined = 10'000;

/// Adds lines until the table has most_quarantined lines; all further lines are not stored.
/// Requires: a write transaction.
Status add_quarantined(Connection& connection, std::span<const Quarantined> bad);

}  // namespace tw::db
