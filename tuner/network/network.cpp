// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/isa.h"
#include "graph/plan_text.h"
#include "schedules/schedule.h"
#include "tuner/host_machine.h"
#include "tuner/network/bands.h"
#include "tuner/network/contenders.h"
#include "tuner/network/prediction_cache.h"
#include "tuner/search/network_error.h"
#include "tuner/workers/notes.h"
#include "tuner/workers/worker_pool.h"

namespace tw::tuner {
namespace {

// A shorter round would measure nothing: workers have to start, and references have to be built.
constexpr double least_round_s = 1;
// Largest number of times that plans are made in order to find out which estimated schemes are
// worth a prediction. Without this limit, four networks needed 9 to 11 plans, and the last plan was
// at most 0.3 % faster.
constexpr int most_estimated_rounds = 4;
// The smallest kernels of a plan are not predicted in full: as many of them as together take this
// share of the plan's time. Full predictions of these kernels would make the plans of DenseNet-121,
// GoogLeNet, HRNet-W18 and GhostNetV2 faster by 0.2 to 0.8 %, but would take a quarter to a half of
// the time of all full predictions.
constexpr double share_of_small = 0.05;
// A contender is tuned only if it could save this share of the network's time.
constexpr double least_contender_gain = 0.002;
// Largest number of contenders of a group. The schemes of a group mostly gain by similar amounts,
// so the best two represent the others.
constexpr size_t most_contenders_of_group = 2;

// Largest number of rounds after the main rounds. After the unmeasured kernels of the last plan are
// measured, another plan may be the cheapest, and it may have unmeasured kernels too.
constexpr int most_closing_rounds = 3;
// Factor by which closing_share is multiplied if NetworkOptions::choices is not empty.
constexpr double closing_factor_of_choices = 2;

/// The tasks of a round: first `of_plan` tasks for kernels and copies of the plans, then
/// contenders.
struct RoundTasks {
  std::vector<TaskSpec> specs;
  size_t of_plan = 0;
};

/// Collects tasks with distinct workloads. Adding a workload again increases the weight of its
/// task. If a kernel was predicted and not measured, the search of its task begins with the
/// predicted schedule, since a short search would otherwise end with a slower kernel.
class TaskList {
 public:
  TaskList() = default;
  /// Requires: distinct workloads.
  explicit TaskList(std::vector<TaskSpec> specs) : specs_(std::move(specs)) {
    for (size_t i = 0; i < specs_.size(); ++i) places_.emplace(specs_[i].workload.text(), i);
  }

  void add(const KernelChoice& kernel, const std::string& name, double weight) {
    TaskSpec& spec = task(kernel.workload, name);
    spec.weight += weight;
    if (kernel.is_predicted && kernel.measured_ns <= 0) spec.schedule = kernel.schedule;
  }
  /// Merges the task lists of alternative plans: the first tasks of all lists, then the second
  /// tasks of all lists, and so on. For example, {a, b} and {c, a} give {a, c, b}. A task that is
  /// in several lists gets the largest of its weights, because only one of the plans will run.
  void merge(const std::vector<TaskList>& lists) {
    for (size_t i = 0, rest = lists.size(); rest > 0; ++i) {
      rest = 0;
      for (const TaskList& list : lists) {
        if (i >= list.specs_.size()) continue;
        ++rest;
        TaskSpec& own = task(list.specs_[i].workload, list.specs_[i].name);
        own.weight = std::max(own.weight, list.specs_[i].weight);
        own.schedule = list.specs_[i].schedule;
      }
    }
  }
  size_t size() const { return specs_.size(); }
  std::vector<TaskSpec> take() { return std::move(specs_); }

 private:
  TaskSpec& task(const dsl::Workload& workload, const std::string& name) {
    const auto [place, is_new] = places_.emplace(workload.text(), specs_.size());
    if (is_new) specs_.push_back({workload, 0, name});
    return specs_[place->second];
  }

