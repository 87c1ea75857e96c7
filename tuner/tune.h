// SPDX-License-Identifier: Apache-2.0
#pragma once
// tune(): finds a fast schedule for a workload by searching, building, verifying and measuring.
//
//   TW_TRY(db::Store store, db::Store::open("team.db", db::OpenMode::ReadWrite));
//   TW_TRY(Tuned tuned, tune(workload, host_target(), {.budget_s = 60}, store, environment, {}));
//   tuned.best.schedule;      // tw1 text
//   tuned.artifact;           // the kernel, compiled and verified
//
// Candidates are built in some worker processes and run in another one, each behind limits and
// deadlines. A candidate that crashes, hangs or is wrong becomes a record with that status. Every
// trial is stored as soon as its batch is done, so an interrupted run loses at most one batch, and
// a later run continues from what is stored. Not thread-safe; one tune() at a time in a process.

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

/// The extent of a search. None answers from the database and measures nothing. Quick and Normal
/// search until the next minute is expected to shorten the latency by less than least_gain(). Full
/// searches until the budget is used.
enum class Effort { None, Quick, Normal, Full };
/// Gain of the next minute, as a share of the latency, below which a search ends: 0.01 for Quick,
/// 0.001 for Normal, 0 for None and Full.
double least_gain(Effort effort);

/// A workload to be tuned, alone or together with others. If the workload asks for layouts
/// (with_layouts()), every candidate keeps its arrays in these layouts, and only the kernel is
/// timed, without conversions. Its records are kept apart from those of the workload with free
/// layouts.
struct TaskSpec {
  dsl::Workload workload;
  double weight = 1;      ///< number of times that a network runs the workload
  std::string name = {};  ///< name of the task in progress reports
  /// A schedule, as tw1 text, that is measured first, even if the database has trials of it; empty:
  /// no such schedule. If the schedule is a point of the search space, later candidates may descend
  /// from it. Otherwise the point that is most similar to it is tried next.
  std::string schedule = {};
  /// The largest error that the result may have, relative to the result's largest element. The
  /// accuracy class still applies if it is stricter. Trials with larger errors are stored, but are
  /// never the result.
  double most_error = std::numeric_limits<double>::infinity();
  /// True if `schedule` is measured even if another run has claimed or measured it.
  bool insists = false;
};

struct TuneOptions {
  double budget_s = 60;  ///< time for all workloads together; a run exceeds it by less than 2 s
  /// Most new trials of each workload, including those of comparing and confirming its fastest
  /// kernels. 0: only the budget limits the trials.
  int64_t trials = 0;
  Effort effort = Effort::Normal;
  std::string search = "evolution";  ///< a name of searches() in tuner/search/search.h
  uint64_t seed = 1;
  int threads = 1;               ///< number of threads that the kernel will run on
  int batch = usual_batch_size;  ///< candidates of one round, which the builders share
  double timeout_s = 10;         ///< time limit for verifying and measuring one candidate
  /// True if the result is built once more, as a kernel with its packing code, and verified
  /// (Tuned::artifact).
  bool builds_winners = true;
};

/// The most threads that a kernel is tuned for.
inline constexpr int most_kernel_threads = 1024;

/// Checks the values of the options. Usage if a value is out of range; the message names the option
/// and the values that it may have.
Status check(const TuneOptions& options);

/// A progress report: the state of the task that was worked on last. Times and next_gain are those
/// of the whole run.
struct Progress {
  std::string name;  ///< name of the task
  /// Number of tasks of the run, and number of tasks that have their result.
  size_t tasks = 1, finished = 0;
  double elapsed_s = 0, budget_s = 0;  ///< budget_s is 0 if there is no budget
  std::string preparing;  ///< what is done before the first trial: "predicting kernel 40 of 612"
  std::string finishing;  ///< what is done after the last candidate; empty until then
  std::map<std::string, int64_t> trials;  ///< number of trials of this run by status
  /// Number of schedules of the workload that the database knew when the run began.
  int64_t known_trials = 0;
  double best_ns = 0;     ///< latency of the fastest kernel so far; 0: none yet
  double untuned_ns = 0;  ///< latency of the default schedule; 0: not measured
  double given_ns = 0;    ///< latency of TaskSpec::schedule; 0: not measured, or not valid
  double flops = 0;
  double bytes = 0;        ///< compulsory traffic of every kernel (dsl::compulsory_traffic)
  double peak_gflops = 0;  ///< peak of the machine on the kernel's threads, for the workload's type
  /// Text that says that the machine was calibrated for this run, or why it was not; empty if no
  /// calibration was needed.
  std::string machine_note;
  /// The cost model, "pretrained <name>" or "analytic". Once trials of the workload correct the
  /// model, their number follows, and then the rank correlation of their predicted and measured
  /// times. Each trial is predicted by a model that has not learned from it. In brackets is the
  /// rank correlation without any correction: "analytic, corrected by 24 trials: rank correlation
  /// 0.81 (without 0.62)".
  std::string model;
  double working_s = 0;  ///< time spent building, verifying or measuring
  /// The share, from 0 to 1, by which the next minute is expected to shorten the latency or, with
  /// several tasks, the weighted sum of their latencies (search/gain.h). If less than a minute of
  /// the budget is left, it is the share for that time. nullopt before the first trial and after
  /// the search of the task.
  std::optional<double> next_gain;
};
using OnProgress = std::function<void(const Progress&)>;

