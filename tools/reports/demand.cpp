// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/demand.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "db/demand.h"
#include "db/server_address.h"
#include "db/workload_text.h"
#include "tuner/demand.h"

namespace tw::tools {
namespace {

/// Number of digits of a hash that are shown to people.
constexpr size_t shown_digits = 16;

std::string shown_time(double ns) { return ns > 0 ? time_text(ns) : "-"; }

std::string shown_gain(const tuner::DemandTimes& times) {
  return times.used_ns > 0 ? show_share(1 - times.best_ns / times.used_ns) : "-";
}

/// True if the process may write to the database file; false if the file is missing. Always true
/// for a server, because only the server knows the permissions.
bool may_be_written(const std::string& database) {
  return db::is_server(database) || ::access(database.c_str(), W_OK) == 0;
}

}  // namespace

int64_t count_measured(const db::Demand& demand) {
  return std::ranges::count_if(demand.kernels,
                               [](const db::WantedKernel& kernel) { return kernel.best_ns > 0; });
}

std::vector<const db::WantedKernel*> by_saving(const db::Demand& demand) {
  std::vector<std::pair<double, const db::WantedKernel*>> savings;
  for (const db::WantedKernel& kernel : demand.kernels)
    savings.emplace_back(tuner::expected_saving(kernel, demand), &kernel);
  std::ranges::stable_sort(savings, std::greater(),
                           [](const auto& saving) { return saving.first; });
  std::vector<const db::WantedKernel*> kernels;
  for (const auto& [saving, kernel] : savings) kernels.push_back(kernel);
  return kernels;
}

Table table_of(const std::vector<db::Demand>& demands) {
  Table table{{"demand", "threads", "kernels", "measured", "used", "best", "gained", "expected",
               "asked", "name"},
              {}};
  for (const db::Demand& demand : demands) {
    const tuner::DemandTimes times = tuner::times_of(demand);
    table.rows.push_back(
        {demand.hash.substr(0, shown_digits), std::to_string(demand.threads),
         std::to_string(demand.kernels.size()), std::to_string(count_measured(demand)),
         shown_time(times.used_ns), shown_time(times.best_ns), shown_gain(times),
         show_share(tuner::expected_saving(demand)), std::to_string(demand.asked), demand.name});
  }
  return table;
}

Table sheet_of(const std::vector<db::Demand>& demands) {
  Table sheet{{"demand", "name", "target", "device", "threads", "kernels", "measured_kernels",
               "first_ns", "latency_ns", "used_ns", "best_ns", "measured_share", "expected_saving",
               "first_ms", "asked_ms", "asked"},
              {}};
  for (const db::Demand& demand : demands) {
    const tuner::DemandTimes times = tuner::times_of(demand);
    sheet.rows.push_back({demand.hash, demand.name, demand.target, demand.device,
                          std::to_string(demand.threads), std::to_string(demand.kernels.size()),
                          std::to_string(count_measured(demand)), format_double(demand.first_ns),
                          format_double(demand.latency_ns), format_double(times.used_ns),
                          format_double(times.best_ns), format_double(times.measured_share),
                          format_double(tuner::expected_saving(demand)),
                          std::to_string(demand.first_ms), std::to_string(demand.asked_ms),
                          std::to_string(demand.asked)});
  }
  return sheet;
}

Table kernels_table(const db::Demand& demand) {
  Table table{{"runs", "trials", "expected before", "used", "best", "expected", "kernel"}, {}};
  for (const db::WantedKernel* kernel : by_saving(demand))
    table.rows.push_back({format_double(kernel->runs), std::to_string(kernel->trials),
                          shown_time(kernel->latency_ns), shown_time(kernel->used_ns),
                          shown_time(kernel->best_ns),
                          show_share(tuner::expected_saving(*kernel, demand)),
                          db::workload_text(db::WorkloadName{kernel->workload, kernel->layouts})});
  return table;
}

nlohmann::json summary_json(const db::Demand& demand) {
  const tuner::DemandTimes times = tuner::times_of(demand);
  return {{"demand", demand.hash},
          {"name", demand.name},
          {"target", demand.target},
          {"device", demand.device},
          {"threads", demand.threads},
          {"codegen_abi", demand.codegen_abi},
          {"first_ns", demand.first_ns},
          {"latency_ns", demand.latency_ns},
          {"used_ns", times.used_ns},
          {"best_ns", times.best_ns},
          {"measured_share", times.measured_share},
          {"expected_saving", tuner::expected_saving(demand)},
          {"wanted_kernels", demand.kernels.size()},
          {"measured_kernels", count_measured(demand)},
          {"first_ms", demand.first_ms},
          {"asked_ms", demand.asked_ms},
          {"asked", demand.asked}};
}

nlohmann::json as_json(const db::Demand& demand) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const db::WantedKernel* kernel : by_saving(demand))
    kernels.push_back({{"workload", kernel->workload},
                       {"layouts", kernel->layouts},
                       {"op", kernel->op},
                       {"runs", kernel->runs},
                       {"latency_ns", kernel->latency_ns},
                       {"is_measured", kernel->is_measured},
                       {"trials", kernel->trials},
                       {"used_ns", kernel->used_ns},
                       {"best_ns", kernel->best_ns},
                       {"schedule", kernel->schedule},
                       {"expected_saving", tuner::expected_saving(*kernel, demand)}});
  nlohmann::json json = summary_json(demand);
  json["kernels"] = std::move(kernels);
  return json;
}

std::string nobody_wants(const std::string& shown_database) {
  return fmt::format("nobody has left a demand in {}: `tune --model FILE --effort none` leaves one",
                     shown_database);
}

void leave_demand(db::Store& store, const std::vector<db::Demand>& demands) {
  for (const db::Demand& demand : demands)
    if (const Status kept = db::keep_demand(store, demand); !kept)
      return note(
          fmt::format("the demand of {} is not kept: {}", demand.name, kept.error().message));
}

void leave_demand_if_there(const PlaceFlags& flags, const Surroundings& here,
                           const std::vector<db::Demand>& demands) {
  if (demands.empty() || !may_be_written(database_path(flags, here))) return;
  Result<db::Store> store = open_database(flags, here, db::OpenMode::Update);
  if (!store)
    return note(fmt::format("the demand of {} is not kept: {}", demands.front().name,
                            store.error().message));
  leave_demand(*store, demands);
}

}  // namespace tw::tools
