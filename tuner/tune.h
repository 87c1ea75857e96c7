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

/// The extent of a search. None answers from the database alone. Quick and Normal search until the
/// next minute is expected to shorten the latency by less than least_gain(), which is 1 % and
/// 0.1 %. Full searches until the budget is used.
enum class Effort { None, Quick, Normal, Full };
double least_gain(Effort effort);

/// A workload to be tuned, alone or as one of several. If it asks for layouts (with_layouts()),
/// every candidate keeps its arrays in these layouts, and only the kernel is timed. Its records are
/// kept apart from those of the workload with free layouts.
struct TaskSpec {
  dsl::Workload workload;
  double weight = 1;      ///< number of times that a network runs the workload
  std::string name = {};  ///< name of the task in progress reports
  /// tw1 text of a schedule that is measured first, even if the database knows it. If it is a point
  /// of the search space, the point is a parent of later candidates; otherwise the nearest point is
  /// tried next. Empty: no such schedule.
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
  /// Most new trials of each workload, including the finals; 0: only the budget limits them.
  int64_t trials = 0;
  Effort effort = Effort::Normal;
  std::string search = "evolution";  ///< a name of searches() in tuner/search/search.h
  uint64_t seed = 1;
  int threads = 1;               ///< number of threads that the kernel will run on
  int batch = usual_batch_size;  ///< candidates of one round, which the builders share
  double timeout_s = 10;         ///< time limit for verifying and measuring one candidate
  /// True if the winners are built with their packing kernels (Tuned::artifact).
  bool builds_winners = true;
};

/// The most threads that a kernel is tuned for.
inline constexpr int most_kernel_threads = 1024;

/// Fails with Usage for option values that no run can have. The message names the option and the
/// values that it may have.
Status check(const TuneOptions& options);

/// The state of the task that was worked on last. Times and next_gain are those of the whole run.
struct Progress {
  std::string name;  ///< name of the task
  /// Number of tasks of the run, and of those whose finals are over.
  size_t tasks = 1, finished = 0;
  double elapsed_s = 0, budget_s = 0;  ///< 0: no budget
  std::string preparing;  ///< what is done before the first trial: "predicting kernel 40 of 612"
  std::string finishing;  ///< what is done after the last candidate; empty until then
  std::map<std::string, int64_t> trials;  ///< number of trials of this run by status
  /// Number of schedules of the workload in the database when the run began.
  int64_t known_trials = 0;
  double best_ns = 0;     ///< latency of the fastest kernel so far; 0: none yet
  double untuned_ns = 0;  ///< latency of the default schedule; 0: not measured
  double given_ns = 0;    ///< latency of TaskSpec::schedule; 0: not measured, or not valid
  double flops = 0;
  double bytes = 0;        ///< compulsory traffic of every kernel (dsl::compulsory_traffic)
  double peak_gflops = 0;  ///< peak of the machine on the kernel's threads, for the workload's type
  /// Says that the machine was calibrated for this run, or why it was not; empty if no calibration
  /// was needed.
  std::string machine_note;
  /// The model that orders candidates: "pretrained <name>" or "analytic", then the number of trials
  /// of the workload that correct it. The rank correlation says how well the model orders each of
  /// these trials when it has not learned from it: "analytic, corrected by 24 trials: rank
  /// correlation 0.81 (without 0.62)".
  std::string model;
  double working_s = 0;  ///< time spent building, verifying or measuring
  /// The share by which the next minute, or the rest of the budget, is expected to shorten the
  /// latency, or the sum of the tasks' latencies (search/gain.h). nullopt before the first trial
  /// and in the finals.
  std::optional<double> next_gain;
};
using OnProgress = std::function<void(const Progress&)>;

/// The reason why a run ended. Plateau: the next minute is expected to gain less than the effort's
/// least_gain(). Unstored: neither the database nor its spool takes records, for instance because
/// the disk is full.
enum class Ended { FromDatabase, Budget, Trials, Plateau, Interrupted, Unstored };
std::string_view to_string(Ended ended);

struct Tuned {
  db::Record best;
  /// The kernel of `best`. Without TuneOptions::builds_winners it is the kernel of the trial,
  /// without packing kernels; it is empty if this run did not build it.
  runtime::Artifact artifact;
  Progress progress;
  Ended ended = Ended::Budget;
  /// Expected gain of one more minute for this task alone (search/gain.h).
  double next_minute_gain = 0;
  double spent_s = 0;  ///< time that the search spent on this task, without its finals
  std::map<std::string, int64_t> failures;  ///< number of rejected candidates by reason
  /// The reason why the latest trials of the run, perhaps the best one among them, could not be
  /// stored; nullopt if all are stored.
  std::optional<Error> unstored = {};
};

/// Tunes one workload. Errors: Environment if workers or the code generator cannot be started;
/// NoCandidate if no candidate is valid, with the three most frequent reasons; Interrupted if the
/// user stopped the run before it found a kernel; Unsupported if no strategy of the target has the
/// requested layouts.
Result<Tuned> tune(const dsl::Workload& workload, const Target& target, const TuneOptions& options,
                   db::Store& store, const Environment& environment, const OnProgress& on_progress);

/// Tunes several workloads with one budget and the same workers. Each task first gets a share of
/// the budget. After that, the next batch is always of the task that is expected to save the most
/// time per second of tuning, counted by its weight. Returns one result for each task, in order,
/// with the errors of tune(). If the budget ended before a task's turn, its result is what the
/// database knows, or else NoCandidate. The call itself fails if workers cannot be started.
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

/// tune_all() with options.threads, as a function that tests can replace.
using TuneAll = std::function<Result<std::vector<Result<Tuned>>>(
    const std::vector<TaskSpec>& tasks, const TuneOptions& options, const OnProgress& on_progress)>;

/// The best record that the database knows for the workload. A record of this device, or of another
/// device of its model, comes first (database_key()). Otherwise the best records of other models
/// are compared, for targets with vectors of this length, and the one that the cost model expects
/// to be the fastest here is returned; its schedule is worth a trial. Records with larger errors
/// than `most_error` are passed over. nullopt if no record is left.
Result<std::optional<db::Record>> best_known(
    db::Store& store, const dsl::Workload& workload, const Target& target, int threads,
    double most_error = std::numeric_limits<double>::infinity());

/// Builds one schedule and returns the artifact. The kernel is verified unless `verify` is false or
/// the target is another machine's. Errors as in tune(); Invalid if the kernel is wrong.
Result<runtime::Artifact> build_schedule(const dsl::Workload& workload, std::string_view schedule,
                                         const Target& target, int threads, bool verify,
                                         const Environment& environment);

/// Measures one schedule as tune() would, and returns its record without storing it. A kernel that
/// is wrong or could not be timed gives a record with that status. TryLater if the trial was lost.
Result<db::Record> try_schedule(const dsl::Workload& workload, std::string_view schedule,
                                const Target& target, int threads, const Environment& environment);
/// As try_schedule(), but returns Invalid if the kernel is wrong or could not be timed.
Result<db::Record> measure_schedule(const dsl::Workload& workload, std::string_view schedule,
                                    const Target& target, int threads,
                                    const Environment& environment);

/// The main function of the worker program; returns its exit code. Only the functions of this
/// library that tune or measure start worker programs.
int worker_main(const std::vector<std::string>& arguments);

}  // namespace tw::tuner
