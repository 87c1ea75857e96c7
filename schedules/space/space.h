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
// A space is represented by a list of decisions. The first is the algorithm, if there are several.
// Each stage of each algorithm has decisions for its place (inside of its consumer or not), its
// strategy, and the knobs of its strategies. Knobs of several strategies that have the same name
// are one decision, so that the value of such a knob is kept when the strategy of a point changes.
// Sampling, mutating and crossing use nothing but the decisions. A Space is immutable and
// thread-safe to share.

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

/// A point has, for each decision of the space, the index of a value. The index is 0 for decisions
/// of another algorithm and for knobs that the chosen strategy does not have.
struct Point {
  std::vector<int> choices;
  auto operator<=>(const Point&) const = default;
};
size_t hash(const Point& point);

struct AlgorithmSpace;

class Space {
 public:
  /// Derives the space of a problem. Fails with Usage if a layout that the problem asks for is not
  /// a layout of its tensor, with Unsupported if no strategy can schedule a stage with these
  /// layouts, and as check_not_stopped() if the token stops.
  static Result<Space> derive(const Problem& problem, const Target& target,
                              const StopToken& stop = {},
                              std::span<const Strategy> strategies = schedules::strategies());
  /// Derives a space in which schedules are free to choose all layouts.
  static Space derive(const dsl::Compute& compute, const Target& target);

  const Target& target() const;
  /// The decisions, in the order of a point's choices. Their names are "algorithm", "stage.place",
  /// "stage.strategy" and "stage.knob". Stages of several algorithms may have the same name.
  const std::vector<Knob>& decisions() const;
  /// The number of algorithms, including the direct one.
  size_t algorithms() const;
  /// The part of the space that belongs to an algorithm (algorithm_space.h).
  const AlgorithmSpace& algorithm(size_t index) const;
  /// The index of the point's algorithm, in the order in which the space offers them; 0 is the
  /// direct one.
  size_t algorithm_of(const Point& point) const;
  /// The number of stages that have decisions under the algorithm of this index.
  size_t stages(size_t algorithm) const;

  /// A good first guess without measurements, for the direct algorithm. Tries samples and then
  /// neighbours of the best one, and returns the point with the best heuristic prior among those
  /// whose schedule is legal. The number of points that are lowered is limited by a count and not
  /// by a time.
  Point default_point() const;
  /// As default_point(). Errors as check_not_stopped() if the token stops first.
  Result<Point> default_point(const StopToken& stop) const;
  const Problem& problem() const;
  /// Draws an allowed point: first an algorithm, uniformly, then a point of that algorithm as
  /// sample_like() does.
  Point sample(Random& random) const;
  /// Draws an allowed point of the algorithm of `point`. All values of a decision are equally
  /// likely before illegal combinations are rejected, with three exceptions: knobs with a
  /// weight_of_last; the first knobs of a strategy with knobs_of_head(), which are drawn together;
  /// and the places of stages. In the direct algorithm half of the points have all stages placed
  /// alike, either all inside of their consumers or none.
  Point sample_like(const Point& point, Random& random) const;
  /// Changes one or two decisions of the point. A changed decision takes a neighbour of its value
  /// in the list of values, or any value. Knobs of a newly chosen strategy are drawn. The result is
  /// allowed, and has the same algorithm. It is `point` itself if no other point was found in 200
  /// attempts.
  Point mutate(const Point& point, Random& random) const;
  /// Takes each decision from `a` or from `b` at random. Returns `a` if no mixture was found that
  /// is allowed; there is none if the two points have different algorithms.
  Point cross(const Point& a, const Point& b, Random& random) const;
  /// All allowed points of the same algorithm that differ from `point` in one decision.
  std::vector<Point> neighbours(const Point& point) const;
  /// True if the configuration of each stage fits the target (register pressure, shared memory,
  /// unrolled size), and the index of every decision without an effect is 0.
  bool allowed(const Point& point) const;

  /// The schedule of a point. It may be illegal; program() then returns the reason.
  Schedule schedule(const Point& point) const;
  /// The configuration as text: "algorithm; stage: strategy knob=value ...; ...", without the
  /// algorithm if it is the direct one. parse() returns the point again, or nullopt for text of
  /// another space. In text that lacks an optional knob, the knob has its first value.
  std::string to_string(const Point& point) const;
  std::optional<Point> parse(std::string_view text) const;

 private:
  struct State;
  explicit Space(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// The number of points, including those that are not allowed.
double size(const Space& space);
/// The work to construct and lower the schedule of a point of the heaviest algorithm: 1 for a
/// matrix product and for all lighter computes, more for others. A search divides its limits by the
/// weight, to do as much work in each space.
double weight(const Space& space);
/// The expected error of an algorithm (Rewritten::expected_error); 0 for the direct one.
double expected_error(const Space& space, size_t algorithm);
/// True if the space has stages that may be computed inside of others, and the point computes all
/// of these inside of others.
bool is_fused(const Space& space, const Point& point);
/// False if the decision belongs to another algorithm than the point's, and so has no effect on the
/// point.
bool concerns(const Space& space, size_t decision, const Point& point);

}  // namespace tw::schedules
