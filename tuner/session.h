// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one tuning run knows and does, in the words that tune() is written in. Private to tune.cpp.

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
  std::string path;  ///< of its artifact
  db::Record record;
};

class Session {
 public:
  static Result<Session> open(const dsl::Workload& workload, const Target& target,
                              const TuneOptions& options, db::Store& store,
                              const Environment& environment, const OnProgress& on_progress);

  /// Builds and checks the reference, measures the machine's peak, learns from the database.
  Status prepare();
  /// The next batch by search and cost model; empty when the space is exhausted.
  std::vector<Candidate> propose();
  Status begin_build(const std::vector<Candidate>& batch);
  /// Waits for the builders; outcomes in the order of the batch.
  std::vector<BuildOutcome> finish_build();
  /// Verifies and measures what was built, records every candidate, keeps the fastest.
  Status measure(const std::vector<Candidate>& batch, const std::vector<BuildOutcome>& built);
  void learn();
  std::optional<Ended> ended() const;
  /// What so many seconds more are expected to bring (gain.h).
  double gain_of(double seconds) const;
  /// Compares the fastest few interleaved, builder idle; the winner is the result.
  Result<Tuned> finish(Ended ended);

 private:
  Session(const dsl::Workload& workload, const Target& target, const TuneOptions& options,
          db::Store& store, const Environment& environment, const OnProgress& on_progress,
          Farm farm);

  double elapsed_s() const;
  bool interrupted() const;
  void report();
  Status record(const Candidate& candidate, const MeasureReply& reply);
  void digest(const Candidate& candidate, const db::Record& trial);
  std::vector<Guess> score(const std::vector<schedules::Point>& points);
  void learn_from_database();
  Status refresh_peak();
  Status check_installation(const BuildOutcome& built);
  void count_failure(const std::string& reason);
  bool cut_short(const Result<MeasureReply>& reply) const;
  Status choose_finalist();
  Result<db::Record> confirm_winner();
  Result<Tuned> result(Ended ended);
  std::string reference_schedule() const;

  const dsl::Workload* workload_;
  Target target_;
  TuneOptions options_;
  db::Store* store_;
  Environment environment_;
  OnProgress on_progress_;
  Farm farm_;
  std::unique_ptr<db::Recorder> recorder_;
  schedules::Space space_;
  std::unique_ptr<Search> search_;
  cost_model::CostModel model_;
  Random random_;
  int64_t started_ns_ = 0, prepared_ns_ = 0;
  double peak_gflops_ = 0;
  double flops_ = 0;
  std::vector<Tried> history_;           ///< the best that is stored, then the trials of this run
  std::vector<schedules::Point> seeds_;  ///< for the first proposal
  std::vector<cost_model::Sample> fresh_samples_;  ///< not learned from yet
  size_t learned_at_ = 0;                          ///< trials at the last refit
  std::map<schedules::Point, Candidate> scored_;   ///< candidates of the current proposal
  std::set<std::string> seen_;                     ///< schedule texts proposed or known
  std::vector<Finalist> finalists_;                ///< fastest first, a few
  std::map<std::string, int64_t> failures_;
  std::map<std::string, std::string> first_reasons_;  ///< by their text without numbers
  GainCurve gain_;
  Progress progress_;
  int64_t trials_ = 0, peak_due_ = 0, broken_builds_ = 0;
};

}  // namespace tw::tuner
