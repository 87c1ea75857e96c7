// SPDX-License-Identifier: Apache-2.0
#include "bench/ablation_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text.h"
#include "bench/ablation.h"
#include "tools/imported_model.h"
#include "tools/reports/progress.h"
#include "tools/reports/report.h"

namespace tw::bench {
namespace {

/// Imports all networks, so that a wrong name is reported before the first network is tuned.
Result<std::vector<tools::ImportedModel>> import_all(const Call& call) {
  TW_TRY(const std::vector<tuner::Dimensions> sets,
         tools::dimension_sets(call.flags.dimensions, "bench"));
  if (sets.size() > 1)
    return fail(ErrorCode::Usage, "[bench] --dim: of --ablation expected one value a dimension");
  std::vector<tools::ImportedModel> models;
  for (const std::string& name : split(call.flags.model, ',')) {
    TW_TRY(tools::ImportedModel model,
           tools::import_model({.model = std::string(trim(name)), .dimensions = sets.front()},
                               call.target, call.flags.place, call.here,
                               *call.environment.interrupts));
    models.push_back(std::move(model));
  }
  return models;
}

Result<Ablation> ablation_of(const Call& call, const tools::ImportedModel& model, int threads,
                             db::Store& store) {
  AblationOptions options;
  options.tuning = call.tuning(threads);
  options.rounds = static_cast<int>(call.flags.rounds);
  options.seed = static_cast<uint64_t>(call.flags.seed);
  tools::ProgressDisplay display(call.here, fmt::format("tuning all plans of {} on {}", model.name,
                                                        counted(threads, "thread")));
  return measure_ablation(model.name, model.graph, call.target, options, store, call.environment,
                          [&](const tuner::Progress& progress) { display.update(progress); });
}

/// Measures the ablation of each network, and appends the results to `ablations` until one fails.
Status measure_all(const Call& call, std::vector<Ablation>& ablations) {
  TW_TRY(const std::vector<tools::ImportedModel> models, import_all(call));
  TW_TRY(db::Store store,
         tools::open_database(call.flags.place, call.here, db::OpenMode::ReadWrite));
  for (const int threads : call.threads)
    for (const tools::ImportedModel& model : models) {
      TW_TRY(Ablation ablation, ablation_of(call, model, threads, store));
      ablations.push_back(std::move(ablation));
    }
  return {};
}

bool is_complete(const Ablation& ablation) {
  return std::ranges::all_of(ablation.rows,
                             [](const AblationRow& row) { return row.error.empty(); });
}

}  // namespace

Result<int> run_ablation(const Call& call) {
  std::vector<Ablation> ablations;
  const Status measured = measure_all(call, ablations);
  if (!ablations.empty())
    TW_RETURN_IF_ERROR(publish(call, as_json(ablations), as_table(ablations)));
  TW_RETURN_IF_ERROR(measured);
  return std::ranges::all_of(ablations, is_complete) ? 0 : static_cast<int>(ErrorCode::NoCandidate);
}

}  // namespace tw::bench
