// SPDX-License-Identifier: Apache-2.0
#include "bench/throughput.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "db/store.h"
#include "tools/reports/report.h"
#include "tuner/processes/scratch.h"

namespace tw::bench {

namespace {

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

double Total::per_second() const { return share(static_cast<double>(candidates), elapsed_s); }
double Total::working_share() const { return share(working_s, elapsed_s); }

Result<Throughput> measure_throughput(const Item& item, const Target& target,
                                      const tuner::TuneOptions& options,
                                      const tuner::Environment& environment,
                                      const tuner::OnProgress& on_progress) {
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY(db::Store store, db::Store::open(scratch.path() + "/bench.db", db::OpenMode::ReadWrite));
  TW_TRY(const tuner::Tuned tuned,
         tuner::tune(item.workload, target, options, store, environment, on_progress));
  return Throughput{item.name, item.workload.key(), std::string(tuner::to_string(tuned.ended)),
                    options.threads, tuned.progress};
}

Total total_of(const std::vector<Throughput>& results) {
  Total total;
  for (const Throughput& r : results) {
    total.elapsed_s += r.progress.elapsed_s;
    total.working_s += r.progress.working_s;
    for (const auto& [status, count] : r.progress.trials) {
      total.trials[status] += count;
      total.candidates += count;
    }
  }
  return total;
}

nlohmann::json as_json(const std::vector<Throughput>& results) {
  const Total total = total_of(results);
  nlohmann::json json = {{"schema_version", results_schema_version},
                         {"total",
                          {{"elapsed_s", total.elapsed_s},
                           {"trials", total.trials},
                           {"candidates_per_s", total.per_second()},
                           {"working_share", total.working_share()}}},
                         {"throughput", nlohmann::json::array()}};
  for (const Throughput& r : results) {
    const Total of = total_of({r});
    json["throughput"].push_back({{"name", r.name},
                                  {"workload", r.workload},
                                  {"threads", r.threads},
                                  {"ended", r.ended},
                                  {"elapsed_s", r.progress.elapsed_s},
                                  {"trials", r.progress.trials},
                                  {"candidates_per_s", of.per_second()},
                                  {"working_share", of.working_share()},
                                  {"best_us", r.progress.best_ns / 1000},
                                  {"model", r.progress.model}});
  }
  return json;
}

std::string as_table(const std::vector<Throughput>& results) {
  tools::Table table;
  table.header = {"workload", "threads",   "seconds", "candidates",
                  "a second", "% working", "statuses"};
  for (const Throughput& r : results) {
    const Total of = total_of({r});
    table.rows.push_back(
        {r.name, std::to_string(r.threads), fmt::format("{:.1f}", r.progress.elapsed_s),
         std::to_string(of.candidates), fmt::format("{:.1f}", of.per_second()),
         fmt::format("{:.0f}", 100 * of.working_share()), tools::show_counts(r.progress.trials)});
  }
  const Total total = total_of(results);
  if (results.size() > 1)
    table.rows.push_back(
        {"total", "", fmt::format("{:.1f}", total.elapsed_s), std::to_string(total.candidates),
         fmt::format("{:.1f}", total.per_second()),
         fmt::format("{:.0f}", 100 * total.working_share()), tools::show_counts(total.trials)});
  return tools::as_text(table);
}

}  // namespace tw::bench
