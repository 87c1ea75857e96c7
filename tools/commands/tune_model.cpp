// SPDX-License-Identifier: Apache-2.0
// tilewright tune --model: a network from its ONNX file to a file that the runtime loads.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/hash.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "db/server_address.h"
#include "graph/passes.h"
#include "tools/flags/quote.h"
#include "tools/gpu_targets.h"
#include "tools/interrupts.h"
#include "tools/model_files.h"
#include "tools/model_run.h"
#include "tools/reports/demand.h"
#include "tools/reports/difference.h"
#include "tools/reports/progress.h"
#include "tools/tuning.h"
#include "tuner/host_machine.h"
#include "tuner/network/join_models.h"
#include "tuner/network/network.h"
#include "tuner/network/network_demand.h"
#include "tuner/network/race.h"
#include "tuner/network/step_threads.h"

namespace tw::tools {
namespace {

constexpr std::string_view default_output = "net.twart";

/// Context of tuning networks: the target, the farm that measures kernels (nullopt: this machine
/// does), the database that stores records, and the environment.
struct Site {
  const Target& target;
  const std::optional<tuner::Farm>& farm;
  db::Store& store;
  const tuner::Environment& environment;
};

/// Context of building and measuring whole networks, with the kernels that were built.
struct Workshop {
  const TuneFlags& flags;
  const ChosenTarget& target;
  const tuner::Environment& environment;
  int64_t ends_ns = 0;  ///< end of the budget on the clock of the environment
  tuner::BuiltKernels kernels = {};