/// The reason why the search of a task ended. Plateau: the next minute is expected to gain less
/// than the effort's least_gain(). Unstored: neither the database nor its spool, the file of
/// records that wait for the database, takes records, for instance because the disk is full.
enum class Ended { FromDatabase, Budget, Trials, Plateau, Interrupted, Unstored };
std::string_view to_string(Ended ended);

struct Tuned {
  db::Record best;
  /// The kernel of `best`. Without TuneOptions::builds_winners it has no packing code, and is empty
  /// unless this run built the kernel as a candidate.
  runtime::Artifact artifact;
  Progress progress;
  Ended ended = Ended::Budget;
  /// Expected gain of one more minute for this task alone (search/gain.h).
  double next_minute_gain = 0;
  double spent_s = 0;  ///< time that the search spent on this task, without its finals
  std::map<std::string, int64_t> failures;  ///< number of rejected candidates for each reason
  /// The error because of which the latest trials of the run, perhaps the best trial among them,
  /// could not be stored; nullopt if all trials are stored.
  std::optional<Error> unstored = {};
};

/// Tunes one workload. Errors: Environment if workers or the code generator cannot be started;
/// NoCandidate if no candidate is valid, with the three most frequent reasons; Interrupted if the
/// user stopped the run before it found a kernel; Unsupported if no strategy of the target supports
/// the requested layouts.
Result<Tuned> tune(const dsl::Workload& workload, const Target& target, const TuneOptions& options,
                   db::Store& store, const Environment& environment, const OnProgress& on_progress);

/// Tunes several workloads with one budget and the same workers. Each task first gets two batches
/// of candidates. After that, the next batch is always one of the task whose latency, times its
/// weight, is expected to fall the most per second of tuning. Returns one result for each task, in
/// order, with the errors of tune(). If the budget ended before a task's turn, the result of the
/// task is what the database knows, or else NoCandidate. The call itself fails if workers cannot be
/// started.
Result<std::vector<Result<Tuned>>> tune_all(const std::vector<TaskSpec>& tasks,
                                            const Target& target, const TuneOptions& options,
                                            db::Store& store, const Environment& environment,
                                            const OnProgress& on_progress);
/// As tune_all() above, with workers that the caller has started (tuner/workers/workers.h). Only
/// one run at a time may use them.
Result<std::vector<Result<Tuned>>> tune_all(const std::vector<TaskSpec>& tasks,
                                            const Target& target, const TuneOptions& options,
                                            db::Store& store, const Environment& environment,
                                            const OnProgress& on_progress, Workers workers);

/// A function like tune_all() for a fixed target, database and environment. Callers pass one that
/// calls tune_all(); tests pass another. options.threads is the number of threads of the kernels.
using TuneAll = std::function<Result<std::vector<Result<Tuned>>>(
    const std::vector<TaskSpec>& tasks, const TuneOptions& options, const OnProgress& on_progress)>;

/// Returns the best record that the database knows for the workload. Records of this device, or of
/// another device of the same model, come first (db::likeness_of()). If there is none, the best
/// records of other models, and of other targets with vectors of this length, are compared by the
/// cost model, and the record is returned that is expected to be the fastest here. Its schedule is
/// only a candidate for a trial. Records with errors larger than `most_error` are left out. nullopt
/// if no record is left.
Result<std::optional<db::Record>> best_known(
    db::Store& store, const dsl::Workload& workload, const Target& target, int threads,
    double most_error = std::numeric_limits<double>::infinity());

/// Builds one schedule and returns the artifact. The kernel is verified unless `verify` is false or
/// the target is another machine's. Errors as in tune(); Invalid if the kernel is wrong.
Result<runtime::Artifact> build_schedule(const dsl::Workload& workload, std::string_view schedule,
                                         const Target& target, int threads, bool verify,
                                         const Environment& environment);

/// Measures one schedule as tune() would, and returns its record without storing it. If the kernel
/// is wrong or could not be timed, the status of the record says so. TryLater if the trial was
/// lost.
Result<db::Record> try_schedule(const dsl::Workload& workload, std::string_view schedule,
                                const Target& target, int threads, const Environment& environment);
/// As try_schedule(), but returns Invalid if the kernel is wrong or could not be timed.
Result<db::Record> measure_schedule(const dsl::Workload& workload, std::string_view schedule,
                                    const Target& target, int threads,
                                    const Environment& environment);

/// The main function of the worker program; returns its exit code. Worker programs are started only
/// by the functions of this library that tune or measure.
int worker_main(const std::vector<std::string>& arguments);

}  // namespace tw::tuner
