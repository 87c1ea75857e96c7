// SPDX-License-Identifier: Apache-2.0
#pragma once
// Searches: methods that propose which points of a space are tried next. A search is given the
// trials so far, with their times and the features of their kernels, and a score. For any point the
// score says if the point is legal and new, how fast its kernel is expected to be, and which
// features the kernel has. A search consists of a source file in this folder and a row in
// searches.def:
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
// "evolution" is the default. Children of the best points so far and random samples are ranked by
// the score, and the kernels of a batch differ from each other and from those proposed before
// (diversity.h). A share of each batch is random, so that a wrong model cannot mislead the whole
// search (Ansor, OSDI'20, section 5). Schedules that were fast for similar workloads take half of
// the first batch. "blind" is evolution without the model: it chooses among the children at random.
// "random" and "grid" are baselines. "spread" gathers trials from which a model can learn. All are
// deterministic in the random source.

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

/// A point that was tried, and the speed of its kernel.
struct Tried {
  schedules::Point point;
  double throughput = 0;  ///< 1 / latency; 0 if the trial failed
  /// Features of the kernel, as in Prediction; empty if they are unknown.
  std::vector<float> features = {};
};

/// Inputs of a search for one proposal: the points tried so far, seeds, and limits.
struct Known {
  const std::vector<Tried>& history;
  /// Points that were fast for similar workloads and were not tried for this workload yet.
  const std::vector<schedules::Point>& seeds;
  StopToken stop = {};
  /// Most points in the pool from which a search that uses a model chooses one proposal. The pool
  /// has at least as many points as are proposed.
  size_t most_points = SIZE_MAX;
};

/// State of a point before a trial.
enum class Standing {
  New,      ///< legal and not tried before; its speed is predicted
  Seen,     ///< chosen or tried before, or has the program of a point that was
  Illegal,  ///< has no legal schedule, or only one too large to be worth building
};

struct Prediction {
  /// The prediction of a new point. If the score is not finite, the point is illegal.
  Prediction(double score)
      : score(score), standing(std::isfinite(score) ? Standing::New : Standing::Illegal) {}
  /// The prediction of a point that was seen or is illegal. Requires: the standing is not New.
  explicit Prediction(Standing standing)
      : score(-std::numeric_limits<double>::infinity()), standing(standing) {}

  bool is_new() const { return standing == Standing::New; }
  bool is_legal() const { return standing != Standing::Illegal; }

  /// The predicted speed: higher is faster. Not finite if the point is not new.
  double score;
  Standing standing;
  /// Features of a new point's kernel; empty if the score does not provide them. They stay valid
  /// until propose() returns.
  std::span<const float> features = {};
};
using Score = std::function<std::vector<Prediction>(const std::vector<schedules::Point>&)>;

class Search {
 public:
  virtual ~Search() = default;
  /// Returns up to `count` points, the most worthwhile trial first. There are fewer if the search
  /// finds no more new points, and none if it was stopped.
  virtual std::vector<schedules::Point> propose(const schedules::Space& space, const Known& known,
                                                const Score& score, size_t count,
                                                Random& random) = 0;
};

/// True if the expected error of the algorithm is close to the largest error that the accuracy
/// class `fast` or the problem (Problem::most_error) allows. Predictions leave such an algorithm
/// out, because they verify no result. A search leaves such an algorithm out as long as there is no
/// trial of any algorithm. After that, each batch has at most one point of the algorithm, until a
/// trial of the algorithm succeeds.
bool is_in_doubt(const schedules::Space& space, size_t algorithm);

/// A row of searches.def: the name of a search and a line about it for the command line.
struct SearchInfo {
  std::string_view name, summary;
  std::unique_ptr<Search> (*make)();
};
/// All searches, sorted by name (searches.def).
const std::vector<SearchInfo>& searches();
/// Returns a new search of that name. Fails with Usage if there is none.
Result<std::unique_ptr<Search>> make_search(std::string_view name);

}  // namespace tw::tuner
