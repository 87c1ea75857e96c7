// SPDX-License-Identifier: Apache-2.0
#pragma once
// Choosing a layout for every tensor and a scheme for every operator of a graph together, so that
// the sum of the times of kernels and of layout transforms is minimal: the global search of NeoCPU
// (Liu et al., Optimizing CNN Model Inference on CPUs, ATC 2019, section 3.3), solved exactly.
//
//   std::vector<std::vector<Scheme>> schemes = ...;  // for each operator, the ways to run it
//   TW_TRY(Plan plan, make_plan(graph, schemes, transform_cost, {}));
//   plan.schemes[i];      // index of the scheme of operator i
//   plan.transforms;      // copies of tensors into other layouts, each paid once
//
// An operator is a variable whose states are its schemes; a tensor is one whose states are the
// layout that it is produced in together with the set of layouts that copies of it exist in. Pure
// functions; thread-safe.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/layout.h"
#include "graph/cost_network.h"
#include "graph/graph.h"

namespace tw::graph {

/// One way to run an operator. Layouts are those of the arrays, one for each input and output of
/// its compute; of inputs that are constants they mean nothing, because constants are packed for
/// the kernel ahead of the calls.
struct Scheme {
  std::vector<dsl::Layout> inputs, outputs;
  double cost_ns = 0;
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
  double predicted_ns = 0;                      ///< the sum of kernels and transforms
  double lower_bound_ns = 0;                    ///< no choice among these schemes costs less
  bool is_optimal = false;                      ///< proved to be the cheapest
};

struct PlanOptions {
  size_t most_copies = 4;  ///< of one tensor at once, beside the layout it is produced in
  SolverLimits limits = {};
};

/// The time in nanoseconds to copy a tensor of this type from one layout to another.
using TransformCost =
    std::function<double(const TensorType&, const dsl::Layout& from, const dsl::Layout& to)>;

/// The `count` cheapest plans, cheapest first; at least one. Inputs and outputs of the graph are
/// row-major. Layouts that place the elements of a tensor alike (NCHW and NHWC of 1 x 1 images)
/// are one. Invalid, naming the operator, where one has no scheme or none can be reached.
/// Requires: a list of schemes for each operator.
Result<std::vector<Plan>> make_plans(const Graph& graph,
                                     const std::vector<std::vector<Scheme>>& schemes,
                                     const TransformCost& transform_cost, size_t count,
                                     const PlanOptions& options = {});

/// For each operator and scheme, the time of the cheapest plan that runs the operator so, in
/// nanoseconds: what the scheme would have to gain to be chosen. nullopt where the network is too
/// dense for it.
Result<std::optional<std::vector<std::vector<double>>>> cheapest_with(
    const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
    const TransformCost& transform_cost, const PlanOptions& options = {});

/// Whether both layouts place each element of a tensor of this shape at the same offset.
bool is_same_storage(const std::vector<int64_t>& shape, const dsl::Layout& a, const dsl::Layout& b);

/// Ways of choosing that NeoCPU's ablation compares (ATC 2019, table 3), all by the same costs.
enum class Choice {
  RowMajor,   ///< every tensor row-major
  LocalBest,  ///< each operator its own fastest scheme, transforms wherever layouts disagree
  Uniform,    ///< one channel block for the whole network
  Global,     ///< make_plans()
};
std::string_view to_string(Choice choice);
Result<Plan> choose(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                    const TransformCost& transform_cost, Choice choice,
                    const PlanOptions& options = {});

}  // namespace tw::graph
