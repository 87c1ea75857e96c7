// SPDX-License-Identifier: Apache-2.0
#include "bench/databases/database.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/random.h"
#include "bench/report.h"
#include "db/maintenance.h"
#include "db/store.h"
#include "db/transfer.h"
#include "tools/reports/report.h"
#include "tools/web/overview.h"

namespace tw::bench {
namespace {

constexpr std::string_view bench_session = "bench";
constexpr int64_t records_of_workload = 64, filled_at_once = 4096;

/// Returns a sealed record with texts as long as in the records of a convolution on a processor.
db::Record synthetic_record(int64_t number) {
  const int64_t workload = number / records_of_workload;
  db::Record record;
  record.workload = fmt::format(
      "conv2d n=1 c={} h=56 w=56 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1 f32 fast",
      workload + 1);
  record.op = "conv2d";
  record.target = "x86-64-linux-avx-avx2-avx512f-avx512vl-avx512bw-avx512dq-fma-f16c";
  record.device = "Synthetic CPU; 8 cores; 32 KiB, 1 MiB, 32 MiB";
  record.toolchain = "Halide 21.0.0";
  record.schedule = fmt::format(
      "tw1\nset_layout in NCHW16c\nset_layout w OIHW16i32o\nset_layout out NCHW16c\n"
      "split out k 32\nsplit out k.1 16\nsplit out x {}\nsplit out c 16\n"
      "reorder out n k.0 y x.0 c.0 r s c.1 x.1 k.1.0 k.1.1\ncache_write out x.0\n"
      "vectorize out k.1.1\nunroll out k.1.0\nunroll out x.1\nunroll out s\nparallel out n\n"
      "parallel out k.0\nparallel out y\n",
      number + 1);
  record.configuration = fmt::format("out: cpu_tile k=32,16 x={} c=16 order=3", number + 1);
  record.machine = "zen4; table; 0123456789abcdef";
  record.latency_ns = 100'000 + static_cast<double>(number * 7919 % 50'000);
  record.latency_low_ns = record.latency_ns * 0.99;
  record.latency_high_ns = record.latency_ns * 1.01;
  for (int i = 0; i < 16; ++i)
    record.samples_ns.push_back(record.latency_ns * (0.99 + i * 0.00125));
  record.flops = 2.3e8;
  record.peak_gflops = 3'000;
  record.noise = 0.004;
  record.program_version = "0.1.0";
  record.host = "5d41402abc4b2a76";
  record.session = bench_session;
  record.seed = 1;
  record.trial = number;
  record.created_ms = 1'700'000'000'000 + number;
  return db::seal(std::move(record));
}

db::Key synthetic_key(const db::Record& record) {
  return {.workload = record.workload, .target = record.target, .device = record.device};
}

/// Appends the records `begin` to `end` - 1.
Status fill(db::Store& store, int64_t begin, int64_t end) {
  for (int64_t first = begin; first < end; first += filled_at_once) {
    std::vector<db::Record> batch;
    for (int64_t i = first; i < std::min(end, first + filled_at_once); ++i)
      batch.push_back(synthetic_record(i));
    TW_RETURN_IF_ERROR(store.append(batch));
  }
  return {};
}

/// Opens the database, fills it if it is empty, and returns its counts.
Result<db::StoreInfo> filled(const std::string& path, int64_t records) {
  TW_TRY(db::Store store, db::Store::open(path, db::OpenMode::ReadWrite));
  TW_TRY(const std::vector<db::Record> any, store.query({.limit = 1}));
  if (any.empty()) TW_RETURN_IF_ERROR(fill(store, 0, records));
  if (!any.empty() && any[0].session != bench_session)
    return fail(ErrorCode::Usage,
                fmt::format("[bench] --database {} holds records of its own; an empty database was "
                            "expected, or one that --database has filled",
                            path));
  return store.info();
}

/// Calls `work` once in each round, and returns the times of the calls in ns, sorted.
Result<std::vector<double>> timed(int64_t rounds, const tuner::Clock& clock,
                                  const std::function<Status(int64_t round)>& work) {
  std::vector<double> times;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t before = clock();
    TW_RETURN_IF_ERROR(work(round));
    times.push_back(static_cast<double>(clock() - before));
  }
  std::sort(times.begin(), times.end());
  return times;
}

