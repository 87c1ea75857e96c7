// SPDX-License-Identifier: Apache-2.0
#pragma once
// A schedule under construction: strategies append their steps to it, stage by stage. It also
// records which choices the steps depend on, so that points can be found back from steps
// (find_point.h). Not thread-safe; one a schedule.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "schedules/schedule.h"
#include "schedules/space/stage_plan.h"

namespace tw::schedules {

struct StageNest;

/// Names of loops, outermost first.
using Loops = std::vector<std::string>;

/// A loop of a stage that has a phase of its own, in which its producers may be computed.
struct Site {
  std::string stage;
  std::string loop;     ///< empty: there is no such loop
  int64_t threads = 1;  ///< threads of a block, which share what is computed there
};

/// Notes when the construction of a schedule first used each decision of its point.
struct Trace {
  struct Use {
    size_t decision;  ///< its place among the decisions of the space
    size_t steps;     ///< number of steps before: none of them depends on the decision
  };
  std::vector<Use> uses;  ///< in order; each decision once

  void note(size_t decision, size_t steps);
};

class Construction {
 public:
  /// Requires: the plan outlives the construction, and so does the trace if there is one.
  explicit Construction(const ComputePlan& plan, Trace* trace = nullptr);

  Schedule schedule;  ///< the schedule so far

  const ComputePlan& plan() const { return *plan_; }
  /// Current extent of the loop, or 1 if the schedule is invalid or has no such loop.
  int64_t extent(const std::string& stage, const std::string& loop) const;
  /// Null if the schedule is invalid or has no such stage.
  const StageNest* find(const std::string& stage) const;

  /// Steps from here on depend on these choices: members of the configuration to which a knob is
  /// bound (strategy.h). A strategy says so before the first step that a choice can change; steps
  /// that depend on a choice that was not named yet make points hard to find back.
  template <typename... Choices>
  void uses(const Choices&... choices) {
    if (trace_) (note(&choices), ...);
  }
  bool is_traced() const { return trace_ != nullptr; }
  void uses_decision(size_t decision);
  /// Says which decision each choice of the next configuration comes from.
  struct Origin {
    const int64_t* choice;
    size_t decision;
  };
  void set_origins(std::vector<Origin> origins) { origins_ = std::move(origins); }

 private:
  void note(const int64_t* choice);

  const ComputePlan* plan_;
  Trace* trace_;
  std::vector<Origin> origins_;
};

Loops concat(std::initializer_list<Loops> parts);
bool contains(const Loops& loops, const std::string& loop);
Loops names_of(const std::vector<dsl::Axis>& axes);
/// The axes of the stage whose iterations are independent of each other: of a scan, all but the one
/// along which it scans.
Loops independent_axes(const dsl::Stage& stage);
/// The axes that have loops inside of these: those that the stage reduces, or along which it scans.
Loops reduced_axes(const dsl::Stage& stage);

/// Splits `loop` of the stage, leaves the inner part in `loop` and returns the outer one.
std::string split_off(Construction& c, const std::string& stage, std::string& loop, int64_t factor);
/// Fuses the loops, which are neighbours, and returns the name of the loop that they become.
std::string fuse_all(Construction& c, const std::string& stage, const Loops& loops);
void unroll(Construction& c, const std::string& stage, const Loops& loops);

/// Powers of two from `least` to `most`, up to the first that covers the extent.
std::vector<int64_t> powers(int64_t extent, int64_t least, int64_t most);
/// The product of the extents of `axes`.
int64_t points_of(const dsl::Stage& stage, const Loops& axes);

}  // namespace tw::schedules
