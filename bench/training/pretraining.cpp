// SPDX-License-Identifier: Apache-2.0
#include "bench/training/pretraining.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <set>

#include "base/hash.h"
#include "cost_model/cost_model.h"
#include "cost_model/features.h"
#include "dsl/workload.h"
#include "tools/reports/report.h"
#include "tuner/search/diversity.h"

namespace tw::bench {
namespace {

using cost_model::CorpusTrial;
using cost_model::Pretrained;
using tuner::Recording;

constexpr int folds = 5;
constexpr size_t few = 4;

/// The natural logarithms of the figures of Picks for one recording. They are summed over
/// recordings.
struct Logs {
  double first = 0, four = 0, diverse = 0, factor = 0;
};

/// Returns the figures of one recording for a model. `times` has, for each trial, the base-2
/// logarithm of the time in ns that the model predicts.
Logs logs_of(const Recording& recording, const std::vector<double>& times) {
  std::vector<size_t> order(times.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<tuner::BatchCandidate> candidates;
  for (size_t i = 0; i < times.size(); ++i) {
    const std::vector<float>& features = recording.trials[i].features;
    const double time = cost_model::ordering_time(cost_model::analytic_time_of(features), times[i]);
    candidates.push_back({-time, cost_model::ScaledFeatures(features)});
  }
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return candidates[i].score; });
  order.resize(std::min(few, order.size()));
  const auto best_of = [&](const std::vector<size_t>& picks) {
    double best = 0;
    for (const size_t i : picks) best = std::max(best, recording.trials[i].throughput);
    return std::log(best / recording.best);
  };
  Logs logs{best_of({order[0]}), best_of(order),
            best_of(tuner::choose_diverse(candidates, {}, few)), 0};
  for (size_t i = 0; i < times.size(); ++i)
    logs.factor +=
        std::abs(times[i] * std::numbers::ln2 + std::log(recording.trials[i].throughput)) /
        static_cast<double>(times.size());
  return logs;
}

/// Sums of Logs over recordings.
struct Sum {
  int64_t count = 0;
  Logs total;
  double least = 0;

  void add(const Logs& logs) {
    ++count;
    total.first += logs.first;
    total.four += logs.four;
    total.diverse += logs.diverse;
    total.factor += logs.factor;
    least = std::min(least, logs.first);
  }
  Picks picks() const {
    const auto mean = [&](double sum) { return std::exp(sum / static_cast<double>(count)); };
    return {mean(total.first), std::exp(least), mean(total.four), mean(total.diverse),
            mean(total.factor)};
  }
};

std::string kind_of(const Recording& recording) {
  return recording.name.substr(0, recording.name.rfind('_'));
}

/// Returns the text of the workload without the state of the caches. So recordings of one workload
/// in several states have the same text, and are left out of the training together.
std::string shape_of(const Recording& recording) {
  auto workload = dsl::parse_workload(recording.workload);
  if (!workload) return recording.workload;
  workload->state = dsl::CacheState::Hot;
  return workload->text();
}

/// Returns the name of the part of the corpus that contains the recording.
std::string part_of(const Recording& recording, LeftOut left_out) {
  switch (left_out) {
    case LeftOut::Workloads:
      return std::to_string(short_hash_number(shape_of(recording)) % folds);
    case LeftOut::Kinds:
      return kind_of(recording);
    case LeftOut::Targets:
      return recording.target.to_string();
    case LeftOut::Machines:
      break;
  }
  return recording.target.machine.name;
}

Result<Pretrained> train_on(const std::vector<Recording>& recordings,
                            const std::function<bool(const Recording&)>& takes) {
  std::vector<CorpusTrial> trials;
  for (const Recording& recording : recordings) {
    if (!takes(recording)) continue;
    for (const cost_model::Sample& trial : recording.trials)
      trials.push_back(
          {trial.features, &recording.target.machine, 1 / trial.throughput, 1 / recording.best});
  }
  return Pretrained::train(trials);
}

struct Sums {
  Sum analytic, pretrained;
};

Status judge(const Recording& recording, const Pretrained& model,
             std::map<std::string, Sums>& by_kind) {
  std::vector<const std::vector<float>*> rows;
  std::vector<double> analytic;
  for (const cost_model::Sample& trial : recording.trials) {
    rows.push_back(&trial.features);
    analytic.push_back(cost_model::analytic_time_of(trial.features));
  }
  TW_TRY(const std::vector<double> pretrained, model.times(rows, recording.target.machine));
  for (const std::string& kind : {kind_of(recording), std::string()}) {
    by_kind[kind].analytic.add(logs_of(recording, analytic));
    by_kind[kind].pretrained.add(logs_of(recording, pretrained));
  }
  return {};
}

}  // namespace

