// SPDX-License-Identifier: Apache-2.0
#include "bench/training/corpus_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "bench/random_workloads.h"
#include "db/store.h"
#include "tools/reports/progress.h"
#include "tuner/host_machine.h"
#include "tuner/measure/calibration.h"
#include "tuner/processes/scratch.h"
#include "tuner/search/replay.h"
#include "tuner/workers/worker_pool.h"

namespace tw::bench {
namespace {

constexpr int64_t corpus_trials = 24;
constexpr double seconds_of_a_workload = 60;
// Number of workloads after which workers are replaced, because they keep the kernels that they
// built, some 10 kB each, until they end.
constexpr int64_t workloads_of_workers = 200;

/// The file of recordings.
class Corpus {
 public:
  /// Opens the file of recordings, or creates it. If the last line is incomplete, the recording
  /// with this line is removed. Fails with Invalid if the file is not a file of recordings; the
  /// file is not changed then.
  static Result<Corpus> open(const std::string& path) {
    Corpus corpus(path);
    std::ifstream file(path, std::ios::binary);
    std::uintmax_t read = 0, last_heading = 0;
    bool is_torn = false;
    for (std::string line; std::getline(file, line);) {
      is_torn = file.eof();
      if (is_torn && read > 0) break;
      const auto json = nlohmann::json::parse(line, nullptr, false);
      const bool is_heading = json.is_object() && json.contains("workload");
      if (!json.is_object() || (read == 0 && !is_heading)) return corpus.is_no_corpus();
      if (is_heading) {
        last_heading = read;
        if (!corpus.knows(json)) return corpus.is_no_corpus();
      }
      read += line.size() + 1;
    }
    file.close();
    std::error_code error;
    if (is_torn) std::filesystem::resize_file(path, last_heading, error);
    if (error || !std::ofstream(path, std::ios::binary | std::ios::app))
      return corpus.cannot_be_written();
    return corpus;
  }

  bool has(const dsl::Workload& workload, const Target& target, int threads) const {
    return known_.contains(name_of(workload.text(), target.to_string(), threads));
  }

  /// Appends a recording. If that fails, the file stays as it was.
  Status append(const dsl::Workload& workload, const Target& target, int threads,
                const std::string& recording) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path_, error);
    std::ofstream file(path_, std::ios::binary | std::ios::app);
    file << recording;
    file.close();
    if (!file && !error) std::filesystem::resize_file(path_, size, error);
    if (!file) return cannot_be_written();
    known_.insert(name_of(workload.text(), target.to_string(), threads));
    return {};
  }

 private:
  explicit Corpus(std::string path) : path_(std::move(path)) {}

  static std::string name_of(const std::string& workload, const std::string& target, int threads) {
    return fmt::format("{} | {} | {}", workload, target, threads);
  }
  /// Notes the workload of a heading. Returns false if the JSON is not a heading.
  bool knows(const nlohmann::json& heading) {
    const auto workload = heading.find("workload"), target = heading.find("target"),
               threads = heading.find("threads");
    if (!workload->is_string() || target == heading.end() || !target->is_string() ||
        threads == heading.end() || !threads->is_number_integer())
      return false;
    known_.insert(name_of(*workload, *target, *threads));
    return true;
  }
  tl::unexpected<Error> is_no_corpus() const {
    return fail(ErrorCode::Invalid, fmt::format("[bench] '{}' is no file of recordings", path_));
  }
  tl::unexpected<Error> cannot_be_written() const {
    return fail(ErrorCode::Environment,
                fmt::format("[bench] --record '{}' cannot be written", path_));
  }

  std::string path_;
  std::set<std::string> known_;
};

/// The workers and the machine with which many recordings are made.
struct Gathering {
  const Call& call;
  int threads = 1;
  tuner::Workers workers;
  Target host;  ///< target of the machine, with its machine description
};

tuner::Measurer measurer_of(const Call& call) {
  return {call.environment.program_version, call.environment.now_ms()};
}

Result<tuner::Workers> start_workers(const Call& call) {
  return tuner::start_workers(call.target, call.threads[0], call.environment,
                              tuner::TuneOptions().timeout_s);
}

