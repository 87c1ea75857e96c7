// SPDX-License-Identifier: Apache-2.0
#pragma once
// Proposes candidates for a task: a search chooses points of the space, the cost model predicts
// their speed, and the points that are legal and new become candidates. Not thread-safe.
//
//   proposer.begin(stop);
//   const auto points = proposer.propose(
//       [&](const auto& pool) { return proposer.predict(pool, model); }, 8);
//   for (const Candidate& candidate : proposer.choose(points)) ...

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "base/stop.h"
#include "cost_model/cost_model.h"
#include "db/recall.h"
#include "schedules/space/space.h"
#include "tuner/search/experience.h"
#include "tuner/search/scoring.h"
#include "tuner/search/search.h"

namespace tw::tuner {

class Proposer {
 public:
  Proposer(schedules::Space space, std::unique_ptr<Search> search, int kernel_threads,
           uint64_t seed);

  const schedules::Space& space() const { return space_; }
  /// Takes over what a database knows: schedules tried before, parents, and points to begin with.
  void learn(Experience known);
  /// Makes `first` the first candidate that choose() returns. `nearest` is the point of the space
  /// nearest to it, which the search then begins with.
  void begin_with(Candidate first, std::optional<schedules::Point> nearest);
  /// True if the candidate of begin_with() has yet to be chosen.
  bool has_first() const { return first_.has_value(); }
  /// Notes the measured speed of a point of this space, and the features of its kernel.
  void learn(const schedules::Point& point, double throughput, std::vector<float> features = {});
  bool has_seen(const std::string& schedule) const { return seen_.has(schedule); }
  /// Notes that another run has tried a schedule, so that choose() leaves it out.
  void note_tried(const std::string& schedule) { seen_.tried.insert(db::schedule_key(schedule)); }
  /// Makes the proposals differ from those of another run with the same seed. `salt` differs
  /// between the runs.
  void draw_otherwise(uint64_t salt) {
    random_ = Random(mix(static_cast<size_t>(random_.below(INT64_MAX)), salt));
  }

  /// Begins a proposal. The token can end it early, and it scores at most `most_points` points.
  void begin(StopToken stop, size_t most_points = SIZE_MAX);
  /// Up to `count` points that the search proposes for trials, best first by the search, which
  /// rates points by `predict`. Empty if the stop token of the run has stopped.
  std::vector<schedules::Point> propose(const Score& predict, size_t count);
  /// Predicts the speed of the points. The features in the predictions stay valid until begin().
  std::vector<Prediction> predict(const std::vector<schedules::Point>& points,
                                  const cost_model::WorkloadModel& model);
  /// The candidates of these points, without those whose text or program was chosen before.
  /// Requires: the points were predicted since begin().
  std::vector<Candidate> choose(const std::vector<schedules::Point>& points);

 private:
  schedules::Space space_;
  std::unique_ptr<Search> search_;
  int kernel_threads_;
  Random random_;
  StopToken stop_;
  size_t most_points_ = SIZE_MAX;
  std::vector<Tried> history_;           ///< the best stored trials, then the trials of this run
  std::vector<schedules::Point> seeds_;  ///< for the first proposal
  std::optional<Candidate> first_;       ///< chosen before any other candidate
  /// Point nearest to a first candidate that has no point.
  std::optional<schedules::Point> nearest_;
  std::map<schedules::Point, Candidate> predicted_;  ///< candidates of the current proposal
  Seen seen_;  ///< schedules chosen or known, and programs chosen
};

}  // namespace tw::tuner
