// SPDX-License-Identifier: Apache-2.0
#pragma once
// A schedule under construction. Strategies append their steps to it, stage by stage. It also
// records the choices on which steps depend, so that the point of a schedule can be found from its
// steps (find_point.h). Not thread-safe; each schedule has its own Construction.

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

/// A loop of a stage with its own phase, at which the producers of this stage may be computed.
struct Site {
  std::string stage;
  std::string loop;  ///< empty if producers cannot be computed in the stage
  /// number of threads of a block; these threads share the work of the producers
  int64_t threads = 1;
  /// Number of elements of the row that the site computes, if the threads keep the elements of
  /// producer stages in registers; 0 if these elements pass through shared memory. Thread t then
  /// computes the elements t * vector to t * vector + vector - 1 of each tile of threads * vector
  /// elements, in the site's stage and in its producers.
  int64_t row = 0;
  std::string row_axis = {};  ///< axis of the site's stage along which the row lies
  int64_t vector = 1;         ///< neighbouring elements of the row that a thread computes
};

/// Records, for each decision of a point, how many steps the schedule had when a strategy first
/// used the decision. These earlier steps do not depend on the decision, which helps to find the
/// point of a schedule.
struct Trace {
  struct Use {
    size_t decision;  ///< index among the decisions of the space
    size_t steps;     ///< number of steps before the use; none of them depends on the decision
  };
  std::vector<Use> uses;  ///< in the order of first uses

  void note(size_t decision, size_t steps);
};

class Construction {
 public:
  /// Starts with the prologue of the plan, i.e. the steps with which every schedule begins. Records
  /// the uses of decisions in `trace`, unless it is null. Requires: the plan and the trace outlive
  /// the construction.
  explicit Construction(const ComputePlan& plan, Trace* trace = nullptr);

  Schedule schedule;  ///< the schedule so far

  const ComputePlan& plan() const { return *plan_; }
  /// Returns the current extent of the loop; 1 if the schedule is invalid or has no such loop.
  int64_t extent(const std::string& stage, const std::string& loop) const;
  /// Returns the nest of a stage; null if the schedule is invalid or has no such stage.
  const StageNest* find(const std::string& stage) const;

  /// Declares that the steps appended from here on depend on these choices. Each choice is a member
  /// of the configuration that a knob has set (strategy.h). A strategy calls this function before
  /// the first step that a choice can change. Otherwise the point of a schedule is hard to find
  /// from its steps.
  template <typename... Choices>
  void uses(const Choices&... choices) {
    if (trace_) (note(&choices), ...);
  }
  bool is_traced() const { return trace_ != nullptr; }
  void uses_decision(size_t decision);
  /// Connects a member of the configuration, given by its address, to the index of the decision
  /// that sets it.
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
/// Returns the spatial axes of the stage whose iterations are independent of each other. These are
/// all spatial axes except the axis along which a scan runs.
Loops independent_axes(const dsl::Stage& stage);
/// Returns the axes whose loops belong inside of the loops over independent_axes(): the reduction
/// axes, or, for a scan, the one axis along which it runs.
Loops reduced_axes(const dsl::Stage& stage);

/// Splits `loop` of the stage by `factor`. Returns the name of the outer loop and sets `loop` to
/// the name of the inner loop. For the loop "n" it returns "n.0" and sets `loop` to "n.1".
std::string split_off(Construction& c, const std::string& stage, std::string& loop, int64_t factor);
/// Fuses adjacent loops and returns the name of the fused loop.
std::string fuse_all(Construction& c, const std::string& stage, const Loops& loops);
void unroll(Construction& c, const std::string& stage, const Loops& loops);

/// Returns the values `least`, 2 * `least`, 4 * `least` and so on. The list ends at the first value
/// that is at least `extent`, or before the first value above `most`. For extent 20, least 8 and
/// most 128 it is {8, 16, 32}.
std::vector<int64_t> powers(int64_t extent, int64_t least, int64_t most);
/// Returns a term of a heuristic prior. It is 0 if `value` is `wanted`, and falls by
/// `weight` for each factor of 2 between them. For example, preference(8, 2, 0.5) is -1.
double preference(int64_t value, double wanted, double weight);
/// Returns the product of the extents of `axes`.
int64_t points_of(const dsl::Stage& stage, const Loops& axes);

}  // namespace tw::schedules
