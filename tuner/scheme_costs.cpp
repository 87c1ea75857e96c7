// SPDX-License-Identifier: Apache-2.0
#include "tuner/scheme_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "codegen/abi.h"
#include "cost_model/analytic.h"
#include "schedules/schedule.h"
#include "tuner/bandwidth.h"
#include "tuner/device.h"
#include "tuner/scoring.h"
#include "tuner/tune.h"

namespace tw::tuner {
namespace {

// A copy from one layout to another reads or writes in short runs, so it reaches about half of the
// bandwidth of a plain one; a call of a kernel on several threads begins and ends with a barrier.
constexpr double copy_efficiency = 0.5, call_ns = 300, barrier_ns = 2000;

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

int64_t bytes_of(const graph::TensorType& type, const dsl::Layout& layout) {
  int64_t elements = 1;
  for (const int64_t extent : layout.storage_shape(type.shape)) elements *= extent;
  return elements * size_bytes(type.dtype);
}

/// Bytes in a nanosecond that `threads` cores read of arrays of this size.
double read_rate(int64_t footprint, const Target& target, int threads) {
  const Machine& machine = target.machine;
  const double ghz = machine.core.clock_ghz, cores = threads;
  const std::string_view level = level_of(footprint, target, threads).name;
  if (level == "memory")
    return machine.memory_bytes_per_cycle * ghz * std::min(cores, machine.cores_that_fill_memory);
  const size_t index = level == "L1" ? 0 : level == "L2" ? 1 : 2;
  return machine.caches[index].bytes_per_cycle * ghz * cores;
}

/// Calls f(0), ..., f(count - 1) on all cores of this machine.
template <typename F>
void on_all_cores(size_t count, const F& f) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) f(i);
  };
  std::vector<std::jthread> others;
  for (int core = 1; core < host_target().machine.cores; ++core) others.emplace_back(work);
  work();
}

tl::unexpected<Error> interrupted_predicting() {
  return fail(ErrorCode::Interrupted, "[network] interrupted while kernels were predicted");
}

Result<Predicted> predict_schedule(const dsl::Workload& workload, const Target& target, int threads,
                                   const std::function<bool()>& stops) {
  Predicted predicted;
  TW_TRY(predicted.schedule,
         predicted_schedule(schedules::problem_of(workload), target, threads, stops));
  TW_TRY(const schedules::Schedule schedule,
         schedules::parse_schedule(workload.compute, predicted.schedule));
  TW_TRY(const schedules::Program program, schedule.program(schedules::limits_of(target)));
  TW_TRY(predicted.analytic_ns, cost_model::analytic_cost_ns(program, target, threads));
  return predicted;
}

}  // namespace

Predict predict_for(const Target& target, int threads, std::function<bool()> stops) {
  return [target, threads, stops = std::move(stops)](const dsl::Workload& workload) {
    return predict_schedule(workload, target, threads, stops);
  };
}

SchemeCosts::SchemeCosts(const graph::Graph& graph, CostContext context, Predict predict)
    : graph_(&graph),
      context_(std::move(context)),
      predict_(std::move(predict)),
      groups_(group_operators(graph)),
      group_of_(graph.operators.size()),
      ratios_(groups_.size(), 1) {
  for (size_t group = 0; group < groups_.size(); ++group)
    for (const size_t op : groups_[group].operators) group_of_[op] = group;
}

Result<SchemeCosts> SchemeCosts::predict(const graph::Graph& graph, const CostContext& context,
                                         db::Store& store, Predict predict) {
  SchemeCosts costs(graph, context, std::move(predict));
  TW_RETURN_IF_ERROR(costs.offer(store));
  TW_RETURN_IF_ERROR(costs.predict_all());
  return costs;
}

Status SchemeCosts::offer(db::Store& store) {
  for (const OperatorGroup& group : groups_) {
    std::vector<LayoutChoice> known;
    if (!group.moves_nothing) {
      TW_TRY(known, known_layouts(store, group, context_.target, context_.threads));
    }
    choices_.push_back(offered_layouts(group, context_.target.machine, known));
    kernels_.emplace_back();
    for (const LayoutChoice& choice : choices_.back())
      kernels_.back().push_back({with_choice(group, choice)});
  }
  return {};
}

