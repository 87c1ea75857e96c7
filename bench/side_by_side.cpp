// SPDX-License-Identifier: Apache-2.0
#include "bench/side_by_side.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <thread>

#include "base/text.h"
#include "bench/report.h"
#include "db/server_address.h"
#include "db/store.h"
#include "tools/report.h"
#include "tuner/tune.h"

namespace tw::bench {
namespace {

// The runs of a case end by their trials, long before this.
constexpr double budget_s = 900;
// The first recordings that are looked at: a case takes some minutes.
constexpr size_t most_recordings = 3;
// Runs are killed once so many trials of each are stored, in the middle of their work.
constexpr int64_t trials_before_killing = 24;

/// One case, whose runs are begun, watched and ended.
class Runs {
 public:
  Runs(const tuner::Recording& recording, const dsl::Workload& workload, uint64_t seed,
       const SideBySideOptions& options, const tuner::Environment& environment)
      : recording_(recording),
        workload_(workload),
        seed_(seed),
        options_(options),
        environment_(environment) {}

  /// Begins `count` runs of `trials` each, kills some, and waits for the others. `target_ns` is
  /// what is to be reached.
  Result<Together> run(int count, int killed, int64_t trials, double target_ns) {
    const int64_t begun_ms = environment_.now_ms();
    std::vector<pid_t> processes;
    for (int number = 0; number < count; ++number) {
      TW_TRY(processes.emplace_back(), begin(number, trials));
    }
    TW_TRY(db::Store store, db::Store::open(options_.database, db::OpenMode::ReadWrite));
    if (killed > 0) TW_RETURN_IF_ERROR(kill_some(store, processes, count, killed));
    Together together{.runs = count, .killed = killed};
    for (int number = 0; number < count; ++number) {
      int status = 0;
      ::waitpid(processes[static_cast<size_t>(number)], &status, 0);
      if (number >= killed && status != 0) ++together.failed;
    }
    together.ended_s = static_cast<double>(environment_.now_ms() - begun_ms) * 1e-3;
    TW_TRY(std::vector<db::Record> records, store.query({}));
    summarize(records, begun_ms, target_ns, together);
    for (const db::Record& record : records) TW_RETURN_IF_ERROR(store.drop_record(record));
    return together;
  }

 private:
  Result<pid_t> begin(int number, int64_t trials) const {
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
    const std::string folder = fmt::format("{}/{}", options_.folder, number);
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    const RecordedLatencies latencies(recording_, workload_);
    TW_TRY(db::Store store, db::Store::open(options_.database, db::OpenMode::ReadWrite));
    const tuner::TuneOptions options{.budget_s = budget_s,
                                     .trials = trials,
                                     .effort = tuner::Effort::Full,
                                     .seed = seed_,
                                     .builds_winners = false};
    TW_TRY(const auto results,
           tuner::tune_all({{workload_}}, recording_.target, options, store, environment, {},
                           recorded_workers(latencies, recording_.target, folder, options_.pace)));
    if (!results.front()) return tl::unexpected(results.front().error());
    return {};
  }

  static bool has_ended(pid_t process) {
    siginfo_t ended = {};
    return ::waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           ended.si_pid == process;
  }

