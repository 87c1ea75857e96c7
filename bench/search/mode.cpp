// SPDX-License-Identifier: Apache-2.0
#include "bench/search/mode.h"

#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/cores.h"
#include "bench/search/optimum.h"
#include "bench/search/race.h"
#include "bench/search/report.h"
#include "bench/search/strategies.h"
#include "db/store.h"
#include "tools/flags/quote.h"
#include "tools/reports/progress.h"
#include "tools/reports/report.h"
#include "tuner/processes/scratch.h"
#include "tuner/search/replay.h"

namespace tw::bench {
namespace {

constexpr int replayed_seeds = 5;
constexpr int64_t recorded_trials = 240;

SearchTask task_of(const Call& call, const Item& item, int threads) {
  SearchTask task;
  task.item = &item;
  task.target = call.target;
  task.tuning = call.tuning(threads);
  task.tuning.trials = call.flags.trials;
  task.known = call.flags.known;
  task.environment = &call.environment;
  task.watch = [&call, &item, threads](std::string_view strategy) -> tuner::OnProgress {
    const auto display = std::make_shared<tools::ProgressDisplay>(
        call.here, fmt::format("{} on {} threads, {}", item.name, threads, strategy));
    return [display](const tuner::Progress& progress) { display->update(progress); };
  };
  return task;
}

Result<std::vector<SearchRow>> race_all(const Call& call,
                                        const std::vector<const Strategy*>& strategies) {
  std::vector<SearchRow> rows;
  for (const int threads : call.threads) {
    const auto pool =
        std::make_shared<runtime::ThreadPool>(runtime::PoolOptions{.threads = threads});
    for (const Item& item : call.items) {
      if (call.interrupted()) return rows;
      auto row =
          race(task_of(call, item, threads), strategies, static_cast<int>(call.flags.rounds), pool);
      // After an interrupt the rows so far are printed.
      if (!row && row.error().code == ErrorCode::Interrupted && !rows.empty()) return rows;
      if (!row) return tl::unexpected<Error>(row.error());
      rows.push_back(std::move(*row));
    }
  }
  return rows;
}

Status draw(const Call& call, const nlohmann::json& document) {
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  const std::string json = scratch.path() + "/search.json";
  std::ofstream(json) << document.dump();
  std::string command;
  for (const std::string& word :
       {std::string(TW_BENCH_PYTHON), std::string(TW_BENCH_SCRIPTS "/search/plot.py"), json,
        call.flags.plot})
    command += tools::shell_quoted(word) + " ";
  if (std::system((command + ">&2").c_str()) == 0) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[bench] --plot '{}': it cannot be drawn; `./tw bench` installs what "
                          "bench/search/plot.py needs",
                          call.flags.plot));
}

Result<int> run_races(const Call& call) {
  const Flags& flags = call.flags;
  TW_TRY(const auto strategies,
         choose_strategies(flags.strategies, task_of(call, call.items.front(), 1)));
  TW_TRY(const std::vector<SearchRow> rows, race_all(call, strategies));
  nlohmann::json document = {{"search", as_json(rows)}};
  document["options"] = {{"suite", call.suite},    {"budget_s", flags.budget_s},
                         {"trials", flags.trials}, {"rounds", flags.rounds},
                         {"seed", flags.seed},     {"known", !flags.known.empty()}};
  TW_RETURN_IF_ERROR(publish(call, document, as_table(rows, call.here.color)));
  if (!flags.plot.empty()) TW_RETURN_IF_ERROR(draw(call, document));
  if (call.interrupted()) return static_cast<int>(ErrorCode::Interrupted);
  for (const SearchRow& row : rows) {
    if (!row.error.empty()) return static_cast<int>(ErrorCode::NoCandidate);
    for (const Trace& trace : row.traces)
      if (!trace.error.empty()) return static_cast<int>(ErrorCode::NoCandidate);
  }
  return 0;
}

Result<int> run_replay(const Call& call) {
  const std::vector<std::string> usual = {TW_BENCH_RECORDING};
  Replays replays;
  TW_TRY(replays.recordings, recordings_in(call.flags.files.empty() ? usual : call.flags.files));
  for (int i = 0; i < replayed_seeds; ++i)
    replays.seeds.push_back(static_cast<uint64_t>(call.flags.seed + i));
  for (const tuner::Guide guide :
       {tuner::Guide::Random, tuner::Guide::Analytic, tuner::Guide::Learned,
        tuner::Guide::Pretrained, tuner::Guide::Corrected, tuner::Guide::Taught}) {
    TW_TRY(tuner::Replayed replayed,
           tuner::replay(replays.recordings, guide, replayed_trials, replays.seeds));
    replays.guides.push_back(guide);
    replays.replayed.push_back(std::move(replayed));
  }
  TW_RETURN_IF_ERROR(
      publish(call, {{"replay", as_json(replays)}}, as_table(replays, call.here.color)));
  return 0;
}

/// Makes a random search with an empty database, and returns its trials.
Result<std::vector<db::Record>> record_trials(const Call& call, const Item& item, int threads) {
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY(db::Store store, db::Store::open(scratch.path() + "/record.db", db::OpenMode::ReadWrite));
  tuner::TuneOptions options = call.tuning(threads);
  options.search = "random";
  options.trials = call.flags.trials > 0 ? call.flags.trials : recorded_trials;
  tools::ProgressDisplay display(call.here, fmt::format("recording {}", item.name));
  TW_TRY(const tuner::Tuned tuned,
         tuner::tune(item.workload, call.target, options, store, call.environment,
                     [&](const tuner::Progress& progress) { display.update(progress); }));
  return store.query({.workload = item.workload.key()});
}

Result<int> run_record(const Call& call) {
  const auto cannot_be_written = [&] {
    return fail(ErrorCode::Environment,
                fmt::format("[bench] --record '{}' cannot be written", call.flags.record));
  };
  std::ofstream file(call.flags.record, std::ios::binary | std::ios::app);
  if (!file) return cannot_be_written();
  for (const int threads : call.threads)
    for (const Item& item : call.items) {
      TW_TRY(const std::vector<db::Record> records, record_trials(call, item, threads));
      tuner::write_recording(file, item.name, item.workload, call.target, threads, records);
    }
  file.close();
  if (!file) return cannot_be_written();
  return 0;
}

}  // namespace

Result<int> run_search(const Call& call) {
  if (call.flags.replay) return run_replay(call);
  if (!call.flags.record.empty()) return run_record(call);
  return run_races(call);
}

Result<int> run_optimum(const Call& call) {
  const Flags& flags = call.flags;
  if (call.threads.size() != 1)
    return fail(ErrorCode::Usage, "[bench] --optimum takes one number of --threads");
  std::vector<Optimum> rows;
  for (const Item& item : call.items) {
    TW_TRY(Optimum row, measure_optimum(item, call.target,
                                        {.samples = flags.samples,
                                         .kernel_threads = call.threads.front(),
                                         .workers = usable_cores(),
                                         .seed = static_cast<uint64_t>(flags.seed),
                                         .stop = call.environment.stop()},
                                        call.environment.clock));
    rows.push_back(std::move(row));
  }
  TW_RETURN_IF_ERROR(publish(call,
                             {{"optimum", as_json(rows)},
                              {"suite", call.suite},
                              {"options", {{"samples", flags.samples}, {"seed", flags.seed}}}},
                             as_table(rows)));
  return 0;
}

}  // namespace tw::bench
