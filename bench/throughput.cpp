// SPDX-License-Identifier: Apache-2.0
#include "bench/throughput.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "db/store.h"
#include "tools/report.h"
#include "tuner/scratch.h"

namespace tw::bench {
int64_t Throughput::candidates() const {
  int64_t all = 0;
  for (const auto& [status, count] : progress.trials) all += count;
  return all;
}

double Throughput::per_second() const {
  return progress.elapsed_s > 0 ? static_cast<double>(candidates()) / progress.elapsed_s : 0;
}

double Throughput::working_share() const {
  return progress.elapsed_s > 0 ? progress.working_s / progress.elapsed_s : 0;
}

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

nlohmann::json as_json(const std::vector<Throughput>& results) {
  nlohmann::json json = {{"schema_version", results_schema_version},
                         {"throughput", nlohmann::json::array()}};
  for (const Throughput& r : results)
    json["throughput"].push_back({{"name", r.name},
                                  {"workload", r.workload},
                                  {"threads", r.threads},
                                  {"ended", r.ended},
                                  {"elapsed_s", r.progress.elapsed_s},
                                  {"trials", r.progress.trials},
                                  {"candidates_per_s", r.per_second()},
                                  {"working_share", r.working_share()},
                                  {"best_us", r.progress.best_ns / 1000},
                                  {"model", r.progress.model}});
  return json;
}

std::string as_table(const std::vector<Throughput>& results) {
  tools::Table table;
  table.header = {"workload", "threads",   "seconds", "candidates",
                  "a second", "% working", "statuses"};
  for (const Throughput& r : results)
    table.rows.push_back(
        {r.name, std::to_string(r.threads), fmt::format("{:.1f}", r.progress.elapsed_s),
         std::to_string(r.candidates()), fmt::format("{:.1f}", r.per_second()),
         fmt::format("{:.0f}", 100 * r.working_share()), tools::show_counts(r.progress.trials)});
  return tools::as_text(table);
}

}  // namespace tw::bench
