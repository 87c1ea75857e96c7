// SPDX-License-Identifier: Apache-2.0
#pragma once
// Demand (db/demand.h) as tables and JSON, and functions by which the verbs that plan and tune
// store their demand. Not thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "db/demand.h"
#include "db/store.h"
#include "tools/places.h"
#include "tools/reports/report.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Number of kernels in the demand that the database has measured.
int64_t count_measured(const db::Demand& demand);
/// The kernels of a demand, sorted by the time that more tuning is expected to save, largest first.
std::vector<const db::WantedKernel*> by_saving(const db::Demand& demand);

/// One row for each demand: its name and threads, the number of its kernels and how many of these
/// are measured, and the gain that more tuning is expected to bring. The row also has the time of a
/// call with the kernels that were used when the demand was stored, and with the kernels that are
/// the best now.
Table table_of(const std::vector<db::Demand>& demands);
/// The demands as a table to be read by programs: numbers have no units, and there are columns for
/// target and device.
Table sheet_of(const std::vector<db::Demand>& demands);
/// One row for each kernel of a demand, in the order of by_saving().
Table kernels_table(const db::Demand& demand);
/// The demand as JSON without its kernels, with the results of times_of(), expected_saving() and
/// count_measured().
nlohmann::json summary_json(const db::Demand& demand);
/// summary_json() with the field "kernels", in the order of by_saving().
nlohmann::json as_json(const db::Demand& demand);

/// The note for a database that has no demands. It says which command stores one.
std::string nobody_wants(const std::string& shown_database);

/// Stores demands, which `tune --demand` can work off on any machine. If the store refuses a
/// demand, prints a note and stores no further ones.
void leave_demand(db::Store& store, const std::vector<db::Demand>& demands);
/// Stores demands in the database of the flags. It is for verbs that otherwise only read: a missing
/// database file is not created, and a read-only file is not changed.
void leave_demand_if_there(const PlaceFlags& flags, const Surroundings& here,
                           const std::vector<db::Demand>& demands);

}  // namespace tw::tools
