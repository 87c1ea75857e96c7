// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes the demand that a network leaves (db/demand.h). It has all kernels of the network's plan,
// even those that were measured, since other runs may find better ones. A pure function;
// thread-safe.

#include <cstdint>
#include <string>

#include "base/target.h"
#include "db/demand.h"
#include "tuner/network/assemble.h"

namespace tw::tuner {

/// The demand of a planned network. `source` identifies the network (db::Demand::source), and
/// `name` is for people. It has no kernels if `planned.uses` is empty.
db::Demand demand_of(const PlannedNetwork& planned, const std::string& source,
                     const std::string& name, const Target& target, int threads, double most_error,
                     int64_t now_ms);

}  // namespace tw::tuner
