// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/scheme_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "schedules/schedule.h"
#include "tuner/network/working_set.h"
#include "tuner/search/for_each_index.h"
#include "tuner/tune.h"
#include "tuner/workers/device.h"

namespace tw::tuner {
namespace {

// Cost of an estimated kernel, as a multiple of the predicted time of the operator's fastest
// kernel. Kernels that convert layouts are predicted at 0.97 or more times this time, mostly at
// 1.00 to 1.10 times. The multiple is a little above 1, so that among otherwise equal plans the
// plan without estimated kernels is cheapest.
constexpr double estimated_share = 1.001;

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

/// Returns the key of a copy in the table of copies, such as "f32[1, 64, 8, 8] ABCD ACDB".
std::string copy_key(const graph::TensorType& type, const dsl::Layout& from,
                     const dsl::Layout& to) {
  const std::string letters = dsl::default_letters(static_cast<int>(type.shape.size()));
  return fmt::format("{} {} {}", type.to_string(), from.to_string(letters), to.to_string(letters));
}

/// True if the predicted time of the kernel may be compared with the time of this schedule: either
/// both have the same algorithm, or nothing was predicted.
bool is_of_predicted_algorithm(const KernelChoice& kernel, std::string_view schedule) {
  return !kernel.predicted_algorithm ||
         schedules::rewriting_text(schedule) == kernel.predicted_algorithm;
}

void take_schedule(KernelChoice& kernel, const db::Record& record) {
  kernel.schedule = record.schedule;
  kernel.error = record.verified_error;
  kernel.is_predicted = false;
}

/// Takes over the schedule of a record, and also its time if the record was measured on this
/// device. A record never replaces a faster measurement of this device. A record of another device
/// never replaces a measurement of this device. It replaces a prediction only if both have the same
/// algorithm, because the time of a different algorithm is not known on this device.
void take_record(KernelChoice& kernel, const db::Record& record, const Target& target) {
  const bool is_here = is_of_device(record, target);
  if (kernel.measured_ns > 0 && (!is_here || kernel.measured_ns <= record.latency_ns)) return;
  if (!is_here && !is_of_predicted_algorithm(kernel, record.schedule)) return;
  take_schedule(kernel, record);
  if (is_here) kernel.measured_ns = record.latency_ns;
}

/// As take_record(), for a record that was measured with hot caches, in a network whose caches are
/// not hot. The time of the record is not the time in the network. So a record is ignored if its
/// algorithm differs from that of the prediction, or if the kernel was measured in the network's
/// state.
void take_hot_record(KernelChoice& kernel, const db::Record& record, const Target& target) {
  if (kernel.measured_ns > 0) return;
  const bool is_here = is_of_device(record, target);
  if (kernel.hot_measured_ns > 0 && (!is_here || kernel.hot_measured_ns <= record.latency_ns))
    return;
  if (!is_of_predicted_algorithm(kernel, record.schedule)) return;
  take_schedule(kernel, record);
  if (is_here) kernel.hot_measured_ns = record.latency_ns;
}

void take_prediction(KernelChoice& kernel, const Predicted& predicted, Precision precision) {
  kernel.schedule = predicted.schedule;
  kernel.error = {};
  kernel.is_predicted = true;
  kernel.is_estimated = false;
  kernel.is_rough = precision == Precision::Rough;
  kernel.predicted_ns = predicted.analytic_ns;
  kernel.expected_ns = predicted.expected_ns;
  kernel.hot_predicted_ns = predicted.hot_ns;
  kernel.predicted_algorithm = schedules::rewriting_text(predicted.schedule);
}

/// Returns the states of the caches whose records are used for a network in `state`, beginning with
/// `state` itself.
std::vector<dsl::CacheState> states_of_records(dsl::CacheState state) {
  if (state == dsl::CacheState::Hot) return {state};
  return {state, dsl::CacheState::Hot};
}

/// Prepares the store for the thousands of queries that a network makes. The preparation lasts as
/// long as the returned object. Returns nullopt if the database server cannot be reached.
Result<std::optional<db::Store::Reading>> read_thousands(db::Store& store) {
  auto reading = store.read_together();
  if (reading) return std::optional(std::move(*reading));
  if (reading.error().code == ErrorCode::TryLater) return std::nullopt;
  return tl::unexpected(reading.error());
}

/// The times of a kernel by a model: `ns` in the state of the caches of the network, `hot_ns` with
/// hot caches. 0: unknown.
struct ModelTimes {
  double ns, hot_ns;
};
using Model = ModelTimes (*)(const KernelChoice&);

ModelTimes predicted_times(const KernelChoice& kernel) {
  return {kernel.predicted_ns, kernel.hot_predicted_ns};
}

/// Returns the expected times. The expected time with hot caches is not known, so the difference
/// between both predicted times is subtracted from the expected time.
ModelTimes expected_times(const KernelChoice& kernel) {
  const double added_ns = kernel.predicted_ns - kernel.hot_predicted_ns;
  return {kernel.expected_ns, kernel.hot_predicted_ns > 0 ? kernel.expected_ns - added_ns : 0};
}

/// Appends the ratios of measured times to the model's times: to `own` for the network's state of
/// the caches, to `hot` for hot caches. A ratio is left out if one of its times is unknown.
void add_ratios(const KernelChoice& kernel, Model model, std::vector<double>& own,
                std::vector<double>& hot) {
  const auto [ns, hot_ns] = model(kernel);
  if (kernel.measured_ns > 0 && ns > 0) own.push_back(kernel.measured_ns / ns);
  if (kernel.hot_measured_ns > 0 && hot_ns > 0) hot.push_back(kernel.hot_measured_ns / hot_ns);
}

/// The ratios of measured times to those of a model. `own` is for the network's state of the
/// caches, and so are `by_operator` and `all`; `hot` is for hot caches.
struct MeasuredRatios {
  std::vector<std::vector<double>> own, hot;  ///< for each group, the ratios of its schemes
  std::map<std::string, std::vector<double>> by_operator;
  std::vector<double> all;
};

MeasuredRatios measured_ratios(const std::vector<OperatorGroup>& groups,
                               const std::vector<std::vector<KernelChoice>>& kernels, Model model) {
  MeasuredRatios ratios;
  for (size_t group = 0; group < groups.size(); ++group) {
    std::vector<double>&own = ratios.own.emplace_back(), &hot = ratios.hot.emplace_back();
    for (const KernelChoice& kernel : kernels[group]) {
      const bool is_measured = kernel.measured_ns > 0 || kernel.hot_measured_ns > 0;
      if (is_measured && is_of_predicted_algorithm(kernel, kernel.schedule))
        add_ratios(kernel, model, own, hot);
    }
    if (own.empty()) continue;
    for (std::vector<double>* to : {&ratios.all, &ratios.by_operator[groups[group].workload.op]})
      to->insert(to->end(), own.begin(), own.end());
  }
  return ratios;
}

/// Returns for each group the ratio of measured time to the model's time. It is the geometric mean
/// over the first of these sets that has a measurement: the schemes of the group; the schemes of
/// the group with hot caches; all groups of the same kind of operator; all groups. It is 1 if none
/// of them has a measurement.
std::vector<double> ratios_of(const std::vector<OperatorGroup>& groups,
                              const MeasuredRatios& measured) {
  std::vector<double> ratios;
  for (size_t group = 0; group < groups.size(); ++group) {
    const auto same = measured.by_operator.find(groups[group].workload.op);
    const auto& best = !measured.own[group].empty()         ? measured.own[group]
                       : !measured.hot[group].empty()       ? measured.hot[group]
                       : same != measured.by_operator.end() ? same->second
                                                            : measured.all;
    ratios.push_back(best.empty() ? 1 : geometric_mean(best));
  }
  return ratios;
}

}  // namespace

SchemeCosts::SchemeCosts(const graph::Graph& graph, CostContext context, Predict predict)
    : graph_(&graph),
      context_(std::move(context)),
      predict_(std::move(predict)),
      state_(state_of(graph, context_.target.machine)),
      groups_(group_operators(graph, state_, states_of_loops(graph, context_.target.machine))),
      group_of_(graph.operators.size()),
      ratios_(groups_.size(), 1),
      expected_ratios_(groups_.size(), 1) {
  for (size_t group = 0; group < groups_.size(); ++group)
    for (const size_t op : groups_[group].operators) group_of_[op] = group;
}

Result<SchemeCosts> SchemeCosts::predict(const graph::Graph& graph, const CostContext& context,
                                         db::Store& store, Predict predict) {
  SchemeCosts costs(graph, context, std::move(predict));
  TW_RETURN_IF_ERROR(costs.offer(store));
  TW_RETURN_IF_ERROR(costs.predict_offered());
  TW_RETURN_IF_ERROR(costs.estimate());
  TW_RETURN_IF_ERROR(costs.predict_copies());
  costs.drop_impossible_copies();
  return costs;
}

Status SchemeCosts::offer(db::Store& store) {
  TW_TRY(const auto one_state, read_thousands(store));
  for (const OperatorGroup& group : groups_) {
    std::vector<LayoutChoice> known;
    if (!group.moves_nothing) {
      TW_TRY(known, known_layouts(store, group, context_.target, context_.threads));
    }
    choices_.push_back(offered_layouts(group, context_.target.machine, known));
    bool estimates = context_.estimates && known.empty();
    if (estimates) {
      TW_TRY(const bool is_known, is_recorded(store, group.workload));
      estimates = !is_known;
    }
    kernels_.emplace_back();
    for (const LayoutChoice& choice : choices_.back()) {
      KernelChoice& kernel = kernels_.back().emplace_back(KernelChoice{with_choice(group, choice)});
      if (!estimates || !choice.converts) continue;
      TW_TRY(const bool is_known, is_recorded(store, kernel.workload));
      kernel.is_estimated = !is_known;
    }
  }
  return {};
}

std::vector<const dsl::Workload*> SchemeCosts::workloads_of(
    const std::vector<SchemeIndex>& schemes) const {
  std::vector<const dsl::Workload*> workloads;
  for (const auto& [group, i] : schemes) workloads.push_back(&kernels_[group][i].workload);
  return workloads;
}

/// Predicts these workloads on all cores. Returns the predictions in order.
Result<std::vector<Result<Predicted>>> SchemeCosts::predict_each(
    const std::vector<const dsl::Workload*>& workloads, Precision precision) const {
  std::vector<Result<Predicted>> predicted(workloads.size(), Predicted());
  std::atomic<size_t> done = 0;
  const std::thread::id asking = std::this_thread::get_id();
  for_each_index(workloads.size(), host_target().machine.cores, [&](size_t i) {
    if (context_.stop.is_stopped()) return;
    predicted[i] = predict_(*workloads[i], precision);
    ++done;
    if (context_.tell && std::this_thread::get_id() == asking)
      context_.tell(done, workloads.size());
  });
  if (context_.stop.is_stopped())
    return fail(ErrorCode::Interrupted, "[network] interrupted while kernels were predicted");
  return predicted;
}

/// Predicts the schemes that are not estimated.
Status SchemeCosts::predict_offered() {
  size_t most = 0;
  for (const auto& kernels : kernels_) most = std::max(most, kernels.size());
  // The first schemes of all groups are predicted first, then the second schemes, and so on. The
  // first prediction of a group searches for points, and the predictions of the group's other
  // schemes wait for these points. So the first predictions of all groups should begin early.
  std::vector<SchemeIndex> schemes;
  for (size_t i = 0; i < most; ++i)
    for (size_t group = 0; group < groups_.size(); ++group)
      if (i < kernels_[group].size() && !choices_[group][i].moves_nothing &&
          !kernels_[group][i].is_estimated)
        schemes.emplace_back(group, i);
  return predict_roughly(schemes);
}

/// Predicts these schemes in their order, and drops those that cannot be scheduled.
Status SchemeCosts::predict_roughly(const std::vector<SchemeIndex>& schemes) {
  TW_TRY(const auto predicted, predict_each(workloads_of(schemes), Precision::Rough));
  std::map<size_t, Error> failures;  // for each group, the first error
  SchemeSet impossible;
  for (size_t n = 0; n < schemes.size(); ++n) {
    const auto [group, i] = schemes[n];
    if (predicted[n]) {
      take_prediction(kernels_[group][i], *predicted[n], Precision::Rough);
    } else {
      failures.emplace(group, predicted[n].error());
      impossible.insert(schemes[n]);
    }
  }
  drop(impossible);
  for (const auto& [group, why] : failures)
    if (kernels_[group].empty()) return tl::unexpected(failure_of(group, why));
  return {};
}

void SchemeCosts::drop(const SchemeSet& schemes) {
  for (auto scheme = schemes.rbegin(); scheme != schemes.rend(); ++scheme) {
    const auto [group, i] = *scheme;
    choices_[group].erase(choices_[group].begin() + static_cast<ptrdiff_t>(i));
    kernels_[group].erase(kernels_[group].begin() + static_cast<ptrdiff_t>(i));
  }
}

Error SchemeCosts::failure_of(size_t group, const Error& why) const {
  const graph::Operator& op = graph_->operators[groups_[group].operators.front()];
  // Messages of legality contain indices that the import made, which the user has never seen.
  const bool is_illegal = why.message.starts_with("[legality]");
  return {why.code, fmt::format("[network] operator '{}' ({}): {}", op.name(), op.workload.op,
                                is_illegal ? "its kernel is not proved to read inside of its "
                                             "tensors, and is not built"
                                           : why.message)};
}

/// True if the database has a record from which the kernel could take its schedule.
Result<bool> SchemeCosts::is_recorded(db::Store& store, const dsl::Workload& workload) const {
  for (const dsl::CacheState state : states_of_records(workload.state)) {
    TW_TRY(const auto record, known(store, workload, state));
    if (record) return true;
  }
  return false;
}

/// Sets the times of the estimated kernels. If no other kernel of its operator was predicted, a
/// kernel is predicted instead of estimated.
Status SchemeCosts::estimate() {
  std::vector<SchemeIndex> alone;
  for (size_t group = 0; group < groups_.size(); ++group) {
    double least = std::numeric_limits<double>::infinity();
    for (const KernelChoice& kernel : kernels_[group])
      if (kernel.is_predicted) least = std::min(least, kernel.predicted_ns);
    for (size_t i = 0; i < kernels_[group].size(); ++i) {
      KernelChoice& kernel = kernels_[group][i];
      if (!kernel.is_estimated) continue;
      kernel.predicted_ns = estimated_share * least;
      if (!std::isfinite(least)) alone.emplace_back(group, i);
    }
  }
  return predict_roughly(alone);
}

Result<bool> SchemeCosts::predict_estimated(const SchemeSet& schemes) {
  std::vector<SchemeIndex> estimated;
  for (const auto& [group, i] : schemes)
    if (kernels_[group][i].is_estimated) estimated.emplace_back(group, i);
  TW_RETURN_IF_ERROR(predict_roughly(estimated));
  return !estimated.empty();
}

SchemeSet SchemeCosts::estimated() const {
  SchemeSet estimated;
  for (size_t group = 0; group < groups_.size(); ++group)
    for (size_t i = 0; i < kernels_[group].size(); ++i)
      if (kernels_[group][i].is_estimated) estimated.emplace(group, i);
  return estimated;
}

void SchemeCosts::drop_estimated() { drop(estimated()); }

Result<bool> SchemeCosts::refine(const SchemeSet& schemes) {
  std::vector<SchemeIndex> jobs;
  for (const auto& [group, i] : schemes) {
    const KernelChoice& kernel = kernels_[group][i];
    const bool has_kernel = !choices_[group][i].moves_nothing;
    if (has_kernel && kernel.is_predicted && kernel.is_rough) jobs.emplace_back(group, i);
  }
  TW_TRY(auto predicted, predict_each(workloads_of(jobs), Precision::Full));
  for (size_t job = 0; job < jobs.size(); ++job) {
    const auto [group, i] = jobs[job];
    TW_TRY(const Predicted full, std::move(predicted[job]));
    take_prediction(kernels_[group][i], full, Precision::Full);
  }
  return !jobs.empty();
}

Status SchemeCosts::refresh(db::Store& store) {
  TW_TRY(const auto one_state, read_thousands(store));
  for (size_t group = 0; group < groups_.size(); ++group)
    if (!groups_[group].moves_nothing)
      for (const dsl::CacheState state : states_of_records(groups_[group].workload.state))
        TW_RETURN_IF_ERROR(refresh_group(store, group, state));
  learn_ratios();
  return refresh_copies(store);
}

Result<std::optional<db::Record>> SchemeCosts::known(db::Store& store, dsl::Workload workload,
                                                     dsl::CacheState state) const {
  workload.state = state;
  Result<std::optional<db::Record>> record =
      best_known(store, workload, context_.target, context_.threads, context_.most_error);
  // While a server is away the costs stay as they are.
  if (!record && record.error().code == ErrorCode::TryLater) return std::optional<db::Record>();
  return record;
}

/// Takes over the records of the group's kernels that were measured with the caches in `state`.
/// `state` is the state of the group, or Hot.
Status SchemeCosts::refresh_group(db::Store& store, size_t group, dsl::CacheState state) {
  const auto take = state == groups_[group].workload.state ? take_record : take_hot_record;
  for (size_t i = 0; i < kernels_[group].size(); ++i) {
    KernelChoice& kernel = kernels_[group][i];
    if (choices_[group][i].moves_nothing || kernel.is_estimated) continue;
    TW_TRY(const auto record, known(store, kernel.workload, state));
    if (record) take(kernel, *record, context_.target);
  }
  // The time of a named operator excludes packing of its arrays. So if a record of the workload
  // with free layouts chose the layouts of a scheme, the record counts as a measurement of that
  // scheme. The time of an expression includes the conversions between layouts, so records of
  // expressions with free layouts are not used.
  const dsl::Workload& workload = groups_[group].workload;
  if (workload.op == "expr") return {};
  TW_TRY(const auto free, known(store, workload, state));
  if (!free) return {};
  TW_TRY(const LayoutChoice chosen, layouts_of_schedule(workload.compute, free->schedule));
  for (size_t i = 0; i < choices_[group].size(); ++i)
    if (!choices_[group][i].moves_nothing && !kernels_[group][i].is_estimated &&
        is_same_choice(groups_[group], choices_[group][i], chosen))
      take(kernels_[group][i], *free, context_.target);
  return {};
}

void SchemeCosts::learn_ratios() {
  const MeasuredRatios predicted = measured_ratios(groups_, kernels_, predicted_times);
  learn_doubt(predicted.by_operator);
  for (const auto& [op, ratios] : predicted.by_operator)
    least_ratios_[op] = *std::ranges::min_element(ratios);
  ratios_ = ratios_of(groups_, predicted);
  expected_ratios_ = ratios_of(groups_, measured_ratios(groups_, kernels_, expected_times));
}

void SchemeCosts::learn_doubt(
    const std::map<std::string, std::vector<double>>& ratios_by_operator) {
  double squares = 0, count = 0;
  for (const auto& [op, ratios] : ratios_by_operator)
    for (const double ratio : ratios) {
      const double error = std::log(ratio / geometric_mean(ratios));
      squares += error * error;
      ++count;
    }
  doubt_ = count > 0 ? std::exp(std::sqrt(squares / count)) : 1;
}

/// Returns the copies that plans may need: copies of each tensor between any two layouts that
/// schemes ask for, the copies that are part of a scheme, and the copies of states into the arrays
/// of loops. The caller's inputs and outputs are row-major.
std::map<std::string, dsl::Workload> SchemeCosts::copies_that_plans_may_need() const {
  const auto types = graph::tensor_types(*graph_);
  std::map<std::string, std::vector<dsl::Layout>> layouts;
  const auto ask = [&](const std::string& tensor, const dsl::Layout& layout) {
    if (layout.rank() == 0 || graph_->constants.contains(tensor)) return;
    std::vector<dsl::Layout>& known = layouts[tensor];
    const auto is_same = [&](const dsl::Layout& other) {
      return graph::is_same_storage(types.at(tensor).shape, layout, other);
    };
    if (std::ranges::none_of(known, is_same)) known.push_back(layout);
  };
  const auto ask_row_major = [&](const std::string& tensor) {
    ask(tensor, dsl::Layout::row_major(static_cast<int>(types.at(tensor).shape.size())));
  };
  for (const graph::Port& port : graph_->inputs) ask_row_major(port.name);
  for (const std::string& output : graph_->outputs) ask_row_major(output);
  for (const graph::Loop& loop : graph_->loops)
    for (const auto& names : {graph::sources_of(loop), graph::entries_of(loop),
                              graph::exits_of(loop), graph::results_of(loop)})
      for (const std::string& tensor : names) ask_row_major(tensor);
  for (size_t op = 0; op < graph_->operators.size(); ++op)
    for (const LayoutChoice& choice : choices_[group_of_[op]]) {
      const graph::Operator& reader = graph_->operators[op];
      for (size_t i = 0; i < reader.inputs.size(); ++i) ask(reader.inputs[i], choice.inputs[i]);
      for (size_t i = 0; i < reader.outputs.size(); ++i) ask(reader.outputs[i], choice.outputs[i]);
    }
  std::map<std::string, dsl::Workload> copies;
  for (const graph::Loop& loop : graph_->loops)
    for (const graph::Loop::State& state : loop.states) {
      const graph::TensorType& type = types.at(state.first);
      const dsl::Layout layout = dsl::Layout::row_major(static_cast<int>(type.shape.size()));
      if (auto copy = transform_workload(type, layout, layout, state_))
        copies.emplace(copy_key(type, layout, layout), std::move(*copy));
    }
  for (const auto& [tensor, known] : layouts)
    for (const dsl::Layout& from : known)
      for (const dsl::Layout& to : known)
        if (!(from == to))
          if (auto copy = transform_workload(types.at(tensor), from, to, state_))
            copies.emplace(copy_key(types.at(tensor), from, to), std::move(*copy));
  for (const std::vector<LayoutChoice>& choices : choices_)
    for (const LayoutChoice& choice : choices)
      for (const auto& [type, from, to] : choice.copies)
        if (auto copy = transform_workload(type, from, to, state_))
          copies.emplace(copy_key(type, from, to), std::move(*copy));
  return copies;
}

Status SchemeCosts::predict_copies() {
  const std::map<std::string, dsl::Workload> needed = copies_that_plans_may_need();
  std::vector<const dsl::Workload*> workloads;
  for (const auto& [key, workload] : needed) workloads.push_back(&workload);
  TW_TRY(const auto predicted, predict_each(workloads, Precision::Rough));
  size_t i = 0;
  for (const auto& [key, workload] : needed) {
    const Result<Predicted>& prediction = predicted[i++];
    if (!prediction) continue;  // plans cannot use a copy that has no schedule
    KernelChoice copy{workload};
    take_prediction(copy, *prediction, Precision::Rough);
    copies_.emplace(key, std::move(copy));
  }
  return {};
}

/// Drops the schemes that need a copy that cannot be scheduled. The operators of these schemes also
/// have schemes with a kernel.
void SchemeCosts::drop_impossible_copies() {
  SchemeSet impossible;
  for (size_t group = 0; group < groups_.size(); ++group)
    for (size_t i = 0; i < choices_[group].size(); ++i)
      if (!std::isfinite(copies_ns(choices_[group][i], Stance::Likely)))
        impossible.emplace(group, i);
  drop(impossible);
}

Status SchemeCosts::refresh_copies(db::Store& store) {
  std::vector<double> predicted, predicted_hot, expected, expected_hot;
  for (auto& [key, copy] : copies_) {
    for (const dsl::CacheState state : states_of_records(state_)) {
      TW_TRY(const auto record, known(store, copy.workload, state));
      if (record) (state == state_ ? take_record : take_hot_record)(copy, *record, context_.target);
    }
    add_ratios(copy, predicted_times, predicted, predicted_hot);
    add_ratios(copy, expected_times, expected, expected_hot);
  }
  const auto ratio = [](const std::vector<double>& own, const std::vector<double>& hot) {
    const std::vector<double>& best = own.empty() ? hot : own;
    return best.empty() ? 1 : geometric_mean(best);
  };
  copy_ratio_ = ratio(predicted, predicted_hot);
  expected_copy_ratio_ = ratio(expected, expected_hot);
  return {};
}

double SchemeCosts::runs_of(size_t op) const {
  return static_cast<double>(graph::runs_of(*graph_, graph_->operators[op]));
}

double SchemeCosts::cost_ns(size_t group, const KernelChoice& kernel, Stance stance) const {
  if (kernel.measured_ns > 0) return kernel.measured_ns;
  if (stance == Stance::Expected) return kernel.expected_ns * expected_ratios_[group];
  return kernel.predicted_ns * ratios_[group] * factor_of(stance);
}

double SchemeCosts::copy_ns(const KernelChoice& copy, Stance stance) const {
  if (copy.measured_ns > 0) return copy.measured_ns;
  if (stance == Stance::Expected) return copy.expected_ns * expected_copy_ratio_;
  return copy.predicted_ns * copy_ratio_ * factor_of(stance);
}

double SchemeCosts::copies_ns(const LayoutChoice& choice, Stance stance) const {
  const graph::TransformCost cost = transform_cost(stance);
  double sum = 0;
  for (const auto& [type, from, to] : choice.copies) sum += cost(type, from, to);
  return sum;
}

/// Returns the factor by which the predicted costs of unmeasured kernels are multiplied.
double SchemeCosts::factor_of(Stance stance) const {
  if (stance == Stance::Likely || stance == Stance::Expected) return 1;
  return stance == Stance::Cautious ? doubt_ : 1000 * doubt_;
}

std::vector<std::vector<graph::Scheme>> SchemeCosts::schemes(Stance stance) const {
  std::vector<std::vector<graph::Scheme>> schemes;
  for (size_t op = 0; op < group_of_.size(); ++op) {
    const size_t group = group_of_[op];
    const double runs = runs_of(op);
    schemes.emplace_back();
    for (size_t i = 0; i < kernels_[group].size(); ++i) {
      const KernelChoice& kernel = kernels_[group][i];
      const LayoutChoice& choice = choices_[group][i];
      const double cost =
          choice.moves_nothing ? copies_ns(choice, stance) : cost_ns(group, kernel, stance);
      schemes.back().push_back(
          {choice.inputs, choice.outputs, runs * cost, kernel.measured_ns > 0});
    }
  }
  return schemes;
}

graph::TransformCost SchemeCosts::transform_cost(Stance stance) const {
  return [this, stance](const graph::TensorType& type, const dsl::Layout& from,
                        const dsl::Layout& to) {
    const auto known = copies_.find(copy_key(type, from, to));
    return known == copies_.end() ? std::numeric_limits<double>::infinity()
                                  : copy_ns(known->second, stance);
  };
}

Result<KernelChoice> SchemeCosts::transform(const graph::TensorType& type, const dsl::Layout& from,
                                            const dsl::Layout& to) const {
  KernelChoice kernel;
  if (const auto known = copies_.find(copy_key(type, from, to)); known != copies_.end()) {
    kernel = known->second;
    kernel.expected_ns = copy_ns(kernel, Stance::Expected);
    return kernel;
  }
  TW_TRY(kernel.workload, transform_workload(type, from, to, state_));
  TW_TRY(const Predicted predicted, predict_(kernel.workload, Precision::Full));
  take_prediction(kernel, predicted, Precision::Full);
  return kernel;
}

double SchemeCosts::optimistic_ns(size_t group, size_t scheme) const {
  const LayoutChoice& choice = choices_[group][scheme];
  if (choice.moves_nothing) return copies_ns(choice, Stance::Likely);
  double best = cost_ns(group, kernels_[group][scheme], Stance::Likely);
  for (const KernelChoice& kernel : kernels_[group])
    if (kernel.measured_ns > 0) best = std::min(best, kernel.measured_ns);
  const auto ratio = least_ratios_.find(groups_[group].workload.op);
  if (ratio == least_ratios_.end()) return best;
  return std::min(best, kernels_[group][scheme].predicted_ns * ratio->second);
}

size_t SchemeCosts::count() const {
  size_t count = 0;
  for (const auto& kernels : kernels_) count += kernels.size();
  return count;
}

size_t SchemeCosts::count_measured() const {
  size_t count = 0;
  for (const auto& kernels : kernels_)
    count += static_cast<size_t>(std::ranges::count_if(
        kernels, [](const KernelChoice& kernel) { return kernel.measured_ns > 0; }));
  return count;
}

}  // namespace tw::tuner
