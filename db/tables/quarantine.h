// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the table of lines that are no facts.

#include <span>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/store.h"

namespace tw::db {

/// Keeps lines aside, as far as there is room. Requires: a transaction that writes.
Status add_quarantined(Connection& connection, std::span<const Quarantined> bad);

}  // namespace tw::db
