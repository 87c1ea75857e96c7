// SPDX-License-Identifier: Apache-2.0
#include "bench/search/strategies.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/isa.h"
#include "base/text.h"
#include "bench/peers/peer.h"
#include "codegen/abi.h"
#include "cost_model/expected.h"
#include "db/store.h"
#include "tools/flags/quote.h"
#include "tuner/processes/scratch.h"

namespace tw::bench {
namespace {

double seconds_since(int64_t start_ns, const tuner::Clock& clock) {
  return static_cast<double>(clock() - start_ns) * 1e-9;
}

void add_claim(Trace& trace, const Moment& moment) {
  if (moment.ns > 0 && (trace.claims.empty() || moment.ns < trace.claims.back().ns))
    trace.claims.push_back(moment);
}

int64_t trials_of(const tuner::Progress& progress) {
  int64_t all = 0;
  for (const auto& [status, count] : progress.trials) all += count;
  return all;
}

Result<Searched> run_ours(std::string_view name, const SearchTask& task,
                          const tuner::OnProgress& on_progress) {
  const bool taught = name == "taught", analytic = name == "analytic";
  std::optional<cost_model::AnalyticOnly> analytic_only;
  if (analytic) analytic_only.emplace();
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY(db::Store store, db::Store::open(scratch.path() + "/search.db", db::OpenMode::ReadWrite));
  if (taught) TW_RETURN_IF_ERROR(copy_known(task.known, task, store));
  tuner::TuneOptions options = task.tuning;
  options.search = taught || analytic ? "evolution" : name;
  Searched searched;
  Trace& trace = searched.trace;
  const tuner::Clock& clock = task.environment->clock;
  const int64_t start = clock();
  // The last report is about a repeated measurement of the winner, which is not a trial of the
  // search.
  Moment last;
  TW_TRY(tuner::Tuned tuned,
         tuner::tune(task.item->workload, task.target, options, store, *task.environment,
                     [&](const tuner::Progress& progress) {
                       add_claim(trace, last);
                       last = {seconds_since(start, clock), trials_of(progress), progress.best_ns};
                       trace.end.trials = std::max(trace.end.trials, last.trials - 1);
                       on_progress(progress);
                     }));
  if (trace.claims.empty()) return fail(ErrorCode::NoCandidate, "[bench] no trial was valid");
  trace.end.seconds = seconds_since(start, clock);
  trace.end.ns = trace.claims.back().ns;
  trace.schedule = tuned.best.schedule;
  searched.artifact = std::move(tuned.artifact);
  return searched;
}

/// Runs the Adams2019 autoscheduler. It makes no trials; its time is the time of scheduling and
/// compiling.
Result<Searched> run_adams(std::string_view, const SearchTask& task, const tuner::OnProgress&) {
  TW_TRY(const Peer halide, find_peer("halide", false, {}));
  const tuner::Clock& clock = task.environment->clock;
  const int64_t start = clock();
  TW_TRY(auto forms,
         halide.make(task.item->name, {&task.item->workload, task.inputs, task.tuning.threads}));
  Searched searched;
  searched.trace.end = {seconds_since(start, clock), 0, 1};
  searched.trace.claims = {searched.trace.end};
  searched.contender = std::move(forms.front());
  return searched;
}

/// Reads the output of a command line by line; `log` gets its standard error.
class Lines {
 public:
  Lines(const std::vector<std::string>& argv, const std::string& log) {
    std::string command = "exec";
    for (const std::string& word : argv) command += " " + tools::shell_quoted(word);
    pipe_ = popen((command + " 2>" + tools::shell_quoted(log)).c_str(), "r");
  }
  Lines(const Lines&) = delete;
  ~Lines() { (void)close(); }

  bool next(std::string& line) {
    char* text = nullptr;
    size_t capacity = 0;
    const bool read = pipe_ && getline(&text, &capacity, pipe_) > 0;
    if (read) line = text;
    free(text);
    return read;
  }
  /// Waits until the command ends. Returns true if it was found and succeeded.
  bool close() {
    FILE* const pipe = std::exchange(pipe_, nullptr);
    return pipe && pclose(pipe) == 0;
  }

 private:
  FILE* pipe_ = nullptr;
};

std::string last_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);)
    if (!trim(line).empty()) last = line;
  return last;
}

// Time beyond the budget that TVM may take to finish its current round and the last compilation.
// There is a limit because TVM's builders sometimes hang.
constexpr double tvm_grace_s = 900;
// Largest error of a sum of thousands of products in f32, relative to the largest output.
constexpr double most_tvm_error = 1e-4;

