// SPDX-License-Identifier: Apache-2.0
// tilewright tune --model: tunes a network from an ONNX file, and writes a file that the runtime
// loads.

#include "tuner/network/tune_model.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "base/text.h"
#include "db/server_address.h"
#include "runtime/private_file.h"
#include "tools/imported_model.h"
#include "tools/interrupts.h"
#include "tools/outputs.h"
#include "tools/reports/demand.h"
#include "tools/reports/model.h"
#include "tools/reports/progress.h"
#include "tools/tuning.h"
#include "tuner/network/prediction_cache.h"
#include "tuner/targets.h"

namespace tw::tools {
namespace {

constexpr std::string_view default_output = "net.twart";

/// Returns what the flags say about each variant of the network: the ONNX file, values of
/// dimensions, and constant inputs. Does not read the file.
Result<std::vector<ImportFlags>> variants_of(const TuneFlags& flags) {
  TW_TRY(const std::vector<tuner::Dimensions> sets, dimension_sets(flags.dimensions, "tune"));
  TW_TRY(const Constants constants, pinned_inputs(flags.constants, "tune"));
  std::vector<ImportFlags> variants;
  for (const tuner::Dimensions& dimensions : sets)
    variants.push_back({flags.model, dimensions, constants});
  return variants;
}

Result<tuner::NetworkSource> read_source(const std::vector<ImportFlags>& variants,
                                         const PlaceFlags& place, const Surroundings& here) {
  tuner::NetworkSource source{network_name(variants.front().model), {}};
  for (const ImportFlags& variant : variants) {
    TW_TRY(source.variants.emplace_back(), read_network(variant, place, here));
  }
  return source;
}

/// Opens the database of a run. With effort None it is opened for reading, and a missing database
/// file is not created; leave_demand_of() creates it. Tables that a server lacks are created,
/// except with --dry-run.
Result<db::Store> open_store(const TuneFlags& flags, const Surroundings& here) {
  if (flags.measures()) return open_layered(flags.place, here, db::OpenMode::ReadWrite);
  Result<std::optional<db::Store>> there = open_if_there(flags.place, here);
  if (!there && db::is_server(database_path(flags.place, here)) && flags.mode != TuneMode::DryRun) {
    // The server may lack the tables. They are created, because the run will store a demand.
    Result<db::Store> made = open_layered(flags.place, here, db::OpenMode::ReadWrite);
    if (made) return made;
  }
  TW_TRY(std::optional<db::Store> known, std::move(there));
  if (known) return std::move(*known);
  return db::Store::open_absent(database_path(flags.place, here), {});
}

std::string title_of(const tuner::ModelRun& run, const TuneFlags& flags) {
  const std::string target = flags.target.target_or_host();
  const std::string dimensions =
      run.dimensions.empty() ? "" : fmt::format(" {}", tuner::dimensions_text(run.dimensions));
  const std::string without =
      run.left_out.empty() ? "" : fmt::format(" without {}", join(run.left_out, ", "));
  return fmt::format(
      "{} {}{}{}, {} for {}{}", flags.measures() ? "tuning" : "planning", run.name, dimensions,
      without, counted(std::ssize(run.graph->operators), "operator"), target,
      tuner::names_gpu(target) ? "" : " on " + counted(flags.target.threads, "thread"));
}

tuner::ModelOptions model_options(const TuneFlags& flags, const Surroundings& here,
                                  const tuner::ChosenTarget& target,
                                  const std::optional<tuner::Farm>& farm) {
  tuner::ModelOptions options;
  options.tuning = options_of(flags);
  options.accuracy = flags.workload.accuracy;
  options.precision = flags.precision;
  options.left_out = flags.left_out;
  options.path = flags.output.empty() ? std::string(default_output) : flags.output;
  if (check_cache(flags.place, here))
    options.predictions = tuner::predictions_file(cache_directory(flags.place, here), target.target,
                                                  static_cast<int>(flags.target.threads));
  options.refresh = flags.mode == TuneMode::Refresh;
  options.only_plans = flags.mode == TuneMode::DryRun;
  options.runs_here = target.runs_here();
  options.farm = farm ? &*farm : nullptr;
  // The listener owns the display. So the display ends its line when the listener is destroyed.
  options.listen = [&flags, &here](const tuner::ModelRun& run) -> tuner::OnProgress {
    auto display = std::make_shared<ProgressDisplay>(here, title_of(run, flags));
    return [display](const tuner::Progress& progress) { display->update(progress); };
  };
  return options;
}

/// Stores the demand of each variant, so that later runs on any machine find the kernels that this
/// run lacked. If the run otherwise only reads, a missing database is created for the demand. If a
/// demand cannot be stored, prints a note.
void leave_demand_of(const tuner::TunedModel& tuned, const TuneFlags& flags,
                     const Surroundings& here, db::Store& store) {
  if (tuned.demands.empty()) return;
  if (flags.measures()) return leave_demand(store, tuned.demands);
  Result<db::Store> made = open_database(flags.place, here, db::OpenMode::ReadWrite);
  if (made) return leave_demand(*made, tuned.demands);
  note(fmt::format("the demand of {} is not kept: {}", tuned.runs.front().name,
                   made.error().message));
}

}  // namespace

Result<int> tune_model(const TuneFlags& flags, const Surroundings& here,
                       const tuner::ChosenTarget& target, const std::optional<tuner::Farm>& farm) {
  const tuner::ModelOptions options = model_options(flags, here, target, farm);
  if (flags.mode != TuneMode::DryRun) {
    TW_RETURN_IF_ERROR(runtime::check_output(options.path));
    TW_RETURN_IF_ERROR(check_separate({flags.model}, {options.path, flags.report}));
  }
  TW_TRY(const std::vector<ImportFlags> variants, variants_of(flags));
  TW_RETURN_IF_ERROR(check_page(flags));
  tuner::Environment environment = tuning_environment(flags.place, here, target.device);
  environment.interrupts = &watch_interrupts();
  environment.later_interrupts = &later_interrupts();
  TW_TRY(db::Store store, open_store(flags, here));
  TW_TRY(const tuner::NetworkSource source, read_source(variants, flags.place, here));
  const Result<tuner::TunedModel> tuned =
      tuner::tune_model(source, target.target, options, store, environment);
  if (!tuned && tuned.error().code == ErrorCode::Interrupted) {
    note(tuned.error().message);
    note_missing_page(flags);
    return interrupted(here);
  }
  TW_RETURN_IF_ERROR(tuned);
  leave_demand_of(*tuned, flags, here, store);
  TW_RETURN_IF_ERROR(options.only_plans ? print_dry_run(*tuned, flags, here, target.target, store)
                                        : print_model(*tuned, flags, here));
  if (environment.interrupted()) {
    note_missing_page(flags);
    return interrupted(here);
  }
  for (const tuner::ModelRun& run : tuned->runs)
    if (run.tuned.unstored) return tl::unexpected<Error>(*run.tuned.unstored);
  TW_RETURN_IF_ERROR(write_network_page(flags, here, options.path));
  return 0;
}

}  // namespace tw::tools
