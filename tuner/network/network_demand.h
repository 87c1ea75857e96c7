// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the demand of a network: the list of kernels that its plan uses, from which later runs tune
// them (db/demand.h). The demand has the measured kernels too, since later runs may find faster
// schedules. A pure function; thread-safe.

#include <cstdint>
#include <string>

#include "base/target.h"
#include "db/demand.h"
#include "tuner/network/assemble.h"

namespace tw::tuner {

/// The demand of a planned network. `source` identifies the network (db::Demand::source), and
/// `name` is shown to people. `most_error` is the largest error that each kernel may have. `now_ms`
/// is the wall-clock time. The demand has no kernels if `planned.uses` is empty.
db::Demand demand_of(const PlannedNetwork& planned, const std::string& source,
                     const std::string& name, const Target& target, int threads, double most_error,
                     int64_t now_ms);

}  // namespace tw::tuner
