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
// trial is stored as soon as its batch is done. So an interrupted run loses at most one batch, and
// a later run continues from the stored trials. Not thread-safe; one tune() at a time in a process.

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

/// Says how long a search goes on. None measures nothing and answers from the database. Quick and
/// Normal search until the next minute is expected to shorten the latency by less than
/// least_gain(). Full searches until the budget is used.
enum class Effort { None, Quick, Normal, Full };
/// Returns the expected gain of the next minute, as a share of the latency, below which a search
/// ends: 0.01 for Quick, 0.001 for Normal, 0 for None and Full.
double least_gain(Effort effort);

/// A workload to be tuned, alone or together with others. If the workload asks for layouts
/// (with_layouts()), every candidate keeps its arrays in these layouts, and only the kernel is
/// timed, without conversions. The records of this workload are kept apart from those of the
/// workload with free layouts.
struct TaskSpec {
  dsl::Workload workload;
  double weight = 1;      ///< number of times that a network runs the workload
  std::string name = {};  ///< name of the task in progress reports
  /// The text (tw1) of a schedule that is measured first, even if the database has trials of it;
  /// empty: no such schedule. If the schedule is a point of the search space, later candidates may
  /// be derived from it. Otherwise the most similar point of the space is tried next.
  std::string schedule = {};
  /// The largest error that the result may have, relative to the result's largest element. If the
  /// accuracy class has a stricter limit, that limit applies. Trials with larger errors are stored,
  /// but are never the result.
  double most_error = std::numeric_limits<double>::infinity();
  /// True if `schedule` is measured even if another run has claimed or measured it.
  bool insists = false;
};

struct TuneOptions {
  /// Time for all workloads together. A run exceeds it by less than 2 s, or by more if building and
  /// verifying the fastest kernel takes longer, as with large weights.
  double budget_s = 60;
  /// Largest number of new trials of each workload, including those that compare and confirm its
  /// fastest kernels. 0: only the budget limits the trials.
  int64_t trials = 0;
  Effort effort = Effort::Normal;
  std::string search = "evolution";  ///< a name of searches() in tuner/search/search.h
  uint64_t seed = 1;
  int threads = 1;  ///< number of threads that the kernel will run on
  /// Number of candidates of one round, which the builders share; nullopt: batch_size_for().
  std::optional<int> batch = {};
  double timeout_s = 10;  ///< time limit for verifying and measuring one candidate
  /// True if the result is built once more, as a kernel with its packing code, and verified
  /// (Tuned::artifact).
  bool builds_winners = true;
};

/// The most threads that a kernel is tuned for.
inline constexpr int most_kernel_threads = 1024;

/// Checks the values of the options. Fails with Usage if a value is out of range; the message names
/// the option and the values that it may have.
Status check(const TuneOptions& options);

/// Fails with Usage if the target is a GPU and what is asked for exists only for processors:
/// several threads, or a state of the caches other than hot. Kernels of GPUs are only timed with
/// hot caches.
Status check_for_gpu(const Target& target, int64_t threads, const dsl::Workload& workload);

/// A progress report: the state of the task that was worked on last. The times and `next_gain` are
/// those of the whole run.
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
  /// model, the text goes on with their number, the rank correlation of their predicted and
  /// measured times, and in brackets this correlation without any correction: "analytic, corrected
  /// by 24 trials: rank correlation 0.81 (without 0.62)". Each trial is predicted by a model that
  /// has not learned from it.
  std::string model;
  double working_s = 0;  ///< time spent building, verifying or measuring
  /// The share, from 0 to 1, by which the next minute is expected to shorten the latency or, with
  /// several tasks, the weighted sum of their latencies (search/gain.h). If less than a minute of
  /// the budget is left, the share for that time. nullopt before the first trial, and after the
  /// search of the task has ended.
  std::optional<double> next_gain;
};
using OnProgress = std::function<void(const Progress&)>;

/// The reason why the search of a task ended. Plateau: the next minute is expected to gain less
/// than the effort's least_gain(), or none of many trials had a valid kernel. Unstored: records can
/// be stored neither in the database nor in its spool, the file of records that wait for the
/// database, for instance because the disk is full.
enum class Ended { FromDatabase, Budget, Trials, Plateau, Interrupted, Unstored };
std::string_view to_string(Ended ended);

