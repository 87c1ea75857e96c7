// SPDX-License-Identifier: Apache-2.0
#include "tuner/demand.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/hash.h"
#include "codegen/abi.h"
#include "db/demand.h"
#include "schedules/schedule.h"
#include "tuner/search/gain.h"
#include "tuner/workers/device.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {
namespace {

// Number of trials that are made in a minute on one core, including the builds.
constexpr double trials_of_a_minute = 256;
// Assumed ratio of the latencies of a kernel's first and second trial. Gains are predicted from the
// latencies of trials (search/gain.h), and the demand has only the best one. With this ratio, a
// search is expected to shorten the latency of a kernel that was only predicted by about 8 %. That
// was the difference between predicted kernels and the best kernels of a search on the standing
// workloads (docs/tuning.md).
constexpr double first_step = 1.25;
// Shortest time in seconds for each kernel of a wave. It is enough to build the reference kernel
// and to measure one or two batches.
constexpr double least_seconds_each = 4;
// Largest number of kernels of a wave. It is limited because all tasks of a run are in memory
// together.
constexpr size_t most_of_a_wave = 64;
// Number of waves without a result for a kernel, after which it is not tuned again.
constexpr int most_failures = 2;
// Shortest time of a wave in seconds. A shorter wave would measure nothing.
constexpr double least_wave_s = 1;
// Time of a call, in ns, that is assumed if no time of its kernels is known.
constexpr double usual_ns = 1e6;

/// Returns the best known latency of the kernel; 0 if none is known.
double present_ns(const db::WantedKernel& kernel) {
  return kernel.best_ns > 0 ? kernel.best_ns : kernel.latency_ns;
}

/// Returns the latency of the kernel that was used when the demand was stored; 0 if it is not
/// known. The latency that a single session measured can be too low, and that of the best record
/// was judged by the trials of all sessions. So the larger of the two latencies is returned.
double used_ns(const db::WantedKernel& kernel) {
  return kernel.used_ns > 0 ? std::max(kernel.used_ns, kernel.best_ns) : kernel.latency_ns;
}

/// Returns the time of a call with the best kernels that are known, in ns.
double call_ns(const db::Demand& demand) {
  const double best_ns = times_of(demand).best_ns;
  return best_ns > 0 ? best_ns : usual_ns;
}

double saving_of(const db::WantedKernel& kernel, double call_ns) {
  const double ns = present_ns(kernel);
  GainCurve curve;
  curve.add(first_step * ns);
  curve.add(ns);
  curve.add_in_vain(kernel.trials - curve.trials());
  const double share = ns > 0 ? std::min(1.0, kernel.runs * ns / call_ns) : 1;
  return share * curve.next(trials_of_a_minute);
}

bool is_schedule_of(const dsl::Workload& workload, const std::string& text) {
  return !text.empty() && schedules::parse_schedule(workload.compute, text).has_value();
}

/// Collects the kernels of demands as tasks. If a kernel has a task already, its weight and saving
/// are added to those of the task.
class WantedTasks {
 public:
  void add(const db::WantedKernel& kernel, const db::Demand& demand, double call_ns) {
    auto workload = dsl::parse_workload(kernel.workload);
    if (workload) workload = dsl::with_asked(std::move(*workload), kernel.layouts);
    if (!workload) return;
    const auto [place, is_new] =
        places_.emplace(std::pair(workload->text(), demand.threads), tasks_.size());
    if (is_new)
      tasks_.push_back({{.workload = std::move(*workload), .weight = 0, .name = demand.name},
                        static_cast<int>(demand.threads)});
    WantedTask& task = tasks_[place->second];
    task.spec.weight += kernel.runs / call_ns;
    task.spec.most_error = std::min(task.spec.most_error, kernel.most_error);
    // A kernel without trials has a predicted schedule. It is measured first, because a short
    // search would find a slower one.
    if (kernel.trials == 0 && task.spec.schedule.empty() &&
        is_schedule_of(task.spec.workload, kernel.schedule))
      task.spec.schedule = kernel.schedule;
    task.saving += saving_of(kernel, call_ns);
  }

  std::vector<WantedTask> take() {
    std::ranges::stable_sort(tasks_, std::greater(), &WantedTask::saving);
    return std::move(tasks_);
  }

 private:
  std::vector<WantedTask> tasks_;
  std::map<std::pair<std::string, int64_t>, size_t> places_;
};

class DemandWork {
 public:
  DemandWork(const Target& target, const TuneOptions& options, db::Store& store,
             const Environment& environment, const OnProgress& on_progress, const TuneAll& tune_all)
      : target_(target),
        options_(options),
        store_(store),
        environment_(environment),
        on_progress_(on_progress),
        tune_all_(tune_all),
        started_ns_(environment.clock()) {}

