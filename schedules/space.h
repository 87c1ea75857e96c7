// SPDX-License-Identifier: Apache-2.0
#pragma once
// Search spaces: the schedules worth trying for one compute on one target, derived from the
// structure of its stages. No operator has a template of its own; a convolution, a product and a
// user's expression go through the same analysis:
//
//   - elementwise producers are inlined where that is cheap, elementwise consumers of a reduction
//     become its epilogue, other producers are computed in a loop of their consumer or in a phase
//     of their own;
//   - a reduction gets a register tile over a vector axis (one along which every tensor that uses
//     it is contiguous, or can be packed so) and up to three more axes, K-blocking, unrolling, loop
//     orders, and packed layouts that follow the loops (NeoCPU, ATC'19, section 3.1);
//   - a reduction along the contiguous axis is split into vector lanes first (rfactor);
//   - everything else is vectorized along its last axis and tiled along the one before.
//
// stage_plan.h is the analysis, knobs.h what may be chosen, construction.h the way from a point to
// steps. A Space is immutable and thread-safe to share.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/target.h"
#include "schedules/knobs.h"
#include "schedules/schedule.h"

namespace tw::schedules {

class Space {
 public:
  static Space derive(const dsl::Compute& compute, const Target& target);

  const Target& target() const;
  const std::vector<Knob>& knobs() const;
  /// The number of points, constraints not counted.
  double size() const;

  /// A good first guess, without any measurement. It takes longer the more stages there are: from
  /// when `stops` says so, the best of what was looked at is the answer.
  Point default_point(const std::function<bool()>& stops = nullptr) const;
  /// Uniform over the points that meet the constraints (register pressure, unrolled size).
  Point sample(Random& random) const;
  /// Changes one or two knobs by a step or to any value; meets the constraints.
  Point mutate(const Point& point, Random& random) const;
  /// Each knob from one of the two; falls back to `a` when no mixture meets the constraints.
  Point cross(const Point& a, const Point& b, Random& random) const;
  /// All points that differ in one knob and meet the constraints.
  std::vector<Point> neighbours(const Point& point) const;
  bool allowed(const Point& point) const;

  /// The schedule of a point. It may still be illegal: program() says why.
  Schedule schedule(const Point& point) const;
  /// The way back: an allowed point with the same steps, not always the one that they came from;
  /// nothing for schedules of another space. A construction takes some 50 us: one point in two is
  /// found with 62 of them, nine in ten with 184, all within the default; of computes with five
  /// stages (attention) most.
  std::optional<Point> point_of(const Schedule& schedule, int most_constructions = 20'000) const;

  /// "knob=value ..." and back; parse gives nullopt for text of another space.
  std::string to_string(const Point& point) const;
  std::optional<Point> parse(std::string_view text) const;

 private:
  struct State;
  explicit Space(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace tw::schedules
