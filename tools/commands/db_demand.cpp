// SPDX-License-Identifier: Apache-2.0
// tilewright db demand: lists the kernels that networks and operators use, and the time that more
// tuning is expected to save.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "db/demand.h"
#include "tools/flags/db_flags.h"
#include "tools/reports/demand.h"
#include "tuner/targets.h"
#include "tuner/workers/device.h"

namespace tw::tools {
namespace {

Result<std::vector<db::Demand>> demands_of(const DbFlags& f, const Surroundings& here,
                                           db::Store& store) {
  db::DemandFilter filter;
  if (f.entry.empty()) filter.limit = f.limit;
  if (!f.target.empty()) {
    TW_TRY(const tuner::ChosenTarget chosen, tuner::chosen_target(f.target, here.environment));
    filter.target = chosen.target.to_string();
    if (f.device == "this") filter.device = tuner::device_text(chosen.target);
  } else if (f.device == "this") {
    filter.device = tuner::device_text(host_target());
  }
  if (!f.device.empty() && f.device != "this") filter.device = f.device;
  return db::demands(store, filter);
}

Result<db::Demand> find_demand(const std::vector<db::Demand>& demands, const std::string& prefix) {
  std::vector<const db::Demand*> found;
  for (const db::Demand& demand : demands)
    if (demand.hash.starts_with(prefix)) found.push_back(&demand);
  if (found.size() == 1) return *found.front();
  return fail(ErrorCode::Usage,
              fmt::format("[demand] --entry {}: {} of the {} hashes begin so, one was expected: "
                          "look with `db demand --limit 0`",
                          prefix, found.size(), demands.size()));
}

Status print_demands(const DbFlags& f, const Surroundings& here,
                     const std::vector<db::Demand>& demands) {
  if (f.format == Format::Csv) return print_csv(sheet_of(demands));
  if (f.format == Format::Table) return print(as_text(table_of(demands), here));
  nlohmann::json list = nlohmann::json::array();
  for (const db::Demand& demand : demands) list.push_back(as_json(demand));
  return print_json("db demand", {{"demands", list}});
}

Status print_entry(const DbFlags& f, const Surroundings& here, const db::Demand& demand) {
  if (f.format != Format::Table) return print_demands(f, here, {demand});
  return print(as_text(table_of({demand}), here) + "\n" + as_text(kernels_table(demand), here));
}

}  // namespace

Result<int> demand_command(const DbFlags& f, const Surroundings& here) {
  if (f.drop && f.entry.empty())
    return fail(ErrorCode::Usage, "[demand] --drop forgets one demand: name it by --entry HASH");
  TW_TRY(db::Store store,
         open_named(f, here, f.drop ? db::OpenMode::Update : db::OpenMode::ReadOnly));
  TW_TRY(const std::vector<db::Demand> demands, demands_of(f, here, store));
  if (f.entry.empty()) {
    if (demands.empty() && f.target.empty() && f.device.empty()) note(nobody_wants(store.path()));
    TW_RETURN_IF_ERROR(print_demands(f, here, demands));
    return 0;
  }
  TW_TRY(const db::Demand demand, find_demand(demands, f.entry));
  if (f.drop) {
    TW_TRY(const bool is_dropped, db::drop_demand(store, demand.hash));
    if (f.format == Format::Json)
      TW_RETURN_IF_ERROR(print_json("db demand", {{"dropped", is_dropped ? 1 : 0}}));
    else
      TW_RETURN_IF_ERROR(print(fmt::format("the demand of {} is forgotten\n", demand.name)));
    return 0;
  }
  TW_RETURN_IF_ERROR(print_entry(f, here, demand));
  return 0;
}

}  // namespace tw::tools