  Result<DemandRun> run() {
    TW_TRY(run_.before, demands());
    for (std::vector<db::Demand> now = run_.before;;) {
      const std::vector<WantedTask> wave = next_wave(now);
      if (wave.empty()) break;
      TW_RETURN_IF_ERROR(tune(wave));
      if (environment_.interrupted() || run_.unstored) break;
      now = demands_or(now);
    }
    run_.after = demands_or(run_.before);
    run_.tuned = tuned_.size();
    for (const auto& [name, failure] : failures_)
      run_.failures[failure.second].push_back(name.first);
    run_.seconds = elapsed_s();
    if (run_.unstored) run_.ended = Ended::Unstored;
    if (environment_.interrupted()) run_.ended = Ended::Interrupted;
    return std::move(run_);
  }

 private:
  double elapsed_s() const { return static_cast<double>(environment_.clock() - started_ns_) / 1e9; }
  double left_s() const { return options_.budget_s - elapsed_s(); }

  Result<std::vector<db::Demand>> demands() {
    TW_TRY(std::vector<db::Demand> demands,
           db::demands(store_, {.target = target_.to_string(),
                                .device = device_text(target_),
                                .codegen_abi = codegen::codegen_abi}));
    const int64_t most_threads = target_.is_gpu() ? 1 : target_.machine.cores;
    std::erase_if(demands, [&](const db::Demand& demand) { return demand.threads > most_threads; });
    return demands;
  }

  /// Returns the demands that the database has now, or `last` if the database cannot be read, for
  /// instance because its server cannot be reached.
  std::vector<db::Demand> demands_or(const std::vector<db::Demand>& last) {
    auto now = demands();
    if (now) return std::move(*now);
    note(environment_.notes, NoteKind::WarmStartUnread, now.error().message);
    return last;
  }

  /// Returns the kernels of the next wave. All of them are for the number of threads of the kernel
  /// with the largest saving. Empty if the run is to end.
  std::vector<WantedTask> next_wave(const std::vector<db::Demand>& now) {
    std::vector<WantedTask> tasks = tasks_of(now);
    std::erase_if(tasks, [&](const WantedTask& task) { return finished_.contains(name_of(task)); });
    left_to_save_ =
        std::accumulate(tasks.begin(), tasks.end(), 0.0,
                        [](double sum, const WantedTask& task) { return sum + task.saving; });
    const double least = least_gain(options_.effort) * static_cast<double>(now.size());
    if (tasks.empty() || left_to_save_ < least) return {};
    if (left_s() < least_wave_s) {
      run_.ended = Ended::Budget;
      return {};
    }
    const int threads = tasks.front().threads;
    std::erase_if(tasks, [&](const WantedTask& task) { return task.threads != threads; });
    const double room = std::max(1.0, std::floor(left_s() / least_seconds_each));
    const auto most = static_cast<size_t>(std::min(room, static_cast<double>(most_of_a_wave)));
    if (tasks.size() > most) tasks.resize(most);
    return tasks;
  }

  /// Returns the time of a wave in seconds. It is the same share of the remaining time as the
  /// wave's share of all expected savings, but at least least_seconds_each for each kernel.
  double seconds_of(const std::vector<WantedTask>& wave) const {
    double saving = 0;
    for (const WantedTask& task : wave) saving += task.saving;
    const double share = left_to_save_ > 0 ? saving / left_to_save_ : 1;
    const double least_s = least_seconds_each * static_cast<double>(wave.size());
    return std::min(left_s(), std::max(share * left_s(), least_s));
  }

  static std::pair<std::string, int> name_of(const WantedTask& task) {
    return {task.spec.workload.text(), task.threads};
  }

  Status tune(const std::vector<WantedTask>& wave) {
    TuneOptions options = options_;
    options.threads = wave.front().threads;
    options.budget_s = seconds_of(wave);
    options.builds_winners = false;
    std::vector<TaskSpec> specs;
    for (const WantedTask& task : wave) specs.push_back(task.spec);
    const double before_s = elapsed_s();
    const auto results = tune_all_(specs, options, [&](Progress progress) {
      if (!on_progress_) return;
      progress.elapsed_s += before_s;
      progress.budget_s = options_.budget_s;
      on_progress_(progress);
    });
    ++run_.waves;
    if (!results && results.error().code == ErrorCode::Interrupted) return {};
    TW_RETURN_IF_ERROR(results);
    for (size_t i = 0; i < wave.size(); ++i) take(wave[i], (*results)[i]);
    return {};
  }

  void take(const WantedTask& task, const Result<Tuned>& result) {
    if (!result) return take_failure(task, result.error());
    failures_.erase(name_of(task));
    if (result->ended != Ended::FromDatabase) tuned_.insert(name_of(task));
    if (result->ended != Ended::Budget && result->ended != Ended::FromDatabase)
      finished_.insert(name_of(task));
    if (result->unstored) run_.unstored = result->unstored;
  }

