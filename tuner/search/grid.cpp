// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "tuner/search/rated.h"

namespace tw::tuner {
namespace {

using schedules::Point;
using schedules::Space;

// Most points that one proposal looks at: `usual` once it has found a new point, `most_known`
// before. A proposal without any point ends the search, so `most_known` is large: a run that
// continues an earlier run begins at the first point again, and must pass all points that were
// tried.
constexpr int usual = 20'000, most_known = 10'000'000;

/// Enumerates the points of one algorithm after the other. The first decision changes fastest.
class Grid : public Search {
 public:
  std::vector<Point> propose(const Space& space, const Known& known, const Score& score,
                             size_t count, Random&) override {
    next_.choices.resize(space.decisions().size(), 0);
    std::vector<Point> picked;
    const auto goes_on = [&](int steps) { return steps < (picked.empty() ? most_known : usual); };
    for (int steps = 0;
         goes_on(steps) && picked.size() < count && !done_ && !known.stop.is_stopped(); ++steps) {
      const Point point = next_;
      advance(space);
      if (space.allowed(point) && score({point})[0].is_new()) picked.push_back(point);
    }
    return whole(std::move(picked), known.stop);
  }

 private:
  /// Moves to the next point. If there are several algorithms, the choice of the algorithm is
  /// decision 0, and it changes last.
  void advance(const Space& space) {
    const size_t first = space.algorithms() > 1 ? 1 : 0;
    for (size_t d = first; d < next_.choices.size(); ++d)
      if (schedules::concerns(space, d, next_) && counts_on(space, d)) return;
    done_ = first == 0 || !counts_on(space, 0);
  }
  /// Sets decision `d` to its next value. After the last value, sets it to the first value and
  /// returns false.
  bool counts_on(const Space& space, size_t d) {
    int& choice = next_.choices[d];
    if (++choice < static_cast<int>(space.decisions()[d].values.size())) return true;
    choice = 0;
    return false;
  }
  Point next_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Search> make_grid_search() { return std::make_unique<Grid>(); }

}  // namespace tw::tuner
