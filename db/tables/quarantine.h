// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the table of lines that are no facts.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/store.h"

namespace tw::db {

/// Most lines that are kept aside.
inline constexpr int64_t most_quarantined = 10'000;

/// Keeps lines aside, as far as there is room. Requires: a transaction that writes.
Status add_quarantined(Connection& connection, std::span<const Quarantined> bad);

}  // namespace tw::db
