// SPDX-License-Identifier: Apache-2.0
#pragma once
// Search spaces: the schedules worth trying for one problem on one target, derived from the
// structure of its stages. No operator has a template of its own; a convolution, a product and a
// user's expression go through the same analysis (stage_plan.h): elementwise producers are inlined
// where that is cheap, elementwise consumers of a reduction become its epilogue, other producers
// are computed in a loop of their consumer or in a phase of their own. Each stage that remains is
// scheduled by one of the strategies that match it (strategy.h).
//
// A space is the union of the spaces of all algorithms that the problem allows and that match it
// (algorithms.h).
//
// A space is a list of decisions: the algorithm, and for each stage of each algorithm, whether it
// is computed inside its consumer, which of its strategies it takes, and the knobs of these
// strategies. Knobs of one name are one decision that several strategies share, so that a point
// keeps its value when it changes the strategy. Sampling, mutating and crossing know nothing else.
// A Space is immutable and thread-safe to share.

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

/// For each decision of a space the index of a value. The index of a decision that concerns another
/// algorithm, or a knob that the strategy of its stage does not have, is 0.
struct Point {
  std::vector<int> choices;
  auto operator<=>(const Point&) const = default;
};
size_t hash(const Point& point);

struct AlgorithmSpace;

class Space {
 public:
  /// Usage where the problem asks for what is no layout; Unsupported where no strategy schedules
  /// a stage with the layouts that it asks for; as check_not_stopped() where the token ended it.
  static Result<Space> derive(const Problem& problem, const Target& target,
                              const StopToken& stop = {},
                              std::span<const Strategy> strategies = schedules::strategies());
  /// With layouts that schedules are free to choose.
  static Space derive(const dsl::Compute& compute, const Target& target);

  const Target& target() const;
  /// Named "algorithm", "stage.place", "stage.strategy" or "stage.knob", in the order of a point's
  /// choices. Stages of several algorithms may have one name.
  const std::vector<Knob>& decisions() const;
  /// The number of algorithms, the direct one included.
  size_t algorithms() const;
  /// The part of the space that belongs to an algorithm (algorithm_space.h).
  const AlgorithmSpace& algorithm(size_t index) const;
  /// That of the point, in the order in which the space offers them; 0: the direct one.
  size_t algorithm_of(const Point& point) const;
  /// The number of stages that have decisions under an algorithm; 0: the direct one.
  size_t stages(size_t algorithm) const;

  /// A good first guess without any measurement, of the direct algorithm: the best of a number of
  /// points that depends on the compute alone.
  Point default_point() const;
  /// The same point. Errors as check_not_stopped() where the token stops first.
  Result<Point> default_point(const StopToken& stop) const;
  const Problem& problem() const;
  /// Uniform over the points of an algorithm that are allowed, of algorithms uniform too.
  Point sample(Random& random) const;
  /// Uniform over those of the point's algorithm.
  Point sample_like(const Point& point, Random& random) const;
  /// Changes one or two decisions by a step or to any value; allowed.
  Point mutate(const Point& point, Random& random) const;
  /// Each decision from one of the two; falls back to `a` when no mixture is allowed, as of points
  /// of two algorithms.
  Point cross(const Point& a, const Point& b, Random& random) const;
  /// All allowed points of the same algorithm that differ in one decision.
  std::vector<Point> neighbours(const Point& point) const;
  /// True if the configuration of each stage fits the target (register pressure, shared memory,
  /// unrolled size), and the index of every decision without an effect is 0.
  bool allowed(const Point& point) const;

  /// The schedule of a point. It may still be illegal: program() says why.
  Schedule schedule(const Point& point) const;
  /// The configuration: "algorithm; stage: strategy knob=value ...; ...", where the algorithm is
  /// not the direct one. parse() gives the point back, or
  /// nothing for text of another space. The text of a space that lacks an optional knob is the
  /// point with the first value of that knob.
  std::string to_string(const Point& point) const;
  std::optional<Point> parse(std::string_view text) const;

 private:
  struct State;
  explicit Space(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// The number of points, constraints not counted.
double size(const Space& space);
/// Work to construct and lower the schedule of a point, in units of that of a matrix product; at
/// least 1. Bounds of work are counts of points divided by the weight.
double weight(const Space& space);
/// The error to expect of an algorithm (Rewritten::expected_error); 0 of the direct one.
double expected_error(const Space& space, size_t algorithm);
/// True where every stage that may be computed inside of another one is, and there is one.
bool is_fused(const Space& space, const Point& point);
/// False of the decisions of other algorithms than the point's, which have no effect on it.
bool concerns(const Space& space, size_t decision, const Point& point);

}  // namespace tw::schedules
