// SPDX-License-Identifier: Apache-2.0
#pragma once
// Search strategies. Each proposes the points of a space to try next, given the trials so far, with
// their times and the features of their kernels, and a score, which says of other points if they
// are legal and new, how fast they are expected to be, and their features. A strategy is a source
// of this folder and its row in searches.def:
//
//   class Nearest : public Search {
//     std::vector<Point> propose(const Space& space, const Known& known, const Score& score,
//                                size_t count, Random& random) override {
//       for (const Tried& tried : known.history) ...   // tried.features, tried.throughput
//       for (const Prediction& prediction : score(pool)) ...
//     }
//   };
//   std::unique_ptr<Search> make_nearest_search() { return std::make_unique<Nearest>(); }
//
// Evolution is the default: children of the best points found and fresh samples compete by the cost
// model's score, and the kernels of a batch differ from each other and from those proposed before
// (diversity.h). A share of each batch stays random so that a wrong model cannot starve the search
// (Ansor, OSDI'20, section 5). Schedules that were fast for workloads like this one take half of
// the first batch. Blind is evolution without the model: it chooses among the children at random.
// Random and grid are baselines. Spread gathers trials for a model to learn from. Deterministic in
// the random source.

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
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

/// A trial of a point.
struct Tried {
  schedules::Point point;
  double throughput = 0;  ///< 1 / latency; 0 when it failed
  /// Features of the kernel, as those of a prediction; empty where they are not known.
  std::vector<float> features = {};
};

/// Inputs of a search for one proposal: the points tried so far, seeds, and limits.
struct Known {
  const std::vector<Tried>& history;
  const std::vector<schedules::Point>& seeds;  ///< not tried; fast for workloads like this one
  StopToken stop = {};
  /// Most points that one proposal looks at, however many each pick would have.
  size_t most_points = SIZE_MAX;
};

/// A point as the score finds it before it is tried.
enum class Standing {
  New,      ///< legal, and worth a trial: its speed is predicted
  Seen,     ///< chosen or tried before, or of the same program as a point that was
  Illegal,  ///< without a legal schedule, or larger than is worth building
};

struct Prediction {
  /// A new point of this score; an illegal one where the score is not finite.
  Prediction(double score)
      : score(score), standing(std::isfinite(score) ? Standing::New : Standing::Illegal) {}
  /// Requires: the point is not new.
  explicit Prediction(Standing standing)
      : score(-std::numeric_limits<double>::infinity()), standing(standing) {}

  bool is_new() const { return standing == Standing::New; }
  bool is_legal() const { return standing != Standing::Illegal; }

  /// The predicted speed of a new point: higher is faster. Not finite where it is not new.
  double score;
  Standing standing;
  /// Features of a new point's kernel; empty where the score does not tell them. They stay valid
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

/// A row of searches.def: a name with one line, for the command line.
struct SearchInfo {
  std::string_view name, summary;
  std::unique_ptr<Search> (*make)();
};
/// Sorted by name: blind, evolution, grid, random, spread.
const std::vector<SearchInfo>& searches();
Result<std::unique_ptr<Search>> make_search(std::string_view name);

}  // namespace tw::tuner