double middle(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

Status look_up(db::Store& store, const std::vector<db::Key>& keys) {
  for (const db::Key& key : keys) {
    TW_TRY(const auto best, store.best(key));
    if (!best)
      return fail(ErrorCode::Database,
                  fmt::format("[bench] {} has no best record of '{}'; fill an empty database",
                              store.path(), key.workload));
  }
  return {};
}

Status measure_lookups(db::Store& store, const DatabaseOptions& options, const tuner::Clock& clock,
                       DatabaseFigures& figures) {
  Random random(options.seed);
  std::vector<db::Key> keys;
  for (int64_t i = 0; i < options.lookups; ++i)
    keys.push_back(
        synthetic_key(synthetic_record(random.below(figures.groups) * records_of_workload)));
  const double lookups = static_cast<double>(keys.size());
  const auto ask = [&](int64_t) { return look_up(store, keys); };
  {
    TW_TRY(const db::Store::Reading one_state, store.read_together());
    TW_TRY(const std::vector<double> first, timed(1, clock, ask));
    TW_TRY(const std::vector<double> together, timed(options.rounds, clock, ask));
    figures.first_lookup_us = first.front() / lookups * 1e-3;
    figures.lookup_us = together.front() / lookups * 1e-3;
  }
  TW_TRY(const std::vector<double> alone, timed(options.rounds, clock, ask));
  figures.lookup_alone_us = alone.front() / lookups * 1e-3;
  return {};
}

/// Returns the largest resident memory that the process has had, in MB (1e6 bytes).
double most_memory_mb() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024e-6;
}

Status measure_overview(const std::string& path, const DatabaseOptions& options,
                        const tuner::Clock& clock, DatabaseFigures& figures) {
  tools::web::OverviewCache cache([&] { return db::Store::open(path, db::OpenMode::ReadOnly); },
                                  clock);
  TW_TRY(const std::vector<double> first, timed(1, clock, [&](int64_t) -> Status {
           TW_RETURN_IF_ERROR(cache.get());
           return {};
         }));
  TW_TRY(db::Store store, db::Store::open(path, db::OpenMode::ReadOnly));
  TW_TRY(const std::vector<double> infos, timed(options.rounds, clock, [&](int64_t) -> Status {
           TW_RETURN_IF_ERROR(store.info());
           return {};
         }));
  TW_TRY(const std::vector<double> pruning, timed(1, clock, [&](int64_t) -> Status {
           TW_RETURN_IF_ERROR(db::prune(store, {}, db::Pruning::DryRun));
           return {};
         }));
  figures.first_page_ms = first[0] * 1e-6;
  figures.info_ms = infos[0] * 1e-6;
  figures.pruning_s = pruning[0] * 1e-9;
  return {};
}

Status measure_commits(const std::string& path, const DatabaseOptions& options,
                       const tuner::Clock& clock, DatabaseFigures& figures) {
  TW_TRY(db::Store store, db::Store::open(path, db::OpenMode::Update));
  TW_TRY(const std::vector<double> times,
         timed(options.rounds, clock, [&](int64_t round) -> Status {
           const db::Record record = synthetic_record(figures.records + round);
           TW_RETURN_IF_ERROR(store.append({&record, 1}));
           return {};
         }));
  figures.commit_ms = middle(times) * 1e-6;
  figures.slow_commit_ms = times.back() * 1e-6;
  return {};
}

/// Measures the merging of a file of records into the server if there is one, else into a new file.
/// The server does not have these records yet.
Status measure_merge(const std::string& path, bool is_server, const DatabaseOptions& options,
                     const tuner::Clock& clock, DatabaseFigures& figures) {
  const std::string from = options.folder + "/merged.db", new_file = options.folder + "/merge.db";
  {
    TW_TRY(db::Store lacking, db::Store::open(from, db::OpenMode::ReadWrite));
    const int64_t first = figures.records + options.rounds;
    TW_RETURN_IF_ERROR(fill(lacking, first, first + options.merged));
  }
  TW_TRY(db::Store store, db::Store::open(is_server ? path : new_file, db::OpenMode::ReadWrite));
  int64_t merged = 0;
  TW_TRY(const std::vector<double> times, timed(1, clock, [&](int64_t) -> Status {
           TW_TRY(const db::AppendSummary added, db::merge_from(store, from));
           merged = added.inserted;
           return {};
         }));
  figures.merged_per_s = static_cast<double>(merged) / (times[0] * 1e-9);
  return {};
}

}  // namespace