Status SchemeCosts::predict_all() {
  std::vector<std::pair<size_t, size_t>> jobs;
  std::vector<std::vector<Result<Predicted>>> predicted(groups_.size());
  for (size_t group = 0; group < groups_.size(); ++group) {
    predicted[group].assign(kernels_[group].size(), Predicted());
    if (groups_[group].moves_nothing) continue;
    for (size_t i = 0; i < kernels_[group].size(); ++i) jobs.emplace_back(group, i);
  }
  on_all_cores(jobs.size(), [&](size_t job) {
    const auto [group, i] = jobs[job];
    predicted[group][i] =
        context_.stops() ? interrupted_predicting() : predict_(kernels_[group][i].workload);
  });
  if (context_.stops()) return interrupted_predicting();
  for (size_t group = 0; group < groups_.size(); ++group)
    TW_RETURN_IF_ERROR(keep_supported(group, predicted[group]));
  return {};
}

/// Drops the schemes that cannot be scheduled.
Status SchemeCosts::keep_supported(size_t group, const std::vector<Result<Predicted>>& predicted) {
  std::vector<LayoutChoice> choices;
  std::vector<KernelChoice> kernels;
  for (size_t i = 0; i < predicted.size(); ++i) {
    if (!predicted[i]) continue;
    choices.push_back(std::move(choices_[group][i]));
    kernels.push_back(std::move(kernels_[group][i]));
    kernels.back().schedule = predicted[i]->schedule;
    kernels.back().predicted_ns = predicted[i]->analytic_ns;
  }
  choices_[group] = std::move(choices);
  kernels_[group] = std::move(kernels);
  if (!kernels_[group].empty()) return {};
  const Error& why = predicted.front().error();
  const graph::Operator& op = graph_->operators[groups_[group].operators.front()];
  return fail(why.code, fmt::format("[network] operator '{}' ({}): {}", op.name(), op.workload.op,
                                    why.message));
}

Status SchemeCosts::refresh(db::Store& store) {
  for (size_t group = 0; group < groups_.size(); ++group)
    if (!groups_[group].moves_nothing) TW_RETURN_IF_ERROR(refresh_group(store, group));
  learn_ratios();
  return refresh_copies(store);
}

Status SchemeCosts::refresh_group(db::Store& store, size_t group) {
  const std::string device = device_text(context_.target);
  const auto take = [&](KernelChoice& kernel, const db::Record& record) {
    const bool is_here = record.device == device;
    if (is_here && kernel.measured_ns > 0 && kernel.measured_ns <= record.latency_ns) return;
    if (!is_here && kernel.measured_ns > 0) return;
    kernel.schedule = record.schedule;
    if (is_here) kernel.measured_ns = record.latency_ns;
  };
  for (KernelChoice& kernel : kernels_[group]) {
    TW_TRY(const auto record,
           best_known(store, kernel.workload, context_.target, context_.threads));
    if (record) take(kernel, *record);
  }
  // The time of an operator by name is that of its kernel on packed arrays, so one that was free to
  // choose its layouts is as good. An expression's time has the conversions in it.
  const dsl::Workload& workload = groups_[group].workload;
  if (workload.op == "expr") return {};
  TW_TRY(const auto free, best_known(store, workload, context_.target, context_.threads));
  if (!free) return {};
  TW_TRY(const LayoutChoice chosen, layouts_of_schedule(workload.compute, free->schedule));
  for (size_t i = 0; i < choices_[group].size(); ++i)
    if (is_same_choice(groups_[group], choices_[group][i], chosen)) take(kernels_[group][i], *free);
  return {};
}

/// What measured schemes took against their predictions: of the group itself, else of those with
/// the same operator, else of all.
void SchemeCosts::learn_ratios() {
  std::vector<double> all;
  std::map<std::string, std::vector<double>> by_operator;
  std::vector<std::vector<double>> own(groups_.size());
  for (size_t group = 0; group < groups_.size(); ++group)
    for (const KernelChoice& kernel : kernels_[group]) {
      if (kernel.measured_ns <= 0 || kernel.predicted_ns <= 0) continue;
      const double ratio = kernel.measured_ns / kernel.predicted_ns;
      all.push_back(ratio);
      by_operator[groups_[group].workload.op].push_back(ratio);
      own[group].push_back(ratio);
    }
  for (const auto& [op, ratios] : by_operator)
    least_ratios_[op] = *std::ranges::min_element(ratios);
  for (size_t group = 0; group < groups_.size(); ++group) {
    const auto& same = by_operator[groups_[group].workload.op];
    const auto& best = !own[group].empty() ? own[group] : !same.empty() ? same : all;
    ratios_[group] = best.empty() ? 1 : geometric_mean(best);
  }
}

