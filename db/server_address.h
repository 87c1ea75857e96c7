// SPDX-License-Identifier: Apache-2.0
#pragma once
// The address of a database on a PostgreSQL server, in the form that libpq reads:
// `postgresql://user@host:port/database?option=value`. An address with a password is refused, since
// addresses are visible in the list of processes and in the output of programs. Free functions;
// thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::db {

/// True if the name of a database is the address of a server; any other name is the path of a file.
bool is_server(std::string_view name);

/// Ok if the address holds no password and can be read in one way only; otherwise Usage. The
/// message does not quote the address. Requires: is_server(address).
Status check_address(std::string_view address);

/// Returns the name of a database as messages and reports show it. If check_address() refuses the
/// address of a server, only its beginning is returned, because it may hold a password.
std::string shown_database(const std::string& name);

}  // namespace tw::db
