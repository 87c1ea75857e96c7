// SPDX-License-Identifier: Apache-2.0
#pragma once
// One workload that is being tuned, as the loop in tune.cpp uses it: the stages in their order, and
// what is known between them. Private to the run. Not thread-safe.

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

/// Measurements of a candidate, after which it is stored as disturbed.
inline constexpr int most_attempts = 4;
inline constexpr double minute_s = 60;

/// A kernel that was measured and is correct.
struct Finalist {
  std::string artifact;  ///< its name in the store
  db::Record record;
  double pace = 1;  ///< Pace::factor() when it was measured
};

/// Sorts them, fastest first, and keeps as many as are compared at the end.
void keep_fastest(std::vector<Finalist>& finalists);

/// The outcome of building and verifying a schedule that the database knows.
struct Retrial {
  std::optional<Finalist> finalist = {};  ///< the schedule, where it is correct and was timed
  bool is_unusable = false;  ///< it cannot be built, or is wrong; false where it was only lost
};

/// Counts of a task's batches, from which the scheduler sees whose turn it is.
struct BatchCounts {
  int64_t proposed = 0;   ///< batches that have candidates
  int64_t refused = 0;    ///< batches that other runs have refused wholly
  int64_t under_way = 0;  ///< candidates proposed and not yet back from the builder

  int64_t turns() const { return proposed + refused; }
};

/// A built candidate that is to be measured. While the machine is disturbed it is postponed, and
/// measured again with the next batch.
struct Trial {
  Candidate candidate;
  BuildOutcome built;
  int attempts = 0;          ///< measurements that were disturbed
  MeasureReply latest = {};  ///< of these
};

class Task {
 public:
  /// The spec and the run must outlive the task. Usage for a search that is not known, Invalid
  /// where the schedule that the spec gives does not fit, and as Space::derive() where the workload
  /// asks for layouts.
  static Result<std::unique_ptr<Task>> open(const TaskSpec& spec, TuningRun& run);

  const dsl::Workload& workload() const { return spec_.workload; }

  // ---- The stages. Before anything else, the reference kernel is built once.
  /// True until reference_batch() was called.
  bool needs_reference() const { return !reference_proposed_; }
  Batch reference_batch();
  /// Checks the reference kernel and measures the machine's peak.
  Status prepare(const Batch& reference);

  /// Points that the search thinks worth a trial, the first ones with what the database knows; none
  /// while candidates are left over, when the space is exhausted, when enough trials are made, or
  /// when the run is stopped.
  std::vector<schedules::Point> propose(const Score& predict);
  std::vector<Prediction> predict(const std::vector<schedules::Point>& points);
  /// The next candidates to be built, from candidates left over and from these points: as many as
  /// fit into the time, without those that other runs have under way. The order of candidates does
  /// not depend on the time. The batch says if other runs have all that it would have.
  Batch choose(const std::vector<schedules::Point>& points);

  /// Hands a batch to the builder.
  Status begin_build(const Batch& batch);

  /// Readies the runner for a batch that was built and for what was postponed.
  Status begin_measuring(const Batch& batch);
  /// The trial to be measured next, until record() is called. Null when all are done, or when time
  /// or the user end it: the kernels that were not measured are dropped then.
  Trial* next_trial();
  /// Verifies a kernel and measures it, unless equal machine code was measured already.
  Result<MeasureReply> measure(const Trial& trial);
  /// Stores the outcome of next_trial(), or postpones the trial if it was disturbed.
  Status record(const MeasureReply& reply);

  /// Hands the latest trials to the cost model and, once they may guide proposals, to the search.
  void learn();

  /// The reason why no more candidates are to be proposed; nullopt as long as more are.
  std::optional<Ended> ended() const;

