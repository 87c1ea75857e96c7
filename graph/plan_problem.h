// SPDX-License-Identifier: Apache-2.0
#pragma once
// The choice that a plan makes (plan.h), in numbers: tensors and operators are indices, layouts
// that place the elements of a tensor alike are one number, and the cost of each copy is known.
// Plain values; thread-safe.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/plan.h"

namespace tw::graph {

/// Layouts of one tensor, one bit each: layout l of a tensor is bit 1 << l.
using LayoutSet = uint64_t;
constexpr size_t most_layouts = 64;
constexpr LayoutSet only(size_t layout) { return LayoutSet{1} << layout; }
constexpr bool contains(LayoutSet set, size_t layout) { return (set & only(layout)) != 0; }
constexpr size_t size_of(LayoutSet set) { return static_cast<size_t>(std::popcount(set)); }
std::vector<size_t> members(LayoutSet set);  ///< in order

/// The cost of what cannot be chosen.
constexpr double impossible = std::numeric_limits<double>::infinity();

/// A tensor that is no constant.
struct PlanTensor {
  std::string name;
  TensorType type;
  std::vector<dsl::Layout> layouts;  ///< distinct in storage; layout 0 is row-major
  std::vector<double> copies;        ///< ns, from * layouts.size() + to; or `impossible`
  std::optional<size_t> producer;    ///< an operator; none: an input of the graph, row-major
  std::vector<size_t> readers;       ///< operators, each once, in order
  bool is_output = false;            ///< of the graph: must exist in layout 0

  /// The producer, if there is one, and the readers.
  std::vector<size_t> operators() const;
  size_t count_operators() const { return readers.size() + (producer ? 1 : 0); }
  /// The time to copy the tensor from one layout to another; 0 where they are the same.
  double copy_ns(size_t from, size_t to) const;
  /// The time of all copies where the tensor is produced in one layout and needed in others.
  double copies_ns(size_t produced, LayoutSet needed) const;
};

/// A scheme of an operator; of several with equal layouts the cheapest.
struct PlanScheme {
  size_t index;  ///< in the list that was given for the operator
  double cost_ns;
  std::vector<size_t> layouts;  ///< of each of the operator's tensors
};

struct PlanOperator {
  std::string name;
  std::vector<size_t> tensors;  ///< those read, then those written, constants left out
  size_t reads = 0;             ///< how many of `tensors` are read
  std::vector<PlanScheme> schemes;
  std::vector<size_t> equivalent;  ///< for each scheme given, the one here with its layouts

  /// The layouts in which the scheme reads the tensor.
  LayoutSet asked(const PlanScheme& scheme, size_t tensor) const;
  /// The layout in which the scheme writes the tensor; none where it does not.
  std::optional<size_t> written(const PlanScheme& scheme, size_t tensor) const;
};

struct PlanProblem {
  std::vector<PlanTensor> tensors;
  std::vector<PlanOperator> operators;

  /// The sum of the cheapest schemes of all operators.
  double cheapest_kernels_ns() const;
  /// Layouts in which some scheme writes the tensor, and those in which one reads it or a caller of
  /// the graph does.
  LayoutSet produced(size_t tensor) const;
  LayoutSet asked(size_t tensor) const;
};

/// Fails as make_plans() does for operators without schemes, wrong schemes and wrong costs.
Result<PlanProblem> make_problem(const Graph& graph,
                                 const std::vector<std::vector<Scheme>>& schemes,
                                 const TransformCost& transform_cost);

/// The problem without schemes that are dearer than another one of their operator by more than the
/// copies that going over to the other could make necessary. The cheapest plan stays, others may
/// go.
PlanProblem without_dominated(PlanProblem problem);

/// The problem of the first `count` operators alone.
PlanProblem first_operators(PlanProblem problem, size_t count);

/// The plan that runs each operator by one of its schemes, `choice[op]` in PlanOperator::schemes,
/// with the copies that their layouts make necessary. Its lower bound is that of the kernels alone.
Plan plan_of(const PlanProblem& problem, const std::vector<size_t>& choice);

/// make_plans() for a problem.
Result<std::vector<Plan>> cheapest_plans(PlanProblem problem, size_t count,
                                         const PlanOptions& options);

}  // namespace tw::graph