  std::vector<TaskSpec> specs_;
  std::map<std::string, size_t> places_;
};

class NetworkRun {
 public:
  NetworkRun(const graph::Graph& graph, const Target& target, const NetworkOptions& options,
             db::Store& store, const Environment& environment, const OnProgress& on_progress,
             const NetworkServices& services)
      : graph_(graph),
        target_(target),
        options_(options),
        store_(store),
        environment_(environment),
        on_progress_(on_progress),
        services_(services),
        started_ns_(environment.clock()),
        types_(graph::tensor_types(graph)) {}

  Result<TunedNetwork> run() {
    TW_RETURN_IF_ERROR(predict());
    TW_RETURN_IF_ERROR(plan());
    if (options_.tuning.effort != Effort::None) TW_RETURN_IF_ERROR(tune());
    return finish();
  }

 private:
  bool interrupted() const { return environment_.interrupted(); }
  double elapsed_s() const { return static_cast<double>(environment_.clock() - started_ns_) / 1e9; }

  Status predict() {
    const CostContext context{
        .target = target_,
        .threads = options_.tuning.threads,
        .stop = environment_.stop(),
        .tell = [this](size_t done, size_t count) { tell_of_predictions(done, count); },
        .most_error = services_.most_error,
        // Schemes are estimated only if nothing is measured, since measurements could make any
        // scheme the best one. On GPUs they are never estimated, because estimates were not
        // compared with predictions there.
        .estimates = options_.tuning.effort == Effort::None && !target_.is_gpu()};
    TW_TRY(SchemeCosts costs, SchemeCosts::predict(graph_, context, store_, services_.predict));
    costs_ = std::make_shared<SchemeCosts>(std::move(costs));
    tuned_.predicting_s = elapsed_s();
    TW_RETURN_IF_ERROR(costs_->refresh(store_));
    return predict_estimated();
  }

  /// Predicts the estimated schemes that the cheapest plans use, and makes the plans again, up to
  /// `most_estimated_rounds` times. Then drops the schemes that are still estimated. If the user
  /// interrupts, the schemes that were not predicted by then are dropped.
  Status predict_estimated() {
    if (costs_->estimated().empty()) return {};
    for (int round = 0; round < most_estimated_rounds && !interrupted(); ++round) {
      TW_TRY(const std::vector<graph::Plan> plans, plans_of_costs(Stance::Likely, count_plans()));
      SchemeSet chosen;
      for (const graph::Plan& plan : plans) add_schemes(plan, chosen);
      const double before = elapsed_s();
      const Result<bool> had_any = costs_->predict_estimated(chosen);
      tuned_.predicting_s += elapsed_s() - before;
      if (interrupted()) break;
      if (!had_any) return tl::unexpected(had_any.error());
      if (!*had_any) break;
    }
    costs_->drop_estimated();
    return {};
  }

  size_t count_plans() const { return std::max<size_t>(options_.plans, 1); }

  void tell_of_predictions(size_t done, size_t count) const {
    if (!on_progress_) return;
    Progress progress;
    progress.preparing = fmt::format("predicting kernel {} of {}", done, count);
    progress.elapsed_s = elapsed_s();
    if (options_.tuning.effort != Effort::None) progress.budget_s = options_.tuning.budget_s;
    on_progress_(progress);
  }

  /// Finds the cheapest plan by the costs of `stance`, and the plans for NetworkOptions::choices by
  /// the costs of `choosing`.
  Status plan(Stance stance = Stance::Likely, Stance choosing = Stance::Likely) {
    TW_TRY(std::vector<graph::Plan> plans, cheapest_plans(stance, 1));
    plan_ = std::move(plans.front());
    return choose(choosing);
  }

  /// Sets schemes_ to the schemes with their present costs, and finds the `count` cheapest plans
  /// among them.
  Result<std::vector<graph::Plan>> plans_of_costs(Stance stance, size_t count) {
    const double before = elapsed_s();
    schemes_ = costs_->schemes(stance);
    TW_TRY(
        std::vector<graph::Plan> plans,
        graph::make_plans(graph_, schemes_, costs_->transform_cost(stance), count, options_.plan));
    tuned_.planning_s += elapsed_s() - before;
    return plans;
  }