  /// Notes a failure of a kernel. The first failure may come from a lack of time; after the second
  /// one the kernel is not tuned again.
  void take_failure(const WantedTask& task, const Error& error) {
    if (error.code == ErrorCode::Interrupted) return;
    auto& [waves, reason] = failures_[name_of(task)];
    reason = error.message;
    if (++waves == most_failures) finished_.insert(name_of(task));
  }

  const Target& target_;
  const TuneOptions& options_;
  db::Store& store_;
  const Environment& environment_;
  const OnProgress& on_progress_;
  const TuneAll& tune_all_;
  const int64_t started_ns_;

  double left_to_save_ = 0;  ///< sum of the savings of all kernels that may still be tuned
  /// Kernels that are not tuned again: further tuning is not worth it, or no candidate works.
  std::set<std::pair<std::string, int>> finished_;
  std::set<std::pair<std::string, int>> tuned_;
  /// For each kernel without a result, the number of waves that tuned it in vain, and the last
  /// reason.
  std::map<std::pair<std::string, int>, std::pair<int, std::string>> failures_;
  DemandRun run_;
};

}  // namespace

db::Demand demand_at(const Target& target, int threads, int64_t now_ms) {
  db::Demand demand;
  demand.target = target.to_string();
  demand.device = device_text(target);
  demand.threads = threads;
  demand.codegen_abi = codegen::codegen_abi;
  demand.asked_ms = now_ms;
  return demand;
}

db::Demand demand_of(const dsl::Workload& workload, const Target& target, int threads,
                     const db::Record* used, int64_t now_ms) {
  db::WantedKernel kernel;
  kernel.op = workload.op;
  kernel.workload = workload.key();
  kernel.layouts = workload.asked();
  if (used) {
    kernel.schedule = used->schedule;
    kernel.latency_ns = used->latency_ns;
    kernel.is_measured = is_of_device(*used, target);
  }
  db::Demand demand = demand_at(target, threads, now_ms);
  demand.source = sha256_hex(workload.text());
  demand.name = workload.op;
  demand.latency_ns = kernel.latency_ns;
  demand.kernels.push_back(std::move(kernel));
  return demand;
}

std::optional<db::Demand> demand_left(const dsl::Workload& workload, const Target& target,
                                      int threads, const Result<Tuned>& result, int64_t now_ms) {
  if (!result && result.error().code != ErrorCode::NoCandidate &&
      result.error().code != ErrorCode::Interrupted)
    return std::nullopt;
  const bool has_own = result && is_of_device(result->best, target);
  const bool is_cut_short =
      result && (result->ended == Ended::Budget || result->ended == Ended::Interrupted) &&
      result->next_minute_gain >= least_gain(Effort::Normal);
  if (has_own && !is_cut_short) return std::nullopt;
  return demand_of(workload, target, threads, result ? &result->best : nullptr, now_ms);
}

DemandTimes times_of(const db::Demand& demand) {
  DemandTimes times;
  double measured_ns = 0;
  for (const db::WantedKernel& kernel : demand.kernels) {
    const double before_ns = used_ns(kernel);
    times.used_ns += kernel.runs * before_ns;
    times.best_ns += kernel.runs * (kernel.best_ns > 0 ? kernel.best_ns : before_ns);
    if (kernel.used_ns > 0 && kernel.best_ns > 0) measured_ns += kernel.runs * before_ns;
  }
  if (times.used_ns > 0) times.measured_share = measured_ns / times.used_ns;
  return times;
}

double expected_saving(const db::WantedKernel& kernel, const db::Demand& demand) {
  return saving_of(kernel, call_ns(demand));
}

double expected_saving(const db::Demand& demand) {
  const double of_call_ns = call_ns(demand);
  double saving = 0;
  for (const db::WantedKernel& kernel : demand.kernels) saving += saving_of(kernel, of_call_ns);
  return std::min(saving, 1.0);
}

std::vector<WantedTask> tasks_of(const std::vector<db::Demand>& demands) {
  WantedTasks tasks;
  for (const db::Demand& demand : demands) {
    const double of_call_ns = call_ns(demand);
    for (const db::WantedKernel& kernel : demand.kernels) tasks.add(kernel, demand, of_call_ns);
  }
  return tasks.take();
}

Result<DemandRun> tune_demand(const Target& target, const TuneOptions& options, db::Store& store,
                              const Environment& environment, const OnProgress& on_progress,
                              const TuneAll& tune_all) {
  TW_RETURN_IF_ERROR(check(options));
  if (options.effort == Effort::None)
    return fail(ErrorCode::Usage,
                "[tune] what is wanted is measured: effort none measures nothing");
  return DemandWork(target, options, store, environment, on_progress, tune_all).run();
}

}  // namespace tw::tuner
