// SPDX-License-Identifier: Apache-2.0
#include "graph/plan_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "graph/storage.h"

namespace tw::graph {
namespace {

/// Assigns the layouts of one tensor their indices in PlanTensor::layouts. Layouts with equal
/// Storage get the same index.
class LayoutNumbers {
 public:
  explicit LayoutNumbers(PlanTensor& tensor) {
    const auto row_major = dsl::Layout::row_major(static_cast<int>(tensor.type.shape.size()));
    number(tensor, row_major);
  }

  /// Returns the index of the layout, which is added if it is new. nullopt if there would be more
  /// than most_layouts.
  std::optional<size_t> number(PlanTensor& tensor, const dsl::Layout& layout) {
    const auto as_spelled = std::find(spelled_.begin(), spelled_.end(), layout);
    if (as_spelled != spelled_.end())
      return numbers_[static_cast<size_t>(as_spelled - spelled_.begin())];
    Storage storage = storage_of(tensor.type.shape, layout);
    const auto same = std::find(storages_.begin(), storages_.end(), storage);
    const auto index = static_cast<size_t>(same - storages_.begin());
    if (index == most_layouts) return std::nullopt;
    if (same == storages_.end()) {
      storages_.push_back(std::move(storage));
      tensor.layouts.push_back(layout);
    }
    spelled_.push_back(layout);
    numbers_.push_back(index);
    return index;
  }

 private:
  std::vector<dsl::Layout> spelled_;
  std::vector<size_t> numbers_;  // index of each layout in spelled_
  std::vector<Storage> storages_;
};

class ProblemBuilder {
 public:
  ProblemBuilder(const Graph& graph, const std::vector<std::vector<Scheme>>& schemes,
                 const TransformCost& transform_cost)
      : graph_(graph),
        schemes_(schemes),
        transform_cost_(transform_cost),
        trips_(trips_of_tensors(graph)) {
    TW_CHECK(schemes.size() == graph.operators.size(), "schemes of another graph");
  }

  Result<PlanProblem> run() && {
    add_tensors();
    for (size_t op = 0; op < schemes_.size(); ++op) TW_RETURN_IF_ERROR(add_operator(op));
    for (size_t t = 0; t < problem_.tensors.size(); ++t) TW_RETURN_IF_ERROR(price_copies(t));
    return std::move(problem_);
  }

 private:
  void add_tensors() {
    const std::map<std::string, TensorType> types = tensor_types(graph_);
    for (const Port& port : graph_.inputs) add_tensor(port.name, port.type, std::nullopt);
    for (const Loop& loop : graph_.loops)
      for (const auto& names : {entries_of(loop), results_of(loop)})
        for (const std::string& name : names) add_tensor(name, types.at(name), std::nullopt);
    for (size_t op = 0; op < graph_.operators.size(); ++op)
      for (const std::string& name : graph_.operators[op].outputs)
        add_tensor(name, types.at(name), op);
    add_outputs(graph_.outputs);
    for (const Loop& loop : graph_.loops) {
      add_outputs(sources_of(loop));
      add_outputs(exits_of(loop));
    }
    for (PlanTensor& tensor : problem_.tensors) layouts_.emplace_back(tensor);
  }

  /// Marks tensors that must exist row-major.
  void add_outputs(const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (const auto tensor = numbers_.find(name); tensor != numbers_.end())
        problem_.tensors[tensor->second].is_output = true;
  }

  void add_tensor(const std::string& name, const TensorType& type, std::optional<size_t> producer) {
    numbers_.emplace(name, problem_.tensors.size());
    problem_.tensors.push_back({name, type, {}, {}, producer, {}, false});
  }

  Status add_operator(size_t number) {
    const Operator& given = graph_.operators[number];
    PlanOperator& op = problem_.operators.emplace_back();
    op.name = given.name();
    for (const std::string& input : given.inputs)
      if (const auto tensor = numbers_.find(input); tensor != numbers_.end()) {
        op.tensors.push_back(tensor->second);
        std::vector<size_t>& readers = problem_.tensors[tensor->second].readers;
        if (readers.empty() || readers.back() != number) readers.push_back(number);
      }
    op.reads = op.tensors.size();
    for (const std::string& output : given.outputs) op.tensors.push_back(numbers_.at(output));
    if (schemes_[number].empty())
      return fail(ErrorCode::Invalid,
                  fmt::format("[plan] there is no scheme to run operator '{}'", op.name));
    return add_schemes(given, schemes_[number], op);
  }