  /// Returns the cheapest plans. Their kernels are measured or predicted in full; with
  /// Effort::None, small kernels are left out (share_of_small). Plans are made again until they use
  /// no kernel that still needs a full prediction. This ends with the cheapest plans: a full
  /// prediction is never slower than the rough one, so it makes only plans with this kernel
  /// cheaper.
  Result<std::vector<graph::Plan>> cheapest_plans(Stance stance, size_t count) {
    for (;;) {
      TW_TRY(std::vector<graph::Plan> plans, plans_of_costs(stance, count));
      SchemeSet chosen;
      for (const graph::Plan& plan : plans) {
        if (options_.tuning.effort == Effort::None)
          add_larger_schemes(plan, chosen);
        else
          add_schemes(plan, chosen);
      }
      TW_TRY(const bool is_refined, refine(chosen));
      if (!is_refined) return plans;
    }
  }

  void add_schemes(const graph::Plan& plan, SchemeSet& schemes) const {
    for (size_t op = 0; op < plan.schemes.size(); ++op)
      schemes.emplace(costs_->group_of(op), plan.schemes[op]);
  }

  /// Adds the schemes of a plan, except those with the smallest times, which together take
  /// `share_of_small` of the plan's time.
  void add_larger_schemes(const graph::Plan& plan, SchemeSet& schemes) const {
    std::map<SchemeIndex, double> times;
    for (size_t op = 0; op < plan.schemes.size(); ++op)
      times[{costs_->group_of(op), plan.schemes[op]}] += schemes_[op][plan.schemes[op]].cost_ns;
    std::vector<std::pair<double, SchemeIndex>> ascending;
    for (const auto& [scheme, time_ns] : times) ascending.emplace_back(time_ns, scheme);
    std::ranges::sort(ascending);
    double smaller_ns = 0;
    for (const auto& [time_ns, scheme] : ascending) {
      smaller_ns += time_ns;
      if (smaller_ns > share_of_small * plan.predicted_ns) schemes.insert(scheme);
    }
  }

  /// Predicts the schemes in full (SchemeCosts::refine()), and returns true if any prediction was
  /// replaced. Returns false after an interrupt, so that plans are made with the predictions so
  /// far.
  Result<bool> refine(const SchemeSet& schemes) {
    if (interrupted()) return false;
    const double before = elapsed_s();
    Result<bool> refined = costs_->refine(schemes);
    tuned_.predicting_s += elapsed_s() - before;
    return interrupted() ? false : refined;
  }

  /// Makes a plan for each element of NetworkOptions::choices. The kernels of these plans are
  /// measured or predicted in full.
  Status choose(Stance stance) {
    for (bool is_refined = !options_.choices.empty(); is_refined;) {
      chosen_.clear();
      SchemeSet chosen;
      const auto schemes = costs_->schemes(stance);
      for (const graph::Choice choice : options_.choices) {
        chosen_.push_back(
            graph::choose(graph_, schemes, costs_->transform_cost(stance), choice, options_.plan));
        if (chosen_.back()) add_schemes(*chosen_.back(), chosen);
      }
      TW_TRY(is_refined, refine(chosen));
    }
    return {};
  }

  /// Returns the schemes of the cheapest plan, and then those of each plan in chosen_.
  std::vector<std::vector<size_t>> choices() const {
    std::vector<std::vector<size_t>> choices = {plan_.schemes};
    for (const Result<graph::Plan>& plan : chosen_)
      choices.push_back(plan ? plan->schemes : std::vector<size_t>());
    return choices;
  }

  double left_s() const { return options_.tuning.budget_s - elapsed_s(); }
  double closing_s() const {
    const double factor = options_.choices.empty() ? 1 : closing_factor_of_choices;
    return factor * closing_share * options_.tuning.budget_s;
  }

