// SPDX-License-Identifier: Apache-2.0
#include "bench/corpus_mode.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/random_workloads.h"
#include "db/store.h"
#include "tools/progress.h"
#include "tuner/host_machine.h"
#include "tuner/replay.h"
#include "tuner/scratch.h"
#include "tuner/worker_pool.h"

namespace tw::bench {
namespace {

constexpr int64_t corpus_trials = 24;
constexpr double seconds_of_a_workload = 60;

/// The file of recordings.
class Corpus {
 public:
  /// Opens the file, or a new one. Removes a line at its end that was not written whole.
  static Result<Corpus> open(const std::string& path) {
    Corpus corpus(path);
    std::ifstream file(path, std::ios::binary);
    std::uintmax_t whole = 0;
    for (std::string line; std::getline(file, line) && !file.eof();) {
      whole += line.size() + 1;
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_discarded())
        return fail(ErrorCode::Invalid, fmt::format("[bench] '{}' is no file of recordings", path));
      if (json.contains("workload"))
        corpus.known_.insert(name_of(json.value("workload", ""), json.value("target", ""),
                                     json.value("threads", 1)));
    }
    std::error_code error;
    if (file.is_open() && whole < std::filesystem::file_size(path, error))
      std::filesystem::resize_file(path, whole, error);
    if (error) return corpus.unwritable();
    return corpus;
  }

  bool has(const dsl::Workload& workload, const Target& target, int threads) const {
    return known_.contains(name_of(workload.text(), target.to_string(), threads));
  }

  /// Appends all lines at once, so that a stop leaves few recordings cut short.
  Status append(const std::string& recording) const {
    std::ofstream file(path_, std::ios::binary | std::ios::app);
    file << recording;
    file.close();
    return file ? Status() : unwritable();
  }

 private:
  explicit Corpus(std::string path) : path_(std::move(path)) {}

  static std::string name_of(const std::string& workload, const std::string& target, int threads) {
    return fmt::format("{} | {} | {}", workload, target, threads);
  }
  tl::unexpected<Error> unwritable() const {
    return fail(ErrorCode::Environment,
                fmt::format("[bench] --record '{}' cannot be written", path_));
  }

  std::string path_;
  std::set<std::string> known_;
};

/// The workers and the machine of all recordings of a run.
struct Gathering {
  const Call& call;
  int threads = 1;
  tuner::Workers workers;
  tuner::HostMachine host;
};

/// A database that knows nothing but the machine.
Result<db::Store> empty_store(const Gathering& gathering, const std::string& path) {
  TW_TRY(db::Store store, db::Store::open(path, db::OpenMode::ReadWrite));
  const tuner::Environment& environment = gathering.call.environment;
  if (!gathering.host.note.empty())
    TW_RETURN_IF_ERROR(
        tuner::store_calibration(store, gathering.call.target, gathering.host.target.machine,
                                 {environment.program_version, environment.now_ms()}));
  return store;
}

Result<std::string> record(const Gathering& gathering, const Item& item) {
  const Call& call = gathering.call;
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY(db::Store store, empty_store(gathering, scratch.path() + "/trials.db"));
  tuner::TuneOptions options = call.tuning(gathering.threads);
  options.search = "spread";
  options.trials = call.flags.trials > 0 ? call.flags.trials : corpus_trials;
  options.budget_s = seconds_of_a_workload;
  options.builds_winners = false;
  tools::ProgressDisplay display(call.here, fmt::format("recording {}", item.name));
  TW_TRY(
      const auto tuned,
      tuner::tune_all(
          {{.workload = item.workload}}, call.target, options, store, call.environment,
          [&](const tuner::Progress& progress) { display.update(progress); }, gathering.workers));
  TW_TRY(const std::vector<db::Record> records, store.query({.workload = item.workload.key()}));
  std::ostringstream text;
  tuner::write_recording(text, item.workload, gathering.host.target, gathering.threads, records);
  return text.str();
}

Result<Gathering> begin(const Call& call) {
  Gathering gathering{call, call.threads[0], {}, {call.target, {}}};
  const double timeout_s = tuner::TuneOptions().timeout_s;
  TW_TRY(gathering.workers,
         tuner::start_workers(call.target, gathering.threads, call.environment, timeout_s));
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY(db::Store store, db::Store::open(scratch.path() + "/host.db", db::OpenMode::ReadWrite));
  gathering.host = tuner::choose_machine(
      store, call.target, [&] { return gathering.workers.runner->calibrate(call.flags.budget_s); },
      {call.environment.program_version, call.environment.now_ms()});
  return gathering;
}

}  // namespace

Result<int> run_corpus(const Call& call) {
  const Flags& flags = call.flags;
  if (flags.record.empty())
    return fail(ErrorCode::Usage, "[bench] --corpus: name its file with --record");
  if (call.threads.size() != 1)
    return fail(ErrorCode::Usage, "[bench] --corpus takes one number of --threads");
  TW_TRY(const std::vector<const Kind*> kinds, choose_kinds(flags.kinds));
  TW_TRY(const Corpus corpus, Corpus::open(flags.record));
  TW_TRY(const Gathering gathering, begin(call));
  const int64_t end_ns = call.environment.clock() + static_cast<int64_t>(flags.budget_s * 1e9);
  for (int64_t number = 0;; ++number)
    for (const Kind* kind : kinds) {
      if (call.interrupted() || call.environment.clock() >= end_ns) return 0;
      TW_TRY(Item item, draw_item(*kind, static_cast<uint64_t>(flags.seed), number));
      if (number % 2 == 1) item.workload.state = dsl::CacheState::NetworkL3;
      if (corpus.has(item.workload, call.target, gathering.threads)) continue;
      TW_TRY(const std::string recording, record(gathering, item));
      TW_RETURN_IF_ERROR(corpus.append(recording));
    }
}

}  // namespace tw::bench