struct Tuned {
  db::Record best;
  /// The kernel of `best`. Without TuneOptions::builds_winners the artifact has no packing code,
  /// and is empty unless this run built the kernel as a candidate.
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

/// Tunes one workload. Fails with
/// - Usage if an option is out of range;
/// - Environment if workers or the code generator cannot be started;
/// - NoCandidate if no candidate is valid, with the three most frequent reasons;
/// - TryLater if no candidate could be judged, for instance because all were lost with their
///   workers;
/// - Interrupted if the user stopped the run before it found a kernel;
/// - Unsupported if no strategy of the target supports the requested layouts.
Result<Tuned> tune(const dsl::Workload& workload, const Target& target, const TuneOptions& options,
                   db::Store& store, const Environment& environment, const OnProgress& on_progress);

/// Tunes several workloads with one budget and the same workers. Each task first gets two batches
/// of candidates. After that, the next batch is always one of the task whose latency, times its
/// weight, is expected to fall the most per second of tuning. Returns one result for each task, in
/// order, with the errors of tune(). If the budget ended before a task's turn, the task's result is
/// the best kernel in the database, or NoCandidate if there is none. The call itself fails only
/// with Usage, or if workers cannot be started.
Result<std::vector<Result<Tuned>>> tune_all(const std::vector<TaskSpec>& tasks,
                                            const Target& target, const TuneOptions& options,
                                            db::Store& store, const Environment& environment,
                                            const OnProgress& on_progress);
/// As tune_all() above, with workers that the caller has started (tuner/workers/workers.h). Only
/// one run at a time may use these workers.
Result<std::vector<Result<Tuned>>> tune_all(const std::vector<TaskSpec>& tasks,
                                            const Target& target, const TuneOptions& options,
                                            db::Store& store, const Environment& environment,
                                            const OnProgress& on_progress, Workers workers);

/// A function like tune_all() for a fixed target, database and environment. Programs pass a
/// function that calls tune_all(); tests pass another one. options.threads is the number of threads
/// of the kernels.
using TuneAll = std::function<Result<std::vector<Result<Tuned>>>(
    const std::vector<TaskSpec>& tasks, const TuneOptions& options, const OnProgress& on_progress)>;

/// Returns the best record that the database has for the workload, or nullopt if it has none.
/// Records with errors larger than `most_error`, and records whose schedule cannot be lowered for
/// the target, are left out. If there are records of this device or of another device of the same
/// model (db::likeness_of()), the best of them is returned. Otherwise the cost model predicts the
/// times of two kinds of records here, and the fastest of these records is returned: the best
/// records of other models of device, and those of other targets with vectors of the same length.
/// The schedule of such a record is only a candidate for a trial.
Result<std::optional<db::Record>> best_known(
    db::Store& store, const dsl::Workload& workload, const Target& target, int threads,
    double most_error = std::numeric_limits<double>::infinity());

/// Builds one schedule and returns the artifact. The kernel is verified unless `verify` is false.
/// Fails with Invalid if the schedule cannot be built or its kernel is wrong, with TryLater if the
/// kernel could not be verified because a worker was lost, and with Environment if workers or the
/// code generator cannot be started.
Result<runtime::Artifact> build_schedule(const dsl::Workload& workload, std::string_view schedule,
                                         const Target& target, int threads, bool verify,
                                         const Environment& environment);

/// Measures one schedule as tune() would, and returns its record without storing it. If the kernel
/// is wrong or could not be timed, the status of the record says so. Fails with TryLater if the
/// trial was lost, and with the errors of build_schedule() if the schedule cannot be built.
Result<db::Record> try_schedule(const dsl::Workload& workload, std::string_view schedule,
                                const Target& target, int threads, const Environment& environment);
/// As try_schedule(), but also fails with Invalid if the kernel is wrong or could not be timed.
Result<db::Record> measure_schedule(const dsl::Workload& workload, std::string_view schedule,
                                    const Target& target, int threads,
                                    const Environment& environment);

/// The main function of the worker program; returns its exit code. Worker programs are started only
/// by the functions of this library that tune or measure.
int worker_main(const std::vector<std::string>& arguments);

}  // namespace tw::tuner