  Status tune() {
    TW_TRY(tuned_.ended, tune_in_rounds());
    TW_RETURN_IF_ERROR(use_last_share());
    if (interrupted()) tuned_.ended = Ended::Interrupted;
    return {};
  }

  /// Makes rounds of tuning until the budget is used, the user interrupts, or another round is not
  /// expected to help.
  Result<Ended> tune_in_rounds() {
    for (int round = 0; round < options_.rounds; ++round) {
      const double left = left_s() - closing_s();
      if (tuned_.unstored) return Ended::Unstored;
      if (interrupted() || left < least_round_s) break;
      TW_TRY(const RoundTasks tasks, tasks_of_round(round > 0));
      if (tasks.specs.empty()) return Ended::Trials;
      const double least_s = least_task_s * static_cast<double>(tasks.specs.size());
      const double share_s = std::max(left / (options_.rounds - round), least_s);
      TW_TRY(const bool is_worth_more,
             tune_round(tasks, options_.tuning.trials, std::min(left, share_s)));
      if (!is_worth_more && round > 0) return Ended::Plateau;
    }
    return Ended::Budget;
  }

  /// The last plans may need kernels that no round has measured. Measures one round of candidates
  /// for each of these kernels. If there are none, uses the remaining time for one more round.
  Status use_last_share() {
    for (int round = 0; round < most_closing_rounds; ++round) {
      if (interrupted() || tuned_.unstored || left_s() < least_round_s) return {};
      TW_RETURN_IF_ERROR(plan(Stance::Cautious, Stance::Measured));
      TW_TRY(const RoundTasks tasks, tasks_of_plans(Kernels::Unmeasured));
      if (tasks.specs.empty()) return spend_rest();
      const int64_t batch = options_.tuning.batch.value_or(batch_size_for(target_)),
                    trials = options_.tuning.trials;
      TW_TRY([[maybe_unused]] const bool is_worth_more,
             tune_round(tasks, trials > 0 ? std::min(trials, batch) : batch, left_s()));
    }
    return {};
  }

  /// Makes one more round, if the main rounds ended because their time was used up.
  Status spend_rest() {
    if (tuned_.ended != Ended::Budget || left_s() - closing_s() >= least_round_s) return {};
    TW_TRY(const RoundTasks tasks, tasks_of_plans(Kernels::All));
    if (tasks.specs.empty()) return {};
    TW_TRY([[maybe_unused]] const bool is_worth_more,
           tune_round(tasks, options_.tuning.trials, left_s()));
    return {};
  }

  /// Kernels of a plan that become tuning tasks.
  enum class Kernels { All, Unmeasured };

  Result<RoundTasks> tasks_of_round(bool with_contenders) {
    TW_TRY(RoundTasks round, tasks_of_plans(Kernels::All));
    if (with_contenders && is_plan_measured()) TW_RETURN_IF_ERROR(add_contenders(round));
    return round;
  }

  Result<RoundTasks> tasks_of_plans(Kernels which) const {
    std::vector<TaskList> lists(1);
    TW_RETURN_IF_ERROR(add_plan(plan_, which, lists.front()));
    for (const Result<graph::Plan>& plan : chosen_)
      if (plan) TW_RETURN_IF_ERROR(add_plan(*plan, which, lists.emplace_back()));
    TaskList tasks;
    tasks.merge(lists);
    const size_t of_plans = tasks.size();
    return RoundTasks{tasks.take(), of_plans};
  }

  /// True if a round has tuned the workload and the number of trials is limited. The workload is
  /// then not tuned again.
  bool is_finished(const dsl::Workload& workload) const {
    return options_.tuning.trials > 0 && finished_.contains(workload.text());
  }