std::string_view to_string(LeftOut left_out) {
  constexpr std::string_view names[] = {"workloads", "kinds", "targets", "machines"};
  return names[static_cast<size_t>(left_out)];
}

Result<Pretrained> pretrain(const std::vector<Recording>& recordings) {
  return train_on(recordings, [](const Recording&) { return true; });
}

Result<std::vector<Judged>> judge_pretraining(const std::vector<Recording>& recordings) {
  std::vector<Judged> rows;
  for (const LeftOut left_out :
       {LeftOut::Workloads, LeftOut::Kinds, LeftOut::Targets, LeftOut::Machines}) {
    std::map<const Recording*, std::string> part_with;
    std::set<std::string> parts;
    for (const Recording& recording : recordings)
      parts.insert(part_with[&recording] = part_of(recording, left_out));
    if (parts.size() < 2) continue;
    std::map<std::string, Sums> by_kind;
    for (const std::string& part : parts) {
      const auto is_left_out = [&](const Recording& recording) {
        return part_with.at(&recording) == part;
      };
      TW_TRY(const Pretrained model, train_on(recordings, std::not_fn(is_left_out)));
      for (const Recording& recording : recordings)
        if (is_left_out(recording)) TW_RETURN_IF_ERROR(judge(recording, model, by_kind));
    }
    for (const auto& [kind, sums] : by_kind)
      rows.push_back(
          {left_out, kind, sums.analytic.count, sums.analytic.picks(), sums.pretrained.picks()});
  }
  return rows;
}

nlohmann::json as_json(const std::vector<Judged>& rows) {
  const auto picks = [](const Picks& p) {
    return nlohmann::json{{"first", p.first},
                          {"least", p.least},
                          {"four", p.four},
                          {"diverse", p.diverse},
                          {"factor", p.factor}};
  };
  nlohmann::json all = nlohmann::json::array();
  for (const Judged& row : rows)
    all.push_back({{"left_out", to_string(row.left_out)},
                   {"kind", row.kind.empty() ? "all" : row.kind},
                   {"recordings", row.recordings},
                   {"analytic", picks(row.analytic)},
                   {"pretrained", picks(row.pretrained)}});
  return all;
}

std::string as_table(const std::vector<Judged>& rows) {
  tools::Table table{
      {"left out", "kind", "recordings", "first pick", "pretrained", "least", "pretrained",
       "best of 4", "pretrained", "that differ", "pretrained", "off by", "pretrained"},
      {}};
  const auto shown = [](double value) { return fmt::format("{:.3f}", value); };
  for (const Judged& row : rows) {
    const Picks &a = row.analytic, &p = row.pretrained;
    table.rows.push_back({std::string(to_string(row.left_out)), row.kind.empty() ? "all" : row.kind,
                          std::to_string(row.recordings), shown(a.first), shown(p.first),
                          shown(a.least), shown(p.least), shown(a.four), shown(p.four),
                          shown(a.diverse), shown(p.diverse), shown(a.factor), shown(p.factor)});
  }
  return tools::as_text(table);
}

}  // namespace tw::bench