Result<Gathering> begin(const Call& call) {
  Gathering gathering{call, call.threads[0], {}, call.target};
  TW_TRY(gathering.workers, start_workers(call));
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY(db::Store store, db::Store::open(scratch.path() + "/host.db", db::OpenMode::ReadWrite));
  const double seconds = static_cast<double>(tuner::calibration_budget_ns) * 1e-9;
  gathering.host =
      tuner::choose_machine(
          store, call.target, [&] { return gathering.workers.runner->calibrate(seconds); },
          measurer_of(call))
          .target;
  return gathering;
}

/// Returns a database without records, which has only the calibration of the machine, if there is
/// one.
Result<db::Store> empty_store(const Gathering& gathering, const std::string& path) {
  TW_TRY(db::Store store, db::Store::open(path, db::OpenMode::ReadWrite));
  const Machine& machine = gathering.host.machine;
  if (machine.origin == MachineOrigin::Calibrated)
    TW_RETURN_IF_ERROR(tuner::store_calibration(store, gathering.call.target, machine,
                                                measurer_of(gathering.call)));
  return store;
}

/// True for errors that come from the workload itself, so that they would occur again in another
/// run.
bool is_of_workload(const Error& error) {
  return error.code == ErrorCode::NoCandidate || error.code == ErrorCode::Unsupported;
}

/// Returns the text of a recording of the workload. The recording has no trials if no candidate is
/// valid.
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
      const auto results,
      tuner::tune_all(
          {{.workload = item.workload}}, call.target, options, store, call.environment,
          [&](const tuner::Progress& progress) { display.update(progress); }, gathering.workers));
  if (call.interrupted()) return tuner::interrupted_at_start();
  const Result<tuner::Tuned>& tuned = results.front();
  if (!tuned && !is_of_workload(tuned.error())) return tl::unexpected<Error>(tuned.error());
  if (tuned && tuned->unstored) return tl::unexpected<Error>(*tuned->unstored);
  TW_TRY(const std::vector<db::Record> records, store.query({.workload = item.workload.key()}));
  std::ostringstream text;
  tuner::write_recording(text, item.name, item.workload, gathering.host, gathering.threads,
                         records);
  return text.str();
}

/// Returns the state of the caches in which the workload with this number is recorded. It is Hot
/// for every third number. For the others it is a state as in networks, with constants in L3 and in
/// memory by turns. Workloads without constants have only one state as in networks, NetworkL3.
dsl::CacheState state_of(const dsl::Workload& workload, int64_t number) {
  if (number % 3 == 0) return dsl::CacheState::Hot;
  const bool has_constants = std::ranges::any_of(
      workload.compute.inputs, [](const dsl::Input& input) { return input.constant; });
  return has_constants && number % 3 == 2 ? dsl::CacheState::NetworkMemory
                                          : dsl::CacheState::NetworkL3;
}

/// Returns the workload of a kind with this number, with the state of the caches in which it is
/// recorded.
Result<Item> numbered_item(const Kind& kind, uint64_t seed, int64_t number) {
  TW_TRY(Item item, draw_item(kind, seed, number));
  item.workload.state = state_of(item.workload, number);
  return item;
}

}  // namespace

Result<int> run_corpus(const Call& call) {
  const Flags& flags = call.flags;
  const int64_t end_ns = call.environment.clock() + static_cast<int64_t>(flags.budget_s * 1e9);
  if (flags.record.empty())
    return fail(ErrorCode::Usage, "[bench] --corpus: name its file with --record");
  if (call.threads.size() != 1)
    return fail(ErrorCode::Usage, "[bench] --corpus takes one number of --threads");
  TW_TRY(const std::vector<const Kind*> kinds, choose_kinds(flags.kinds));
  TW_TRY(Corpus corpus, Corpus::open(flags.record));
  std::optional<Gathering> gathering;
  int64_t recorded = 0;
  for (int64_t number = 0;; ++number)
    for (const Kind* kind : kinds) {
      if (call.environment.clock() >= end_ns) return 0;
      TW_TRY(const Item item, numbered_item(*kind, static_cast<uint64_t>(flags.seed), number));
      if (corpus.has(item.workload, call.target, call.threads[0])) continue;
      if (!gathering) {
        TW_TRY(Gathering begun, begin(call));
        gathering.emplace(std::move(begun));
      } else if (recorded % workloads_of_workers == 0) {
        gathering->workers = {};
        TW_TRY(gathering->workers, start_workers(call));
      }
      ++recorded;
      TW_TRY(const std::string recording, record(*gathering, item));
      TW_RETURN_IF_ERROR(corpus.append(item.workload, call.target, call.threads[0], recording));
    }
}

}  // namespace tw::bench
