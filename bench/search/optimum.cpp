// SPDX-License-Identifier: Apache-2.0
#include "bench/search/optimum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "bench/report.h"
#include "cost_model/features.h"
#include "schedules/problem.h"
#include "schedules/schedule.h"
#include "tools/reports/report.h"
#include "tuner/search/scoring.h"

namespace tw::bench {
namespace {

using schedules::Point;
using schedules::Space;

// Number of samples that are rated together.
constexpr int64_t samples_at_once = 1'000;
// The largest number of samples that are drawn for each legal sample that is asked for.
constexpr int64_t most_drawn = 100;

double predicted_ns(const tuner::Candidate& candidate) {
  return std::exp2(cost_model::ordering_time_of(candidate.features)) - 1;
}

/// Adds the samples of one batch to the result of the workload.
void add_samples(const Space& space, const std::vector<Point>& points,
                 const OptimumOptions& options, Optimum& row) {
  const auto judged = tuner::judge_points(
      space, points, space.target(), {},
      {.kernel_threads = options.kernel_threads, .workers = options.workers, .stop = options.stop});
  row.drawn += static_cast<int64_t>(points.size());
  for (const tuner::JudgedPoint& one : judged) {
    if (!one.candidate || cost_model::gpu_spills_of(one.candidate->features) > 0) continue;
    ++row.samples;
    const double ns = predicted_ns(*one.candidate);
    if (ns >= row.best_ns) continue;
    row.best_ns = ns;
    row.best = one.candidate->configuration;
  }
}

}  // namespace

Result<Optimum> measure_optimum(const Item& item, const Target& target,
                                const OptimumOptions& options, const tuner::Clock& clock) {
  const schedules::Problem problem = schedules::problem_of(item.workload);
  TW_TRY(const Space space, Space::derive(problem, target, options.stop));
  Optimum row;
  row.name = item.name;
  row.workload = item.workload.key();
  row.best_ns = std::numeric_limits<double>::infinity();
  const int64_t start_ns = clock();
  TW_TRY(const std::string text, tuner::predicted_schedule(space, options.kernel_threads,
                                                           options.stop, tuner::effort_of_kernel));
  row.choosing_s = static_cast<double>(clock() - start_ns) * 1e-9;
  TW_TRY(const schedules::Schedule schedule, schedules::parse_schedule(problem.compute, text));
  TW_TRY(const tuner::Candidate chosen,
         tuner::candidate_of(schedule, space, problem, options.kernel_threads));
  row.chosen_ns = predicted_ns(chosen);
  row.chosen = chosen.configuration;
  Random random(options.seed);
  while (row.samples < options.samples && row.drawn < most_drawn * options.samples &&
         !options.stop.is_stopped()) {
    std::vector<Point> points;
    for (int64_t i = 0; i < std::min(samples_at_once, options.samples - row.samples); ++i)
      points.push_back(space.sample(random));
    add_samples(space, points, options, row);
  }
  TW_RETURN_IF_ERROR(check_not_stopped(options.stop, "bench"));
  return row;
}

nlohmann::json as_json(const std::vector<Optimum>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Optimum& row : rows) {
    nlohmann::json one = {{"name", row.name},
                          {"workload", row.workload},
                          {"chosen_us", us(row.chosen_ns)},
                          {"samples", row.samples},
                          {"drawn", row.drawn},
                          {"choosing_s", row.choosing_s},
                          {"schedule", {{"chosen", row.chosen}, {"best", row.best}}}};
    if (std::isfinite(row.best_ns)) {
      one["best_us"] = us(row.best_ns);
      one["ratio"] = row.ratio();
    }
    list.push_back(std::move(one));
  }
  return list;
}

std::string as_table(const std::vector<Optimum>& rows) {
  tools::Table table;
  table.header = {"workload", "chosen us", "best sample us", "ratio", "samples", "drawn", "s"};
  double most = 0;
  int64_t behind = 0;
  for (const Optimum& row : rows) {
    const bool compares = std::isfinite(row.best_ns);
    most = std::max(most, row.ratio());
    behind += row.ratio() > most_behind;
    table.rows.push_back({row.name, fmt::format("{:.2f}", us(row.chosen_ns)),
                          compares ? fmt::format("{:.2f}", us(row.best_ns)) : "-",
                          compares ? fmt::format("{:.3f}", row.ratio()) : "-",
                          std::to_string(row.samples), std::to_string(row.drawn),
                          fmt::format("{:.1f}", row.choosing_s)});
  }
  return tools::as_text(table) +
         fmt::format(
             "{} of {} choices are more than {:.0f} % behind the best sample; "
             "the highest ratio is {:.3f}\n",
             behind, rows.size(), 100 * (most_behind - 1), most);
}

}  // namespace tw::bench
