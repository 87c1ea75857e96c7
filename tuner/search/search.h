// SPDX-License-Identifier: Apache-2.0
#pragma once
// Search strategies. Each proposes the points of a space to try next, given the measured points and
// a score.
//
// Evolution is the default: children of the best points found and fresh samples compete by the cost
// model's score, and the kernels of a batch differ from each other and from those proposed before
// (diversity.h). A share of each batch stays random so that a wrong model cannot starve the search
// (Ansor, OSDI'20, section 5). Schedules that were fast for workloads like this one take half of
// the first batch. Blind is evolution without the model: it chooses among the children at random.
// Random and grid are baselines. Spread gathers trials for a model to learn from. Deterministic in
// the random source.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "base/stop.h"
#include "schedules/space/space.h"

namespace tw::tuner {

struct Tried {
  schedules::Point point;
  double throughput = 0;  ///< 1 / latency; 0 when it failed
};

/// Inputs of a search for one proposal: the points tried so far, seeds, and limits.
struct Known {
  const std::vector<Tried>& history;
  const std::vector<schedules::Point>& seeds;  ///< not tried; fast for workloads like this one
  StopToken stop = {};
  /// Most points that one proposal looks at, however many each pick would have.
  size_t most_points = SIZE_MAX;
};

/// Predicted speed of a point. A score that is not finite marks a point that is illegal or was
/// tried before.
struct Prediction {
  Prediction(double score) : score(score) {}
  double score;  ///< higher is faster
  /// Features of the point's kernel; empty where the score does not tell them. They stay valid
  /// until propose() returns.
  std::span<const float> features = {};
};
using Score = std::function<std::vector<Prediction>(const std::vector<schedules::Point>&)>;

class Search {
 public:
  virtual ~Search() = default;
  /// Up to `count` points, best first. Fewer when nothing new is found, none when it was stopped.
  virtual std::vector<schedules::Point> propose(const schedules::Space& space, const Known& known,
                                                const Score& score, size_t count,
                                                Random& random) = 0;
};

/// True if the expected error of the algorithm is close to the limit of `fast`, or of the problem
/// (Problem::most_error). It is left out until a trial was measured: predictions are not verified.
bool is_in_doubt(const schedules::Space& space, size_t algorithm);

/// Names with one line each, for the command line: blind, evolution, grid, random, spread.
struct SearchInfo {
  std::string_view name, summary;
};
const std::vector<SearchInfo>& searches();
Result<std::unique_ptr<Search>> make_search(std::string_view name);

}  // namespace tw::tuner