  /// Kills the first runs in the middle of their work.
  static Status kill_some(db::Store& store, const std::vector<pid_t>& processes, int count,
                          int killed) {
    for (;;) {
      TW_TRY(const db::StoreInfo info, store.info());
      if (info.records >= count * trials_before_killing) break;
      if (std::ranges::any_of(processes, has_ended)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    for (int number = 0; number < killed; ++number)
      ::kill(processes[static_cast<size_t>(number)], SIGKILL);
    return {};
  }

  static void summarize(const std::vector<db::Record>& records, int64_t begun_ms, double target_ns,
                        Together& together) {
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
    together.trials = std::ssize(records);
    together.repeated = std::ranges::count_if(
        sessions, [](const auto& schedule) { return schedule.second.size() > 1; });
    if (!best) return;
    together.best_ns = best->latency_ns;
    if (target_ns == 0) reached_ms = best->created_ms;
    if (reached_ms > 0) together.reached_s = static_cast<double>(reached_ms - begun_ms) * 1e-3;
  }

  const tuner::Recording& recording_;
  const dsl::Workload& workload_;
  const uint64_t seed_;
  const SideBySideOptions& options_;
  const tuner::Environment& environment_;
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
          {"reached_s", together.reached_s}, {"ended_s", together.ended_s},
          {"repeated", together.repeated},   {"failed", together.failed}};
}

/// The time of all cases in which several runs reached what one found, as a share of its time.
double share_of_time(const std::vector<SideBySideCase>& cases) {
  double one_s = 0, all_s = 0;
  for (const SideBySideCase& of : cases) {
    one_s += of.one.reached_s;
    all_s += of.all.reached_s > 0 ? of.all.reached_s : of.all.ended_s;
  }
  return one_s > 0 ? all_s / one_s : 0;
}

}  // namespace

Result<std::vector<SideBySideCase>> measure_side_by_side(
    const std::vector<tuner::Recording>& recordings, const std::vector<uint64_t>& seeds,
    const SideBySideOptions& options, const tuner::Environment& environment) {
  TW_RETURN_IF_ERROR(check_database(options.database));
  std::vector<SideBySideCase> cases;
  for (const tuner::Recording& recording :
       std::span(recordings).first(std::min(recordings.size(), most_recordings))) {
    TW_TRY(const dsl::Workload workload, dsl::parse_workload(recording.workload));
    for (const uint64_t seed : seeds) {
      Runs runs(recording, workload, seed, options, environment);
      SideBySideCase of{recording.workload, seed};
      TW_TRY(of.one, runs.run(1, 0, options.trials, 0));
      // All runs together may make twice the trials of the one.
      const int64_t each = 2 * options.trials / options.runs;
      TW_TRY(of.all, runs.run(options.runs, 0, each, of.one.best_ns));
      TW_TRY(of.interrupted, runs.run(options.runs, options.killed, each, of.one.best_ns));
      cases.push_back(std::move(of));
    }
  }
  return cases;
}

nlohmann::json as_json(const std::vector<SideBySideCase>& cases, const SideBySideOptions& options) {
  nlohmann::json json = {{"schema_version", results_schema_version},
                         {"suite", "side_by_side"},
                         {"options",
                          {{"runs", options.runs},
                           {"trials", options.trials},
                           {"building_s", options.pace.building_s},
                           {"measuring_s", options.pace.measuring_s}}},
                         {"share_of_time", share_of_time(cases)},
                         {"rows", nlohmann::json::array()}};
  for (const SideBySideCase& of : cases)
    json["rows"].push_back({{"workload", of.workload},
                            {"seed", of.seed},
                            {"one", json_of_runs(of.one)},
                            {"all", json_of_runs(of.all)},
                            {"killed", json_of_runs(of.interrupted)}});
  return json;
}

std::string as_table(const std::vector<SideBySideCase>& cases) {
  tools::Table table{{"seed", "one: best after", "of", "all: after", "share", "repeated",
                      "with kills: after", "repeated", "failed", "workload"},
                     {}};
  const auto seconds = [](double s) { return s > 0 ? fmt::format("{:.1f} s", s) : "-"; };
  for (const SideBySideCase& of : cases)
    table.rows.push_back({std::to_string(of.seed), seconds(of.one.reached_s),
                          seconds(of.one.ended_s), seconds(of.all.reached_s),
                          of.one.reached_s > 0 && of.all.reached_s > 0
                              ? fmt::format("{:.2f}", of.all.reached_s / of.one.reached_s)
                              : "-",
                          std::to_string(of.all.repeated), seconds(of.interrupted.reached_s),
                          std::to_string(of.interrupted.repeated),
                          std::to_string(of.interrupted.failed), of.workload.substr(0, 60)});
  return tools::as_text(table) +
         fmt::format("\nall cases: several runs take {:.2f} of the time of one\n",
                     share_of_time(cases));
}

}  // namespace tw::bench
