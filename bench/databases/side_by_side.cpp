// SPDX-License-Identifier: Apache-2.0
#include "bench/databases/side_by_side.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <thread>

#include "base/text.h"
#include "bench/databases/recorded_machine.h"
#include "bench/report.h"
#include "db/maintenance.h"
#include "db/server_address.h"
#include "db/store.h"
#include "tools/reports/report.h"
#include "tuner/tune.h"

namespace tw::bench {
namespace {

// Budget of each run. The runs end long before it, because their trials are limited.
constexpr double budget_s = 3600;
// Largest number of recordings that are used, the first ones. The measurements of one recording
// take some minutes.
constexpr size_t most_recordings = 3;
// Number of stored trials per run at which runs are killed, so that they are killed in the middle
// of their work.
constexpr int64_t trials_before_killing = 24;

/// Simultaneous runs of one workload. Each run is a process of its own.
class Runs {
 public:
  /// `folder` is for files of the runs.
  Runs(const tuner::Recording& recording, uint64_t seed, std::string database, std::string folder,
       double trial_s, const tuner::Environment& environment)
      : recording_(recording),
        seed_(seed),
        database_(std::move(database)),
        folder_(std::move(folder)),
        trial_s_(trial_s),
        environment_(environment) {}
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;
  /// Kills the runs for which end() has not waited.
  ~Runs() {
    for (const pid_t process : processes_) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }

  Status begin(int count, int64_t trials) {
    begun_ms_ = environment_.now_ms();
    for (int number = 0; number < count; ++number) {
      TW_TRY(processes_.emplace_back(), begin_one(number, trials));
    }
    return {};
  }

