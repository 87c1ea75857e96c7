// SPDX-License-Identifier: Apache-2.0
#include "graph/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "graph/plan_problem.h"
#include "graph/storage.h"

namespace tw::graph {
namespace {

/// The states of a variable in which a certain layout of a certain tensor is asked for.
struct Asking {
  size_t variable;
  std::vector<bool> states;  ///< for each state, whether the layout is asked for

  friend auto operator<=>(const Asking&, const Asking&) = default;
};

/// The network of costs of a problem. Its first variables are the operators.
class PlanNetwork {
 public:
  explicit PlanNetwork(const PlanProblem& problem) : problem_(problem) {
    for (const PlanOperator& op : problem.operators) {
      std::vector<double> costs;
      for (const PlanScheme& scheme : op.schemes) costs.push_back(scheme.cost_ns);
      network_.add_variable(std::move(costs));
    }
    for (size_t t = 0; t < problem.tensors.size(); ++t) add_tensor(t);
  }

  const CostNetwork& network() const { return network_; }

 private:
  /// For each variable that asks for copies of a tensor, the costs of these copies: row-major over
  /// the states of the tensor's producer (a single state if it has no producer) and the states of
  /// the variable.
  using CopyCosts = std::map<size_t, std::vector<double>>;

  void add_tensor(size_t number) {
    const PlanTensor& tensor = problem_.tensors[number];
    if (tensor.layouts.size() == 1) return;
    if (tensor.is_output && tensor.producer) {
      std::vector<double> costs;
      for (const size_t produced : produced_by_state(number))
        costs.push_back(tensor.copy_ns(produced, 0));
      network_.add_factor({*tensor.producer}, std::move(costs));
    }
    CopyCosts costs;
    for (const size_t layout : members(problem_.asked(number)))
      if (layout != 0 || !tensor.is_output) add_copy(number, layout, costs);
    for (auto& [variable, of_states] : costs) {
      if (tensor.producer)
        network_.add_factor(*tensor.producer, variable, std::move(of_states));
      else
        network_.add_factor({variable}, std::move(of_states));
    }
  }

  void add_copy(size_t number, size_t layout, CopyCosts& costs) {
    const PlanTensor& tensor = problem_.tensors[number];
    const Asking asking = asking_for(number, layout);
    const std::vector<size_t> produced = produced_by_state(number);
    std::vector<double>& sums = costs[asking.variable];
    sums.resize(produced.size() * asking.states.size(), 0);
    for (size_t p = 0; p < produced.size(); ++p)
      for (size_t s = 0; s < asking.states.size(); ++s)
        if (asking.states[s])
          sums[p * asking.states.size() + s] += tensor.copy_ns(produced[p], layout);
  }

  /// Returns, for each state of the producer, the layout in which the producer writes the tensor. A
  /// tensor without a producer, such as an input of the graph, has a single state: row-major.
  std::vector<size_t> produced_by_state(size_t number) const {
    const std::optional<size_t>& producer = problem_.tensors[number].producer;
    if (!producer) return {0};
    const PlanOperator& op = problem_.operators[*producer];
    std::vector<size_t> layouts;
    for (const PlanScheme& scheme : op.schemes) layouts.push_back(*op.written(scheme, number));
    return layouts;
  }

  /// Returns a variable, and those of its states in which some reader asks for the tensor in this
  /// layout. Readers are joined from the last to the first. In dense blocks many tensors have the
  /// same last readers, and these tensors then share variables.
  Asking asking_for(size_t number, size_t layout) {
    std::optional<Asking> all;
    const std::vector<size_t>& readers = problem_.tensors[number].readers;
    for (size_t r = readers.size(); r-- > 0;) {
      Asking one = asking_of(readers[r], number, layout);
      if (std::ranges::none_of(one.states, std::identity())) continue;
      all = all ? joined(one, *all) : std::move(one);
    }
    TW_CHECK(all.has_value());
    return std::move(*all);
  }

  Asking asking_of(size_t reader, size_t number, size_t layout) const {
    const PlanOperator& op = problem_.operators[reader];
    Asking asking{reader, {}};
    for (const PlanScheme& scheme : op.schemes)
      asking.states.push_back(contains(op.asked(scheme, number), layout));
    return asking;
  }

  /// Returns the disjunction of a and b: a new variable with the states "neither asks" and "at
  /// least one asks", which is determined by the states of a and b.
  Asking joined(const Asking& a, const Asking& b) {
    const auto [known, is_new] = joined_.try_emplace({a, b}, network_.size());
    const Asking either{known->second, {false, true}};
    if (!is_new) return either;
    network_.add_variable({0, 0});
    std::vector<double> costs;
    for (const bool is_asked : either.states)
      for (const bool by_a : a.states)
        for (const bool by_b : b.states)
          costs.push_back(is_asked == (by_a || by_b) ? 0 : impossible);
    network_.add_factor({either.variable, a.variable, b.variable}, std::move(costs));
    return either;
  }

