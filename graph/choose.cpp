// SPDX-License-Identifier: Apache-2.0
// Implements choose(): the methods of choosing layouts that an ablation compares.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "graph/plan_problem.h"

namespace tw::graph {
namespace {

Result<size_t> row_major_scheme(const PlanOperator& op) {
  const auto scheme = std::find_if(op.schemes.begin(), op.schemes.end(), [](const auto& s) {
    return std::all_of(s.layouts.begin(), s.layouts.end(), [](size_t l) { return l == 0; });
  });
  if (scheme == op.schemes.end())
    return fail(
        ErrorCode::Invalid,
        fmt::format("[plan] operator '{}' has no scheme whose arrays are all row-major", op.name));
  return static_cast<size_t>(scheme - op.schemes.begin());
}

Result<Plan> row_major_plan(const PlanProblem& problem) {
  std::vector<size_t> choice;
  for (const PlanOperator& op : problem.operators) {
    TW_TRY(const size_t scheme, row_major_scheme(op));
    choice.push_back(scheme);
  }
  return plan_of(problem, choice);
}

/// Returns the plan unchanged. Fails with Invalid, naming the tensor, if one of its copies is
/// impossible.
Result<Plan> check_copies(Plan plan) {
  for (const Transform& transform : plan.transforms)
    if (!std::isfinite(transform.cost_ns))
      return fail(
          ErrorCode::Invalid,
          fmt::format("[plan] the fastest schemes need tensor '{}' in {} and in {}, and it "
                      "cannot be copied from one to the other",
                      transform.tensor, transform.from.to_string(""), transform.to.to_string("")));
  return plan;
}

Result<Plan> local_best_plan(const PlanProblem& problem) {
  std::vector<size_t> produced(problem.tensors.size(), 0), choice;
  for (const PlanOperator& op : problem.operators) {
    const auto disagreements = [&](const PlanScheme& scheme) {
      size_t count = 0;
      for (size_t i = 0; i < op.reads; ++i)
        count += scheme.layouts[i] == produced[op.tensors[i]] ? 0 : 1;
      return count;
    };
    const auto best = std::min_element(
        op.schemes.begin(), op.schemes.end(), [&](const PlanScheme& a, const PlanScheme& b) {
          return std::pair(a.cost_ns, disagreements(a)) < std::pair(b.cost_ns, disagreements(b));
        });
    for (size_t i = op.reads; i < op.tensors.size(); ++i)
      produced[op.tensors[i]] = best->layouts[i];
    choice.push_back(static_cast<size_t>(best - op.schemes.begin()));
  }
  return check_copies(plan_of(problem, choice));
}

/// Returns the block size x of a layout like NCHW[x]c: row-major, except that blocks of x indices
/// of the second dimension are innermost. nullopt for other layouts.
std::optional<int64_t> block_of(const dsl::Layout& layout) {
  const std::vector<dsl::Layout::Part>& parts = layout.parts();
  if (parts.size() != static_cast<size_t>(layout.rank()) + 1) return std::nullopt;
  for (int dim = 0; dim < layout.rank(); ++dim)
    if (parts[static_cast<size_t>(dim)] != dsl::Layout::Part{dim, 0}) return std::nullopt;
  return parts.back().dim == 1 ? std::optional(parts.back().factor) : std::nullopt;
}

std::set<int64_t> blocks_of(const std::vector<std::vector<Scheme>>& schemes) {
  std::set<int64_t> blocks;
  for (const std::vector<Scheme>& of_operator : schemes)
    for (const Scheme& scheme : of_operator)
      for (const auto* layouts : {&scheme.inputs, &scheme.outputs})
        for (const dsl::Layout& layout : *layouts)
          if (const auto block = block_of(layout)) blocks.insert(*block);
  return blocks;
}

/// Returns the layouts of the tensor that put its elements at the same places as the row-major
/// layout or as blocks of `block` channels. For a tensor of 16 channels, for example, NHWC does as
/// blocks of 16 do.
LayoutSet row_major_or_in_blocks(const PlanTensor& tensor, int64_t block) {
  const size_t rank = tensor.type.shape.size();
  if (rank < 2) return only(0);
  const std::string letters = dsl::default_letters(static_cast<int>(rank));
  const auto in_blocks = dsl::Layout::parse(fmt::format("{}{}b", letters, block), letters);
  LayoutSet set = only(0);
  for (size_t l = 1; l < tensor.layouts.size(); ++l)
    if (is_same_storage(tensor.type.shape, tensor.layouts[l], in_blocks.value())) set |= only(l);
  return set;
}

/// Returns the cheapest plan in which every tensor is row-major or in blocks of `block` channels.
/// Fails with Invalid if an operator has no scheme of this kind.
Result<Plan> plan_in_blocks(PlanProblem problem, int64_t block, const PlanOptions& options) {
  std::vector<LayoutSet> allowed;
  for (const PlanTensor& tensor : problem.tensors)
    allowed.push_back(row_major_or_in_blocks(tensor, block));
  for (PlanOperator& op : problem.operators) {
    std::erase_if(op.schemes, [&](const PlanScheme& scheme) {
      for (size_t i = 0; i < op.tensors.size(); ++i)
        if (!contains(allowed[op.tensors[i]], scheme.layouts[i])) return true;
      return false;
    });
    if (op.schemes.empty())
      return fail(
          ErrorCode::Invalid,
          fmt::format("[plan] operator '{}' has no scheme whose arrays are all row-major or "
                      "in blocks of {}",
                      op.name, block));
  }
  TW_TRY(std::vector<Plan> plans, cheapest_plans(std::move(problem), 1, options));
  return std::move(plans[0]);
}

Result<Plan> uniform_plan(const PlanProblem& problem, const std::set<int64_t>& blocks,
                          const PlanOptions& options) {
  if (blocks.empty()) return row_major_plan(problem);
  Result<Plan> best = fail(ErrorCode::Internal, "");
  for (const int64_t block : blocks) {
    Result<Plan> plan = plan_in_blocks(problem, block, options);
    if (!best || (plan && plan->predicted_ns < best->predicted_ns)) best = std::move(plan);
  }
  if (!best) return best;
  // The solver's bound holds for one block size only.
  best->lower_bound_ns = problem.cheapest_kernels_ns();
  best->is_optimal = best->predicted_ns <= best->lower_bound_ns;
  return best;
}

/// True if the operator has a sum reduction and reads a constant, as convolutions do.
bool has_weights(const Graph& graph, const Operator& op) {
  const std::vector<dsl::Stage>& stages = op.workload.compute.stages;
  return std::ranges::any_of(
             stages, [](const dsl::Stage& stage) { return stage.combine == dsl::Combine::Sum; }) &&
         std::ranges::any_of(op.inputs, [&](const std::string& tensor) {
           return graph.constants.contains(tensor);
         });
}

/// Makes the plan of Choice::Blocked. Operators with weights use their schemes of the plan
/// `uniform`, but all tensors are exchanged row-major.
Result<Plan> blocked_plan(const Graph& graph, const PlanProblem& problem, const Plan& uniform) {
  std::vector<size_t> choice;
  for (size_t i = 0; i < problem.operators.size(); ++i) {
    const PlanOperator& op = problem.operators[i];
    if (has_weights(graph, graph.operators[i])) {
      const auto scheme = std::ranges::find(op.schemes, uniform.schemes[i], &PlanScheme::index);
      choice.push_back(static_cast<size_t>(scheme - op.schemes.begin()));
    } else {
      TW_TRY(const size_t scheme, row_major_scheme(op));
      choice.push_back(scheme);
    }
  }
  return check_copies(plan_of(problem, choice, Exchange::RowMajor));
}

}  // namespace

std::string_view to_string(Choice choice) {
  switch (choice) {
    case Choice::RowMajor:
      return "row_major";
    case Choice::Blocked:
      return "blocked";
    case Choice::LocalBest:
      return "local_best";
    case Choice::Uniform:
      return "uniform";
    case Choice::Global:
      return "global";
  }
  return "";
}

Result<Plan> choose(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                    const TransformCost& transform_cost, Choice choice,
                    const PlanOptions& options) {
  TW_TRY(PlanProblem problem, make_problem(graph, schemes, transform_cost));
  switch (choice) {
    case Choice::RowMajor:
      return row_major_plan(problem);
    case Choice::Blocked: {
      TW_TRY(const Plan uniform, uniform_plan(problem, blocks_of(schemes), options));
      return blocked_plan(graph, problem, uniform);
    }
    case Choice::LocalBest:
      return local_best_plan(problem);
    case Choice::Uniform:
      return uniform_plan(problem, blocks_of(schemes), options);
    case Choice::Global:
      break;
  }
  TW_TRY(std::vector<Plan> plans, cheapest_plans(std::move(problem), 1, options));
  return std::move(plans[0]);
}

}  // namespace tw::graph
