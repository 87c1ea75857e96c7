// SPDX-License-Identifier: Apache-2.0
#pragma once
// A workload that is being tuned. The loop in tune.cpp calls the member functions of Task, one for
// each step; the data members are the state between the steps. Private to the run. Not thread-safe.

#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner/build_queue.h"
#include "tuner/other_runs.h"
#include "tuner/pace.h"
#include "tuner/search/experience.h"
#include "tuner/search/gain.h"
#include "tuner/search/network_error.h"
#include "tuner/search/proposer.h"
#include "tuner/trial_counts.h"
#include "tuner/tuning_run.h"

namespace tw::tuner {

/// Largest number of times that a candidate is measured if every measurement is disturbed. The
/// candidate is then stored as disturbed.
inline constexpr int most_attempts = 4;
inline constexpr double minute_s = 60;

/// A correct kernel that was measured and may be the result of the task.
struct Finalist {
  std::string artifact;  ///< name of the kernel in the ArtifactStore
  db::Record record;
  double pace = 1;  ///< Pace::factor() when the kernel was measured
};

/// Sorts the finalists, fastest first, and keeps only the few that are compared at the end of the
/// task.
void keep_fastest(std::vector<Finalist>& finalists);

/// The outcome of trying a schedule of the database again: it is built and verified and, if this
/// host has not timed it before, timed.
struct Retrial {
  std::optional<Finalist> finalist = {};  ///< the kernel, if it is correct and was timed
  /// True if the schedule cannot be built or its kernel is wrong. False if the trial was lost or
  /// was not made.
  bool is_unusable = false;
};

/// Counts of a task's batches. The scheduler uses them to choose the next task.
struct BatchCounts {
  int64_t proposed = 0;   ///< batches that have candidates
  int64_t refused = 0;    ///< batches whose candidates other runs had all claimed
  int64_t under_way = 0;  ///< candidates that were proposed and are not built yet

  int64_t turns() const { return proposed + refused; }
};

/// A built candidate that is to be measured. If the machine is disturbed during the measurement,
/// the trial is postponed, i.e. measured again with the next batch.
struct Trial {
  Candidate candidate;
  BuildOutcome built;
  int attempts = 0;          ///< number of disturbed measurements
  MeasureReply latest = {};  ///< reply of the latest disturbed measurement
};

class Task {
 public:
  /// Opens a task for the workload of `spec`. The spec and the run must outlive the task. Fails
  /// with Usage if there is no search with the name TuneOptions::search, with Invalid if
  /// TaskSpec::schedule does not fit the workload, and with the errors of Space::derive().
  static Result<std::unique_ptr<Task>> open(const TaskSpec& spec, TuningRun& run);

  const dsl::Workload& workload() const { return spec_.workload; }

  // ---- The steps of the loop, in order. Before the first step, the reference kernel is built
  // once.
  /// True until reference_batch() is called.
  bool needs_reference() const { return !reference_proposed_; }
  /// Returns a batch that stands for the reference kernel.
  Batch reference_batch();
  /// Runs the built reference kernel, whose outputs are compared with those of candidates. Also
  /// measures the peak of the machine.
  Status prepare(const Batch& reference);

  /// Returns the points that the search proposes for trials. The first call also reads the trials
  /// in the database. Returns no points in four cases: proposed candidates are left over that were
  /// not handed to the builder yet, the search finds no new points, enough trials were made, or the
  /// run is stopped.
  std::vector<schedules::Point> propose(const Score& predict);
  /// Rates points by the cost model, for propose().
  std::vector<Prediction> predict(const std::vector<schedules::Point>& points);
  /// Returns the next batch to build. Its candidates are those left over from the previous call,
  /// and then those of `points`. The batch has as many candidates as are expected to fit into the
  /// remaining time, at least one and at most TuningRun::batch. The time decides how many there
  /// are, but not their order. Candidates that other runs have claimed are then removed; if all of
  /// them are, Batch::was_refused is true.
  Batch choose(const std::vector<schedules::Point>& points);

  /// Hands a batch to the builder.
  Status begin_build(const Batch& batch);

  /// Prepares the runner for a built batch and for the postponed trials.
  Status begin_measuring(const Batch& batch);
  /// Returns the trial to measure next; the same trial until record() is called. Returns null if
  /// all trials are done, and also if an interrupt or the end of the time stops the measuring.
  /// Trials that were not measured by then are dropped.
  Trial* next_trial();
  /// Verifies and measures the kernel of a trial. If the same machine code was measured before, for
  /// another schedule, returns that measurement.
  Result<MeasureReply> measure(const Trial& trial);
  /// Stores the outcome of next_trial(), or postpones the trial if it was disturbed.
  Status record(const MeasureReply& reply);

  /// Hands the latest trials to the cost model. Hands them also to the search, except during the
  /// first proposals of the run, which do not depend on measurements (is_guided()).
  void learn();

  /// The reason why the search has ended; nullopt as long as more candidates are to be proposed.
  std::optional<Ended> ended() const;

  // ---- For the scheduler of tasks.
  const BatchCounts& batches() const { return batches_; }
  /// True if the number of trials is limited, no more candidates may be proposed because of this
  /// limit, and some proposed candidates are not built yet. More may be proposed if some of these
  /// are dropped.
  bool waits_for_trials() const {
    return batches_.under_way > 0 && ahead_.empty() && run_.options.trials > 0 &&
           proposed_ >= most_search_trials();
  }
  /// Limits the first batch to as many candidates as can usually be built and measured in
  /// `seconds`.
  void limit_first_batch(double seconds) { first_batch_s_ = seconds; }
  /// Notes that `seconds` of the run were spent on this task.
  void charge(double seconds) { spent_s_ += seconds; }
  /// Returns the state of the task's search, from which the gain of further trials is predicted.
  /// `committed` is the number of candidates that were proposed and are not measured yet.
  SharedSearch state(int64_t committed = 0) const;

