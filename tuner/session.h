// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a tuning run knows and does about one of its workloads. Private to the run (suite.h).

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "cost_model/cost_model.h"
#include "db/recorder.h"
#include "schedules/space.h"
#include "tuner/farm.h"
#include "tuner/gain.h"
#include "tuner/scoring.h"
#include "tuner/search.h"
#include "tuner/tune.h"

namespace tw::tuner {

/// A candidate that was measured and is correct.
struct Finalist {
  std::string path;  ///< path of its artifact
  db::Record record;
  double pace = 1;  ///< Session::pace_ when it was measured
};

/// A built candidate whose timing was disturbed; it is measured again with the next batch.
struct Postponed {
  Candidate candidate;
  BuildOutcome built;
  int attempts = 0;
};

class Session;

/// What the sessions of a run share: workers, the budget, the database and the cost model, which
/// learns from the trials of all.
struct Shared {
  static Result<std::unique_ptr<Shared>> start(const Target& target, const TuneOptions& options,
                                               db::Store& store, const Environment& environment,
                                               const OnProgress& on_progress);
  double elapsed_s() const;
  /// Seconds of the search budget left, excluding the time reserved for the finals.
  double left_s() const { return options.budget_s - finals_s - elapsed_s(); }
  bool interrupted() const;
  /// Whether even the time reserved for batches under way at the end has passed.
  bool is_overdue() const { return left_s() + drain_s <= 0; }
  /// Expected gain of another `seconds` of search, as a share of the weighted latencies of all
  /// sessions.
  double worth(double seconds) const;
  /// Adds samples, and learns from them when it is time.
  void learn(std::vector<cost_model::Sample> samples, bool at_once);
  Result<std::optional<db::Record>> best_known(const dsl::Workload& workload) const;

  Target target;
  TuneOptions options;
  db::Store* store;
  Environment environment;
  OnProgress on_progress;
  Farm farm;
  db::Recorder recorder;
  cost_model::CostModel model = cost_model::CostModel();
  std::vector<cost_model::Sample> fresh_samples = {};  ///< not learned from yet
  size_t samples = 0, learned_at = 0;                  ///< samples in all, and at the last refit
  std::set<std::string> learned_records = {};          ///< hashes of what the database taught
  int64_t started_ns = 0;
  double finals_s = 0;                        ///< reserved for the finals of all sessions
  double drain_s = 0;                         ///< part of finals_s for batches under way at the end
  Progress suite = {};                        ///< its goals and how many are finished
  std::vector<const Session*> sessions = {};  ///< that have begun
  std::string machine_note = {};              ///< HostMachine::note
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(const Goal& goal, Shared& shared);

  Status begin_reference();
  /// Waits for the reference kernel, checks it, and measures the machine's peak.
  Status finish_reference(const std::vector<BuildOutcome>& built);
  /// The next batch by search and cost model, the first one with what the database knows; empty
  /// when the space is exhausted or enough trials are made.
  std::vector<Candidate> propose();
  Status begin_build(const std::vector<Candidate>& batch);
  /// Verifies, measures and records what was built and what was postponed; keeps the fastest. Drops
  /// the rest without a record when the budget is overdue.
  Status measure(const std::vector<Candidate>& batch, const std::vector<BuildOutcome>& built);
  void learn();
  /// Notes that this much of the run's time was spent on this session.
  void charge(double seconds) { spent_s_ += seconds; }
  std::optional<Ended> ended() const;
  /// Input to the choice between sessions; `under_way` trials are not measured yet.
  Outlook outlook(int64_t under_way) const;
  /// Compares the fastest few by interleaved timing while the builder is idle, as many as fit into
  /// the time. The winner is the result.
  Result<Tuned> finish(Ended ended, double seconds);

 private:
  Session(const Goal& goal, Shared& shared, std::unique_ptr<Search> search);

  void report();
  Status refresh_peak();
  /// Verifies, measures and records candidates; those that were disturbed are postponed instead.
  Status measure(std::vector<Postponed> due);
  /// Verifies and measures a built candidate, unless equal machine code was measured already.
  Result<MeasureReply> reply_to(const BuildOutcome& built);
  /// Tracks whether the machine is disturbed and whether the incumbent has become slower for good.
  void heed(const MeasureReply& reply);
  /// Records a final reply and keeps the candidate if it is among the fastest.
  Status keep(const Postponed& measured, const MeasureReply& reply);
  /// Stores the trial and returns its record.
  Result<db::Record> record(const Candidate& candidate, const MeasureReply& reply);
  void digest(const Candidate& candidate, const db::Record& trial);
  std::vector<Guess> score(const std::vector<schedules::Point>& points);
  /// True once it is time to choose from what has been scored.
  std::function<bool()> scoring_stops() const;
  void learn_from_database();
  Status check_installation(const BuildOutcome& built);
  void count_failure(const std::string& reason);
  bool cut_short(const Result<MeasureReply>& reply) const;
  Status measure_postponed(double seconds);
  Status choose_finalist(double seconds);
  Status try_from_elsewhere();
  Result<bool> defend_known();
  Result<db::Record> confirm_winner();
  Result<Tuned> result(Ended ended, double seconds);
  Error nothing_found(Ended ended) const;
  std::string reference_schedule() const;
  double gain_of(double seconds) const;

  const dsl::Workload* workload_;
  std::string key_, name_;
  double weight_;
  Shared& shared_;
  const Target& target_;
  const TuneOptions& options_;
  const Environment& environment_;
  Farm& farm_;
  cost_model::CostModel& model_;
  schedules::Space space_;
  std::unique_ptr<Search> search_;
  Random random_;
  double flops_ = 0;
  double spent_s_ = 0;
  ReferenceKernel reference_;
  double reference_ns_ = 0;              ///< latency of one call of it
  double reference_s_ = 0;               ///< time to build and check it
  bool recalled_ = false;                ///< the database has been asked
  std::vector<Tried> history_;           ///< the best that is stored, then the trials of this run
  std::vector<schedules::Point> seeds_;  ///< for the first proposal
  std::optional<db::Record> elsewhere_;  ///< best of another device where this one has none
  std::vector<cost_model::Sample> fresh_samples_;  ///< not handed over yet
  std::map<schedules::Point, Candidate> scored_;   ///< candidates of the current proposal
  double scoring_ends_s_ = 0;                      ///< since the start: when it is time to choose
  Seen seen_;                                      ///< texts proposed or known, programs proposed
  std::vector<Finalist> finalists_;                ///< fastest first, a few
  std::map<std::string, db::Record> by_code_;      ///< the first trial of each machine code
  std::map<std::string, int64_t> failures_;
  std::map<std::string, std::string> first_reasons_;  ///< by their text without numbers
  GainCurve gain_;
  Progress progress_;
  std::vector<Postponed> postponed_;
  bool is_disturbed_ = false;             ///< the latest trial was disturbed
  std::optional<double> slower_since_s_;  ///< when the incumbent became slower, see heed()
  double pace_ = 1;  ///< factor by which the machine has slowed since, see heed()
  int64_t proposed_ = 0, trials_ = 0, broken_builds_ = 0;
};

}  // namespace tw::tuner
