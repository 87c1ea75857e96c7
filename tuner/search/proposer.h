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
  /// Takes over the results of warm_start(): the schedules tried before, the parents, and the
  /// seeds.
  void learn(Experience known);
  /// Makes `first` the first candidate that choose() returns. If `first` is no point of the space,
  /// `nearest` is the point that is most similar to it, and becomes the first seed of the search;
  /// otherwise nullopt. Call it before learn(Experience), which sets the seeds.
  void begin_with(Candidate first, std::optional<schedules::Point> nearest);
  /// True if the candidate of begin_with() has yet to be chosen.
  bool has_first() const { return first_.has_value(); }
  /// Notes the measured speed of a point of this space, and the features of its kernel.
  void learn(const schedules::Point& point, double throughput, std::vector<float> features = {});
  bool has_seen(const std::string& schedule) const { return seen_.has(schedule); }
  /// Notes that another run has tried a schedule, so that choose() leaves it out.
  void note_tried(const std::string& schedule) { seen_.tried.insert(db::schedule_key(schedule)); }
  /// Changes the random source, so that this run proposes other points than another run with the
  /// same seed. `salt` is a number that differs between the runs.
  void draw_otherwise(uint64_t salt) {
    random_ = Random(mix(static_cast<size_t>(random_.below(INT64_MAX)), salt));
  }

  /// Begins a proposal. The token can end it early. `most_points` is Known::most_points (search.h).
  void begin(StopToken stop, size_t most_points = SIZE_MAX);
  /// Returns up to `count` points for trials, in the order in which the search prefers them.
  /// `predict` is called to rate points; it usually is predict() with a model. Empty if the token
  /// of begin() has stopped.
  std::vector<schedules::Point> propose(const Score& predict, size_t count);
  /// Predicts the speed of the points by `model`, and keeps their candidates for choose(). The
  /// features in the predictions stay valid until the next begin().
  std::vector<Prediction> predict(const std::vector<schedules::Point>& points,
                                  const cost_model::WorkloadModel& model);
  /// Returns the candidates of the points, after the candidate of begin_with() if that is still to
  /// come. Points whose schedule text or program was chosen before are left out. Requires: the
  /// points were predicted since begin().
  std::vector<Candidate> choose(const std::vector<schedules::Point>& points);

 private:
  schedules::Space space_;
  std::unique_ptr<Search> search_;
  int kernel_threads_;
  Random random_;
  StopToken stop_;
  size_t most_points_ = SIZE_MAX;
  std::vector<Tried> history_;           ///< the best stored trials, then the trials of this run
  std::vector<schedules::Point> seeds_;  ///< seeds, for the first proposal only
  std::optional<Candidate> first_;       ///< chosen before any other candidate
  /// The point that is most similar to first_, if first_ is no point of the space.
  std::optional<schedules::Point> nearest_;
  std::map<schedules::Point, Candidate> predicted_;  ///< candidates of the current proposal
  Seen seen_;  ///< schedules that were chosen or tried before, and chosen programs
};

}  // namespace tw::tuner