  Status add_schemes(const Operator& given, const std::vector<Scheme>& schemes, PlanOperator& op) {
    std::map<std::vector<size_t>, size_t> by_layouts;
    for (size_t s = 0; s < schemes.size(); ++s) {
      TW_TRY(std::vector<size_t> layouts, layouts_of(given, schemes[s], s));
      const double cost = schemes[s].cost_ns;
      const auto [known, is_new] = by_layouts.emplace(layouts, op.schemes.size());
      if (is_new)
        op.schemes.push_back({s, cost, std::move(layouts)});
      else if (cost < op.schemes[known->second].cost_ns)
        op.schemes[known->second] = {s, cost, std::move(layouts)};
      op.equivalent.push_back(known->second);
    }
    return {};
  }

  /// Returns the error for a scheme. `number` is its index among the schemes of the operator.
  static tl::unexpected<Error> wrong_scheme(const Operator& op, size_t number,
                                            const std::string& why) {
    return fail(ErrorCode::Invalid,
                fmt::format("[plan] scheme {} of operator '{}' {}", number, op.name(), why));
  }

  /// Returns the indices of the scheme's layouts, in the order of PlanOperator::tensors.
  Result<std::vector<size_t>> layouts_of(const Operator& op, const Scheme& scheme, size_t number) {
    if (scheme.inputs.size() != op.inputs.size() || scheme.outputs.size() != op.outputs.size())
      return wrong_scheme(
          op, number,
          fmt::format("has {} + {} layouts; expected one for each of {} inputs and {} outputs",
                      scheme.inputs.size(), scheme.outputs.size(), op.inputs.size(),
                      op.outputs.size()));
    if (!(scheme.cost_ns >= 0 && std::isfinite(scheme.cost_ns)))
      return wrong_scheme(op, number, fmt::format("takes {} ns; expected a time", scheme.cost_ns));
    std::vector<size_t> numbers;
    for (const auto& [names, layouts] :
         {std::pair(&op.inputs, &scheme.inputs), std::pair(&op.outputs, &scheme.outputs)})
      for (size_t i = 0; i < names->size(); ++i) {
        const auto tensor = numbers_.find((*names)[i]);
        if (tensor == numbers_.end()) continue;  // a constant
        TW_TRY(numbers.emplace_back(), layout_number(op, number, tensor->second, (*layouts)[i]));
      }
    return numbers;
  }

  Result<size_t> layout_number(const Operator& op, size_t scheme, size_t number,
                               const dsl::Layout& layout) {
    PlanTensor& tensor = problem_.tensors[number];
    if (layout.rank() != static_cast<int>(tensor.type.shape.size()))
      return wrong_scheme(
          op, scheme,
          fmt::format("has a layout of {} dimensions for tensor '{}', whose type is {}",
                      layout.rank(), tensor.name, tensor.type.to_string()));
    const auto known = layouts_[number].number(tensor, layout);
    if (known) return *known;
    return fail(ErrorCode::Unsupported,
                fmt::format("[plan] the schemes ask for more than {} layouts of tensor '{}'; "
                            "offer fewer",
                            most_layouts, tensor.name));
  }

  /// Computes the costs of all copies that a plan may contain.
  Status price_copies(size_t number) {
    PlanTensor& tensor = problem_.tensors[number];
    const LayoutSet asked = problem_.asked(number);
    const auto trips = trips_.find(tensor.name);
    const auto runs = static_cast<double>(trips == trips_.end() ? 1 : trips->second);
    tensor.copies.assign(tensor.layouts.size() * tensor.layouts.size(), impossible);
    for (const size_t from : members(problem_.produced(number)))
      for (const size_t to : members(asked & ~only(from))) {
        const dsl::Layout &before = tensor.layouts[from], &after = tensor.layouts[to];
        const double cost = transform_cost_(tensor.type, before, after);
        if (!(cost >= 0))
          return fail(ErrorCode::Invalid,
                      fmt::format("[plan] copying tensor '{}' from {} to {} takes {} ns; expected "
                                  "a time",
                                  tensor.name, before.to_string(""), after.to_string(""), cost));
        tensor.copies[from * tensor.layouts.size() + to] = cost * runs;
      }
    return {};
  }