  Status add_plan(const graph::Plan& plan, Kernels which, TaskList& tasks) const {
    TW_TRY(const std::vector<KernelUse> uses, uses_of(plan));
    for (const KernelUse& use : uses) {
      if (is_finished(use.kernel.workload)) continue;
      if (which == Kernels::All || use.kernel.measured_ns <= 0)
        tasks.add(use.kernel, use.name, use.runs);
    }
    return {};
  }

  /// Returns the kernels that a plan runs. The kernels of the group that takes the most time come
  /// first, and copies of tensors come last.
  Result<std::vector<KernelUse>> uses_of(const graph::Plan& plan) const {
    std::vector<KernelUse> uses;
    for (const size_t op : operators_by_cost(plan)) {
      const KernelChoice& kernel = costs_->at(op, plan.schemes[op]);
      if (kernel.schedule.empty()) continue;
      uses.push_back({kernel, graph_.operators[op].name(), costs_->runs_of(op),
                      costs_->expected_ns(op, plan.schemes[op])});
    }
    const auto types = graph::tensor_types(graph_);
    const auto trips = graph::trips_of_tensors(graph_);
    const auto add_copy = [&](const std::string& tensor, const LayoutCopy& copy) -> Status {
      TW_TRY(KernelChoice kernel, costs_->transform(copy.type, copy.from, copy.to));
      const auto known = trips.find(tensor);
      const double latency_ns = kernel.measured_ns > 0 ? kernel.measured_ns : kernel.expected_ns;
      uses.push_back({std::move(kernel), tensor,
                      known == trips.end() ? 1 : static_cast<double>(known->second), latency_ns});
      return {};
    };
    for (const graph::Loop& loop : graph_.loops)
      for (const graph::Loop::State& state : loop.states) {
        const graph::TensorType& type = types.at(state.first);
        const auto layout = dsl::Layout::row_major(static_cast<int>(type.shape.size()));
        TW_RETURN_IF_ERROR(add_copy(state.first, {type, layout, layout}));
      }
    for (const auto& [tensor, from, to, cost_ns] : plan.transforms)
      TW_RETURN_IF_ERROR(add_copy(tensor, {types.at(tensor), from, to}));
    for (size_t op = 0; op < graph_.operators.size(); ++op)
      for (const LayoutCopy& copy : costs_->copies(op, plan.schemes[op]))
        TW_RETURN_IF_ERROR(add_copy(graph_.operators[op].name(), copy));
    return uses;
  }

  Status add_contenders(RoundTasks& round) {
    const size_t most = round.of_plan + round.of_plan / 2 + 1;
    TW_TRY(const std::vector<Contender> contenders, contenders_of_plan());
    const size_t room = most - std::min(most, round.specs.size());
    std::map<size_t, size_t> taken;
    std::vector<Contender> chosen;
    SchemeSet schemes;
    for (const Contender& contender : contenders) {
      if (chosen.size() >= room) break;
      const dsl::Workload& workload = costs_->kernels(contender.group)[contender.scheme].workload;
      if (++taken[contender.group] <= most_contenders_of_group && !is_finished(workload)) {
        chosen.push_back(contender);
        schemes.emplace(contender.group, contender.scheme);
      }
    }
    // The ratios of measured to predicted times (SchemeCosts) are to be those of full predictions.
    TW_RETURN_IF_ERROR(refine(schemes));
    TaskList tasks(std::move(round.specs));
    for (const Contender& contender : chosen) {
      const std::vector<size_t>& operators = costs_->groups()[contender.group].operators;
      double runs = 0;
      for (const size_t op : operators) runs += costs_->runs_of(op);
      tasks.add(costs_->kernels(contender.group)[contender.scheme],
                graph_.operators[operators.front()].name(), runs);
    }
    round.specs = tasks.take();
    return {};
  }

