// SPDX-License-Identifier: Apache-2.0
#include "graph/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/plan_problem.h"
#include "graph/storage.h"

namespace tw::graph {
namespace {

// A state of a tensor costs a row in the table of each operator that touches the tensor.
constexpr double most_tensor_states = 4096;

/// Number of sets of at most `most` of `elements`.
double count_sets(size_t elements, size_t most) {
  double sets = 0, of_size = 1;
  for (size_t size = 0; size <= most; ++size) {
    sets += of_size;
    of_size = of_size * static_cast<double>(elements - size) / static_cast<double>(size + 1);
  }
  return sets;
}

/// The most layouts in which one choice of schemes reads the tensor.
size_t most_needed(const PlanProblem& problem, size_t tensor) {
  size_t sum = problem.tensors[tensor].is_output ? 1 : 0;
  for (const size_t reader : problem.tensors[tensor].readers) {
    size_t most = 0;
    for (const PlanScheme& scheme : problem.operators[reader].schemes)
      most = std::max(most, size_of(problem.operators[reader].asked(scheme, tensor)));
    sum += most;
  }
  return sum;
}

/// How many copies of a tensor there may be at once.
struct CopyLimit {
  size_t copies;
  bool is_restricted;  ///< whether that is fewer than a plan within PlanOptions could have
};

CopyLimit copy_limit(const PlanProblem& problem, size_t tensor, size_t most_copies) {
  if (problem.tensors[tensor].count_operators() < 3) return {most_copies, false};
  const LayoutSet asked = problem.asked(tensor);
  const auto produced = static_cast<double>(size_of(problem.produced(tensor)));
  const size_t most = std::min({most_copies, size_of(asked), most_needed(problem, tensor)});
  size_t copies = most;
  while (copies > 1 && produced * count_sets(size_of(asked), copies) > most_tensor_states) --copies;
  return {copies, copies < most};
}

/// The network of costs of a problem. Its first variables are the operators.
class PlanNetwork {
 public:
  PlanNetwork(const PlanProblem& problem, size_t most_copies) : problem_(problem) {
    for (size_t t = 0; t < problem.tensors.size(); ++t) {
      const CopyLimit limit = copy_limit(problem, t, most_copies);
      most_copies_.push_back(limit.copies);
      is_restricted_ |= limit.is_restricted;
    }
    add_operators();
    for (size_t t = 0; t < problem.tensors.size(); ++t) add_tensor(t);
  }

  const CostNetwork& network() const { return network_; }
  bool is_restricted() const { return is_restricted_; }

 private:
  /// What a scheme means for a tensor.
  struct Touch {
    std::optional<size_t> written;
    LayoutSet asked = 0;
  };
  struct TensorState {
    size_t produced;
    LayoutSet copies;

    bool agrees_with(const Touch& touch) const {
      return touch.written.value_or(produced) == produced &&
             (touch.asked & ~copies & ~only(produced)) == 0;
    }
  };

  void add_operators() {
    std::vector<std::vector<double>> costs;
    for (const PlanOperator& op : problem_.operators) {
      std::vector<double>& of_schemes = costs.emplace_back();
      for (const PlanScheme& scheme : op.schemes) of_schemes.push_back(scheme.cost_ns);
    }
    for (size_t t = 0; t < problem_.tensors.size(); ++t) {
      if (problem_.tensors[t].count_operators() != 1) continue;
      const size_t op = problem_.tensors[t].operators()[0];
      const std::vector<Touch> touches = touches_of(op, t);
      for (size_t s = 0; s < touches.size(); ++s) costs[op][s] += copies_ns(t, touches[s], {});
    }
    for (std::vector<double>& of_schemes : costs) network_.add_variable(std::move(of_schemes));
  }

  void add_tensor(size_t tensor) {
    const size_t operators = problem_.tensors[tensor].count_operators();
    const bool is_free = problem_.tensors[tensor].layouts.size() == 1;
    if (is_free || operators < 2) return;
    if (operators == 2)
      add_factor(tensor);
    else
      add_variable(tensor);
  }

  std::vector<Touch> touches_of(size_t op, size_t tensor) const {
    const PlanOperator& of = problem_.operators[op];
    std::vector<Touch> touches;
    for (const PlanScheme& scheme : of.schemes)
      touches.push_back({of.written(scheme, tensor), of.asked(scheme, tensor)});
    return touches;
  }

  /// The time of the copies of a tensor that no more than two operators touch.
  double copies_ns(size_t number, const Touch& a, const Touch& b) const {
    const PlanTensor& tensor = problem_.tensors[number];
    const size_t produced = a.written.value_or(b.written.value_or(0));
    const LayoutSet needed = a.asked | b.asked | (tensor.is_output ? only(0) : 0);
    if (size_of(needed & ~only(produced)) > most_copies_[number]) return impossible;
    return tensor.copies_ns(produced, needed);
  }

  void add_factor(size_t tensor) {
    const std::vector<size_t> operators = problem_.tensors[tensor].operators();
    const std::vector<Touch> of_first = touches_of(operators[0], tensor),
                             of_second = touches_of(operators[1], tensor);
    std::vector<double> costs;
    for (const Touch& first : of_first)
      for (const Touch& second : of_second) costs.push_back(copies_ns(tensor, first, second));
    network_.add_factor(operators[0], operators[1], std::move(costs));
  }