Result<Searched> run_tvm(std::string_view, const SearchTask& task,
                         const tuner::OnProgress& on_progress) {
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  const std::string log = scratch.path() + "/tvm.log";
  const nlohmann::json request = {{"op", task.item->workload.op},
                                  {"attributes", task.item->workload.attributes},
                                  {"threads", task.tuning.threads},
                                  {"seconds", task.tuning.budget_s},
                                  {"seed", task.tuning.seed}};
  const std::string limit = fmt::format("{:.0f}", task.tuning.budget_s + tvm_grace_s);
  Lines lines({"timeout", "-k", "10", limit, TW_BENCH_TVM_PYTHON, TW_BENCH_SCRIPTS "/search/tvm.py",
               request.dump()},
              log);
  Searched searched;
  Trace& trace = searched.trace;
  trace.alone = true;
  double error = 0;
  for (std::string line; lines.next(line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) continue;
    if (json.contains("final_ns")) {
      trace.final_ns = json.at("final_ns").get<double>();
      error = json.at("error").get<double>();
      continue;
    }
    const double best = json.at("best_ns").is_null() ? 0 : json.at("best_ns").get<double>();
    trace.end = {json.at("elapsed_s").get<double>(), json.at("trials").get<int64_t>(), best};
    add_claim(trace, trace.end);
    tuner::Progress progress;
    progress.elapsed_s = trace.end.seconds;
    progress.budget_s = task.tuning.budget_s;
    progress.best_ns = best;
    progress.trials["measured"] = trace.end.trials;
    progress.flops = dsl::count_flops(task.item->workload.compute);
    on_progress(progress);
  }
  if (!lines.close() || !(trace.final_ns > 0))
    return fail(ErrorCode::Internal, fmt::format("[tvm] it fails or hangs: {}", last_line_of(log)));
  if (!(error < most_tvm_error))
    return fail(ErrorCode::Invalid, fmt::format("[tvm] its result is off by {:.2g}", error));
  return searched;
}

std::string always(const SearchTask&) { return ""; }

std::string without_known(const SearchTask& task) {
  return task.known.empty() ? "name a database with --known" : "";
}

std::string without_trees(const SearchTask& task) {
  return cost_model::expectation_name(task.target) == "analytic"
             ? "evolution has no pretrained model on this target"
             : "";
}

std::string without_halide(const SearchTask&) {
  const auto peer = find_peer("halide", false, {});
  return peer ? "" : peer.error().message;
}

std::string without_tvm(const SearchTask&) {
  if (max_isa()) return fmt::format("unset {}: TVM uses the whole processor", max_isa_variable);
  return access(TW_BENCH_TVM_PYTHON, X_OK) == 0
             ? ""
             : "`./tw bench --search --strategies ...,tvm` installs it";
}

}  // namespace

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> table = {
      {"evolution", "ours, with the cost model, from nothing", true, run_ours, always},
      {"taught", "ours, with what --known knows of other workloads", true, run_ours, without_known},
      {"analytic", "evolution without the pretrained model", false, run_ours, without_trees},
      {"blind", "evolution without a model", true, run_ours, always},
      {"random", "uniform samples", true, run_ours, always},
      {"adams2019", "Halide's autoscheduler, which measures nothing", false, run_adams,
       without_halide},
      {"tvm", "TVM's MetaSchedule", false, run_tvm, without_tvm}};
  return table;
}

Result<std::vector<const Strategy*>> choose_strategies(std::string_view names,
                                                       const SearchTask& task) {
  std::vector<const Strategy*> chosen;
  if (names.empty()) {
    for (const Strategy& strategy : strategies())
      if (strategy.by_default && strategy.missing(task).empty()) chosen.push_back(&strategy);
    return chosen;
  }
  for (const std::string& part : split(names, ',')) {
    const auto found = std::find_if(strategies().begin(), strategies().end(),
                                    [&](const Strategy& s) { return s.name == trim(part); });
    if (found == strategies().end()) {
      std::vector<std::string> known;
      for (const Strategy& strategy : strategies()) known.emplace_back(strategy.name);
      return fail(ErrorCode::Usage, fmt::format("[bench] --strategies '{}': expected some of {}",
                                                part, join(known, ", ")));
    }
    if (const std::string missing = found->missing(task); !missing.empty())
      return fail(ErrorCode::Environment,
                  fmt::format("[bench] --strategies {}: {}", found->name, missing));
    chosen.push_back(&*found);
  }
  return chosen;
}

Result<Searched> run_strategy(const Strategy& strategy, const SearchTask& task) {
  Result<Searched> searched = strategy.run(strategy.name, task, task.watch(strategy.name));
  if (!searched &&
      (searched.error().code == ErrorCode::Interrupted || task.environment->interrupted()))
    return fail(ErrorCode::Interrupted, searched.error().message);
  if (!searched) {
    const std::string message = searched.error().message;
    searched = Searched();
    searched->trace.error = message;
  }
  searched->trace.strategy = strategy.name;
  return searched;
}

Status copy_known(const std::string& path, const SearchTask& task, db::Store& to) {
  TW_TRY(db::Store from, db::Store::open(path, db::OpenMode::ReadOnly));
  db::Filter filter;
  filter.op = task.item->workload.op;
  filter.target = task.target.to_string();
  filter.threads = task.tuning.threads;
  filter.codegen_abi = codegen::codegen_abi;
  std::vector<db::Record> others;
  const std::string own = task.item->workload.key();
  TW_RETURN_IF_ERROR(from.for_each(filter, [&](const db::Record& record) {
    if (record.workload != own) others.push_back(record);
    return true;
  }));
  TW_TRY(const db::AppendSummary copied, to.append(others));
  (void)copied;
  return {};
}

}  // namespace tw::bench