  const PlanProblem& problem_;
  std::map<std::pair<Asking, Asking>, size_t> joined_;  ///< the variable of each disjunction
  CostNetwork network_;
};

bool is_feasible(const PlanProblem& problem, const PlanOptions& options) {
  return std::isfinite(solve(PlanNetwork(problem).network(), 1, options.limits).lower_bound);
}

/// Returns the error for a problem without a plan. It names operator k for the smallest k such that
/// the operators 0 to k alone have no plan. Bisection finds k.
tl::unexpected<Error> no_plan(const PlanProblem& problem, const PlanOptions& options) {
  if (is_feasible(problem, options))
    return fail(ErrorCode::NoCandidate,
                "[plan] no plan was found within the limits of the solver; raise them");
  size_t feasible = 0, infeasible = problem.operators.size();
  while (infeasible - feasible > 1) {
    const size_t middle = feasible + (infeasible - feasible) / 2;
    (is_feasible(first_operators(problem, middle), options) ? feasible : infeasible) = middle;
  }
  return fail(ErrorCode::Invalid,
              fmt::format("[plan] no scheme of operator '{}' goes with the layouts of its tensors: "
                          "copies of them are impossible",
                          problem.operators[infeasible - 1].name));
}

/// The plans of the assignments, cheapest first.
std::vector<Plan> plans_of(const PlanProblem& problem, const Solution& solution) {
  std::vector<Plan> plans;
  for (const Assignment& assignment : solution.assignments) {
    const auto end = assignment.states.begin() + static_cast<ptrdiff_t>(problem.operators.size());
    plans.push_back(plan_of(problem, {assignment.states.begin(), end}));
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.predicted_ns < b.predicted_ns; });
  return plans;
}

}  // namespace

Result<std::vector<Plan>> cheapest_plans(PlanProblem problem, size_t count,
                                         const PlanOptions& options) {
  // Dominated schemes are removed only if one plan is asked for, because plans after the cheapest
  // may use them.
  if (count == 1) problem = without_dominated(std::move(problem));
  const PlanNetwork network(problem);
  const Solution solution = solve(network.network(), count, options.limits);
  std::vector<Plan> plans = plans_of(problem, solution);
  if (plans.empty()) return no_plan(problem, options);
  // The solver rounds costs, so that its bound may exceed the sum by the last bits.
  const double cheapest = plans[0].predicted_ns;
  for (Plan& plan : plans) {
    plan.is_optimal = solution.is_optimal;
    plan.lower_bound_ns = solution.is_optimal ? cheapest : std::min(solution.lower_bound, cheapest);
  }
  return plans;
}

Result<std::vector<Plan>> make_plans(const Graph& graph,
                                     const std::vector<std::vector<Scheme>>& schemes,
                                     const TransformCost& transform_cost, size_t count,
                                     const PlanOptions& options) {
  TW_CHECK(count >= 1);
  TW_TRY(PlanProblem problem, make_problem(graph, schemes, transform_cost));
  return cheapest_plans(std::move(problem), count, options);
}

Result<std::optional<std::vector<std::vector<double>>>> cheapest_with(
    const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
    const TransformCost& transform_cost, const PlanOptions& options) {
  TW_TRY(const PlanProblem problem, make_problem(graph, schemes, transform_cost));
  const PlanNetwork network(problem);
  const auto marginals = min_marginals(network.network(), options.limits);
  if (!marginals) return std::optional<std::vector<std::vector<double>>>();
  std::vector<std::vector<double>> times;
  for (size_t op = 0; op < schemes.size(); ++op) {
    const PlanOperator& planned = problem.operators[op];
    if (!std::any_of((*marginals)[op].begin(), (*marginals)[op].end(),
                     [](double time) { return std::isfinite(time); }))
      return no_plan(problem, options);
    std::vector<double>& of_schemes = times.emplace_back();
    for (size_t s = 0; s < schemes[op].size(); ++s) {
      const size_t equivalent = planned.equivalent[s];
      of_schemes.push_back((*marginals)[op][equivalent] + schemes[op][s].cost_ns -
                           planned.schemes[equivalent].cost_ns);
    }
  }
  return times;
}

const Transform* transform_to(const Plan& plan, const std::string& tensor,
                              const std::vector<int64_t>& shape, const dsl::Layout& layout) {
  const auto found = std::ranges::find_if(plan.transforms, [&](const Transform& transform) {
    return transform.tensor == tensor && is_same_storage(shape, transform.to, layout);
  });
  if (found != plan.transforms.end()) return &*found;
  TW_CHECK(is_same_storage(shape, plan.produced.at(tensor), layout),
           "a plan without a transform that it needs");
  return nullptr;
}

bool is_same_storage(const std::vector<int64_t>& shape, const dsl::Layout& a,
                     const dsl::Layout& b) {
  return a == b || storage_of(shape, a) == storage_of(shape, b);
}

}  // namespace tw::graph
