// SPDX-License-Identifier: Apache-2.0
#include "bench/ablation_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "bench/ablation.h"
#include "tools/imported_model.h"
#include "tools/progress.h"

namespace tw::bench {
namespace {

Result<Ablation> ablation_of(const Call& call, const std::string& model, int threads,
                             db::Store& store) {
  TW_TRY(const tools::ImportedModel imported,
         tools::import_model({model, call.flags.dimensions, {}}, "bench", call.flags.place,
                             call.here, *call.environment.interrupts));
  AblationOptions options;
  options.tuning = call.tuning(threads);
  options.rounds = static_cast<int>(call.flags.rounds);
  options.seed = static_cast<uint64_t>(call.flags.seed);
  tools::ProgressDisplay display(
      call.here, fmt::format("tuning all plans of {} on {} threads", imported.name, threads));
  return measure_ablation(imported.name, imported.graph, call.target, options, store,
                          call.environment,
                          [&](const tuner::Progress& progress) { display.update(progress); });
}

bool is_complete(const Ablation& ablation) {
  return std::ranges::all_of(ablation.rows,
                             [](const AblationRow& row) { return row.error.empty(); });
}

}  // namespace

Result<int> run_ablation(const Call& call) {
  TW_TRY(db::Store store,
         tools::open_database(call.flags.place, call.here, db::OpenMode::ReadWrite));
  std::vector<Ablation> ablations;
  for (const int threads : call.threads)
    for (const std::string& model : split(call.flags.model, ',')) {
      TW_TRY(Ablation ablation, ablation_of(call, std::string(trim(model)), threads, store));
      ablations.push_back(std::move(ablation));
    }
  TW_RETURN_IF_ERROR(publish(call, as_json(ablations), as_table(ablations)));
  return std::ranges::all_of(ablations, is_complete) ? 0 : static_cast<int>(ErrorCode::NoCandidate);
}

}  // namespace tw::bench