  void add_variable(size_t number) {
    const PlanTensor& tensor = problem_.tensors[number];
    const std::vector<TensorState> states = states_of(number);
    std::vector<double> costs;
    for (const TensorState& state : states) {
      const bool has_row_major = state.produced == 0 || contains(state.copies, 0);
      costs.push_back(tensor.is_output && !has_row_major
                          ? impossible
                          : tensor.copies_ns(state.produced, state.copies));
    }
    const size_t variable = network_.add_variable(std::move(costs));
    for (const size_t op : tensor.operators()) add_agreement(variable, states, op, number);
    for (const size_t layout : members(problem_.asked(number)))
      if (!tensor.is_output || layout != 0) add_nogood(variable, states, layout, number);
  }

  std::vector<TensorState> states_of(size_t tensor) const {
    std::vector<TensorState> states;
    for (const size_t produced : members(problem_.produced(tensor))) {
      const std::vector<size_t> others = members(problem_.asked(tensor) & ~only(produced));
      size_t first = states.size();
      states.push_back({produced, 0});
      for (size_t copies = 1; copies <= most_copies_[tensor]; ++copies) {
        const size_t end = states.size();  // those from `first` on have one copy less
        for (; first < end; ++first)
          for (const size_t layout : others)
            if (only(layout) > states[first].copies)
              states.push_back({produced, states[first].copies | only(layout)});
      }
    }
    return states;
  }

  void add_agreement(size_t variable, const std::vector<TensorState>& states, size_t op,
                     size_t tensor) {
    const std::vector<Touch> touches = touches_of(op, tensor);
    std::vector<double> costs;
    costs.reserve(states.size() * touches.size());
    for (const TensorState& state : states)
      for (const Touch& touch : touches) costs.push_back(state.agrees_with(touch) ? 0 : impossible);
    network_.add_factor(variable, op, std::move(costs));
  }

  /// Leaves out plans with a copy that nobody asks for.
  void add_nogood(size_t variable, const std::vector<TensorState>& states, size_t layout,
                  size_t tensor) {
    Nogood nogood;
    const auto marks_of = [&](size_t other) -> std::vector<bool>& {
      nogood.variables.push_back(other);
      return nogood.states.emplace_back();
    };
    std::vector<bool>& has_copy = marks_of(variable);
    for (const TensorState& state : states) has_copy.push_back(contains(state.copies, layout));
    for (const size_t reader : problem_.tensors[tensor].readers) {
      std::vector<bool>& asks_not = marks_of(reader);
      for (const Touch& touch : touches_of(reader, tensor))
        asks_not.push_back(!contains(touch.asked, layout));
    }
    network_.add_nogood(std::move(nogood));
  }

  const PlanProblem& problem_;
  std::vector<size_t> most_copies_;  // of each tensor
  bool is_restricted_ = false;
  CostNetwork network_;
};

bool is_feasible(const PlanProblem& problem, const PlanOptions& options) {
  return std::isfinite(
      solve(PlanNetwork(problem, options.most_copies).network(), 1, options.limits).lower_bound);
}

/// The error for a problem of which no plan was found: it names the first operator of which no
/// scheme goes with any of those before it.
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
                          "copies of them are impossible, or more than {} at once",
                          problem.operators[infeasible - 1].name, options.most_copies));
}

/// Distinct plans of the assignments, cheapest first. Copies that nobody asks for, which
/// assignments have where a limit ended the search, are not in plans.
std::vector<Plan> plans_of(const PlanProblem& problem, const Solution& solution) {
  std::vector<Plan> plans;
  for (const Assignment& assignment : solution.assignments) {
    const auto end = assignment.states.begin() + static_cast<ptrdiff_t>(problem.operators.size());
    Plan plan = plan_of(problem, {assignment.states.begin(), end});
    const auto is_same = [&](const Plan& other) { return other.schemes == plan.schemes; };
    if (std::none_of(plans.begin(), plans.end(), is_same)) plans.push_back(std::move(plan));
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.predicted_ns < b.predicted_ns; });
  return plans;
}

std::vector<size_t> copy_limits(const PlanProblem& problem, size_t most_copies) {
  std::vector<size_t> limits;
  for (size_t t = 0; t < problem.tensors.size(); ++t)
    limits.push_back(copy_limit(problem, t, most_copies).copies);
  return limits;
}

}  // namespace

Result<std::vector<Plan>> cheapest_plans(PlanProblem problem, size_t count,
                                         const PlanOptions& options) {
  // The next cheapest plans may have schemes that no cheapest one has.
  if (count == 1) {
    const std::vector<size_t> limits = copy_limits(problem, options.most_copies);
    problem = without_dominated(std::move(problem), limits);
  }
  const PlanNetwork network(problem, options.most_copies);
  const Solution solution = solve(network.network(), count, options.limits);
  std::vector<Plan> plans = plans_of(problem, solution);
  if (plans.empty()) return no_plan(problem, options);
  // The solver rounds costs, so that its bound may exceed the sum by the last bits.
  const double cheapest = plans[0].predicted_ns;
  for (Plan& plan : plans) {
    plan.is_optimal = solution.is_optimal;
    plan.is_restricted = network.is_restricted();
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
  const PlanNetwork network(problem, options.most_copies);
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