  // ---- For the scheduler of tasks.
  const BatchCounts& batches() const { return batches_; }
  /// Bounds the first batch by the time that it may take.
  void limit_first_batch(double seconds) { first_batch_s_ = seconds; }
  /// Notes that this much of the run's time was spent on this task.
  void charge(double seconds) { spent_s_ += seconds; }
  /// State of the task's search, from which the gain of further trials is predicted. `committed` is
  /// the number of trials under way.
  SharedSearch state(int64_t committed = 0) const;

  /// Measures what is postponed, compares the fastest few by turns while the builder is idle, as
  /// many as fit into the time, and confirms the winner, which is the result.
  Result<Tuned> finish(Ended ended, double seconds);

 private:
  Task(const TaskSpec& spec, TuningRun& run, schedules::Space space,
       std::unique_ptr<Search> search);

  Status begin_with_given_schedule();
  void report();
  Result<std::string> reference_schedule() const;
  void learn_from_database(const StopToken& stop);  ///< asks the database, the first time only
  void learn_from_others(const StopToken& stop);    ///< what other runs measured since
  Question question(const StopToken& stop) const;
  size_t most_in_a_proposal(double per_second) const;
  int64_t most_search_trials() const;
  /// True once the run may make no more trials of this workload.
  bool used_its_trials() const {
    return run_.options.trials > 0 && counts_.total() >= run_.options.trials;
  }
  bool is_guided() const;  ///< true once trials of this run guide its proposals
  void renew_model();
  bool is_exact(const db::Record& trial) const {
    return is_exact_enough(workload(), trial, spec_.most_error);
  }
  /// True if the trial may be the result: it was timed, and is as exact as was asked for.
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
  /// The name of the artifact that a trial of this run built of the record's schedule; empty where
  /// there is none.
  std::string artifact_of(const db::Record& record) const;
  Result<runtime::Artifact> built_whole(const db::Record& winner);
  Error nothing_found(Ended ended) const;

  const TaskSpec& spec_;
  const std::string key_;  ///< of the workload
  const size_t group_;     ///< ranking_group() of its trials
  TuningRun& run_;
  Proposer proposer_;
  OtherRuns others_;
  std::string given_;  ///< canonical text of the spec's schedule; empty: it gives none

  bool reference_proposed_ = false;
  ReferenceKernel reference_;
  double reference_ns_ = 0;  ///< latency of one call of it
  double reference_s_ = 0;   ///< time to build and check it

  bool recalled_ = false;                ///< the database has been asked
  std::optional<db::Record> elsewhere_;  ///< best of another device where this one has none
  int64_t finals_trials_ = 0;            ///< trials that are kept for the finals
  BatchCounts batches_;
  int64_t proposed_ = 0;  ///< candidates proposed

  std::deque<Candidate> ahead_;  ///< proposed, and not yet handed to the builder
  std::list<Trial> due_, postponed_;
  Pace pace_;
  std::vector<Finalist> finalists_;  ///< fastest first, a few
  std::string unusable_;  ///< schedule of the database's best, where it failed in the finals
  std::vector<Finalist> disturbed_;                ///< timed, but never undisturbed; in any order
  std::map<std::string, db::Record> by_code_;      ///< the first trial of each machine code
  std::vector<cost_model::Sample> fresh_samples_;  ///< not handed to the model yet
  std::vector<Tried> fresh_points_;                ///< not handed to the search yet
  /// The model that orders candidates. Until trials of this run guide its proposals, it knows those
  /// of the database alone; then it is that of the latest proposal.
  cost_model::WorkloadModel model_;
  std::optional<size_t> model_samples_;  ///< Learner::samples() when that was made
  GainCurve gain_;
  TrialCounts counts_;
  Progress progress_;
  double spent_s_ = 0;
  double first_batch_s_ = std::numeric_limits<double>::infinity();
  int64_t broken_builds_ = 0;  ///< builds in a row that failed for no fault of the candidates
  int64_t lost_in_a_row_ = 0;  ///< candidates that left no record since the last one that did
};

}  // namespace tw::tuner
