// SPDX-License-Identifier: Apache-2.0
#pragma once
// A workload that is being tuned, as the loop in tune.cpp uses it: the stages of a batch in their
// order, and the state between the stages. Private to the run. Not thread-safe.

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

/// Most measurements of a candidate whose measurements are all disturbed. It is then stored as
/// disturbed.
inline constexpr int most_attempts = 4;
inline constexpr double minute_s = 60;

/// A kernel that was measured and is correct.
struct Finalist {
  std::string artifact;  ///< name of the kernel in the ArtifactStore
  db::Record record;
  double pace = 1;  ///< Pace::factor() when the kernel was measured
};

/// Sorts the finalists, fastest first, and drops all but those that are compared at the end.
void keep_fastest(std::vector<Finalist>& finalists);

/// The outcome of building and verifying again a schedule that the database knows.
struct Retrial {
  std::optional<Finalist> finalist = {};  ///< the schedule, if it is correct and was timed
  /// True if it cannot be built or is wrong; false if the trial was lost.
  bool is_unusable = false;
};

/// Counts of a task's batches, by which the scheduler chooses the next task.
struct BatchCounts {
  int64_t proposed = 0;   ///< batches that have candidates
  int64_t refused = 0;    ///< batches whose candidates other runs had all claimed
  int64_t under_way = 0;  ///< candidates that were proposed and are not built yet

  int64_t turns() const { return proposed + refused; }
};

/// A built candidate that is to be measured. If the machine is disturbed meanwhile, the trial is
/// postponed and measured again with the next batch.
struct Trial {
  Candidate candidate;
  BuildOutcome built;
  int attempts = 0;          ///< number of disturbed measurements
  MeasureReply latest = {};  ///< reply of the latest disturbed measurement
};

class Task {
 public:
  /// The spec and the run must outlive the task. Errors: Usage for an unknown search; Invalid if
  /// TaskSpec::schedule does not fit the workload; as Space::derive() if the workload asks for
  /// layouts.
  static Result<std::unique_ptr<Task>> open(const TaskSpec& spec, TuningRun& run);

  const dsl::Workload& workload() const { return spec_.workload; }

  // ---- The stages. Before anything else, the reference kernel is built once.
  /// True until reference_batch() is called.
  bool needs_reference() const { return !reference_proposed_; }
  Batch reference_batch();
  /// Verifies the reference kernel and measures the machine's peak.
  Status prepare(const Batch& reference);

  /// The points that the search proposes for trials; the first proposals include what the database
  /// knows. Empty while candidates are left over from before, when the space is exhausted, when
  /// enough trials were made, or when the run is stopped.
  std::vector<schedules::Point> propose(const Score& predict);
  std::vector<Prediction> predict(const std::vector<schedules::Point>& points);
  /// The next batch to build, from candidates left over and from `points`. It has as many
  /// candidates as fit into the remaining time, without those that other runs have claimed. The
  /// order of candidates does not depend on the time. Batch::was_refused is set if other runs have
  /// claimed all of them.
  Batch choose(const std::vector<schedules::Point>& points);

  /// Hands a batch to the builder.
  Status begin_build(const Batch& batch);

  /// Prepares the runner for a built batch and for the postponed trials.
  Status begin_measuring(const Batch& batch);
  /// The trial to measure next. Returns the same trial until record() is called. Null if all are
  /// done, or if the user or the end of the time stops measuring; kernels not measured by then are
  /// dropped.
  Trial* next_trial();
  /// Verifies a kernel and measures it. If equal machine code was measured before, returns that
  /// measurement instead.
  Result<MeasureReply> measure(const Trial& trial);
  /// Stores the outcome of next_trial(), or postpones the trial if it was disturbed.
  Status record(const MeasureReply& reply);

  /// Hands the latest trials to the cost model, and to the search once they may guide its
  /// proposals.
  void learn();

  /// The reason why the search has ended; nullopt as long as more candidates are to be proposed.
  std::optional<Ended> ended() const;

