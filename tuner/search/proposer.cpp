// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/proposer.h"

#include <utility>

namespace tw::tuner {

using schedules::Point;

Proposer::Proposer(schedules::Space space, std::unique_ptr<Search> search, int kernel_threads,
                   uint64_t seed)
    : space_(std::move(space)),
      search_(std::move(search)),
      kernel_threads_(kernel_threads),
      random_(seed) {}

void Proposer::learn(Experience known) {
  seen_.tried.merge(known.tried);
  history_ = std::move(known.parents);
  // A single parent is not used. Evolution needs two parents to mix, and with any history it would
  // not make its first pool, which has the default point.
  if (history_.size() == 1) history_.clear();
  seeds_ = std::move(known.seeds);
  if (nearest_) seeds_.insert(seeds_.begin(), *nearest_);
}

void Proposer::begin_with(Candidate first, std::optional<Point> nearest) {
  first_ = std::move(first);
  nearest_ = std::move(nearest);
}

void Proposer::learn(const Point& point, double throughput, std::vector<float> features) {
  history_.push_back({point, throughput, std::move(features)});
}

void Proposer::begin(StopToken stop, size_t most_points) {
  predicted_.clear();
  stop_ = std::move(stop);
  most_points_ = most_points;
}

std::vector<Point> Proposer::propose(const Score& predict, size_t count) {
  std::vector<Point> points =
      search_->propose(space_, {history_, seeds_, stop_, most_points_}, predict, count, random_);
  seeds_.clear();
  return points;
}

std::vector<Prediction> Proposer::predict(const std::vector<Point>& points,
                                          const cost_model::WorkloadModel& model) {
  // All cores score points, since no kernel is timed meanwhile.
  std::vector<JudgedPoint> judged = judge_points(
      space_, points, space_.target(), seen_,
      {.kernel_threads = kernel_threads_, .workers = host_target().machine.cores, .stop = stop_});
  std::vector<Prediction> predictions(points.size(), Prediction(Standing::Illegal));
  std::vector<std::vector<float>> rows;
  std::vector<size_t> places;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!judged[i].candidate) {
      predictions[i] = Prediction(judged[i].standing);
      continue;
    }
    rows.push_back(judged[i].candidate->features);
    places.push_back(i);
    predicted_.try_emplace(points[i], std::move(*judged[i].candidate));
  }
  const std::vector<double> scores = model.predict(rows);
  for (size_t k = 0; k < rows.size(); ++k) {
    Prediction& prediction = predictions[places[k]];
    prediction = scores[k];
    prediction.features = predicted_.at(points[places[k]]).features;
  }
  return predictions;
}

std::vector<Candidate> Proposer::choose(const std::vector<Point>& points) {
  std::vector<Candidate> chosen;
  if (first_) {
    seen_.schedules.insert(first_->schedule);
    seen_.programs.insert(first_->program);
    chosen.push_back(*std::exchange(first_, std::nullopt));
  }
  for (const Point& point : points) {
    const auto found = predicted_.find(point);
    if (found == predicted_.end() || !seen_.schedules.insert(found->second.schedule).second)
      continue;
    // Two points that were predicted in different calls may have the same program.
    if (seen_.programs.insert(found->second.program).second) chosen.push_back(found->second);
  }
  return chosen;
}

}  // namespace tw::tuner
