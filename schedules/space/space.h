// SPDX-License-Identifier: Apache-2.0
#pragma once
// Search spaces: the schedules worth trying for one problem on one target, derived from the
// structure of the problem's stages. Operators have no templates: convolutions, products and user
// expressions go through the same analysis (stage_plan.h). It inlines elementwise producers where
// that is cheap, makes elementwise consumers of a reduction its epilogue, and lets other producers
// be computed in a loop of their consumer or in their own phase. Each remaining stage is scheduled
// by one of the strategies that match it (strategy.h).
//
// A space is the union of the spaces of all algorithms that the problem allows and that match it
// (algorithms.h).
//
// A space is represented by a list of decisions. The first is the algorithm. Each stage of each
// algorithm has decisions for its place (inside of its consumer or not), its strategy, and the
// knobs of its strategies. Knobs of one name in several strategies are one decision, so that a
// point keeps its value when it changes the strategy. Sampling, mutating and crossing use nothing
// but the decisions. A Space is immutable and thread-safe to share.

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

/// A point has, for each decision of the space, the index of a value. If a decision concerns
/// another algorithm, or a knob that the chosen strategy does not have, its index is 0.
struct Point {
  std::vector<int> choices;
  auto operator<=>(const Point&) const = default;
};
size_t hash(const Point& point);

struct AlgorithmSpace;

class Space {
 public:
  /// Derives the space of a problem. Usage if a layout that the problem asks for is not a layout of
  /// its tensor; Unsupported if no strategy can schedule a stage with these layouts; as
  /// check_not_stopped() if the token stops.
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

  /// A good first guess of the direct algorithm, without measurements: the best by the heuristic
  /// prior of a number of points that depends on the compute alone.
  Point default_point() const;
  /// As default_point(). Errors as check_not_stopped() if the token stops first.
  Result<Point> default_point(const StopToken& stop) const;
  const Problem& problem() const;
  /// Draws an allowed point: first an algorithm, then a point of that algorithm, both uniformly.
  Point sample(Random& random) const;
  /// Draws an allowed point of the algorithm of `point`, uniformly.
  Point sample_like(const Point& point, Random& random) const;
  /// Changes one or two decisions, to a neighbouring or to any value. The result is allowed.
  Point mutate(const Point& point, Random& random) const;
  /// Takes each decision from `a` or `b`. Returns `a` if no mixture is allowed, as for points of
  /// two algorithms.
  Point cross(const Point& a, const Point& b, Random& random) const;
  /// All allowed points of the same algorithm that differ in one decision.
  std::vector<Point> neighbours(const Point& point) const;
  /// True if the configuration of each stage fits the target (register pressure, shared memory,
  /// unrolled size), and the index of every decision without an effect is 0.
  bool allowed(const Point& point) const;

  /// The schedule of a point. It may still be illegal: program() says why.
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
/// The work to construct and lower the schedule of a point, at least 1; the unit is the work for a
/// matrix product. Limits of work are numbers of points divided by the weight.
double weight(const Space& space);
/// The expected error of an algorithm (Rewritten::expected_error); 0 for the direct one.
double expected_error(const Space& space, size_t algorithm);
/// True if every stage that may be computed inside of another one is, and there is at least one.
bool is_fused(const Space& space, const Point& point);
/// False if the decision belongs to another algorithm than the point's, and so has no effect on the
/// point.
bool concerns(const Space& space, size_t decision, const Point& point);

}  // namespace tw::schedules
