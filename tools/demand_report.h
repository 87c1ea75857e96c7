// SPDX-License-Identifier: Apache-2.0
#pragma once
// Demand (db/demand.h) as tables and JSON, and the leaving of it by the verbs that plan and tune.
// Not thread-safe.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "db/demand.h"
#include "db/store.h"
#include "tools/report.h"
#include "tools/selection.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// One row for each demand: its name, threads, kernels and how many of them are measured, the time
/// of a call with the kernels that it used and with the best ones, and the gain to be expected.
Table table_of(const std::vector<db::Demand>& demands);
/// The same as numbers without units, with target and device.
Table sheet_of(const std::vector<db::Demand>& demands);
/// One row for each kernel of a demand, those first that are expected to save most.
Table kernels_table(const db::Demand& demand);
nlohmann::json as_json(const db::Demand& demand);

/// Keeps demands for `tune --demand` on any machine. Where the store takes none, prints a note.
void leave_demand(db::Store& store, const std::vector<db::Demand>& demands);
/// The same in the database of the flags, for verbs that only read: a file that is not there is not
/// made, and one that may only be read stays as it is.
void leave_demand_if_there(const PlaceFlags& flags, const Surroundings& here,
                           const std::vector<db::Demand>& demands);

}  // namespace tw::tools