  double left_s() const { return static_cast<double>(ends_ns - environment.clock()) / 1e9; }
};

// The share of the budget that each measurement of whole networks takes, and that is kept for
// building the best plans.
constexpr double race_share = 0.05, longest_race_s = 10;
constexpr double building_share = 0.15, longest_building_s = 5;
// Bound on the time in which a run plans and builds after an interrupt: networks of some hundred
// distinct kernels are built in it on two cores.
constexpr double longest_closing_s = 20;
// The share of the budget for tuning a network without one of its fusions. Most of its kernels are
// those of the network with the fusion. In less than the least time, new kernels would not be
// measured.
constexpr double fusion_share = 0.1, least_fusion_s = 4;

// The largest difference of two networks that compute the same, of the largest element of an
// output: far above what rounding in another order makes in f32, far below a wrong kernel.
constexpr double most_refresh_difference = 1e-2;

/// The network after the passes for the target, whose machine is what the store knows of it.
Result<ModelRun> imported_run(const TuneFlags& flags, const Dimensions& dimensions,
                              db::Store& store, const Target& target, const Surroundings& here,
                              const std::atomic<int>& interrupts) {
  const int64_t before = here.environment.clock();
  TW_TRY(const Constants constants, pinned_inputs(flags.constants, "tune"));
  TW_TRY(const dsl::Accuracy accuracy, dsl::parse_accuracy(flags.workload.accuracy));
  ImportFlags importing{flags.model, dimensions, constants, flags.left_out, accuracy};
  if (flags.precision == "bf16") importing.precision = BFloat16;
  TW_TRY(ImportedModel imported, import_model(importing, tuner::with_known_machine(store, target),
                                              flags.place, here, interrupts));
  ModelRun run;
  run.dimensions = dimensions;
  run.name = std::move(imported.name);
  run.left_out = flags.left_out;
  run.graph = std::make_shared<const graph::Graph>(std::move(imported.graph));
  run.passes = std::move(imported.passes);
  run.importing_s = static_cast<double>(here.environment.clock() - before) / 1e9;
  return run;
}

/// SHA-256 of the name and of what the operators compute, in order: new weights change nothing.
std::string source_of(const ModelRun& run) {
  std::string text = fmt::format("{}\n{}\n", run.name, dimensions_text(run.dimensions));
  for (const graph::Operator& op : run.graph->operators) text += op.workload.text() + "\n";
  return sha256_hex(text);
}

/// The file that keeps predictions between runs; empty if there is no cache directory.
std::string predictions_file(const TuneFlags& flags, const Surroundings& here,
                             const Target& target) {
  if (!check_cache(flags.place, here)) return "";
  const std::string name =
      short_hash(fmt::format("{} {} threads", target.to_string(), flags.target.threads));
  return (std::filesystem::path(cache_directory(flags.place, here)) /
          fmt::format("predictions-{}.json", name))
      .string();
}

/// The database of a run. With effort none it is only read, and made once there is a demand to
/// keep.
Result<db::Store> open_store(const TuneFlags& flags, const Surroundings& here) {
  if (flags.effort != "none") return open_layered(flags.place, here, db::OpenMode::ReadWrite);
  Result<std::optional<db::Store>> there = open_if_there(flags.place, here);
  if (!there && db::is_server(database_path(flags.place, here)) && !flags.dry_run) {
    // A server without tables gets them for the demand.
    Result<db::Store> made = open_layered(flags.place, here, db::OpenMode::ReadWrite);
    if (made) return made;
  }
  TW_TRY(std::optional<db::Store> known, std::move(there));
  if (known) return std::move(*known);
  return db::Store::open_absent(database_path(flags.place, here), {});
}

double race_s(const TuneFlags& flags) {
  return std::min(race_share * flags.budget_s, longest_race_s);
}

/// Measurements of whole networks: the best plans by turns; on several threads also the steps on
/// one, on all of them and side by side, and the network before and after that.
int race_count(const TuneFlags& flags) { return flags.target.threads > 1 ? 3 : 1; }

bool measures(const TuneFlags& flags) { return options_of(flags).effort != tuner::Effort::None; }

/// True if whole networks are timed, by which plans and the threads of steps are chosen.
bool measures_whole(const TuneFlags& flags) { return measures(flags) || flags.refresh; }

/// The environment of what is left to do after an interrupt: time ends it, or the next interrupt.
tuner::Environment closing(tuner::Environment environment) {
  environment.interrupts = &later_interrupts();
  environment.ends_ns = environment.clock() + static_cast<int64_t>(longest_closing_s * 1e9);
  return environment;
}

tuner::NetworkOptions network_options(const TuneFlags& flags, const Surroundings& here,
                                      const Site& site) {
  tuner::NetworkOptions options;
  options.predictions = predictions_file(flags, here, site.target);
  options.tuning = options_of(flags);
  if (site.farm)
    options.start_workers = [&site](const tuner::TuneOptions& tuning) {
      return tuner::start_workers(*site.farm, tuning.threads, site.environment, tuning.timeout_s);
    };
  // If whole networks are not measured, only the plan with the lowest cost is needed.
  if (!measures_whole(flags) || site.farm)
    options.plans = 1;
  else if (measures(flags))
    options.tuning.budget_s -= race_count(flags) * race_s(flags) +
                               std::min(building_share * flags.budget_s, longest_building_s);
  return options;
}

std::string title_of(const ModelRun& run, const TuneFlags& flags) {
  const std::string target = flags.target.target_or_host();
  const std::string dimensions =
      run.dimensions.empty() ? "" : fmt::format(" {}", dimensions_text(run.dimensions));
  const std::string without =
      run.left_out.empty() ? "" : fmt::format(" without {}", join(run.left_out, ", "));
  return fmt::format("{} {}{}{}, {} for {}{}", flags.effort == "none" ? "planning" : "tuning",
                     run.name, dimensions, without,
                     counted(std::ssize(run.graph->operators), "operator"), target,
                     names_gpu(target) ? "" : " on " + counted(flags.target.threads, "thread"));
}

Status tune_watched(ModelRun& run, const tuner::NetworkOptions& options, const TuneFlags& flags,
                    const Surroundings& here, const Site& site) {
  const auto& [target, farm, store, environment] = site;
  ProgressDisplay display(here, title_of(run, flags));
  tuner::Progress start;
  if (measures(flags)) start.budget_s = options.tuning.budget_s;
  display.update(start);
  TW_TRY(run.tuned, tuner::tune_network(*run.graph, target, options, store, environment,
                                        [&](const tuner::Progress& p) { display.update(p); }));
  return {};
}

Result<tuner::BuiltModel> build(ModelRun& run, size_t plan, Workshop& shop,
                                const tuner::Environment& environment,
                                const std::vector<bool>& side_by_side = {}) {
  const int64_t before = environment.clock();
  TW_TRY(tuner::BuiltModel built,
         tuner::build_model(*run.graph, run.tuned, plan, run.name, shop.target.target,
                            static_cast<int>(shop.flags.target.threads), environment, shop.kernels,
                            side_by_side));
  run.building_s += static_cast<double>(environment.clock() - before) / 1e9;
  return built;
}

tuner::RaceOptions race_options(const Workshop& shop) {
  tuner::RaceOptions options;
  options.threads = static_cast<int>(shop.flags.target.threads);
  options.budget_s = std::clamp(shop.left_s(), 0.0, race_s(shop.flags));
  options.stop = shop.environment.stop();
  return options;
}

/// Models where they run; of a GPU with the turn on it.
struct PlacedModels {
  tuner::DeviceTurn turn;
  std::vector<runtime::Model> models;
};
Result<PlacedModels> load_all(const std::vector<runtime::ModelFile>& files, const Workshop& shop) {
  const Target& target = shop.target.target;
  PlacedModels placed;
  runtime::ModelOptions options;
  if (target.is_gpu()) {
    TW_TRY(options.device, codegen::backend_of(target).open({.index = shop.target.device}));
    TW_TRY(placed.turn, turn_on(*options.device, shop.environment.clock));
  }
  for (const runtime::ModelFile& file : files) {
    TW_TRY(runtime::Model model, runtime::Model::load(file, options));
    placed.models.push_back(std::move(model));
  }
  return placed;
}

/// Measures the best plans as wholes, by turns, and keeps the fastest. Plans with kernels that were
/// never run behind a worker's limits do not take part, nor do those that there is no time to
/// build.
Status race_plans(ModelRun& run, Workshop& shop) {
  std::vector<runtime::ModelFile> files = {run.model};
  std::vector<size_t> plans = {0}, bands = {run.bands};
  for (size_t plan = 1; plan < run.tuned.plans.size(); ++plan) {
    if (shop.left_s() < race_s(shop.flags)) break;
    TW_TRY(tuner::BuiltModel built, build(run, plan, shop, shop.environment));
    run.unverified.push_back(built.unverified);
    if (built.unverified > 0) continue;
    files.push_back(std::move(built.file));
    plans.push_back(plan);
    bands.push_back(built.bands);
  }
  TW_TRY(const PlacedModels placed, load_all(files, shop));
  const std::vector<runtime::Model>& models = placed.models;
  TW_TRY(run.measured_ns, tuner::race(models, shop.environment.clock, race_options(shop)));
  const auto fastest =
      static_cast<size_t>(std::ranges::min_element(run.measured_ns) - run.measured_ns.begin());
  run.written = plans[fastest];
  run.measured = fastest;
  run.bands = bands[fastest];
  if (fastest > 0) run.model = std::move(files[fastest]);
  return {};
}

/// The file of the plan that is written, with these bands. Requires: a choice for each band.
Result<runtime::ModelFile> file_with_bands(ModelRun& run, Workshop& shop,
                                           const std::vector<bool>& side_by_side) {
  if (std::ranges::find(side_by_side, true) == side_by_side.end()) return run.model;
  TW_TRY(tuner::BuiltModel built, build(run, run.written, shop, shop.environment, side_by_side));
  return std::move(built.file);
}

void limit_steps(runtime::ModelFile& model, const std::vector<int>& limits) {
  std::vector<runtime::ModelStep>& steps = model.variants.front().steps;
  for (size_t step = 0; step < steps.size(); ++step)
    if (limits[step] > 0) steps[step].threads = limits[step];
}

/// Limits steps that are faster on one thread to one, and runs bands of steps side by side that are
/// faster so. Times three versions of the network as wholes: unchanged, with the limits, and with
/// limits and bands. Keeps the fastest.
Status choose_threads(ModelRun& run, Workshop& shop) {
  if (shop.flags.target.threads == 1 || shop.left_s() <= 0) return {};
  const tuner::Clock& clock = shop.environment.clock;
  const std::vector<bool> all_bands(run.bands, true);
  TW_TRY(runtime::ModelFile banded, file_with_bands(run, shop, all_bands));
  TW_TRY(const runtime::Model model, runtime::Model::load(banded));
  TW_TRY(const tuner::ThreadUse use, tuner::step_threads(model, clock, race_options(shop)));
  std::vector<runtime::ModelFile> files = {run.model, run.model};
  if (use.side_by_side != all_bands) {
    TW_TRY(banded, file_with_bands(run, shop, use.side_by_side));
  }
  files.push_back(std::move(banded));
  for (size_t file = 1; file < files.size(); ++file) limit_steps(files[file], use.limits);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  if (files.size() == 1) return {};
  TW_TRY(const PlacedModels placed, load_all(files, shop));
  TW_TRY(const std::vector<double> times, tuner::race(placed.models, clock, race_options(shop)));
  const auto fastest = std::ranges::min_element(times) - times.begin();
  if (fastest == 0) return {};
  run.model = std::move(files[static_cast<size_t>(fastest)]);
  run.measured_ns[run.measured] = times[static_cast<size_t>(fastest)];
  return {};
}

/// Makes the decisions that need runs of the whole network: which plan, how many threads for each
/// step, and which steps run side by side. An interrupt and the end of the budget leave the rest of
/// them out.
Status measure_whole(ModelRun& run, Workshop& shop) {
  if (run.unverified.front() > 0 || shop.left_s() <= 0) return {};
  Status measured = race_plans(run, shop);
  if (measured) measured = choose_threads(run, shop);
  return measured || measured.error().code != ErrorCode::Interrupted ? measured : Status();
}

/// All variants as they are now.
runtime::ModelFile joined(const TunedModel& tuned) {
  std::vector<const runtime::ModelFile*> models;
  for (const ModelRun& run : tuned.runs) models.push_back(&run.model);
  return tuner::join_models(models);
}

/// Replaces the file by one with all variants.
Status write_joined(TunedModel& tuned) {
  tuned.file = joined(tuned);
  return runtime::write_model(tuned.path, tuned.file);
}

double fusion_s(const TuneFlags& flags) { return fusion_share * flags.budget_s; }

/// The passes that changed the graph and that the network may be faster without; none where no time
/// is to be spent on that.
std::vector<std::string> passes_to_doubt(const ModelRun& run, const TuneFlags& flags) {
  if (!measures(flags) || fusion_s(flags) < least_fusion_s) return {};
  std::vector<std::string> doubted;
  for (const graph::Pass& pass : graph::passes())
    if (pass.is_optional && std::ranges::any_of(run.passes, [&](const graph::PassRun& applied) {
          return applied.name == pass.name && applied.operators_before != applied.operators_after;
        }))
      doubted.emplace_back(pass.name);
  return doubted;
}

bool is_measured(const tuner::PlannedNetwork& planned) {
  return std::ranges::all_of(planned.kernels, [](const tuner::KernelChoice& kernel) {
    return kernel.schedule.empty() || kernel.measured_ns > 0;
  });
}

/// Tunes the network without the pass, and keeps it so if that is faster.
Status decide_fusion(ModelRun& run, const std::string& pass, const TuneFlags& flags,
                     const Surroundings& here, const Site& site) {
  TuneFlags without = flags;
  without.left_out = run.left_out;
  without.left_out.push_back(pass);
  TW_TRY(ModelRun other, imported_run(without, run.dimensions, site.store, site.target, here,
                                      *site.environment.interrupts));
  tuner::NetworkOptions options = network_options(flags, here, site);
  options.tuning.budget_s = fusion_s(flags);
  TW_RETURN_IF_ERROR(tune_watched(other, options, flags, here, site));
  const tuner::PlannedNetwork &with_it = run.tuned.plans.front(),
                              &without_it = other.tuned.plans.front();
  FusionChoice choice{.pass = pass,
                      .with_ns = with_it.plan.predicted_ns,
                      .without_ns = without_it.plan.predicted_ns,
                      .is_measured = is_measured(with_it) && is_measured(without_it)};
  choice.is_left_out = choice.is_measured && choice.without_ns < choice.with_ns;
  run.fusions.push_back(choice);
  if (!choice.is_left_out) return {};
  other.source = run.source;
  other.fusions = std::move(run.fusions);
  other.importing_s += run.importing_s;
  run = std::move(other);
  return {};
}

Status tune_variant(ModelRun& run, const TuneFlags& flags, const Surroundings& here,
                    const Site& site) {
  const std::vector<std::string> doubted = passes_to_doubt(run, flags);
  tuner::NetworkOptions options = network_options(flags, here, site);
  options.tuning.budget_s -=
      run.importing_s + static_cast<double>(doubted.size()) * fusion_s(flags);
  TW_RETURN_IF_ERROR(tune_watched(run, options, flags, here, site));
  for (const std::string& pass : doubted) {
    if (site.environment.interrupted()) return {};
    TW_RETURN_IF_ERROR(decide_fusion(run, pass, flags, here, site));
  }
  return {};
}

/// Plans a network from what is known, as with effort none.
Status plan_unmeasured(ModelRun& run, const TuneFlags& flags, const Surroundings& here,
                       const Site& site, const tuner::Environment& environment) {
  tuner::NetworkOptions options = network_options(flags, here, site);
  options.tuning.effort = tuner::Effort::None;
  TW_TRY(run.tuned,
         tuner::tune_network(*run.graph, site.target, options, site.store, environment, nullptr));
  return {};
}

/// Plans a network that an interrupt left without a plan from what is known, as with effort none.
Status plan_interrupted(ModelRun& run, const TuneFlags& flags, const Surroundings& here,
                        const Site& site) {
  const tuner::Environment environment = closing(site.environment);
  TW_RETURN_IF_ERROR(plan_unmeasured(run, flags, here, site, environment));
  run.tuned.ended = tuner::Ended::Interrupted;
  return {};
}

/// Tunes the variants one after the other, each with an even share of the budget. All of them have
/// plans in the end: an interrupt leaves out measuring only.
Status tune_variants(std::vector<ModelRun>& runs, const TuneFlags& flags, const Surroundings& here,
                     const Site& site) {
  for (ModelRun& run : runs) {
    const bool is_skipped = measures(flags) && site.environment.interrupted();
    const Status tuned = is_skipped ? Status() : tune_variant(run, flags, here, site);
    const bool is_interrupted = !tuned && tuned.error().code == ErrorCode::Interrupted;
    if (!tuned && !(is_interrupted && measures(flags))) return tuned;
    if (run.tuned.plans.empty()) TW_RETURN_IF_ERROR(plan_interrupted(run, flags, here, site));
    for (const auto& [reason, workloads] : run.tuned.failures)
      note(fmt::format("{} not measured: {}", counted(std::ssize(workloads), "kernel"), reason));
  }
  return {};
}

/// The environment in which the plans that are written are built: the first interrupt of a run that
/// measures ends measuring, not this.
tuner::Environment building_environment(const Workshop& shop) {
  if (!measures(shop.flags)) return shop.environment;
  if (shop.environment.interrupted()) {
    note("interrupted: building the network from what is known; a second interrupt leaves it out");
    return closing(shop.environment);
  }
  tuner::Environment environment = shop.environment;
  environment.interrupts = &later_interrupts();
  return environment;
}

/// The outputs of a model on random inputs.
Result<std::vector<dsl::Array>> random_outputs(const runtime::Model& model, uint64_t seed,
                                               runtime::ThreadPool& pool) {
  TW_TRY(tuner::ModelArrays arrays, tuner::random_arrays(model, seed));
  TW_RETURN_IF_ERROR(model.call(arrays.buffers(), pool));
  std::vector<dsl::Array> outputs;
  for (size_t i = 0; i < arrays.arrays.size(); ++i)
    if (model.arguments()[i].is_output) outputs.push_back(std::move(arrays.arrays[i]));
  return outputs;
}

/// Times each variant beside the one that the file holds, whose outputs have to agree: kernels that
/// were only predicted were never verified. Without a device that runs them, the plans' times
/// count.
Status compare_with_former(TunedModel& tuned, Workshop& shop) {
  Refresh refresh{planned_ns(*tuned.former), planned_ns(tuned.file)};
  if (shop.target.missing.empty()) {
    refresh = {.is_measured = true};
    runtime::ThreadPool pool({.threads = static_cast<int>(shop.flags.target.threads)});
    for (size_t variant = 0; variant < tuned.runs.size(); ++variant) {
      if (shop.environment.interrupted()) {
        refresh.reason = "interrupted";
        break;
      }
      TW_TRY(const PlacedModels placed,
             load_all({only_variant(*tuned.former, variant), only_variant(tuned.file, variant)},
                      shop));
      std::vector<std::vector<dsl::Array>> outputs;
      for (const runtime::Model& model : placed.models) {
        TW_TRY(outputs.emplace_back(),
               random_outputs(model, static_cast<uint64_t>(shop.flags.seed), pool));
      }
      if (largest_difference(outputs[0], outputs[1]) > most_refresh_difference)
        refresh.reason = "the outputs of the new network differ";
      TW_TRY(const std::vector<double> times,
             tuner::race(placed.models, shop.environment.clock, race_options(shop)));
      refresh.former_ns += times[0];
      refresh.latency_ns += times[1];
    }
  }
  decide(refresh);
  refresh.is_kept = refresh.is_kept || !refresh.reason.empty();
  tuned.refresh = refresh;
  return {};
}

/// Chooses among the best plans of each variant by timing them as wholes, and writes the network
/// where it is faster than the one in the file.
Status write_refreshed(TunedModel& tuned, Workshop& shop) {
  if (shop.target.missing.empty())
    for (ModelRun& run : tuned.runs) TW_RETURN_IF_ERROR(measure_whole(run, shop));
  tuned.file = joined(tuned);
  if (tuned.former) TW_RETURN_IF_ERROR(compare_with_former(tuned, shop));
  if (!tuned.refresh || !tuned.refresh->is_kept)
    return runtime::write_model(tuned.path, tuned.file);
  tuned.file = *tuned.former;
  return {};
}

/// Builds the cheapest plan of each variant and writes them; then measures the best plans as
/// wholes. A kernel that crashes in this process takes no result with it. A network that replaces
/// another one is written last.
Status build_variants(TunedModel& tuned, Workshop& shop, const std::optional<tuner::Farm>& farm) {
  const tuner::Environment environment = building_environment(shop);
  for (ModelRun& run : tuned.runs) {
    TW_TRY(tuner::BuiltModel built, build(run, 0, shop, environment));
    run.model = std::move(built.file);
    run.bands = built.bands;
    run.unverified.push_back(built.unverified);
  }
  if (shop.flags.refresh) return write_refreshed(tuned, shop);
  TW_RETURN_IF_ERROR(write_joined(tuned));
  if (!measures(shop.flags) || farm || shop.environment.interrupted()) return {};
  for (ModelRun& run : tuned.runs) TW_RETURN_IF_ERROR(measure_whole(run, shop));
  return write_joined(tuned);
}

/// Runs the network beside the model in f32, whose kernels are those that are known or predicted.
Status compare_precision(ModelRun& run, const TuneFlags& flags, const Surroundings& here,
                         const Site& site, Workshop& shop) {
  TuneFlags as_declared = flags;
  as_declared.precision = "f32";
  as_declared.left_out = run.left_out;
  const tuner::Environment& environment = shop.environment;
  TW_TRY(ModelRun wide, imported_run(as_declared, run.dimensions, site.store, site.target, here,
                                     *environment.interrupts));
  if (graph::to_text(*wide.graph) == graph::to_text(*run.graph)) {
    run.rounding_error = 0;
    return {};
  }
  TW_RETURN_IF_ERROR(plan_unmeasured(wide, as_declared, here, site, environment));
  TW_TRY(tuner::BuiltModel built, build(wide, 0, shop, environment));
  TW_TRY(const PlacedModels placed, load_all({run.model, std::move(built.file)}, shop));
  runtime::ThreadPool pool({.threads = static_cast<int>(flags.target.threads)});
  std::vector<std::vector<dsl::Array>> outputs;
  for (const runtime::Model& model : placed.models) {
    TW_TRY(outputs.emplace_back(), random_outputs(model, static_cast<uint64_t>(flags.seed), pool));
  }
  run.rounding_error = largest_difference(outputs[0], outputs[1]);
  return {};
}

/// Leaves the kernels of each variant's plan as its demand. A run that only reads makes the
/// database for it: the next run, on any machine, is to find what this one lacked.
void leave_demand_of(const TunedModel& tuned, const TuneFlags& flags, const Surroundings& here,
                     const Site& site) {
  std::vector<db::Demand> demands;
  for (const ModelRun& run : tuned.runs) {
    if (run.tuned.plans.empty()) continue;
    std::string name = run.name;
    if (!run.dimensions.empty()) name += " " + dimensions_text(run.dimensions);
    demands.push_back(tuner::demand_of(run.tuned.plans[run.written], run.source, name, site.target,
                                       static_cast<int>(flags.target.threads), run.tuned.most_error,
                                       here.environment.now_ms()));
  }
  if (measures(flags)) return leave_demand(site.store, demands);
  Result<db::Store> store = open_database(flags.place, here, db::OpenMode::ReadWrite);
  if (store) return leave_demand(*store, demands);
  note(fmt::format("the demand of {} is not kept: {}", tuned.runs.front().name,
                   store.error().message));
}

/// Tunes all variants, builds them and writes the file, unless the run is a dry one.
Status tune_and_build(TunedModel& tuned, const TuneFlags& flags, const Surroundings& here,
                      const Site& site, Workshop& shop) {
  TW_RETURN_IF_ERROR(tune_variants(tuned.runs, flags, here, site));
  if (flags.dry_run) return {};
  TW_RETURN_IF_ERROR(build_variants(tuned, shop, site.farm));
  // The kernels of a file that is kept are in the demand that it left.
  if (!tuned.refresh || !tuned.refresh->is_kept) leave_demand_of(tuned, flags, here, site);
  const bool runs_here = shop.target.missing.empty() && !site.farm;
  if (flags.precision == "f32" || !runs_here || shop.environment.interrupted()) return {};
  // The file is written: what fails here leaves out the comparison alone.
  for (ModelRun& run : tuned.runs)
    if (const Status compared = compare_precision(run, flags, here, site, shop); !compared)
      note(fmt::format("not compared with f32: {}", compared.error().message));
  return {};
}

/// The variants of the model, with the optional passes that the flags leave out.
Result<std::vector<ModelRun>> imported_runs(const TuneFlags& flags,
                                            const std::vector<Dimensions>& sets, db::Store& store,
                                            const Target& target, const Surroundings& here,
                                            const std::atomic<int>& interrupts) {
  std::vector<ModelRun> runs;
  for (const Dimensions& dimensions : sets) {
    TW_TRY(ModelRun run, imported_run(flags, dimensions, store, target, here, interrupts));
    run.source = source_of(run);
    runs.push_back(std::move(run));
  }
  return runs;
}

/// True if the file holds these variants. The text of a graph names its constants by their hashes.
bool holds(const runtime::ModelFile& file, const std::vector<ModelRun>& runs) {
  return std::ranges::equal(file.variants, runs,
                            [](const runtime::ModelVariant& variant, const ModelRun& run) {
                              return variant.graph == graph::to_text(*run.graph);
                            });
}

/// Reads the file that a refreshed network may replace. It may have been tuned without an optional
/// pass that did not pay off; the pass is then left out again. Invalid where the file holds another
/// network, or other weights: it is not lost.
Status find_former(TunedModel& tuned, const TuneFlags& flags, const std::vector<Dimensions>& sets,
                   db::Store& store, const Target& target, const Surroundings& here,
                   const std::atomic<int>& interrupts) {
  TW_TRY(tuned.former, former_model(tuned.path));
  if (!tuned.former) return {};
  if (tuned.former->threads != flags.target.threads)
    return fail(
        ErrorCode::Invalid,
        fmt::format("[tune] --refresh: {} is for {}: give --threads {}", shell_quoted(tuned.path),
                    counted(tuned.former->threads, "thread"), tuned.former->threads));
  if (tuned.former->target != target.to_string())
    return fail(ErrorCode::Invalid,
                fmt::format("[tune] --refresh: {} is for {}, not for {}: give --target, or name "
                            "another file by --output",
                            shell_quoted(tuned.path), tuned.former->target, target.to_string()));
  if (holds(*tuned.former, tuned.runs)) return {};
  for (const graph::Pass& pass : graph::passes()) {
    if (!pass.is_optional) continue;
    TuneFlags without = flags;
    without.left_out.emplace_back(pass.name);
    TW_TRY(std::vector<ModelRun> runs,
           imported_runs(without, sets, store, target, here, interrupts));
    if (!holds(*tuned.former, runs)) continue;
    for (size_t i = 0; i < runs.size(); ++i) runs[i].source = tuned.runs[i].source;
    tuned.runs = std::move(runs);
    return {};
  }
  return fail(ErrorCode::Invalid,
              fmt::format("[tune] --refresh: {} holds another network than {}, other weights, or "
                          "other variants: remove the file, or name another by --output",
                          shell_quoted(tuned.path), flags.model));
}

}  // namespace

Result<int> tune_model(const TuneFlags& flags, const Surroundings& here, const ChosenTarget& target,
                       const std::optional<tuner::Farm>& farm) {
  TunedModel tuned;
  tuned.path = flags.output.empty() ? std::string(default_output) : flags.output;
  if (!flags.dry_run) {
    TW_RETURN_IF_ERROR(check_output(tuned.path));
    TW_RETURN_IF_ERROR(check_keeps(flags.model, tuned.path));
  }
  TW_RETURN_IF_ERROR(check_page(flags));
  const std::atomic<int>& interrupts = watch_interrupts();
  const int64_t started_ns = here.environment.clock();
  TW_TRY(const std::vector<Dimensions> sets, dimension_sets(flags.dimensions, "tune"));
  TW_TRY(db::Store store, open_store(flags, here));
  TW_TRY(tuned.runs, imported_runs(flags, sets, store, target.target, here, interrupts));
  if (flags.refresh)
    TW_RETURN_IF_ERROR(find_former(tuned, flags, sets, store, target.target, here, interrupts));
  tuner::Environment environment = tuning_environment(flags.place, here, target.device);
  environment.interrupts = &interrupts;
  TuneFlags share = flags;
  share.budget_s /= static_cast<double>(sets.size());
  const Site site{target.target, farm, store, environment};
  Workshop shop{share, target, environment,
                started_ns + static_cast<int64_t>(flags.budget_s * 1e9)};
  const Status done = tune_and_build(tuned, share, here, site, shop);
  if (!done && done.error().code == ErrorCode::Interrupted) {
    note(done.error().message);
    note_missing_page(flags);
    return interrupted(here);
  }
  TW_RETURN_IF_ERROR(done);
  TW_RETURN_IF_ERROR(flags.dry_run ? print_dry_run(tuned, flags, here, target.target, store)
                                   : print_model(tuned, flags, here));
  if (interrupts.load() > 0) {
    note_missing_page(flags);
    return interrupted(here);
  }
  for (const ModelRun& run : tuned.runs)
    if (run.tuned.unstored) return tl::unexpected<Error>(*run.tuned.unstored);
  TW_RETURN_IF_ERROR(write_network_page(flags, here, tuned.path));
  return 0;
}

}  // namespace tw::tools