Status SchemeCosts::refresh_copies(db::Store& store) {
  std::set<std::string> seen;
  for (const auto& [name, type] : graph::tensor_types(*graph_)) {
    if (type.shape.empty() || graph_->constants.contains(name)) continue;
    if (!seen.insert(type.to_string()).second) continue;
    const dsl::Layout plain = dsl::Layout::row_major(static_cast<int>(type.shape.size()));
    TW_TRY(dsl::Workload copy, transform_workload(type, plain, plain));
    db::Filter filter;
    filter.workload = copy.key();
    filter.target = context_.target.to_string();
    filter.device = device_text(context_.target);
    filter.threads = context_.threads;
    filter.codegen_abi = codegen::codegen_abi;
    filter.status = db::TrialStatus::Ok;
    std::set<std::string> layouts;
    TW_RETURN_IF_ERROR(store.for_each(filter, [&](const db::Record& record) {
      layouts.insert(record.layouts);
      return true;
    }));
    for (const std::string& text : layouts) {
      TW_TRY(copy.layouts, dsl::parse_layouts(text));
      TW_TRY(const auto best, best_known(store, copy, context_.target, context_.threads));
      if (best) copies_[copy.text()] = {best->schedule, best->latency_ns};
    }
  }
  return {};
}

double SchemeCosts::cost_ns(size_t group, const KernelChoice& kernel) const {
  return kernel.measured_ns > 0 ? kernel.measured_ns : kernel.predicted_ns * ratios_[group];
}

std::vector<std::vector<graph::Scheme>> SchemeCosts::schemes() const {
  std::vector<std::vector<graph::Scheme>> schemes;
  for (const size_t group : group_of_) {
    schemes.emplace_back();
    for (size_t i = 0; i < kernels_[group].size(); ++i) {
      const KernelChoice& kernel = kernels_[group][i];
      schemes.back().push_back({choices_[group][i].inputs, choices_[group][i].outputs,
                                cost_ns(group, kernel), kernel.measured_ns > 0});
    }
  }
  return schemes;
}

double SchemeCosts::assumed_copy_ns(const graph::TensorType& type, const dsl::Layout& from,
                                    const dsl::Layout& to) const {
  const int64_t bytes = bytes_of(type, from) + bytes_of(type, to);
  const double rate = copy_efficiency * read_rate(bytes, context_.target, context_.threads);
  return call_ns + (context_.threads > 1 ? barrier_ns : 0) + static_cast<double>(bytes) / rate;
}

graph::TransformCost SchemeCosts::transform_cost() const {
  return [this](const graph::TensorType& type, const dsl::Layout& from, const dsl::Layout& to) {
    if (!copies_.empty())
      if (const auto copy = transform_workload(type, from, to))
        if (const auto known = copies_.find(copy->text()); known != copies_.end())
          return known->second.latency_ns;
    return assumed_copy_ns(type, from, to);
  };
}

Result<KernelChoice> SchemeCosts::transform(const graph::TensorType& type, const dsl::Layout& from,
                                            const dsl::Layout& to) const {
  KernelChoice kernel;
  TW_TRY(kernel.workload, transform_workload(type, from, to));
  const auto known = copies_.find(kernel.workload.text());
  if (known != copies_.end()) {
    kernel.schedule = known->second.schedule;
    kernel.measured_ns = known->second.latency_ns;
    return kernel;
  }
  TW_TRY(const Predicted predicted, predict_(kernel.workload));
  kernel.schedule = predicted.schedule;
  kernel.predicted_ns = predicted.analytic_ns;
  return kernel;
}

double SchemeCosts::optimistic_ns(size_t group, size_t scheme) const {
  double best = cost_ns(group, kernels_[group][scheme]);
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
