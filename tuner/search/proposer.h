// SPDX-License-Identifier: Apache-2.0
#pragma once
// From what is known of a task to candidates: a search proposes points of its space, the cost model
// predicts how fast they are, and those that are legal and new are chosen. Not thread-safe.
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
  /// Takes over what a database knows: what was tried, parents, and points to begin with.
  void learn(Experience known);
  /// Puts a candidate in front of the first ones that are chosen, and adds the point nearest to it
  /// to those that the search begins with.
  void begin_with(Candidate first, std::optional<schedules::Point> nearest);
  /// True if begin_with() gave a candidate that has yet to be chosen.
  bool has_first() const { return first_.has_value(); }
  /// Notes how fast a point of this space is, and the features of its kernel.
  void learn(const schedules::Point& point, double throughput, std::vector<float> features = {});
  bool has_seen(const std::string& schedule) const { return seen_.has(schedule); }
  /// Notes that another run has tried a schedule: it is not chosen here.
  void note_tried(const std::string& schedule) { seen_.tried.insert(db::schedule_key(schedule)); }
  /// Draws other random points from now on than a run with the same seed.
  void draw_otherwise(uint64_t salt) {
    random_ = Random(mix(static_cast<size_t>(random_.below(INT64_MAX)), salt));
  }

  /// Begins a proposal that the token may end, and that looks at `most_points` points at most.
  void begin(StopToken stop, size_t most_points = SIZE_MAX);
  /// Up to `count` points that the search thinks worth a trial, best first; none where it was
  /// stopped.
  std::vector<schedules::Point> propose(const Score& predict, size_t count);
  /// Predicts how fast the points are. The features of the predictions are valid until begin().
  std::vector<Prediction> predict(const std::vector<schedules::Point>& points,
                                  const cost_model::WorkloadModel& model);
  /// The candidates of these points, less those whose text or program was chosen before. Requires
  /// that they were predicted since begin().
  std::vector<Candidate> choose(const std::vector<schedules::Point>& points);

 private:
  schedules::Space space_;
  std::unique_ptr<Search> search_;
  int kernel_threads_;
  Random random_;
  StopToken stop_;
  size_t most_points_ = SIZE_MAX;
  std::vector<Tried> history_;           ///< the best that is stored, then the trials of this run
  std::vector<schedules::Point> seeds_;  ///< for the first proposal
  std::optional<Candidate> first_;       ///< to be chosen before any other
  std::optional<schedules::Point> nearest_;          ///< to a first candidate without a point
  std::map<schedules::Point, Candidate> predicted_;  ///< candidates of the current proposal
  Seen seen_;                                        ///< texts chosen or known, programs chosen
};

}  // namespace tw::tuner
