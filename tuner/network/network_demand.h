// SPDX-License-Identifier: Apache-2.0
#pragma once
// The demand that a network leaves (db/demand.h): the kernels of its plan, also those that were
// measured, since others may find better ones. A pure function; thread-safe.

#include <cstdint>
#include <string>

#include "base/target.h"
#include "db/demand.h"
#include "tuner/network/assemble.h"

namespace tw::tuner {

/// `source` names the network (db::Demand::source), `name` is for people. Without kernels where
/// `planned.uses` has none.
db::Demand demand_of(const PlannedNetwork& planned, const std::string& source,
                     const std::string& name, const Target& target, int threads, double most_error,
                     int64_t now_ms);

}  // namespace tw::tuner
