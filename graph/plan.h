// SPDX-License-Identifier: Apache-2.0
#pragma once
// Choosing a layout for every tensor and a scheme for every operator of a graph together, so that
// the sum of the times of kernels and of layout transforms is minimal: the global search of NeoCPU
// (Liu et al., Optimizing CNN Model Inference on CPUs, ATC 2019, section 3.3), solved exactly.
//
//   std::vector<std::vector<Scheme>> schemes = ...;  // for each operator, the ways to run it
//   TW_TRY(std::vector<Plan> plans, make_plans(graph, schemes, transform_cost, 1));
//   plans[0].schemes[i];      // index of the scheme of operator i
//   plans[0].transforms;      // copies of tensors into other layouts, each paid once
//
// It is a network of costs (cost_network.h). An operator is a variable whose states are its
// schemes. A copy of a tensor in a layout costs what it costs where some reader asks for it and the
// producer writes another one. Where only one operator may ask for it, that is a factor of the two
// operators. Otherwise a variable of two states says whether one of them does, the first or one of
// the others, for whom again a variable says so; tensors with the same last readers share these, so
// that dense blocks, in which later operators read all earlier tensors, have small separators.
//
// Layouts that place the elements of a tensor alike (NCHW and NHWC of 1 x 1 images) are one
// layout here. It goes by the row-major one if that is among them, else by the one that the first
// scheme to name it has. Pure functions; thread-safe.

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

/// One way to run an operator. Layouts are those of the arrays, one for each input and output of
/// its compute; of inputs that are constants they mean nothing, because constants are packed for
/// the kernel ahead of the calls. Of several schemes of an operator with the same layouts only the
/// cheapest is ever chosen, the first of equals.
struct Scheme {
  std::vector<dsl::Layout> inputs, outputs;
  double cost_ns = 0;  ///< finite, not negative
  bool is_measured = false;
};

/// A copy of a tensor in another layout than the one that it is produced in.
struct Transform {
  std::string tensor;
  dsl::Layout from, to;
  double cost_ns = 0;
};

struct Plan {
  std::vector<size_t> schemes;                  ///< of each operator of the graph
  std::map<std::string, dsl::Layout> produced;  ///< of each tensor that is no constant
  std::vector<Transform> transforms;            ///< sorted by tensor, then by layout
  double predicted_ns = 0;                      ///< the sum of kernels, then of transforms
  double lower_bound_ns = 0;                    ///< no choice among these schemes costs less
  /// Proved to be the cheapest; of several plans, to be the cheapest but for those before it.
  bool is_optimal = false;
};

struct PlanOptions {
  SolverLimits limits = {};
};

/// The time in nanoseconds to copy a tensor of this type from one layout to another; infinite where
/// that is not possible.
using TransformCost =
    std::function<double(const TensorType&, const dsl::Layout& from, const dsl::Layout& to)>;

/// The `count` cheapest plans, cheapest first; at least one, and fewer than asked for where there
/// are no more or a limit ended the search. Inputs and outputs of the graph are row-major. Every
/// copy is made from the layout that the tensor is produced in. Fails with
/// - Invalid, naming the operator or tensor, for an operator without schemes, for layouts that are
///   too few or of another rank, for costs that are no time, and where no scheme of an operator
///   goes with any of those before it because copies are impossible;
/// - Unsupported for a tensor of which schemes ask for more than 64 layouts;
/// - NoCandidate where the limits ended the search before it found a plan.
/// Requires: a valid graph; a list of schemes for each operator; count >= 1.
Result<std::vector<Plan>> make_plans(const Graph& graph,
                                     const std::vector<std::vector<Scheme>>& schemes,
                                     const TransformCost& transform_cost, size_t count,
                                     const PlanOptions& options = {});

/// The transform that makes a tensor of this shape available in this layout; nullptr where it is
/// produced so. Requires: a layout in which an operator of the plan, or the caller, reads it.
const Transform* transform_to(const Plan& plan, const std::string& tensor,
                              const std::vector<int64_t>& shape, const dsl::Layout& layout);

/// For each operator and scheme, the time of the cheapest plan that runs the operator so, in
/// nanoseconds; infinite where there is none. Minus the time of the cheapest plan, it is what the
/// scheme would have to gain to be chosen. nullopt where the network is too dense for it. Fails as
/// make_plans() does.
Result<std::optional<std::vector<std::vector<double>>>> cheapest_with(
    const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
    const TransformCost& transform_cost, const PlanOptions& options = {});

/// Whether both layouts place each element of a tensor of this shape at the same offset of arrays
/// of the same size.
bool is_same_storage(const std::vector<int64_t>& shape, const dsl::Layout& a, const dsl::Layout& b);

/// Ways of choosing that NeoCPU's ablation compares (ATC 2019, table 3), all by the same costs: of
/// the kernels, and of the copies that their layouts make necessary.
enum class Choice {
  RowMajor,   ///< the cheapest row-major scheme of each operator
  LocalBest,  ///< the cheapest scheme of each operator; of equal ones that nearest to its producers
  Uniform,    ///< row-major or NCHW[x]c with one x for all operators, the best one
  Global,     ///< make_plans()
};
std::string_view to_string(Choice choice);  ///< "row_major", "local_best", "uniform", "global"

/// Fails as make_plans() does, and with Invalid, naming the operator, where one has no scheme of
/// that kind.
Result<Plan> choose(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                    const TransformCost& transform_cost, Choice choice,
                    const PlanOptions& options = {});

}  // namespace tw::graph