  /// Returns the operators of the graph, sorted by the time of their groups in the plan, longest
  /// first. If the budget is short, only the first operators are tuned.
  std::vector<size_t> operators_by_cost(const graph::Plan& plan) const {
    std::vector<double> cost_of_group(costs_->groups().size(), 0);
    const auto cost = [&](size_t op) -> double& { return cost_of_group[costs_->group_of(op)]; };
    std::vector<size_t> operators(graph_.operators.size());
    std::iota(operators.begin(), operators.end(), size_t{0});
    for (const size_t op : operators) cost(op) += schemes_[op][plan.schemes[op]].cost_ns;
    std::ranges::stable_sort(operators, [&](size_t a, size_t b) { return cost(a) > cost(b); });
    return operators;
  }

  /// True if all kernels of the plan, except transforms, were measured on this device. As long as
  /// this is false, no contenders are tuned, because measuring the plan's kernels gives more
  /// information.
  bool is_plan_measured() const {
    for (size_t op = 0; op < graph_.operators.size(); ++op) {
      const KernelChoice& kernel = costs_->at(op, plan_.schemes[op]);
      if (!kernel.schedule.empty() && kernel.measured_ns <= 0) return false;
    }
    return true;
  }

  Result<std::vector<Contender>> contenders_of_plan() {
    const double before = elapsed_s();
    TW_TRY(const auto cheapest,
           graph::cheapest_with(graph_, schemes_, costs_->transform_cost(), options_.plan));
    tuned_.planning_s += elapsed_s() - before;
    if (!cheapest) return std::vector<Contender>();
    const double least = std::max(least_gain(options_.tuning.effort), least_contender_gain);
    return find_contenders(*costs_, *cheapest, plan_.predicted_ns, least * plan_.predicted_ns);
  }

  /// Tunes the tasks, and then makes the plans again. Returns true if another round could help: a
  /// task has not converged, or a plan has changed.
  Result<bool> tune_round(const RoundTasks& tasks, int64_t trials, double budget_s) {
    const double before_s = elapsed_s();
    TuneOptions options = options_.tuning;
    options.budget_s = budget_s;
    options.trials = trials;
    options.builds_winners = false;  // build_model() builds the kernels of the last plan
    std::vector<TaskSpec> specs = tasks.specs;
    for (TaskSpec& spec : specs) spec.most_error = services_.most_error;
    auto results =
        services_.tune_all(specs, options, [&](Progress progress) { report(progress, before_s); });
    if (!results && results.error().code != ErrorCode::Interrupted)
      return tl::unexpected(results.error());
    if (results) take_results(tasks, *results);
    TW_RETURN_IF_ERROR(costs_->refresh(store_));
    const std::vector<std::vector<size_t>> former = choices();
    TW_RETURN_IF_ERROR(plan());
    tuned_.rounds.push_back({tasks.of_plan, tasks.specs.size() - tasks.of_plan,
                             elapsed_s() - before_s,
                             planned(plan_, Stance::Likely).plan.predicted_ns});
    return !results || choices() != former ||
           std::ranges::any_of(*results, [](const Result<Tuned>& result) {
             return !result || result->ended == Ended::Budget ||
                    result->ended == Ended::FromDatabase;
           });
  }

  /// Reports the progress of one round as progress of the whole run.
  void report(Progress progress, double before_s) const {
    if (!on_progress_) return;
    progress.elapsed_s += before_s;
    progress.budget_s = options_.tuning.budget_s;
    on_progress_(progress);
  }

  void take_results(const RoundTasks& tasks, const std::vector<Result<Tuned>>& results) {
    tuned_.failures.clear();
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string text = tasks.specs[i].workload.text();
      if (results[i]) {
        finished_.insert(text);
        if (!results[i]->artifact.object.empty())
          tuned_.built.insert_or_assign({tasks.specs[i].workload.key(), results[i]->best.schedule},
                                        results[i]->artifact);
        if (results[i]->unstored) tuned_.unstored = results[i]->unstored;
      } else {
        tuned_.failures[results[i].error().message].push_back(text);
      }
    }
  }

