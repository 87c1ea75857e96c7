// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: a form of check() for records whose hashes have just been computed. Thread-safe.

#include "base/result.h"
#include "db/record.h"

namespace tw::db {

/// Does the same as check(), but does not check the hashes of the record, or that its workload is
/// not empty and its schedule begins with "tw1".
Status check_facts(const Record& record);

}  // namespace tw::db