  const Graph& graph_;
  const std::vector<std::vector<Scheme>>& schemes_;
  const TransformCost& transform_cost_;
  const std::map<std::string, int64_t> trips_;
  PlanProblem problem_;
  std::map<std::string, size_t> numbers_;  // indices of tensors by name
  std::vector<LayoutNumbers> layouts_;     // layouts of each tensor
};

/// Upper bounds on the time of the copies that become necessary when one operator changes the
/// layout in which it reads or writes a tensor.
class ChangeCosts {
 public:
  ChangeCosts(const PlanTensor& tensor, LayoutSet produced, LayoutSet asked, bool is_read)
      : tensor_(tensor),
        produced_(produced),
        asked_(asked),
        is_read_(is_read),
        costs_(tensor.copies.size(), unknown) {}

  double most_ns(size_t from, size_t to) {
    if (from == to) return 0;
    double& cost = costs_[from * tensor_.layouts.size() + to];
    if (cost == unknown) cost = compute(from, to);
    return cost;
  }

 private:
  static constexpr double unknown = -1;

  double compute(size_t from, size_t to) const {
    double most = 0;
    if (is_read_) {
      for (const size_t produced : members(produced_))
        most = std::max(most, tensor_.copy_ns(produced, to));
      return most;
    }
    for (const size_t needed : members(asked_))
      if (const double before = tensor_.copy_ns(from, needed); std::isfinite(before))
        most += std::max(0.0, tensor_.copy_ns(to, needed) - before);
    return most;
  }