  /// Chooses the plans to build. Nothing is measured after this, so costs are those of
  /// Stance::Cautious.
  Result<TunedNetwork> finish() {
    TW_TRY(std::vector<graph::Plan> plans, cheapest_plans(Stance::Cautious, count_plans()));
    for (graph::Plan& plan : plans) {
      tuned_.plans.push_back(planned(std::move(plan), Stance::Cautious));
      TW_TRY(tuned_.plans.back().uses, uses_of(tuned_.plans.back().plan));
    }
    TW_RETURN_IF_ERROR(choose(Stance::Measured));
    for (Result<graph::Plan>& plan : chosen_)
      tuned_.choices.push_back(std::move(plan).map(
          [&](graph::Plan&& chosen) { return planned(std::move(chosen), Stance::Measured); }));
    tuned_.schemes = costs_->schemes(Stance::Expected);
    tuned_.state = costs_->state();
    tuned_.most_error = services_.most_error;
    tuned_.groups = costs_->groups().size();
    tuned_.kernels = costs_->count();
    tuned_.measured = costs_->count_measured();
    return std::move(tuned_);
  }

  /// Returns a plan that was chosen by the costs of `stance`, with its schemes and kernels. All
  /// times become expected times, and the plan's lower bound is multiplied by the same factor as
  /// the plan's time.
  PlannedNetwork planned(graph::Plan plan, Stance stance) const {
    PlannedNetwork network;
    const std::vector<std::vector<graph::Scheme>> schemes = costs_->schemes(Stance::Expected);
    double expected_ns = 0;
    for (size_t op = 0; op < graph_.operators.size(); ++op) {
      network.schemes.push_back(schemes[op][plan.schemes[op]]);
      network.kernels.push_back(costs_->at(op, plan.schemes[op]));
      expected_ns += network.schemes.back().cost_ns;
    }
    const graph::TransformCost chosen_by = costs_->transform_cost(stance),
                               expected = costs_->transform_cost(Stance::Expected);
    for (graph::Transform& transform : plan.transforms) {
      const graph::TensorType& type = types_.at(transform.tensor);
      const double cost_ns = chosen_by(type, transform.from, transform.to);
      if (cost_ns > 0) transform.cost_ns *= expected(type, transform.from, transform.to) / cost_ns;
      expected_ns += transform.cost_ns;
    }
    if (plan.predicted_ns > 0) plan.lower_bound_ns *= expected_ns / plan.predicted_ns;
    plan.predicted_ns = expected_ns;
    network.transform = [costs = costs_](const graph::TensorType& type, const dsl::Layout& from,
                                         const dsl::Layout& to) {
      return costs->transform(type, from, to);
    };
    network.plan = std::move(plan);
    return network;
  }

  const graph::Graph& graph_;
  const Target target_;
  const NetworkOptions& options_;
  db::Store& store_;
  const Environment& environment_;
  const OnProgress& on_progress_;
  const NetworkServices& services_;
  const int64_t started_ns_;

  const std::map<std::string, graph::TensorType> types_;
  std::shared_ptr<SchemeCosts> costs_;
  std::vector<std::vector<graph::Scheme>> schemes_;
  graph::Plan plan_;
  std::vector<Result<graph::Plan>> chosen_;  ///< one for each of options_.choices
  std::set<std::string> finished_;           ///< texts of workloads that a round has tuned
  TunedNetwork tuned_;
};

}  // namespace

Result<TunedNetwork> tune_network(const graph::Graph& graph, const Target& target,
                                  const NetworkOptions& options, db::Store& store,
                                  const Environment& environment, const OnProgress& on_progress,
                                  const NetworkServices& services) {
  return NetworkRun(graph, target, options, store, environment, on_progress, services).run();
}

