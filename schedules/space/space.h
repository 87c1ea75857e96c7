// SPDX-License-Identifier: Apache-2.0
#pragma once
// Search spaces: the schedules worth trying for one problem on one target, derived from the
// structure of the problem's stages. Operators have no templates: convolutions, products and user
// expressions go through the same analysis (stage_plan.h). The analysis inlines elementwise
// producers where that is cheap, makes elementwise consumers of a reduction its epilogue, and lets
// other producers be computed in a loop of their consumer or in their own phase. Each remaining
// stage is scheduled by one of the strategies that match it (strategy.h).
//
// A space is the union of the spaces of all algorithms that the problem allows and that match its
// compute (algorithms.h).
//
// A space is represented by a list of decisions. The first decision is the algorithm, if there are
// several algorithms. Each stage of each algorithm has decisions for its place (inside of its
// consumer or not), its strategy, and the knobs of its strategies. Knobs of several strategies that
// have the same name are one decision, so that the value of such a knob is kept when the strategy
// of a point changes. Sampling, mutating and crossing points need nothing but this list. A Space is
// immutable and thread-safe to share.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/stop.h"
#include "base/target.h"
#include "schedules/problem.h"
#include "schedules/schedule.h"
#include "schedules/space/strategy.h"

namespace tw::schedules {

/// A point has one choice for each decision of the space: the index of one of the decision's
/// values. The choice is 0 for decisions of other algorithms and for knobs that the chosen strategy
/// does not have.
struct Point {
  std::vector<int> choices;
  auto operator<=>(const Point&) const = default;
};
size_t hash(const Point& point);

struct AlgorithmSpace;

class Space {
 public:
  /// Derives the space of a problem. Fails with Usage if the problem asks for a text that is not a
  /// layout of its tensor, with Unsupported if no strategy can schedule a stage with the layouts
  /// asked for, and with the error of check_not_stopped() if the token stops.
  static Result<Space> derive(const Problem& problem, const Target& target,
                              const StopToken& stop = {},
                              std::span<const Strategy> strategies = schedules::strategies());
  /// Derives a space in which schedules are free to choose all layouts.
  static Space derive(const dsl::Compute& compute, const Target& target);

  const Target& target() const;
  /// Returns the decisions, in the order of a point's choices. Their names are "algorithm",
  /// "stage.place", "stage.strategy" and "stage.knob", where `stage` and `knob` stand for their
  /// names. Decisions of several algorithms may have the same name, because the algorithms may have
  /// stages of the same name.
  const std::vector<Knob>& decisions() const;
  /// Returns the number of algorithms, including the direct one.
  size_t algorithms() const;
  /// Returns the part of the space that belongs to an algorithm (algorithm_space.h).
  const AlgorithmSpace& algorithm(size_t index) const;
  /// Returns the index of the point's algorithm, in the order in which the space offers algorithms.
  /// The index of the direct algorithm is 0.
  size_t algorithm_of(const Point& point) const;
  /// Returns the number of stages that have decisions under the algorithm of this index.
  size_t stages(size_t algorithm) const;

  /// Returns a point of the direct algorithm that is a good first guess, without any measurement.
  /// The function draws samples and tries them, best heuristic prior first, until the schedule of a
  /// sample is legal. If a strategy allows hill climbing, it then moves to legal neighbours with
  /// better priors. The number of points that it lowers is limited by a count and not by a time. If
  /// no legal point was found within the limit, it returns the point that has the first value of
  /// each decision.
  Point default_point() const;
  /// As default_point(), but fails with the error of check_not_stopped() if the token stops first.
  Result<Point> default_point(const StopToken& stop) const;
  const Problem& problem() const;
  /// Draws an algorithm, each with the same probability, and then a point of this algorithm as
  /// sample_like() does.
  Point sample(Random& random) const;
  /// Draws a point of the algorithm of `point`. The configurations of its stages are drawn until
  /// they are allowed; after 2000 draws a stage gets the first value of each of its decisions. All
  /// values of a decision are equally likely to be drawn, with three exceptions: knobs with a
  /// weight_of_last; the first knobs of a strategy with knobs_of_head(), which are drawn together;
  /// and the places of stages. For the direct algorithm with at least two placeable stages, half of
  /// the points have all these stages placed alike, either all inside of their consumers or none.
  Point sample_like(const Point& point, Random& random) const;
  /// Returns a point of the same algorithm that differs from `point` in one or two decisions. The
  /// new value of a decision is either a neighbour of its old value in the list of values, or drawn
  /// from all values. Knobs that only a newly chosen strategy has are drawn. The result is allowed,
  /// or is `point` itself if no other allowed point was found in 200 attempts.
  Point mutate(const Point& point, Random& random) const;
  /// Returns an allowed point that has the choice of `a` or of `b` for each decision, at random.
  /// Returns `a` if the two points have different algorithms, or if no allowed mixture was found in
  /// 50 attempts.
  Point cross(const Point& a, const Point& b, Random& random) const;
  /// Returns all allowed points of the same algorithm that differ from `point` in one decision. If
  /// that decision is a strategy, the choices for knobs that only one of the two strategies has are
  /// 0.
  std::vector<Point> neighbours(const Point& point) const;
  /// True if each stage's strategy allows its configuration on the target (register pressure,
  /// shared memory, unrolled size), and the choice of every decision without an effect is 0.
  bool allowed(const Point& point) const;

  /// Returns the schedule of a point. The schedule may be illegal; its program() then returns the
  /// reason.
  Schedule schedule(const Point& point) const;
  /// to_string() returns the configuration as text, "algorithm; stage: strategy knob=value ...;
  /// ...", without the algorithm if it is the direct one. parse() returns the point of such a text,
  /// or nullopt for the text of another space. A text may leave out optional knobs, which then have
  /// their first values.
  std::string to_string(const Point& point) const;
  std::optional<Point> parse(std::string_view text) const;

 private:
  struct State;
  explicit Space(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// Returns the number of points, including those that are not allowed.
double size(const Space& space);
/// Returns the relative work to construct and lower the schedule of a point, for the algorithm for
/// which this work is largest. The weight is 1 for a matrix product and for all lighter computes,
/// and larger for others. A search divides its limits by the weight, so that it does about as much
/// work in each space.
double weight(const Space& space);
/// Returns the expected error of an algorithm (Rewritten::expected_error), which is 0 for the
/// direct one.
double expected_error(const Space& space, size_t algorithm);
/// True if the point's algorithm has stages that may be computed inside of their consumers, and the
/// point places all of these stages there.
bool is_fused(const Space& space, const Point& point);
/// False if the decision belongs to another algorithm than that of the point, and so has no effect
/// on the point.
bool concerns(const Space& space, size_t decision, const Point& point);

}  // namespace tw::schedules
