// SPDX-License-Identifier: Apache-2.0
#pragma once
// tune(): finds a fast schedule for a workload by searching, building, verifying and measuring.
//
//   TW_TRY(db::Store store, db::Store::open("team.db", db::OpenMode::ReadWrite));
//   TW_TRY(Tuned tuned, tune(workload, host_target(), {.budget_s = 60}, store, environment, {}));
//   tuned.best.schedule;      // tw1 text
//   tuned.artifact;           // the kernel, compiled and verified
//
// Candidates are built in worker processes and run in another, each behind limits and deadlines;
// a candidate that crashes, hangs or is wrong is a record with that status. Every trial is stored
// as soon as its batch is done, so an interrupted run loses at most one batch and a later run goes
// on from what is known. Not thread-safe; one tune() at a time in a process.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "db/record.h"
#include "db/store.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"
#include "tuner/search/batch_size.h"
#include "tuner/workers/environment.h"

namespace tw::tuner {

struct Workers;

/// None answers from the database alone. The others search until the next minute is expected to
/// shorten the latency by less than least_gain(): 1 %, 0.1 %, or until the budget is used.
enum class Effort { None, Quick, Normal, Full };
double least_gain(Effort effort);

/// A workload to be tuned, perhaps one of several. Where it asks for layouts (with_layouts()),
/// every candidate has them, what is timed is the kernel on arrays in them, and its records are
/// apart from those of the workload with free layouts.
struct TaskSpec {
  dsl::Workload workload;
  double weight = 1;      ///< number of times that a network has it
  std::string name = {};  ///< for progress
  /// tw1 text of a schedule that is measured first, whether the database knows it or not. Its point
  /// of the space is a parent of later candidates; where it has none, the nearest point is tried
  /// next. Empty: none.
  std::string schedule = {};
  /// The largest error that the result may have, relative to the largest element; where the
  /// accuracy class allows less, that counts. Trials with larger errors are stored, and are no
  /// results.
  double most_error = std::numeric_limits<double>::infinity();
  /// True if `schedule` is measured also where another run has it under way or has measured it.
  bool insists = false;
};

struct TuneOptions {
  double budget_s = 60;  ///< for all workloads together; exceeded by less than 2 s
  /// Most new trials of each workload, the finals included; 0: as the budget allows.
  int64_t trials = 0;
  Effort effort = Effort::Normal;
  std::string search = "evolution";  ///< a name of searches() in tuner/search/search.h
  uint64_t seed = 1;
  int threads = 1;               ///< threads that the kernel will run on
  int batch = usual_batch_size;  ///< candidates of one round, shared among the builders
  double timeout_s = 10;         ///< time for one candidate to be verified and measured
  /// True if the winners are built whole, with the kernels that pack for them (Tuned::artifact).
  bool builds_winners = true;
};

/// The most threads that a kernel is tuned for.
inline constexpr int most_kernel_threads = 1024;

/// Usage, naming the option and what was expected, for numbers that no run can have.
Status check(const TuneOptions& options);

/// The state of the task that was worked on last; times and next_gain are those of the whole run.
struct Progress {
  std::string name;                    ///< name of the task
  size_t tasks = 1, finished = 0;      ///< tasks of the run, and those whose finals are over
  double elapsed_s = 0, budget_s = 0;  ///< no budget: 0
  std::string preparing;  ///< what is done before the first trial: "predicting kernel 40 of 612"
  std::string finishing;  ///< what is done once no more candidates come; empty before
  std::map<std::string, int64_t> trials;  ///< number of trials of this run by status
  int64_t known_trials = 0;               ///< number of schedules that the database had before
  double best_ns = 0;                     ///< 0: none yet
  double untuned_ns = 0;                  ///< latency of the default schedule; 0: not measured
  double given_ns = 0;                    ///< latency of TaskSpec::schedule; 0: none is valid yet
  double flops = 0;
  double bytes = 0;        ///< compulsory traffic of every kernel (dsl::compulsory_traffic)
  double peak_gflops = 0;  ///< peak of the machine on the kernel's threads, for the workload's type
  /// That the machine was calibrated for this run, or why not; empty where that was no question.
  std::string machine_note;
  /// The model that orders candidates, "pretrained <name>" or "analytic", with the trials of the
  /// workload that correct it, and how well it orders each of them without its measurement:
  /// "analytic, corrected by 24 trials: rank correlation 0.81 (without 0.62)".
  std::string model;
  double working_s = 0;  ///< time spent building, verifying or measuring
  /// Share by which the next minute, or what is left of the budget, is expected to shorten the
  /// latency, or the sum of the tasks' (search/gain.h). Absent before the first trial and in the
  /// finals.
  std::optional<double> next_gain;
};
using OnProgress = std::function<void(const Progress&)>;

/// Plateau: the next minute is worth less than the effort's least gain. Unstored: neither the
/// database nor its spool takes records, as when the disk is full.
enum class Ended { FromDatabase, Budget, Trials, Plateau, Interrupted, Unstored };
std::string_view to_string(Ended ended);

struct Tuned {
  db::Record best;
  /// The kernel of `best`. Without TuneOptions::builds_winners it is that of the trial, without the
  /// kernels that pack for it; empty where this run did not build it.
  runtime::Artifact artifact;
  Progress progress;
  Ended ended = Ended::Budget;
  double next_minute_gain = 0;  ///< expected gain of one more minute for it alone (search/gain.h)
  double spent_s = 0;           ///< time of the budget spent on it, without the finals
  std::map<std::string, int64_t> failures;  ///< reasons of rejected candidates, for the report
  /// The reason for which the latest trials of the run, perhaps the best one, are stored nowhere;
  /// nullopt: all are stored.
  std::optional<Error> unstored = {};
};

/// Errors: Environment when workers or the code generator cannot be started, NoCandidate when no
/// candidate is valid (with the three most frequent reasons), Interrupted before anything was
/// found, Unsupported where no strategy of the target has the layouts that are asked for.
Result<Tuned> tune(const dsl::Workload& workload, const Target& target, const TuneOptions& options,
                   db::Store& store, const Environment& environment, const OnProgress& on_progress);

/// Tunes several workloads with one budget: each task gets a first share, then always the one of
/// which the most time is expected to be saved a second, counted by its weight; the workers stay.
/// One result a task, in order, with errors as tune()'s; where the budget ended before its turn,
/// what the database knows of it, else NoCandidate. The error of all: workers cannot be started.
Result<std::vector<Result<Tuned>>> tune_all(const std::vector<TaskSpec>& tasks,
                                            const Target& target, const TuneOptions& options,
                                            db::Store& store, const Environment& environment,
                                            const OnProgress& on_progress);
/// The same with workers of the caller's (tuner/workers/workers.h). One run at a time may use them.
Result<std::vector<Result<Tuned>>> tune_all(const std::vector<TaskSpec>& tasks,
                                            const Target& target, const TuneOptions& options,
                                            db::Store& store, const Environment& environment,
                                            const OnProgress& on_progress, Workers workers);

/// tune_all() on options.threads, as a function, so that tests can answer from tables.
using TuneAll = std::function<Result<std::vector<Result<Tuned>>>(
    const std::vector<TaskSpec>& tasks, const TuneOptions& options, const OnProgress& on_progress)>;

/// The database's answer to database_key(), if it is of this device or its model. Otherwise, of the
/// best schedules for other models and for targets with vectors of this length, the one that the
/// cost model expects to be the fastest here, which is worth a try. Records with larger
/// errors than `most_error` are passed over.
Result<std::optional<db::Record>> best_known(
    db::Store& store, const dsl::Workload& workload, const Target& target, int threads,
    double most_error = std::numeric_limits<double>::infinity());

/// Builds one schedule and returns the artifact, verified unless `verify` is false or the target is
/// another machine's. Errors as in tune(); a wrong kernel is Invalid.
Result<runtime::Artifact> build_schedule(const dsl::Workload& workload, std::string_view schedule,
                                         const Target& target, int threads, bool verify,
                                         const Environment& environment);

/// Measures one schedule as tune() would, and returns a record that is not stored. A kernel that is
/// not correct, or could not be timed, gives a record with that status; TryLater where it was lost.
Result<db::Record> try_schedule(const dsl::Workload& workload, std::string_view schedule,
                                const Target& target, int threads, const Environment& environment);
/// As try_schedule(), for a kernel that has to be timed: any other status is Invalid.
Result<db::Record> measure_schedule(const dsl::Workload& workload, std::string_view schedule,
                                    const Target& target, int threads,
                                    const Environment& environment);

/// The body of the worker program; returns its exit code. Started only by tune() and its like.
int worker_main(const std::vector<std::string>& arguments);

}  // namespace tw::tuner