  const PlanTensor& tensor_;
  const LayoutSet produced_, asked_;
  const bool is_read_;
  std::vector<double> costs_;
};

std::vector<PlanScheme> undominated(const PlanOperator& op, std::vector<ChangeCosts> changes) {
  const auto dominates = [&](const PlanScheme& a, const PlanScheme& b) {
    double cost = a.cost_ns;
    for (size_t i = 0; i < changes.size() && cost < b.cost_ns; ++i)
      cost += changes[i].most_ns(b.layouts[i], a.layouts[i]);
    return cost < b.cost_ns;
  };
  std::vector<PlanScheme> kept;
  for (const PlanScheme& scheme : op.schemes)
    if (std::none_of(op.schemes.begin(), op.schemes.end(),
                     [&](const PlanScheme& other) { return dominates(other, scheme); }))
      kept.push_back(scheme);
  return kept;
}

/// The layout in which a tensor is written, and those in which it is read.
struct LayoutsInUse {
  size_t produced = 0;
  LayoutSet needed = 0;
};

LayoutsInUse layouts_in_use(const PlanProblem& problem, const std::vector<size_t>& choice,
                            size_t number) {
  const PlanTensor& tensor = problem.tensors[number];
  LayoutsInUse use;
  if (tensor.is_output) use.needed = only(0);
  for (const size_t op : tensor.operators()) {
    const PlanScheme& scheme = problem.operators[op].schemes[choice[op]];
    use.produced = problem.operators[op].written(scheme, number).value_or(use.produced);
    use.needed |= problem.operators[op].asked(scheme, number);
  }
  return use;
}

/// Adds the layout of a tensor, and the copies that its readers need, to a plan.
void add_tensor(const PlanTensor& tensor, const LayoutsInUse& use, Exchange exchange, Plan& plan) {
  plan.produced.emplace(tensor.name, tensor.layouts[use.produced]);
  const auto copy = [&](size_t from, size_t to) {
    plan.transforms.push_back(
        {tensor.name, tensor.layouts[from], tensor.layouts[to], tensor.copy_ns(from, to)});
  };
  const bool is_exchanged = exchange == Exchange::RowMajor && use.produced != 0 && use.needed != 0;
  if (is_exchanged) copy(use.produced, 0);
  const size_t source = is_exchanged ? 0 : use.produced;
  for (const size_t to : members(use.needed & ~only(source))) copy(source, to);
}

}  // namespace

std::vector<size_t> members(LayoutSet set) {
  std::vector<size_t> layouts;
  for (; set != 0; set &= set - 1) layouts.push_back(static_cast<size_t>(std::countr_zero(set)));
  return layouts;
}

std::vector<size_t> PlanTensor::operators() const {
  std::vector<size_t> all = readers;
  if (producer) all.insert(all.begin(), *producer);
  return all;
}

double PlanTensor::copy_ns(size_t from, size_t to) const {
  return from == to ? 0 : copies[from * layouts.size() + to];
}

double PlanTensor::copies_ns(size_t produced, LayoutSet needed) const {
  double sum = 0;
  for (; needed != 0; needed &= needed - 1)
    sum += copy_ns(produced, static_cast<size_t>(std::countr_zero(needed)));
  return sum;
}

LayoutSet PlanOperator::asked(const PlanScheme& scheme, size_t tensor) const {
  LayoutSet set = 0;
  for (size_t i = 0; i < reads; ++i)
    if (tensors[i] == tensor) set |= only(scheme.layouts[i]);
  return set;
}

std::optional<size_t> PlanOperator::written(const PlanScheme& scheme, size_t tensor) const {
  for (size_t i = reads; i < tensors.size(); ++i)
    if (tensors[i] == tensor) return scheme.layouts[i];
  return std::nullopt;
}

double PlanProblem::cheapest_kernels_ns() const {
  double sum = 0;
  for (const PlanOperator& op : operators)
    sum += std::min_element(op.schemes.begin(), op.schemes.end(), [](const auto& a, const auto& b) {
             return a.cost_ns < b.cost_ns;
           })->cost_ns;
  return sum;
}

LayoutSet PlanProblem::produced(size_t tensor) const {
  if (!tensors[tensor].producer) return only(0);
  const PlanOperator& op = operators[*tensors[tensor].producer];
  LayoutSet set = 0;
  for (const PlanScheme& scheme : op.schemes) set |= only(*op.written(scheme, tensor));
  return set;
}

LayoutSet PlanProblem::asked(size_t tensor) const {
  LayoutSet set = tensors[tensor].is_output ? only(0) : 0;
  for (const size_t reader : tensors[tensor].readers)
    for (const PlanScheme& scheme : operators[reader].schemes)
      set |= operators[reader].asked(scheme, tensor);
  return set;
}

Result<PlanProblem> make_problem(const Graph& graph,
                                 const std::vector<std::vector<Scheme>>& schemes,
                                 const TransformCost& transform_cost) {
  return ProblemBuilder(graph, schemes, transform_cost).run();
}

PlanProblem without_dominated(PlanProblem problem) {
  std::vector<LayoutSet> produced, asked;
  for (size_t t = 0; t < problem.tensors.size(); ++t) {
    produced.push_back(problem.produced(t));
    asked.push_back(problem.asked(t));
  }
  for (PlanOperator& op : problem.operators) {
    std::vector<ChangeCosts> changes;
    for (size_t i = 0; i < op.tensors.size(); ++i) {
      const size_t t = op.tensors[i];
      changes.emplace_back(problem.tensors[t], produced[t], asked[t], i < op.reads);
    }
    op.schemes = undominated(op, std::move(changes));
    op.equivalent.clear();
  }
  return problem;
}

PlanProblem first_operators(PlanProblem problem, size_t count) {
  problem.operators.resize(count);
  for (PlanTensor& tensor : problem.tensors) {
    std::erase_if(tensor.readers, [&](size_t reader) { return reader >= count; });
    if (!tensor.producer || *tensor.producer < count) continue;
    tensor.producer.reset();
    tensor.is_output = false;
  }
  return problem;
}

Plan plan_of(const PlanProblem& problem, const std::vector<size_t>& choice, Exchange exchange) {
  Plan plan;
  for (size_t op = 0; op < choice.size(); ++op) {
    const PlanScheme& scheme = problem.operators[op].schemes[choice[op]];
    plan.schemes.push_back(scheme.index);
    plan.predicted_ns += scheme.cost_ns;
  }
  for (size_t t = 0; t < problem.tensors.size(); ++t)
    add_tensor(problem.tensors[t], layouts_in_use(problem, choice, t), exchange, plan);
  std::ranges::sort(plan.transforms, {}, [](const Transform& transform) {
    return std::pair(transform.tensor, transform.to.to_string(""));
  });
  for (const Transform& transform : plan.transforms) plan.predicted_ns += transform.cost_ns;
  plan.lower_bound_ns = problem.cheapest_kernels_ns();
  plan.is_optimal = plan.predicted_ns <= plan.lower_bound_ns;
  return plan;
}

}  // namespace tw::graph
