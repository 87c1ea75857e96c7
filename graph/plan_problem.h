// SPDX-License-Identifier: Apache-2.0
#pragma once
// The optimisation problem that plan.h solves, in numbers. Tensors and operators are indices.
// Layouts are indices too, counted from 0 for each tensor; layouts that put each element of the
// tensor at the same place have the same index. The cost of each copy is known. Private to graph/.
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

/// A set of layouts of one tensor, as bits: layout l is bit 1 << l. The layouts 0 and 3 are 0b1001.
using LayoutSet = uint64_t;
constexpr size_t most_layouts = 64;
constexpr LayoutSet only(size_t layout) { return LayoutSet{1} << layout; }
constexpr bool contains(LayoutSet set, size_t layout) { return (set & only(layout)) != 0; }
constexpr size_t size_of(LayoutSet set) { return static_cast<size_t>(std::popcount(set)); }
std::vector<size_t> members(LayoutSet set);  ///< in increasing order

/// The cost of a scheme or copy that cannot be chosen.
constexpr double impossible = std::numeric_limits<double>::infinity();

/// A tensor that is no constant.
struct PlanTensor {
  std::string name;
  TensorType type;
  std::vector<dsl::Layout> layouts;  ///< all have different Storage; layout 0 is row-major
  std::vector<double> copies;        ///< ns, or `impossible`, at [from * layouts.size() + to]
  /// The operator that writes the tensor. nullopt for inputs of the graph, for tensors that enter
  /// the body of a loop and for results of loops, which are row-major.
  std::optional<size_t> producer;
  std::vector<size_t> readers;  ///< operators that read the tensor, each once, in order
  /// True if the tensor must exist in layout 0 (row-major): it is an output of the graph, enters
  /// the body of a loop from outside, leaves the body, or is handed to the next trip.
  bool is_output = false;

  /// Indices of the producer, if there is one, and then of the readers.
  std::vector<size_t> operators() const;
  size_t count_operators() const { return readers.size() + (producer ? 1 : 0); }
  /// Returns the time to copy the tensor from one layout to another; 0 if they are equal.
  double copy_ns(size_t from, size_t to) const;
  /// Returns the time of all copies if the tensor is produced in layout `produced` and must also
  /// exist in the layouts `needed`.
  double copies_ns(size_t produced, LayoutSet needed) const;
};

/// The cheapest of all schemes of an operator that have the layouts `layouts`. The other schemes
/// with these layouts are left out.
struct PlanScheme {
  size_t index;  ///< index in the list of schemes that the caller gave for the operator
  double cost_ns;
  /// Indices in PlanTensor::layouts, one for each of PlanOperator::tensors.
  std::vector<size_t> layouts;
};

struct PlanOperator {
  std::string name;
  std::vector<size_t>
      tensors;       ///< tensors that the operator reads, then those that it writes; no constants
  size_t reads = 0;  ///< how many of `tensors` the operator reads
  std::vector<PlanScheme> schemes;
  /// For each scheme that the caller gave, the index in `schemes` of the scheme with the same
  /// layouts.
  std::vector<size_t> equivalent;

  /// Returns the layouts in which the scheme reads the tensor.
  LayoutSet asked(const PlanScheme& scheme, size_t tensor) const;
  /// Returns the layout in which the scheme writes the tensor; nullopt if the operator does not
  /// write it.
  std::optional<size_t> written(const PlanScheme& scheme, size_t tensor) const;
};

struct PlanProblem {
  std::vector<PlanTensor> tensors;
  std::vector<PlanOperator> operators;

  /// Returns the sum of the costs of the cheapest schemes of all operators.
  double cheapest_kernels_ns() const;
  /// Returns the layouts in which some scheme writes the tensor.
  LayoutSet produced(size_t tensor) const;
  /// Returns the layouts in which some scheme or the caller of the graph reads the tensor.
  LayoutSet asked(size_t tensor) const;
};

/// Makes the problem for a graph. Fails as make_plans() does if an operator has no scheme, or if a
/// scheme or the cost of a copy is wrong.
Result<PlanProblem> make_problem(const Graph& graph,
                                 const std::vector<std::vector<Scheme>>& schemes,
                                 const TransformCost& transform_cost);

/// Removes dominated schemes. Scheme A is dominated if the same operator has a scheme B that is
/// cheaper than A even after adding the cost of all copies that a change from A to B could make
/// necessary. The cheapest plan stays the same; other plans that use dominated schemes are lost.
PlanProblem without_dominated(PlanProblem problem);

/// Returns the problem of the first `count` operators alone. make_plans() uses it to find the first
/// operator for which no plan exists.
PlanProblem first_operators(PlanProblem problem, size_t count);

/// The layout from which copies of a tensor are made: the layout that the producer writes
/// (AsProduced), or row-major (RowMajor). With RowMajor, a tensor that is produced in another
/// layout is first copied to row-major.
enum class Exchange { AsProduced, RowMajor };

/// Returns the plan in which operator `op` runs by scheme `choice[op]` of PlanOperator::schemes,
/// with the copies that the layouts make necessary. The plan's lower bound is the time of the
/// cheapest kernels, without copies.
Plan plan_of(const PlanProblem& problem, const std::vector<size_t>& choice,
             Exchange exchange = Exchange::AsProduced);

/// Returns the `count` cheapest plans of the problem, as make_plans() returns them, with the same
/// errors.
Result<std::vector<Plan>> cheapest_plans(PlanProblem problem, size_t count,
                                         const PlanOptions& options);

}  // namespace tw::graph