Result<TunedNetwork> tune_network(const graph::Graph& graph, const Target& target,
                                  const NetworkOptions& options, db::Store& store,
                                  const Environment& environment, const OnProgress& on_progress) {
  TW_RETURN_IF_ERROR(check(options.tuning));
  const Target machine = with_known_machine(store, target);
  const PredictionCache cache = PredictionCache::open(
      options.predictions, predictor_version(machine, options.tuning.threads));
  NetworkServices services;
  services.most_error = most_error_of_kernels(graph, machine);
  services.predict = cache.remembering(
      predict_for(machine, options.tuning.threads, environment.stop(), services.most_error),
      services.most_error);
  // The workers are started by the first round. They keep the reference kernels of operators for
  // later rounds.
  std::optional<Workers> workers;
  services.tune_all = [&](const std::vector<TaskSpec>& tasks, const TuneOptions& tuning,
                          const OnProgress& progress) -> Result<std::vector<Result<Tuned>>> {
    if (!workers && options.start_workers) {
      TW_TRY(workers, options.start_workers(tuning));
    } else if (!workers) {
      TW_RETURN_IF_ERROR(check_max_isa());
      TW_TRY(workers, start_workers(target, tuning.threads, environment, tuning.timeout_s));
    }
    auto results = tune_all(tasks, target, tuning, store, environment, progress, *workers);
    // If the workers are lost, later rounds could not measure anything either.
    const std::optional<Error> lost = workers->runner->lost();
    if (lost && !environment.interrupted()) return tl::unexpected(*lost);
    return results;
  };
  auto tuned = tune_network(graph, machine, options, store, environment, on_progress, services);
  // If the file cannot be written, the next run has the same result, but is slower.
  if (const Status written = cache.write(); !written)
    note(environment.notes, NoteKind::CacheUnwritten, written.error().message);
  return tuned;
}

namespace {

std::vector<graph::KernelLabel> labels_of(const std::vector<KernelChoice>& kernels) {
  std::vector<graph::KernelLabel> labels;
  for (const KernelChoice& kernel : kernels)
    labels.push_back(
        {kernel.schedule.empty() ? "" : schedules::algorithm_name(kernel.schedule), kernel.error});
  return labels;
}

/// Returns the bands whose element of `choices` is true. A band without an element is left out.
std::vector<ScriptBand> chosen(const std::vector<ScriptBand>& bands,
                               const std::vector<bool>& choices) {
  std::vector<ScriptBand> chosen;
  for (size_t i = 0; i < std::min(bands.size(), choices.size()); ++i)
    if (choices[i]) chosen.push_back(bands[i]);
  return chosen;
}

}  // namespace

Result<BuiltModel> build_model(const graph::Graph& graph, const TunedNetwork& tuned, size_t plan,
                               const ModelSpec& spec, const Environment& environment,
                               BuiltKernels& kernels) {
  return build_model(graph, tuned, tuned.plans[plan], spec, environment, kernels);
}

Result<BuiltModel> build_model(const graph::Graph& graph, const TunedNetwork& tuned,
                               const PlannedNetwork& planned, const ModelSpec& spec,
                               const Environment& environment, BuiltKernels& kernels) {
  TW_RETURN_IF_ERROR(check_assemblable(graph, spec.target));
  TW_TRY(Script script, make_script(graph, planned));
  BuiltModel built;
  if (spec.threads > 1 && !spec.target.is_gpu()) {
    script = with_bands(std::move(script), spec.threads);
    built.bands = script.bands.size();
    script.bands = chosen(script.bands, spec.side_by_side);
  }
  kernels.insert(tuned.built.begin(), tuned.built.end());
  TW_TRY(const std::vector<runtime::Artifact> artifacts,
         build_kernels(script.kernels, spec.target, environment, kernels));
  TW_TRY(built.file, assemble(graph, script, artifacts,
                              {.name = spec.name,
                               .target = spec.target.to_string(),
                               .threads = spec.threads,
                               .plan = graph::to_text(graph, tuned.schemes, planned.plan,
                                                      labels_of(planned.kernels))}));
  std::set<size_t> unverified;
  for (const ScriptCall& call : script.calls)
    if (!call.is_measured) unverified.insert(call.kernel);
  built.unverified = unverified.size();
  return built;
}

}  // namespace tw::tuner
