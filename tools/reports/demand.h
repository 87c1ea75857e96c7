// SPDX-License-Identifier: Apache-2.0
#pragma once
// Demand (db/demand.h) as tables and JSON, and the leaving of it by the verbs that plan and tune.
// Not thread-safe.

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

/// Number of kernels for which the trials have a best one.
int64_t count_measured(const db::Demand& demand);
/// The kernels of a demand, those first that are expected to save most.
std::vector<const db::WantedKernel*> by_saving(const db::Demand& demand);

/// One row for each demand: its name, threads, kernels and how many of them are measured, the time
/// of a call with the kernels that it used and with the best ones, and the gain to be expected.
Table table_of(const std::vector<db::Demand>& demands);
/// The same as numbers without units, with target and device.
Table sheet_of(const std::vector<db::Demand>& demands);
/// One row for each kernel of a demand, by_saving().
Table kernels_table(const db::Demand& demand);
/// The demand without its kernels: what times_of(), expected_saving() and count_measured() say.
nlohmann::json summary_json(const db::Demand& demand);
/// The same with the kernels, by_saving().
nlohmann::json as_json(const db::Demand& demand);

/// The note about a database without demand, which says how it is left.
std::string nobody_wants(const std::string& shown_database);

/// Keeps demands for `tune --demand` on any machine. Where the store takes none, prints a note.
void leave_demand(db::Store& store, const std::vector<db::Demand>& demands);
/// The same in the database of the flags, for verbs that only read: a file that is not there is not
/// made, and one that may only be read stays as it is.
void leave_demand_if_there(const PlaceFlags& flags, const Surroundings& here,
                           const std::vector<db::Demand>& demands);

}  // namespace tw::tools