  // ---- For the scheduler of tasks.
  const BatchCounts& batches() const { return batches_; }
  /// Limits the first batch to candidates that can be tried in so many seconds.
  void limit_first_batch(double seconds) { first_batch_s_ = seconds; }
  /// Adds to the time of the run that was spent on this task.
  void charge(double seconds) { spent_s_ += seconds; }
  /// State of the task's search, from which the gain of further trials is predicted. `committed` is
  /// the number of trials under way.
  SharedSearch state(int64_t committed = 0) const;

  /// Measures the postponed trials. Then compares the fastest kernels by turns while the builder is
  /// idle, as many as fit into `seconds`, and confirms the winner, which is the result.
  Result<Tuned> finish(Ended ended, double seconds);

 private:
  Task(const TaskSpec& spec, TuningRun& run, schedules::Space space,
       std::unique_ptr<Search> search);

  Status begin_with_given_schedule();
  void report();
  Result<std::string> reference_schedule() const;
  void learn_from_database(const StopToken& stop);  ///< asks the database, once
  void learn_from_others(const StopToken& stop);    ///< takes in new trials of other runs
  Question question(const StopToken& stop) const;
  size_t most_in_a_proposal(double per_second) const;
  int64_t most_search_trials() const;
  /// True if the run has made options.trials trials of this workload.
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
  Status drop_lost(const std::string& reason);
  MeasureJob measurement_of(const Trial& trial) const;
  db::Record add_trial(const Candidate& candidate, const MeasureReply& reply,
                       const std::string& artifact);
  void digest(const Candidate& candidate, const db::Record& trial);
  void drop_incumbent(const std::string& fault);
  Status check_installation(const BuildOutcome& built);
  double next_minute_gain() const { return expected_improvement({state()}, minute_s); }

  // The finals, in finals.cpp.
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
  /// The name of the artifact that a trial of this run built from the record's schedule; empty if
  /// no trial did.
  std::string artifact_of(const db::Record& record) const;
  Result<runtime::Artifact> built_whole(const db::Record& winner);
  Error nothing_found(Ended ended) const;

  const TaskSpec& spec_;
  const std::string key_;  ///< of the workload
  const size_t group_;     ///< ranking_group() of the trials of this task
  TuningRun& run_;
  Proposer proposer_;
  OtherRuns others_;
  std::string given_;  ///< canonical text of TaskSpec::schedule; empty: none

  bool reference_proposed_ = false;
  ReferenceKernel reference_;
  double reference_ns_ = 0;  ///< latency of one call of the reference kernel
  double reference_s_ = 0;   ///< time to build and verify the reference kernel

  bool recalled_ = false;  ///< true once the database has been asked
  /// Best record of another device, if the database has none of this one.
  std::optional<db::Record> elsewhere_;
  int64_t finals_trials_ = 0;  ///< trials that are reserved for the finals
  BatchCounts batches_;
  int64_t proposed_ = 0;  ///< number of candidates proposed

  std::deque<Candidate> ahead_;  ///< proposed, and not yet handed to the builder
  std::list<Trial> due_, postponed_;
  Pace pace_;
  std::vector<Finalist> finalists_;  ///< the fastest few, fastest first
  std::string unusable_;  ///< schedule of the database's best record, if it failed in the finals
  std::vector<Finalist> disturbed_;            ///< timed, but never without a disturbance; unsorted
  std::map<std::string, db::Record> by_code_;  ///< the first trial of each machine code
  std::vector<cost_model::Sample> fresh_samples_;  ///< not yet handed to the model
  std::vector<Tried> fresh_points_;                ///< not yet handed to the search
  /// The model that orders candidates. At first this model has learned from the trials of the
  /// database alone. Each proposal that is guided by trials of this run replaces the model by the
  /// one that guided the proposal.
  cost_model::WorkloadModel model_;
  std::optional<size_t> model_samples_;  ///< Learner::samples() when the model was made
  GainCurve gain_;
  TrialCounts counts_;
  Progress progress_;
  double spent_s_ = 0;
  double first_batch_s_ = std::numeric_limits<double>::infinity();
  /// Consecutive builds that failed through no fault of the candidates.
  int64_t broken_builds_ = 0;
  int64_t lost_in_a_row_ = 0;  ///< consecutive candidates that were lost and left no record
};

}  // namespace tw::tuner
