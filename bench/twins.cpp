// SPDX-License-Identifier: Apache-2.0
#include "bench/twins.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/affinity.h"
#include "bench/ours.h"
#include "dsl/random_inputs.h"
#include "tools/places.h"
#include "tools/reports/report.h"
#include "tuner/measure/sampling.h"

namespace tw::bench {
namespace {

constexpr double slowdown = 0.03;

tuner::Run run_of(Contender& contender) {
  return [&contender, call = int64_t{0}]() mutable { (void)contender.run(call++); };
}

tuner::Timer timer_of(Contender& contender, const tuner::Clock& clock) {
  return tuner::timed_by(clock, run_of(contender));
}

tuner::Timer slowed_timer_of(Contender& contender, double wait_ns, const tuner::Clock& clock) {
  return tuner::timed_by(clock,
                         [run = run_of(contender), wait = static_cast<int64_t>(wait_ns), &clock]() {
                           run();
                           for (const int64_t until = clock() + wait; clock() < until;) {
                           }
                         });
}

Result<TwinRow> compare_twins(const Call& call, const Item& item, int threads, int64_t comparisons,
                              db::Store& store) {
  const tuner::Clock& clock = call.environment.clock;
  TW_TRY(const Found found,
         find_kernel(item.workload, call.target, call.tuning(threads), Search::No, store,
                     call.environment, [](const tuner::Progress&) {}));
  TW_TRY(const dsl::Arrays inputs,
         dsl::random_inputs(item.workload.compute, static_cast<uint64_t>(call.flags.seed)));
  const Setup setup{.workload = &item.workload, .inputs = &inputs, .threads = threads};
  const auto pool = std::make_shared<runtime::ThreadPool>(runtime::PoolOptions{.threads = threads});
  TwinRow row;
  row.name = item.name;
  row.workload = item.workload.key();
  row.threads = threads;
  const PinnedHere pinned;
  runtime::ThreadPool here({.threads = 1});
  tuner::Gauge gauge(here, 1, clock);
  const auto watch = tuner::watch_processor(gauge, clock);
  for (int64_t i = 0; i < comparisons && !call.interrupted(); ++i) {
    TW_TRY(const auto one, make_ours(found.artifact, setup, Interface::Storage, pool));
    TW_TRY(const auto two, make_ours(found.artifact, setup, Interface::Storage, pool));
    TW_RETURN_IF_ERROR(one->run(0));
    TW_RETURN_IF_ERROR(two->run(0));
    const tuner::Samples samples = tuner::sample(timer_of(*one, clock), {}, clock, *watch);
    row.latency_ns = samples.estimate.min_ns;
    const tuner::Comparison equal = tuner::compare_abba(
        timer_of(*one, clock), timer_of(*two, clock), tuner::most_rounds, {}, *watch);
    row.equal_apart += equal.winner != tuner::Winner::Tie;
    row.equal_ratios.push_back(equal.ratio);
    const tuner::Comparison slowed = tuner::compare_abba(
        timer_of(*one, clock), slowed_timer_of(*two, slowdown * row.latency_ns, clock),
        tuner::most_rounds, {}, *watch);
    row.slowed_found += slowed.winner == tuner::Winner::A;
    row.slowed_ratios.push_back(slowed.ratio);
  }
  return row;
}

/// Returns a row with the comparisons of all rows.
TwinRow total(const std::vector<TwinRow>& rows) {
  TwinRow all;
  all.name = "all";
  for (const TwinRow& row : rows) {
    all.threads = row.threads;
    all.equal_ratios.insert(all.equal_ratios.end(), row.equal_ratios.begin(),
                            row.equal_ratios.end());
    all.slowed_ratios.insert(all.slowed_ratios.end(), row.slowed_ratios.begin(),
                             row.slowed_ratios.end());
    all.equal_apart += row.equal_apart;
    all.slowed_found += row.slowed_found;
  }
  return all;
}

nlohmann::json counts(const TwinRow& row) {
  return {{"equal", row.equal_ratios.size()},
          {"equal_apart", row.equal_apart},
          {"slowed", row.slowed_ratios.size()},
          {"slowed_found", row.slowed_found}};
}

}  // namespace

Result<int> run_twins(const Call& call) {
  TW_TRY(db::Store store,
         tools::open_database(call.flags.place, call.here, db::OpenMode::ReadOnly));
  std::vector<TwinRow> rows;
  const auto items = static_cast<int64_t>(call.items.size());
  for (const int threads : call.threads)
    for (int64_t i = 0; i < items && !call.interrupted(); ++i) {
      const int64_t share =
          (i + 1) * call.flags.comparisons / items - i * call.flags.comparisons / items;
      TW_TRY(TwinRow row,
             compare_twins(call, call.items[static_cast<size_t>(i)], threads, share, store));
      rows.push_back(std::move(row));
    }
  TW_RETURN_IF_ERROR(publish(call, as_json(rows), as_table(rows)));
  return call.interrupted() ? static_cast<int>(ErrorCode::Interrupted) : 0;
}

nlohmann::json as_json(const std::vector<TwinRow>& rows) {
  nlohmann::json json = {{"twins", nlohmann::json::array()}, {"summary", counts(total(rows))}};
  json["summary"].update({{"slowdown", slowdown}, {"rounds", tuner::most_rounds}});
  for (const TwinRow& row : rows) {
    json["twins"].push_back(counts(row));
    json["twins"].back().update({{"name", row.name},
                                 {"workload", row.workload},
                                 {"threads", row.threads},
                                 {"latency_us", row.latency_ns / 1000},
                                 {"equal_ratios", row.equal_ratios},
                                 {"slowed_ratios", row.slowed_ratios}});
  }
  return json;
}

std::string as_table(const std::vector<TwinRow>& rows) {
  tools::Table table;
  table.header = {"workload", "threads", "\u00b5s", "equal", "called apart", "slowed 3 %", "found"};
  const auto add = [&](const TwinRow& row) {
    table.rows.push_back({row.name, std::to_string(row.threads),
                          row.latency_ns > 0 ? fmt::format("{:.1f}", row.latency_ns / 1000) : "",
                          std::to_string(row.equal_ratios.size()), std::to_string(row.equal_apart),
                          std::to_string(row.slowed_ratios.size()),
                          std::to_string(row.slowed_found)});
  };
  for (const TwinRow& row : rows) add(row);
  add(total(rows));
  return tools::as_text(table);
}

}  // namespace tw::bench
