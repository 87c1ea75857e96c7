// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a point of a space to the steps of its schedule. A Construction reads knobs and appends
// steps in turn, and remembers how many steps there were when it first read each knob: what the
// point says of a knob can only matter to the steps after that, so points can be found back from
// steps (Space::point_of). Not thread-safe; one a schedule.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "schedules/knobs.h"
#include "schedules/schedule.h"
#include "schedules/stage_plan.h"

namespace tw::schedules {

/// The first time that a knob was asked for.
struct Reading {
  size_t knob;   ///< its place among the knobs
  size_t steps;  ///< of the schedule before
};

class Construction {
 public:
  /// Requires: the arguments outlive the construction.
  Construction(const ComputePlan& plan, const Knobs& knobs, const Point& point);

  Schedule schedule;  ///< so far

  const ComputePlan& plan() const { return *plan_; }
  /// Of the knob `name` of the stage; `otherwise` where it has none.
  int64_t value(const StagePlan& stage, const std::string& name, int64_t otherwise = 0);
  const VectorAxis& vector_axis(const StagePlan& stage);
  /// Elements of a vector of the stage.
  int64_t lanes(const StagePlan& stage) const;
  /// Of a loop as it is now; 1 where the schedule failed or the loop is not there.
  int64_t extent(const StagePlan& stage, const std::string& loop) const;

  /// In the order of the first reading.
  const std::vector<Reading>& readings() const { return readings_; }

 private:
  const ComputePlan* plan_;
  const Knobs* knobs_;
  const Point* point_;
  std::vector<Reading> readings_;
};

/// Names of loops, outermost first.
using Loops = std::vector<std::string>;
Loops concat(std::initializer_list<Loops> parts);
Loops names_of(const std::vector<dsl::Axis>& axes);

/// All steps. The schedule may have failed or be illegal.
Construction construct(const ComputePlan& plan, const Knobs& knobs, const Point& point);

/// What construct() begins a tile with: layouts of arguments and results that follow its loops. The
/// vector axis comes innermost, the blocked reduction axis around it, and the other dimensions
/// outside in the order of the loops.
void choose_layouts(Construction& c, const StagePlan& plan, const VectorAxis& vector,
                    int64_t width);

}  // namespace tw::schedules
