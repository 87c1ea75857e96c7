// SPDX-License-Identifier: Apache-2.0
#pragma once
// Chooses a layout for every tensor and a scheme for every operator of a graph together, so that
// the total time of kernels and layout transforms is minimal. This is the global search of NeoCPU
// (Liu et al., Optimizing CNN Model Inference on CPUs, ATC 2019, section 3.3), solved exactly.
//
//   std::vector<std::vector<Scheme>> schemes = ...;  // for each operator, the ways to run it
//   TW_TRY(std::vector<Plan> plans, make_plans(graph, schemes, transform_cost, 1));
//   plans[0].schemes[i];      // index of the scheme of operator i
//   plans[0].transforms;      // copies of tensors into other layouts, each paid once
//
// The choice is solved as a network of costs (cost_network.h). Each operator is a variable whose
// states are its schemes. A copy of a tensor in layout L costs time if a reader asks for L and the
// producer writes another layout. If only one operator can ask for L, the cost of the copy is a
// factor over that operator and the producer. If several can, the copy is still paid only once. An
// auxiliary variable with two states then says whether at least one of them asks for L.
//
// Each auxiliary variable combines one reader with the auxiliary variable of all readers after it,
// so that these variables form a chain from the last reader to the first. Tensors with the same
// last readers share a part of the chain. In dense blocks, where each operator reads all earlier
// tensors, this keeps the tables of the solver small.
//
// Two layouts that put each element of a tensor at the same place count as one layout, as NCHW and
// NHWC for images of 1 x 1. Plans name such a layout row-major if a row-major layout is among them,
// else by the name in the first scheme that uses the layout. Pure functions; thread-safe.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/layout.h"
#include "graph/cost_network.h"
#include "graph/graph.h"

namespace tw::graph {

/// A scheme is one way to run an operator: the layouts of its arrays, one for each input and output
/// of its compute, and its time. Layouts of constant inputs are ignored, because constants are
/// packed for the kernel ahead of the calls. If several schemes of an operator have the same
/// layouts, only the cheapest of these can be chosen, and among equally cheap ones only the first.
struct Scheme {
  std::vector<dsl::Layout> inputs, outputs;
  /// The time of all runs of the operator in one call of the graph; finite, not negative.
  double cost_ns = 0;
  bool is_measured = false;
};

/// A copy of a tensor into a layout that its producer does not write. In plans of Choice::Blocked,
/// a tensor that is not produced row-major is first copied to row-major, and copies in further
/// layouts are made from the row-major copy.
struct Transform {
  std::string tensor;
  dsl::Layout from, to;
  double cost_ns = 0;
};

struct Plan {
  std::vector<size_t> schemes;  ///< index of the chosen scheme of each operator of the graph
  /// For each tensor that is not a constant, by name, the layout that its producer writes.
  std::map<std::string, dsl::Layout> produced;
  std::vector<Transform> transforms;  ///< sorted by tensor, then by layout
  double predicted_ns = 0;            ///< sum of the times of all kernels and transforms
  double lower_bound_ns = 0;          ///< no choice among these schemes takes less time
  /// True if the plan is proved to be the cheapest. In a list of plans from make_plans(), plan i is
  /// then proved to be the cheapest of all plans except the i plans before it.
  bool is_optimal = false;
};

struct PlanOptions {
  SolverLimits limits = {};
};

/// The time in nanoseconds of copying a tensor of this type from one layout to another; infinite if
/// the copy is impossible.
using TransformCost =
    std::function<double(const TensorType&, const dsl::Layout& from, const dsl::Layout& to)>;

/// Returns the `count` cheapest plans, cheapest first. The list has at least one plan, and fewer
/// than `count` if no more exist or a limit ended the search. In each plan, inputs and outputs of
/// the graph are row-major, and every copy is made from the layout that the producer writes. Fails
/// with
/// - Invalid, naming the operator or tensor, if an operator has no scheme; if a scheme has a wrong
///   number of layouts, a layout of another rank, or a cost that is negative or not finite; if the
///   cost of a copy is negative or NaN; or if impossible copies rule out all schemes of an
///   operator;
/// - Unsupported if schemes ask for more than 64 layouts of one tensor;
/// - NoCandidate if the limits ended the search before it found a plan.
///
/// Requires: a valid graph; a list of schemes for each operator; count >= 1.
Result<std::vector<Plan>> make_plans(const Graph& graph,
                                     const std::vector<std::vector<Scheme>>& schemes,
                                     const TransformCost& transform_cost, size_t count,
                                     const PlanOptions& options = {});

/// Returns the transform of the plan that copies the tensor, which has this shape, into this
/// layout. nullptr if no copy is needed because the tensor is produced in this layout. Requires: an
/// operator of the plan or the caller of the graph reads the tensor in this layout.
const Transform* transform_to(const Plan& plan, const std::string& tensor,
                              const std::vector<int64_t>& shape, const dsl::Layout& layout);

/// Returns, for each operator and scheme, the time in nanoseconds of the cheapest plan that uses
/// the scheme (a min-marginal); infinite if no plan can use the scheme. Example: the cheapest plan
/// takes 100 ns, and the cheapest plan with scheme s takes 103 ns. Then s would be chosen if its
/// cost were more than 3 ns lower. nullopt if exact elimination exceeds the limits of the solver.
/// Fails as make_plans() does.
Result<std::optional<std::vector<std::vector<double>>>> cheapest_with(
    const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
    const TransformCost& transform_cost, const PlanOptions& options = {});

/// True if both layouts place each element of a tensor of this shape at the same offset, in arrays
/// of the same size.
bool is_same_storage(const std::vector<int64_t>& shape, const dsl::Layout& a, const dsl::Layout& b);

/// The methods of choosing layouts that NeoCPU compares (ATC 2019, table 3). All methods use the
/// same costs of kernels, and add the costs of the copies that their choice of layouts makes
/// necessary.
enum class Choice {
  RowMajor,  ///< the cheapest row-major scheme of each operator
  /// Operators with weights (sums that read constants) run the kernels that Uniform chooses. Their
  /// inputs are copied from row-major tensors, and their results back to row-major. All other
  /// operators run row-major schemes.
  Blocked,
  /// The cheapest scheme of each operator; among equally cheap ones, the scheme that reads the most
  /// inputs in the layouts that their producers write.
  LocalBest,
  Uniform,  ///< the cheapest plan in which all arrays are row-major or NCHW[x]c with the same x
  Global,   ///< the cheapest plan of all, as make_plans() finds it
};
/// "row_major", "blocked", "local_best", "uniform", "global"
std::string_view to_string(Choice choice);

/// Makes a plan by one of these methods. Fails as make_plans() does. Also fails with Invalid,
/// naming the operator, if an operator has no scheme of the kind that the method needs, and, naming
/// the tensor, if Blocked or LocalBest needs an impossible copy.
Result<Plan> choose(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                    const TransformCost& transform_cost, Choice choice,
                    const PlanOptions& options = {});

}  // namespace tw::graph
