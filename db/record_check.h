// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: check() for records whose hashes have just been computed, and so need no check.
// Thread-safe.

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

/// As check(), but ignores the hashes of the record.
Status check_facts(const Record& record);

}  // namespace tw::db
