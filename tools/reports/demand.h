// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shows demands as tables and JSON, and stores the demands of verbs that plan or tune. A demand is
// a stored list of the kernels that a network or operator uses (db/demand.h). Not thread-safe.

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

/// Returns the number of the demand's kernels for which the database has a best record.
int64_t count_measured(const db::Demand& demand);
/// Returns the kernels of a demand, sorted by the time that more tuning is expected to save, the
/// largest first. The pointers point into `demand`.
std::vector<const db::WantedKernel*> by_saving(const db::Demand& demand);

/// Returns a table with a row for each demand: its name and threads, the number of its kernels and
/// the number of measured ones, and the share of a call's time that more tuning is expected to
/// save. A row also has two times of a call: with the kernels in use when the demand was stored,
/// and with the best kernels known now.
Table table_of(const std::vector<db::Demand>& demands);
/// Returns the demands as a table for programs to read: numbers have no units, and there are
/// columns for target and device.
Table sheet_of(const std::vector<db::Demand>& demands);
/// Returns a table with a row for each kernel of a demand, in the order of by_saving().
Table kernels_table(const db::Demand& demand);
/// Returns the demand as JSON without its kernels, with the results of tuner::times_of(),
/// tuner::expected_saving() and count_measured().
nlohmann::json summary_json(const db::Demand& demand);
/// Returns summary_json() with one more field, "kernels", which lists the kernels in the order of
/// by_saving().
nlohmann::json as_json(const db::Demand& demand);

/// Returns the note for a database that has no demands. The note names a command that stores a
/// demand.
std::string nobody_wants(const std::string& shown_database);

/// Stores demands, so that `tune --demand` can tune their kernels later, also on another machine.
/// If a demand cannot be stored, prints a note and stores none of the demands after it.
void leave_demand(db::Store& store, const std::vector<db::Demand>& demands);
/// Stores demands in the database of the flags. For verbs that otherwise only read: if the database
/// file is missing or this process may not write to it, does nothing and prints no note.
void leave_demand_if_there(const PlaceFlags& flags, const Surroundings& here,
                           const std::vector<db::Demand>& demands);

}  // namespace tw::tools