Result<DatabaseFigures> measure_database(const DatabaseOptions& options,
                                         const tuner::Clock& clock) {
  const std::string path =
      options.database.empty() ? options.folder + "/bench.db" : options.database;
  TW_TRY(const db::StoreInfo info, filled(path, options.records));
  DatabaseFigures figures;
  const std::string version = info.sqlite.substr(0, info.sqlite.find(':'));  // "SQLite 3.40.1"
  figures.engine = info.server.empty() ? fmt::format("{}, journal: {}", version, info.journal_mode)
                                       : info.server;
  figures.records = info.records;
  figures.groups = info.best;
  figures.bytes = info.file_bytes;
  TW_TRY(const std::vector<double> openings, timed(options.rounds, clock, [&](int64_t) -> Status {
           TW_RETURN_IF_ERROR(db::Store::open(path, db::OpenMode::ReadOnly));
           return {};
         }));
  figures.opening_ms = middle(openings) * 1e-6;
  {
    TW_TRY(db::Store store, db::Store::open(path, db::OpenMode::ReadOnly));
    TW_RETURN_IF_ERROR(measure_lookups(store, options, clock, figures));
  }
  TW_RETURN_IF_ERROR(measure_overview(path, options, clock, figures));
  figures.filling_mb = most_memory_mb();
  TW_RETURN_IF_ERROR(measure_commits(path, options, clock, figures));
  TW_RETURN_IF_ERROR(measure_merge(path, !info.server.empty(), options, clock, figures));
  TW_TRY(figures.growth,
         measure_growth({.database = info.server.empty() ? options.folder + "/growth.db" : path,
                         .trials = options.group_trials,
                         .rounds = options.rounds,
                         .seed = options.seed},
                        clock));
  return figures;
}

nlohmann::json as_json(const DatabaseFigures& f) {
  nlohmann::json growth = nlohmann::json::array();
  for (const GroupCosts& costs : f.growth)
    growth.push_back(
        {{"trials", costs.trials}, {"commit_ms", costs.commit_ms}, {"start_ms", costs.start_ms}});
  return {{"schema_version", results_schema_version},
          {"database",
           {{"engine", f.engine},
            {"records", f.records},
            {"groups", f.groups},
            {"bytes", f.bytes},
            {"opening_ms", f.opening_ms},
            {"first_lookup_us", f.first_lookup_us},
            {"lookup_us", f.lookup_us},
            {"lookup_alone_us", f.lookup_alone_us},
            {"commit_ms", f.commit_ms},
            {"slow_commit_ms", f.slow_commit_ms},
            {"merged_per_s", f.merged_per_s},
            {"first_page_ms", f.first_page_ms},
            {"info_ms", f.info_ms},
            {"pruning_s", f.pruning_s},
            {"filling_mb", f.filling_mb},
            {"growth", growth}}}};
}

std::string as_table(const DatabaseFigures& f) {
  tools::Table table;
  table.header = {"figure", "value"};
  table.rows = {{"engine", f.engine},
                {"records", std::to_string(f.records)},
                {"groups with a best record", std::to_string(f.groups)},
                {"size", fmt::format("{:.0f} MB", static_cast<double>(f.bytes) * 1e-6)},
                {"opening", fmt::format("{:.2f} ms", f.opening_ms)},
                {"first lookup, many together", fmt::format("{:.2f} µs", f.first_lookup_us)},
                {"lookup, many together", fmt::format("{:.2f} µs", f.lookup_us)},
                {"lookup, by itself", fmt::format("{:.2f} µs", f.lookup_alone_us)},
                {"commit of a record", fmt::format("{:.1f} ms", f.commit_ms)},
                {"slowest commit", fmt::format("{:.1f} ms", f.slow_commit_ms)},
                {"merge", fmt::format("{:.0f} records a second", f.merged_per_s)},
                {"first page of `db serve`", fmt::format("{:.0f} ms", f.first_page_ms)},
                {"info", fmt::format("{:.2f} ms", f.info_ms)},
                {"prune that deletes nothing", fmt::format("{:.1f} s", f.pruning_s)},
                {"memory of this process", fmt::format("{:.0f} MB", f.filling_mb)}};
  for (const GroupCosts& costs : f.growth)
    table.rows.push_back({fmt::format("a group of {} trials", costs.trials),
                          fmt::format("commit {:.2f} ms, start of a run {:.1f} ms", costs.commit_ms,
                                      costs.start_ms)});
  return tools::as_text(table);
}

}  // namespace tw::bench
