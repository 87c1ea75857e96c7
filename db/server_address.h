// SPDX-License-Identifier: Apache-2.0
#pragma once
// Databases on a PostgreSQL server are named by an address as libpq reads it,
// `postgresql://user@host:port/database?option=value`. One with a password is refused: an address
// is visible in the list of processes and in what programs print. Free functions; thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::db {

/// The name is an address; any other name is the path of a file.
bool is_server(std::string_view name);

/// Ok for an address that can be read in one way only and holds no password, else Usage. The error
/// repeats nothing of the address. Requires: is_server(address).
Status check_address(std::string_view address);

/// The name of a database for messages and reports: an address that check_address() refuses may
/// hold a password, so that only its beginning is shown.
std::string shown_database(const std::string& name);

}  // namespace tw::db