  /// Kills the first `count` runs in the middle of their work.
  Status kill(int count) {
    TW_TRY(db::Store store, db::Store::open(database_, db::OpenMode::ReadWrite));
    const int64_t most = std::ssize(processes_) * trials_before_killing;
    for (;;) {
      TW_TRY(const db::StoreInfo info, store.info());
      if (info.records >= most || std::ranges::any_of(processes_, has_ended)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    killed_ = count;
    for (const pid_t process : std::span(processes_).first(static_cast<size_t>(count)))
      ::kill(process, SIGKILL);
    return {};
  }

  /// Waits until all runs have ended, summarizes their trials, and deletes the trials from the
  /// database. Together::reached_s is the time until some trial was as fast as `target_ns` or, if
  /// `target_ns` is 0, the time until the best trial of these runs.
  Result<Together> end(double target_ns) {
    Together together{.runs = static_cast<int>(std::ssize(processes_)), .killed = killed_};
    for (int number = 0; number < together.runs; ++number) {
      int status = 0;
      ::waitpid(processes_[static_cast<size_t>(number)], &status, 0);
      if (number >= killed_ && status != 0) ++together.failed;
    }
    processes_.clear();
    TW_TRY(db::Store store, db::Store::open(database_, db::OpenMode::ReadWrite));
    TW_TRY(const std::vector<db::Record> records, store.query({}));
    summarize(records, target_ns, together);
    for (const db::Record& record : records) TW_RETURN_IF_ERROR(db::drop_record(store, record));
    return together;
  }

 private:
  Result<pid_t> begin_one(int number, int64_t trials) const {
    const pid_t child = ::fork();
    if (child < 0)
      return fail(ErrorCode::Environment,
                  fmt::format("[bench] a run cannot be started: {}", std::strerror(errno)));
    if (child != 0) return child;
    const Status done = tune(number, trials);
    if (!done) fmt::print(stderr, "run {}: {}\n", number, done.error().message);
    ::_exit(done ? 0 : 1);
  }

  Status tune(int number, int64_t trials) const {
    tuner::Environment environment = environment_;
    environment.session = fmt::format("run {} of {}", number, ::getpid());
    const std::string folder = fmt::format("{}/{}", folder_, number);
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    TW_TRY(const dsl::Workload workload, dsl::parse_workload(recording_.workload));
    const RecordedLatencies latencies(recording_, workload);
    TW_TRY(db::Store store, db::Store::open(database_, db::OpenMode::ReadWrite));
    const tuner::TuneOptions options{.budget_s = budget_s,
                                     .trials = trials,
                                     .effort = tuner::Effort::Full,
                                     .seed = seed_,
                                     .builds_winners = false};
    TW_TRY(const auto results,
           tuner::tune_all({{workload}}, recording_.target, options, store, environment, {},
                           recorded_workers(latencies, recording_.target, folder, trial_s_)));
    if (!results.front()) return tl::unexpected(results.front().error());
    return {};
  }

  static bool has_ended(pid_t process) {
    siginfo_t ended = {};
    return ::waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           ended.si_pid == process;
  }

  void summarize(const std::vector<db::Record>& records, double target_ns,
                 Together& together) const {
    std::map<std::string, std::set<std::string>> sessions;
    const db::Record* best = nullptr;
    int64_t reached_ms = 0;
    for (const db::Record& record : records) {
      sessions[record.schedule].insert(record.session);
      if (record.status != db::TrialStatus::Ok) continue;
      if (!best || record.latency_ns < best->latency_ns ||
          (record.latency_ns == best->latency_ns && record.created_ms < best->created_ms))
        best = &record;
      const bool reaches = target_ns > 0 && record.latency_ns <= target_ns;
      if (reaches && (reached_ms == 0 || record.created_ms < reached_ms))
        reached_ms = record.created_ms;
    }
    int64_t last_ms = begun_ms_;
    for (const db::Record& record : records) last_ms = std::max(last_ms, record.created_ms);
    together.ended_s = static_cast<double>(last_ms - begun_ms_) * 1e-3;
    together.trials = std::ssize(records);
    together.repeated = std::ranges::count_if(
        sessions, [](const auto& schedule) { return schedule.second.size() > 1; });
    if (!best) return;
    together.best_ns = best->latency_ns;
    if (target_ns == 0) reached_ms = best->created_ms;
    if (reached_ms == 0) return;
    together.reached_s = static_cast<double>(reached_ms - begun_ms_) * 1e-3;
    together.reached_trials = std::ranges::count_if(
        records, [&](const db::Record& record) { return record.created_ms <= reached_ms; });
  }

  const tuner::Recording& recording_;
  const uint64_t seed_;
  const std::string database_, folder_;
  const double trial_s_;
  const tuner::Environment& environment_;
  std::vector<pid_t> processes_ = {};
  int killed_ = 0;
  int64_t begun_ms_ = 0;
};

Status check_database(const std::string& database) {
  if (!db::is_server(database))
    return fail(ErrorCode::Usage,
                "[bench] --side-by-side: name the address of a server, postgresql://...; runs that "
                "share a file tell each other nothing");
  TW_TRY(db::Store store, db::Store::open(database, db::OpenMode::ReadWrite));
  TW_TRY(const db::StoreInfo info, store.info());
  if (info.records == 0) return {};
  return fail(ErrorCode::Usage,
              fmt::format("[bench] --side-by-side: {} has {} records; an empty database was "
                          "expected, as the records of the runs are deleted",
                          database, info.records));
}

nlohmann::json json_of_runs(const Together& together) {
  return {{"runs", together.runs},           {"killed", together.killed},
          {"trials", together.trials},       {"best_ns", together.best_ns},
          {"reached_s", together.reached_s}, {"reached_trials", together.reached_trials},
          {"ended_s", together.ended_s},     {"repeated", together.repeated},
          {"failed", together.failed}};
}

}  // namespace

Result<std::vector<SideBySideCase>> measure_side_by_side(
    std::span<const tuner::Recording> recordings, const SideBySideOptions& options,
    const tuner::Environment& environment) {
  recordings = recordings.first(std::min(recordings.size(), most_recordings));
  TW_RETURN_IF_ERROR(check_database(options.database));
  // A run that is measured alone waits most of the time, so such runs of all cases can run at the
  // same time, each with a database of its own.
  std::vector<SideBySideCase> cases;
  std::deque<Runs> alone;
  for (const tuner::Recording& recording : recordings) {
    const std::string folder = fmt::format("{}/{}", options.folder, cases.size());
    alone.emplace_back(recording, options.seed, folder + ".db", folder, options.trial_s,
                       environment);
    TW_RETURN_IF_ERROR(alone.back().begin(1, options.trials));
    cases.emplace_back().workload = recording.workload;
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    TW_TRY(cases[i].one, alone[i].end(0));
    if (cases[i].one.best_ns == 0)
      return fail(ErrorCode::Environment, "[bench] a run by itself found no kernel");
  }
  // All runs together make at most twice as many trials as the single run.
  const int64_t each = 2 * options.trials / options.runs;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto together = [&](int killed) -> Result<Together> {
      Runs runs(recordings[i], options.seed, options.database, options.folder + "/together",
                options.trial_s, environment);
      TW_RETURN_IF_ERROR(runs.begin(options.runs, each));
      if (killed > 0) TW_RETURN_IF_ERROR(runs.kill(killed));
      return runs.end(cases[i].one.best_ns);
    };
    TW_TRY(cases[i].all, together(0));
    TW_TRY(cases[i].interrupted, together(options.killed));
  }
  return cases;
}

nlohmann::json as_json(const std::vector<SideBySideCase>& cases, const SideBySideOptions& options) {
  nlohmann::json json = {{"schema_version", results_schema_version},
                         {"suite", "side_by_side"},
                         {"options",
                          {{"runs", options.runs},
                           {"trials", options.trials},
                           {"trial_s", options.trial_s},
                           {"seed", options.seed}}},
                         {"rows", nlohmann::json::array()}};
  for (const SideBySideCase& of : cases)
    json["rows"].push_back({{"workload", of.workload},
                            {"one", json_of_runs(of.one)},
                            {"all", json_of_runs(of.all)},
                            {"killed", json_of_runs(of.interrupted)}});
  return json;
}

std::string as_table(const std::vector<SideBySideCase>& cases) {
  tools::Table table{{"one: end", "one: best after", "all: as fast after", "of one", "repeated",
                      "with kills: as fast after", "of one", "repeated", "failed", "workload"},
                     {}};
  const auto reached = [](const Together& runs) {
    return runs.reached_s > 0
               ? fmt::format("{:.1f} s, {} trials", runs.reached_s, runs.reached_trials)
               : fmt::format("not in {} trials", runs.trials);
  };
  for (const SideBySideCase& of : cases) {
    const auto share = [&](const Together& runs) {
      return runs.reached_s > 0 ? fmt::format("{:.2f}", runs.reached_s / of.one.ended_s) : "-";
    };
    table.rows.push_back({fmt::format("{:.1f} s", of.one.ended_s), reached(of.one), reached(of.all),
                          share(of.all), std::to_string(of.all.repeated), reached(of.interrupted),
                          share(of.interrupted), std::to_string(of.interrupted.repeated),
                          std::to_string(of.interrupted.failed), of.workload.substr(0, 60)});
  }
  return tools::as_text(table);
}

}  // namespace tw::bench
