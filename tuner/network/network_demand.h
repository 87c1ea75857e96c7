// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the demand of a network: the list of kernels that its plan uses. Later runs tune these
// kernels (db/demand.h). The list includes kernels that were measured, since later runs may find
// faster schedules for them. A pure function; thread-safe.

#include <cstdint>
#include <string>

#include "base/target.h"
#include "db/demand.h"
#include "tuner/network/assemble.h"

namespace tw::tuner {

/// Returns the demand of a planned network. `source` identifies the network (db::Demand::source),
/// and `name` is shown to people. `most_error` is the largest error that each kernel may have.
/// `now_ms` is the wall-clock time. A kernel that several operators use is one entry, with the sum
/// of their runs. The demand has no kernels if `planned.uses` is empty.
db::Demand demand_of(const PlannedNetwork& planned, const std::string& source,
                     const std::string& name, const Target& target, int threads, double most_error,
                     int64_t now_ms);

}  // namespace tw::tuner
