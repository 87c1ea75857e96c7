// SPDX-License-Identifier: Apache-2.0
#include "bench/scoring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/random.h"
#include "bench/report.h"
#include "cost_model/cost_model.h"
#include "tools/reports/report.h"
#include "tuner/search/scoring.h"

namespace tw::bench {
namespace {

using schedules::Point;
using Rows = std::vector<std::vector<float>>;

constexpr size_t samples_of_model = cost_model::most_kernels;
// Number of points of a workload whose scoring is timed stage by stage.
constexpr size_t staged_points = 200;

double seconds_of(const tuner::Clock& clock, const std::function<void()>& work) {
  const int64_t start_ns = clock();
  work();
  return static_cast<double>(clock() - start_ns) * 1e-9;
}

std::vector<Point> points_of(const schedules::Space& space, int64_t count, Random& random) {
  std::vector<Point> points;
  for (int64_t i = 0; i < count; ++i)
    points.push_back(i % 2 == 0
                         ? space.sample(random)
                         : space.mutate(points[static_cast<size_t>(random.below(i))], random));
  return points;
}

/// Times the stages of scoring one by one, for the first points, on one thread.
void time_stages(const schedules::Space& space, const std::vector<Point>& points,
                 const Target& target, const tuner::Clock& clock, Scoring& row) {
  const size_t count = std::min(points.size(), staged_points);
  std::vector<schedules::Schedule> made;
  std::vector<schedules::Program> programs;
  const double schedule_s = seconds_of(clock, [&] {
    for (size_t i = 0; i < count; ++i) {
      made.push_back(space.schedule(points[i]));
      (void)made.back().to_string();
    }
  });
  const double lower_s = seconds_of(clock, [&] {
    const schedules::Limits limits = schedules::limits_searched(target);
    for (const schedules::Schedule& schedule : made)
      if (auto program = schedule.program(limits)) programs.push_back(std::move(*program));
  });
  const double features_s = seconds_of(clock, [&] {
    for (const schedules::Program& program : programs)
      (void)cost_model::extract_features(program, target, 1);
  });
  const auto each = [](double seconds, size_t times) {
    return 1e6 * seconds / static_cast<double>(std::max<size_t>(times, 1));
  };
  row.schedule_us = each(schedule_s, count);
  row.lower_us = each(lower_s, count);
  row.features_us = each(features_s, programs.size());
}

/// Makes samples with made-up throughputs, which a model can learn and which the analytic model
/// does not predict.
std::vector<cost_model::Sample> made_up_samples(const std::vector<Rows>& rows_of_items,
                                                Random& random) {
  std::vector<double> weights;
  for (size_t i = 0; i < cost_model::feature_count(); ++i) weights.push_back(2 * random.unit() - 1);
  std::vector<uint64_t> groups;  // ranking groups of the items that have candidates
  for (size_t i = 0; i < rows_of_items.size(); ++i)
    if (!rows_of_items[i].empty()) groups.push_back(i);
  std::vector<cost_model::Sample> samples;
  while (!groups.empty() && samples.size() < samples_of_model) {
    cost_model::Sample sample;
    sample.group = groups[samples.size() % groups.size()];
    sample.features = random.pick(rows_of_items[sample.group]);
    double logarithm = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double x = sample.features[i];
      logarithm += weights[i] * x / (1 + std::fabs(x));
    }
    sample.throughput = std::exp(logarithm + 0.05 * random.unit());
    samples.push_back(std::move(sample));
  }
  return samples;
}

double sum(const std::vector<Scoring>& rows, double (*of)(const Scoring&)) {
  double total = 0;
  for (const Scoring& row : rows) total += of(row);
  return total;
}

double ratio(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

}  // namespace

double Scoring::per_second() const { return ratio(static_cast<double>(points), elapsed_s); }
double Scoring::legal_per_second() const { return ratio(static_cast<double>(legal), elapsed_s); }

double ScoringReport::per_second() const {
  return ratio(sum(rows, [](const Scoring& r) { return static_cast<double>(r.points); }),
               sum(rows, [](const Scoring& r) { return r.elapsed_s; }));
}
double ScoringReport::legal_per_second() const {
  return ratio(sum(rows, [](const Scoring& r) { return static_cast<double>(r.legal); }),
               sum(rows, [](const Scoring& r) { return r.elapsed_s; }));
}

Result<ScoringReport> measure_scoring(const std::vector<Item>& items, const Target& target,
                                      const ScoringOptions& options, const tuner::Clock& clock) {
  Random random(options.seed);
  ScoringReport report{options, {}, 0, 0};
  std::vector<Rows> rows_of_items;
  for (const Item& item : items) {
    const auto space = schedules::Space::derive(item.workload.compute, target);
    const std::vector<Point> points = points_of(space, options.points, random);
    Scoring row;
    row.name = item.name;
    row.workload = item.workload.key();
    row.points = static_cast<int64_t>(points.size());
    std::vector<std::optional<tuner::Candidate>> candidates;
    row.elapsed_s = seconds_of(clock, [&] {
      candidates = tuner::candidates_of(space, points, target, {}, {1, options.threads});
    });
    Rows rows;
    for (auto& candidate : candidates)
      if (candidate) rows.push_back(std::move(candidate->features));
    row.legal = static_cast<int64_t>(rows.size());
    time_stages(space, points, target, clock, row);
    report.rows.push_back(std::move(row));
    rows_of_items.push_back(std::move(rows));
  }

  cost_model::CostModel model;
  const auto samples = made_up_samples(rows_of_items, random);
  Status added;
  report.samples = static_cast<int64_t>(samples.size());
  report.learn_s = seconds_of(clock, [&] {
    added = model.add(samples);
    (void)model.for_group(0);
  });
  TW_RETURN_IF_ERROR(added);
  for (size_t i = 0; i < items.size(); ++i) {
    Scoring& row = report.rows[i];
    const cost_model::WorkloadModel known = model.for_group(i);
    const double predict_s = seconds_of(clock, [&] { (void)known.predict(rows_of_items[i]); });
    row.elapsed_s += predict_s;
    row.predict_us = 1e6 * predict_s / static_cast<double>(std::max<int64_t>(row.legal, 1));
  }
  return report;
}

nlohmann::json as_json(const ScoringReport& report) {
  nlohmann::json json = {
      {"schema_version", results_schema_version}, {"threads", report.options.threads},
      {"points_per_s", report.per_second()},      {"legal_per_s", report.legal_per_second()},
      {"learn_samples", report.samples},          {"learn_s", report.learn_s},
      {"scoring", nlohmann::json::array()}};
  for (const Scoring& r : report.rows)
    json["scoring"].push_back({{"name", r.name},
                               {"workload", r.workload},
                               {"points", r.points},
                               {"legal", r.legal},
                               {"elapsed_s", r.elapsed_s},
                               {"points_per_s", r.per_second()},
                               {"legal_per_s", r.legal_per_second()},
                               {"schedule_us", r.schedule_us},
                               {"lower_us", r.lower_us},
                               {"features_us", r.features_us},
                               {"predict_us", r.predict_us}});
  return json;
}

std::string as_table(const ScoringReport& report) {
  tools::Table table;
  table.header = {"workload",    "points",   "legal",       "points/s",  "legal/s",
                  "schedule us", "lower us", "features us", "predict us"};
  for (const Scoring& r : report.rows)
    table.rows.push_back(
        {r.name, std::to_string(r.points), std::to_string(r.legal),
         fmt::format("{:.0f}", r.per_second()), fmt::format("{:.0f}", r.legal_per_second()),
         fmt::format("{:.1f}", r.schedule_us), fmt::format("{:.1f}", r.lower_us),
         fmt::format("{:.1f}", r.features_us), fmt::format("{:.1f}", r.predict_us)});
  return tools::as_text(table) + fmt::format(
                                     "all: {:.0f} points/s, {:.0f} of them legal, on {} threads\n"
                                     "corrections by {} trials: {:.3f} s\n",
                                     report.per_second(), report.legal_per_second(),
                                     report.options.threads, report.samples, report.learn_s);
}

}  // namespace tw::bench
