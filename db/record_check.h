// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: what check() asks of a record but for its hashes, for records whose hashes were
// derived anew. Thread-safe.

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

/// Ok where the record may be a fact, whatever its hashes say.
Status check_facts(const Record& record);

}  // namespace tw::db
