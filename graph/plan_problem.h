// SPDX-License-Identifier: Apache-2.0
#pragma once
// The optimisation problem behind plans (plan.h) in numbers: tensors and operators are indices,
// layouts that place the elements of a tensor alike have one number, and the cost of each copy is
// known. Private to graph/. Plain values; thread-safe.

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

/// The cost of a scheme or copy that cannot be chosen.
constexpr double impossible = std::numeric_limits<double>::infinity();

/// A tensor that is no constant.
struct PlanTensor {
  std::string name;
  TensorType type;
  std::vector<dsl::Layout> layouts;  ///< distinct in storage; layout 0 is row-major
  std::vector<double> copies;        ///< ns, from * layouts.size() + to; or `impossible`
  /// An operator; none: row-major, as inputs of the graph are, and what enters the body of a loop
  /// or leaves a loop.
  std::optional<size_t> producer;
  std::vector<size_t> readers;  ///< operators, each once, in order
  /// It must exist in layout 0: an output of the graph, or what a loop reads or its body writes.
  bool is_output = false;

  /// The numbers of the producer, if there is one, and of the readers.
  std::vector<size_t> operators() const;
  size_t count_operators() const { return readers.size() + (producer ? 1 : 0); }
  /// The time to copy the tensor from one layout to another; 0 where they are the same.
  double copy_ns(size_t from, size_t to) const;
  /// The time of all copies where the tensor is produced in one layout and needed in others.
  double copies_ns(size_t produced, LayoutSet needed) const;
};

/// The cheapest scheme of an operator with its layouts.
struct PlanScheme {
  size_t index;  ///< index in the list of schemes that the caller gave for the operator
  double cost_ns;
  std::vector<size_t> layouts;  ///< numbers in PlanTensor::layouts, parallel to the tensors
};

struct PlanOperator {
  std::string name;
  std::vector<size_t>
      tensors;       ///< numbers of the tensors read, then of those written; no constants
  size_t reads = 0;  ///< the number of `tensors` that are read
  std::vector<PlanScheme> schemes;
  /// For each scheme that the caller gave, the index in `schemes` of the one with its layouts.
  std::vector<size_t> equivalent;

  /// The layouts in which the scheme reads the tensor.
  LayoutSet asked(const PlanScheme& scheme, size_t tensor) const;
  /// The layout in which the scheme writes the tensor; nullopt if the operator does not write it.
  std::optional<size_t> written(const PlanScheme& scheme, size_t tensor) const;
};

struct PlanProblem {
  std::vector<PlanTensor> tensors;
  std::vector<PlanOperator> operators;

  /// The sum of the cheapest schemes of all operators.
  double cheapest_kernels_ns() const;
  /// The layouts in which some scheme writes the tensor.
  LayoutSet produced(size_t tensor) const;
  /// The layouts in which some scheme or the caller of the graph reads the tensor.
  LayoutSet asked(size_t tensor) const;
};

/// Fails as make_plans() does for operators without schemes, wrong schemes and wrong costs.
Result<PlanProblem> make_problem(const Graph& graph,
                                 const std::vector<std::vector<Scheme>>& schemes,
                                 const TransformCost& transform_cost);

/// The problem without dominated schemes: those that cost more than another scheme of their
/// operator even if all copies are added that changing to the other one could make necessary. The
/// cheapest plan stays the same; plans that use dominated schemes are lost.
PlanProblem without_dominated(PlanProblem problem);

/// The problem of the first `count` operators alone.
PlanProblem first_operators(PlanProblem problem, size_t count);

/// The layout in which operators exchange tensors: that which the producer writes, or row-major, in
/// which case any other tensor is copied to row-major first and its readers' copies are made from
/// that.
enum class Exchange { AsProduced, RowMajor };

/// The plan that runs each operator by one of its schemes, `choice[op]` in PlanOperator::schemes,
/// with the copies that their layouts make necessary. Its lower bound is that of the kernels alone.
Plan plan_of(const PlanProblem& problem, const std::vector<size_t>& choice,
             Exchange exchange = Exchange::AsProduced);

/// make_plans() for a problem.
Result<std::vector<Plan>> cheapest_plans(PlanProblem problem, size_t count,
                                         const PlanOptions& options);

}  // namespace tw::graph