  /// Ends the task. Measures the postponed trials, compares the fastest kernels by turns for about
  /// `seconds`, and measures the winner again. Nothing is built during the comparison. The result
  /// has the best record and the winner's artifact. `ended` is the reason why the search ended.
  Result<Tuned> finish(Ended ended, double seconds);

 private:
  Task(const TaskSpec& spec, TuningRun& run, schedules::Space space,
       std::unique_ptr<Search> search);

  Status begin_with_given_schedule();
  void report();
  Result<std::string> reference_schedule() const;
  /// The first call learns from the trials in the database; later calls learn from new trials of
  /// other runs.
  void learn_from_database(const StopToken& stop);
  void learn_from_others(const StopToken& stop);  ///< learns from new trials of other runs
  Question question(const StopToken& stop) const;
  size_t most_in_a_proposal(double per_second) const;
  int64_t most_search_trials() const;
  /// True if the run has made all options.trials trials of this workload; false if there is no such
  /// limit.
  bool used_its_trials() const {
    return run_.options.trials > 0 && counts_.total() >= run_.options.trials;
  }
  bool is_guided() const;  ///< true once trials of this run guide its proposals
  void renew_model();
  bool is_exact(const db::Record& trial) const {
    return is_exact_enough(workload(), trial, spec_.most_error);
  }
  /// True if the trial may be the result: it was timed, and its error is within the limits of the
  /// spec.
  bool is_result(const db::Record& trial) const {
    return trial.status == db::TrialStatus::Ok && is_exact(trial);
  }
  int64_t fitting() const;
  Status prepare_runner(Needed needed);
  Status announce_measurements();
  Status drop(const MeasureReply& reply);
  MeasureJob measurement_of(const Trial& trial) const;
  db::Record add_trial(const Candidate& candidate, const MeasureReply& reply,
                       const std::string& artifact);
  void digest(const Candidate& candidate, const db::Record& trial);
  void drop_incumbent(const MeasureReply& reply);
  Status check_installation(const BuildOutcome& built);
  double next_minute_gain() const { return expected_improvement({state()}, minute_s); }

  // The end of the task, in finals.cpp.
  Result<bool> has_something_to_compare() const;
  Result<bool> take_winner_of_others(double seconds);
  bool fits(double latency_ns, int calls) const;
  Error out_of_time() const;
  Result<Tuned> result(Ended ended, double seconds);
  Status measure_postponed(double seconds);
  void store_postponed();
  void admit_disturbed();
  Result<Retrial> try_again(const db::Record& known);
  Retrial unusable(const db::Record& known, const std::string& why);
  bool is_finalist(const std::string& schedule) const;
  Status try_from_elsewhere();
  Status try_unconfirmed();
  Result<bool> defend_known();
  Status choose_finalist(double seconds);
  Result<db::Record> confirm_winner();
  /// Returns the name of the artifact of the finalist with the record's schedule; empty if there is
  /// no such finalist.
  std::string artifact_of(const db::Record& record) const;
  Result<runtime::Artifact> built_whole(const db::Record& winner);
  Error nothing_found(Ended ended) const;

  const TaskSpec& spec_;
  const std::string key_;  ///< key of the workload
  const size_t group_;     ///< ranking_group() of the trials of this task
  TuningRun& run_;
  Proposer proposer_;
  OtherRuns others_;
  std::string given_;  ///< canonical text of TaskSpec::schedule; empty if there is none

  bool reference_proposed_ = false;
  ReferenceKernel reference_;
  double reference_ns_ = 0;  ///< latency of one call of the reference kernel
  double reference_s_ = 0;   ///< time to build and prepare the reference kernel

  bool recalled_ = false;  ///< true once the database has been read
  /// The best record of another device, if the database has no record of this device to start from.
  std::optional<db::Record> elsewhere_;
  int64_t finals_trials_ = 0;  ///< trials kept for the end of the task
  BatchCounts batches_;
  int64_t proposed_ = 0;  ///< number of candidates proposed

  std::deque<Candidate> ahead_;  ///< candidates not yet handed to the builder
  std::list<Trial> due_, postponed_;
  Pace pace_;
  std::vector<Finalist> finalists_;  ///< the fastest few, fastest first
  /// The schedule of the database's best record, if the kernel of this schedule failed at the end
  /// of the task.
  std::string unusable_;
  /// Kernels that were timed, but only while the machine was disturbed.
  std::vector<Finalist> disturbed_;
  std::map<std::string, db::Record> by_code_;      ///< the first trial of each machine code
  std::vector<cost_model::Sample> fresh_samples_;  ///< samples not yet handed to the model
  std::vector<Tried> fresh_points_;                ///< trials not yet handed to the search
  /// The cost model that rates points. At first it has learned only from the trials in the
  /// database. Before each proposal that may depend on trials of this run (is_guided()), it is
  /// replaced by a model that has learned from them too.
  cost_model::WorkloadModel model_;
  std::optional<size_t> model_samples_;  ///< Learner::samples() when the model was made
  GainCurve gain_;
  TrialCounts counts_;
  Progress progress_;
  double spent_s_ = 0;
  double first_batch_s_ = std::numeric_limits<double>::infinity();
  /// Number of consecutive builds that failed because of the compiler or linker, and not because of
  /// the candidate.
  int64_t broken_builds_ = 0;
  /// Number of consecutive candidates that were dropped (drop()) for any reason.
  int64_t dropped_in_a_row_ = 0;
};

}  // namespace tw::tuner
