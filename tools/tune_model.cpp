// SPDX-License-Identifier: Apache-2.0
// tilewright tune --model: a network from its ONNX file to a file that the runtime loads.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/hash.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "graph/passes.h"
#include "graph/plan_text.h"
#include "tools/gpu_targets.h"
#include "tools/imported_model.h"
#include "tools/interrupts.h"
#include "tools/model_files.h"
#include "tools/progress.h"
#include "tools/quote.h"
#include "tools/report.h"
#include "tools/tuning.h"
#include "tuner/join_models.h"
#include "tuner/network.h"
#include "tuner/race.h"
#include "tuner/scratch.h"
#include "tuner/step_threads.h"

namespace tw::tools {
namespace {

constexpr std::string_view default_output = "net.twart";
// The share of the budget that each measurement of whole networks takes.
constexpr double race_share = 0.1, longest_race_s = 10;

/// A variant of a network on its way to the file.
struct ModelRun {
  std::string name;
  Dimensions dimensions;
  graph::Graph graph;
  std::vector<graph::PassRun> passes;
  tuner::TunedNetwork tuned;
  size_t written = 0;               ///< number of the plan in `model`
  std::vector<double> measured_ns;  ///< of plans as wholes; empty: none was measured
  size_t measured = 0;              ///< which of these is that of `model`
  double importing_s = 0, building_s = 0;
  runtime::ModelFile model;
  std::vector<size_t> unverified;  ///< of each plan that was built: kernels that were never run
};

Result<ModelRun> imported_run(const TuneFlags& flags, const Dimensions& dimensions,
                              const Surroundings& here, const std::atomic<int>& interrupts) {
  const int64_t before = here.environment.clock();
  TW_TRY(ImportedModel imported,
         import_model({flags.model, dimensions, flags.left_out}, flags.place, here, interrupts));
  ModelRun run;
  run.dimensions = dimensions;
  run.name = std::move(imported.name);
  run.graph = std::move(imported.graph);
  run.passes = std::move(imported.passes);
  run.importing_s = static_cast<double>(here.environment.clock() - before) / 1e9;
  return run;
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

/// The database of a run. Effort none stores nothing and so creates no database: if there is none,
/// an empty one in a scratch directory stands in, which goes with the value.
struct NetworkStore {
  std::optional<tuner::Scratch> empty;
  db::Store store;
};

Result<NetworkStore> open_store(const TuneFlags& flags, const Surroundings& here) {
  if (flags.effort != "none") {
    TW_TRY(db::Store store, open_database(flags.place, here, db::OpenMode::ReadWrite));
    return NetworkStore{std::nullopt, std::move(store)};
  }
  TW_TRY(std::optional<db::Store> known, open_if_there(flags.place, here));
  if (known) return NetworkStore{std::nullopt, std::move(*known)};
  TW_TRY(tuner::Scratch empty, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY(db::Store store, db::Store::open(empty.path() + "/empty.db", db::OpenMode::ReadWrite));
  return NetworkStore{std::move(empty), std::move(store)};
}

std::string text_of(const Dimensions& dimensions) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : dimensions) texts.push_back(fmt::format("{}={}", name, value));
  return join(texts, " ");
}

double race_s(const TuneFlags& flags) {
  return std::min(race_share * flags.budget_s, longest_race_s);
}

/// Measurements of whole networks: the best plans by turns; on several threads also the steps on
/// one and on all of them, and the network before and after that.
int race_count(const TuneFlags& flags) { return flags.target.threads > 1 ? 3 : 1; }

tuner::NetworkOptions network_options(const TuneFlags& flags, const Surroundings& here,
                                      const Target& target, const std::optional<tuner::Farm>& farm,
                                      const tuner::Environment& environment) {
  tuner::NetworkOptions options;
  options.predictions = predictions_file(flags, here, target);
  options.tuning = options_of(flags);
  if (farm)
    options.start_workers = [&](const tuner::TuneOptions& tuning) {
      return tuner::start_workers(*farm, tuning.threads, tuning.seed, environment,
                                  tuning.timeout_s);
    };
  // Where whole networks are not measured, there is nothing to choose the plan by but its costs.
  if (options.tuning.effort == tuner::Effort::None || farm)
    options.plans = 1;
  else
    options.tuning.budget_s -= race_count(flags) * race_s(flags);
  return options;
}

std::string title_of(const ModelRun& run, const TuneFlags& flags) {
  const std::string target = flags.target.target_or_host();
  const std::string dimensions =
      run.dimensions.empty() ? "" : fmt::format(" {}", text_of(run.dimensions));
  return fmt::format("{} {}{}, {} for {}{}", flags.effort == "none" ? "planning" : "tuning",
                     run.name, dimensions, show_count(std::ssize(run.graph.operators), "operator"),
                     target,
                     names_gpu(target) ? "" : " on " + show_count(flags.target.threads, "thread"));
}

Status tune_watched(ModelRun& run, const TuneFlags& flags, const Surroundings& here,
                    const Target& target, const std::optional<tuner::Farm>& farm, db::Store& store,
                    const tuner::Environment& environment) {
  const tuner::NetworkOptions options = network_options(flags, here, target, farm, environment);
  if (options.tuning.effort == tuner::Effort::None) {
    note(title_of(run, flags));
    TW_TRY(run.tuned, tuner::tune_network(run.graph, target, options, store, environment, nullptr));
    return {};
  }
  ProgressDisplay display(here, title_of(run, flags));
  tuner::Progress start;
  start.budget_s = options.tuning.budget_s;
  display.update(start);
  TW_TRY(run.tuned, tuner::tune_network(run.graph, target, options, store, environment,
                                        [&](const tuner::Progress& p) { display.update(p); }));
  return {};
}

Result<runtime::ModelFile> build(ModelRun& run, size_t plan, const TuneFlags& flags,
                                 const Target& target, const tuner::Environment& environment) {
  const int64_t before = environment.clock();
  TW_TRY(tuner::BuiltModel built,
         tuner::build_model(run.graph, run.tuned, plan, run.name, target,
                            static_cast<int>(flags.target.threads), environment));
  run.building_s += static_cast<double>(environment.clock() - before) / 1e9;
  run.unverified.push_back(built.unverified);
  return std::move(built.file);
}

tuner::RaceOptions race_options(const TuneFlags& flags, const tuner::Environment& environment) {
  tuner::RaceOptions options;
  options.threads = static_cast<int>(flags.target.threads);
  options.budget_s = race_s(flags);
  options.stops = [&] { return environment.interrupted(); };
  return options;
}

/// Measures the best plans as wholes, by turns, and keeps the fastest. Plans with kernels that were
/// never run behind a worker's limits do not take part.
Status race_plans(ModelRun& run, const TuneFlags& flags, const ChosenTarget& target,
                  const tuner::Environment& environment) {
  std::vector<runtime::ModelFile> files = {run.model};
  std::vector<size_t> plans = {0};
  for (size_t plan = 1; plan < run.tuned.plans.size(); ++plan) {
    TW_TRY(runtime::ModelFile file, build(run, plan, flags, target.target, environment));
    if (run.unverified.back() > 0) continue;
    files.push_back(std::move(file));
    plans.push_back(plan);
  }
  runtime::ModelOptions loading;
  tuner::DeviceTurn turn;
  if (target.target.is_gpu()) {
    TW_TRY(loading.device, codegen::backend_of(target.target).open({.index = target.device}));
    TW_TRY(turn, turn_on(*loading.device, environment.clock));
  }
  std::vector<runtime::Model> models;
  for (const runtime::ModelFile& file : files) {
    TW_TRY(runtime::Model model, runtime::Model::load(file, loading));
    models.push_back(std::move(model));
  }
  TW_TRY(run.measured_ns, tuner::race(models, environment.clock, race_options(flags, environment)));
  const auto fastest =
      static_cast<size_t>(std::ranges::min_element(run.measured_ns) - run.measured_ns.begin());
  run.written = plans[fastest];
  run.measured = fastest;
  if (fastest > 0) run.model = std::move(files[fastest]);
  return {};
}

/// Limits steps that are faster on one thread to one, unless the whole network becomes slower by
/// it.
Status limit_threads(ModelRun& run, const TuneFlags& flags, const tuner::Environment& environment) {
  if (flags.target.threads == 1) return {};
  const tuner::RaceOptions options = race_options(flags, environment);
  TW_TRY(const runtime::Model model, runtime::Model::load(run.model));
  TW_TRY(const std::vector<int> limits, tuner::step_threads(model, environment.clock, options));
  runtime::ModelFile limited = run.model;
  std::vector<runtime::ModelStep>& steps = limited.variants.front().steps;
  for (size_t step = 0; step < steps.size(); ++step)
    if (limits[step] > 0) steps[step].threads = limits[step];
  if (limited == run.model) return {};
  TW_TRY(const runtime::Model other, runtime::Model::load(limited));
  TW_TRY(const std::vector<double> times,
         tuner::race(std::vector{model, other}, environment.clock, options));
  if (times[1] > times[0]) return {};
  run.model = std::move(limited);
  run.measured_ns[run.measured] = times[1];
  return {};
}

/// Makes the decisions that need runs of the whole network: which plan, and how many threads for
/// each step.
Status measure_whole(ModelRun& run, const TuneFlags& flags, const ChosenTarget& target,
                     const tuner::Environment& environment) {
  if (run.unverified.front() > 0) return {};
  TW_RETURN_IF_ERROR(race_plans(run, flags, target, environment));
  return limit_threads(run, flags, environment);
}

double seconds_of(const std::vector<graph::PassRun>& passes) {
  double seconds = 0;
  for (const graph::PassRun& pass : passes) seconds += pass.seconds;
  return seconds;
}

std::string proof_of(const graph::Plan& plan) {
  if (plan.is_optimal) return "no choice among these schemes costs less";
  return fmt::format("not proved: no choice among these schemes costs less than {} ({} less)",
                     show_time(plan.lower_bound_ns),
                     show_share(1 - plan.lower_bound_ns / plan.predicted_ns));
}

std::string result_of(const tuner::TunedNetwork& tuned) {
  if (tuned.ended == tuner::Ended::FromDatabase) return "planned from records and predictions";
  return std::string(tuner::to_string(tuned.ended));
}

Facts facts_of_run(const ModelRun& run) {
  const tuner::TunedNetwork& tuned = run.tuned;
  const graph::Plan& plan = tuned.plans[run.written].plan;
  Facts facts = {{"network", run.name},
                 {"result", result_of(tuned)},
                 {"predicted", show_time(plan.predicted_ns)}};
  if (!run.measured_ns.empty())
    facts.emplace_back("measured", show_time(run.measured_ns[run.measured]));
  facts.emplace_back("optimal", proof_of(plan));
  facts.emplace_back(
      "schemes", fmt::format("{} of {}, {} measured on this device",
                             show_count(static_cast<int64_t>(tuned.kernels), "scheme"),
                             show_count(static_cast<int64_t>(tuned.groups), "distinct operator"),
                             tuned.measured));
  facts.emplace_back("caches", std::string(dsl::to_string(tuned.state)));
  for (const tuner::NetworkRound& round : tuned.rounds)
    facts.emplace_back("round",
                       fmt::format("{:.1f} s, {} of the plan, {}: predicted {}", round.seconds,
                                   show_count(static_cast<int64_t>(round.tasks), "kernel"),
                                   show_count(static_cast<int64_t>(round.contenders), "contender"),
                                   show_time(round.predicted_ns)));
  facts.emplace_back(
      "time spent",
      fmt::format("importing {:.1f} s (passes {:.1f} s), predicting {:.1f} s, planning {:.1f} s, "
                  "building {:.1f} s",
                  run.importing_s, seconds_of(run.passes), tuned.predicting_s, tuned.planning_s,
                  run.building_s));
  for (const auto& [name, text] : facts_of(run.model, 0)) facts.emplace_back(name, text);
  if (const size_t unverified = run.unverified[run.written]; unverified > 0)
    facts.emplace_back("not verified",
                       fmt::format("{}, which were predicted and never run",
                                   show_count(static_cast<int64_t>(unverified), "kernel")));
  return facts;
}

nlohmann::json json_of_run(const ModelRun& run, const std::string& path) {
  const tuner::TunedNetwork& tuned = run.tuned;
  const graph::Plan& plan = tuned.plans[run.written].plan;
  nlohmann::json passes = nlohmann::json::array(), rounds = nlohmann::json::array();
  for (const graph::PassRun& pass : run.passes)
    passes.push_back({{"name", pass.name},
                      {"seconds", pass.seconds},
                      {"operators_before", pass.operators_before},
                      {"operators_after", pass.operators_after}});
  for (const tuner::NetworkRound& round : tuned.rounds)
    rounds.push_back({{"kernels", round.tasks},
                      {"contenders", round.contenders},
                      {"seconds", round.seconds},
                      {"predicted_ns", round.predicted_ns}});
  return {{"network", run.name},
          {"artifact", path},
          {"ended", tuner::to_string(tuned.ended)},
          {"predicted_ns", plan.predicted_ns},
          {"lower_bound_ns", plan.lower_bound_ns},
          {"is_optimal", plan.is_optimal},
          {"measured_ns", run.measured_ns},
          {"written_plan", run.written},
          {"unverified_kernels", run.unverified[run.written]},
          {"operators", run.graph.operators.size()},
          {"distinct_operators", tuned.groups},
          {"caches", dsl::to_string(tuned.state)},
          {"schemes", tuned.kernels},
          {"measured_schemes", tuned.measured},
          {"transforms", plan.transforms.size()},
          {"passes", passes},
          {"rounds", rounds},
          {"failures", tuned.failures},
          {"importing_s", run.importing_s},
          {"predicting_s", tuned.predicting_s},
          {"planning_s", tuned.planning_s},
          {"building_s", run.building_s},
          {"dimensions", run.dimensions}};
}

/// A tuned network: its variants, and the file that they are joined in.
struct TunedModel {
  std::vector<ModelRun> runs;  ///< one for each variant
  runtime::ModelFile file;
  std::string path;
};

/// The first variant; where there are several, "variants" lists all.
nlohmann::json json_of(const TunedModel& tuned) {
  nlohmann::json document = json_of_run(tuned.runs.front(), tuned.path);
  document["model"] = as_json(tuned.file);
  if (tuned.runs.size() > 1)
    for (const ModelRun& run : tuned.runs)
      document["variants"].push_back(json_of_run(run, tuned.path));
  return document;
}

/// Bytes that variants would have if they shared no constants.
int64_t unshared_constant_bytes(const TunedModel& tuned) {
  int64_t bytes = 0;
  for (const ModelRun& run : tuned.runs) bytes += std::ssize(run.model.constants);
  return bytes;
}

std::string text_of(const TunedModel& tuned, const Surroundings& here) {
  Facts last = {{"file", shell_quoted(tuned.path)}};
  if (tuned.runs.size() == 1) {
    Facts facts = facts_of_run(tuned.runs.front());
    facts.push_back(last.front());
    return as_text(facts) + "\n" + as_text(table_of_costs(tuned.file, 0), here);
  }
  std::string text;
  for (size_t variant = 0; variant < tuned.runs.size(); ++variant)
    text +=
        fmt::format("variant {}: {}\n\n{}\n{}\n", variant, text_of(tuned.runs[variant].dimensions),
                    as_text(facts_of_run(tuned.runs[variant])),
                    as_text(table_of_costs(tuned.file, variant), here));
  last.insert(last.begin(),
              {{"variants", std::to_string(tuned.runs.size())},
               {"constants", fmt::format("{}, {} if the variants shared none",
                                         show_bytes(std::ssize(tuned.file.constants)),
                                         show_bytes(unshared_constant_bytes(tuned)))}});
  return text + as_text(last);
}

/// The steps of all variants, which a column tells apart where there are several.
Status print_model(const TunedModel& tuned, const TuneFlags& flags, const Surroundings& here) {
  if (flags.format == "json") return print_json("tune", json_of(tuned));
  if (flags.format == "csv") return print(as_csv(table_of_all_steps(tuned.file)));
  return print(text_of(tuned, here));
}

/// Replaces the file by one with all variants as they are now.
Status write_joined(TunedModel& tuned) {
  std::vector<const runtime::ModelFile*> models;
  for (const ModelRun& run : tuned.runs) models.push_back(&run.model);
  tuned.file = tuner::join_models(models);
  return runtime::write_model(tuned.path, tuned.file);
}

/// Tunes the variants one after the other, each with an even share of the budget.
Status tune_variants(std::vector<ModelRun>& runs, const TuneFlags& flags, const Surroundings& here,
                     const Target& target, const std::optional<tuner::Farm>& farm, db::Store& store,
                     const tuner::Environment& environment) {
  for (ModelRun& run : runs) {
    TW_RETURN_IF_ERROR(tune_watched(run, flags, here, target, farm, store, environment));
    for (const auto& [reason, workloads] : run.tuned.failures)
      note(fmt::format("{} not measured: {}", show_count(std::ssize(workloads), "kernel"), reason));
    if (environment.interrupted())
      return fail(ErrorCode::Interrupted, "[tune] interrupted before the network was built");
  }
  return {};
}

/// Builds the cheapest plan of each variant and writes them; then measures the best plans as
/// wholes. A kernel that crashes in this process takes no result with it.
Status build_variants(TunedModel& tuned, const TuneFlags& flags, const ChosenTarget& target,
                      const std::optional<tuner::Farm>& farm,
                      const tuner::Environment& environment) {
  for (ModelRun& run : tuned.runs) {
    TW_TRY(run.model, build(run, 0, flags, target.target, environment));
  }
  TW_RETURN_IF_ERROR(write_joined(tuned));
  if (options_of(flags).effort == tuner::Effort::None || farm) return {};
  for (ModelRun& run : tuned.runs) {
    const Status measured = measure_whole(run, flags, target, environment);
    if (!measured && measured.error().code != ErrorCode::Interrupted) return measured;
  }
  return write_joined(tuned);
}

}  // namespace

Result<int> tune_model(const TuneFlags& flags, const Surroundings& here, const ChosenTarget& target,
                       const std::optional<tuner::Farm>& farm) {
  TunedModel tuned;
  tuned.path = flags.output.empty() ? std::string(default_output) : flags.output;
  TW_RETURN_IF_ERROR(check_output(tuned.path));
  const std::atomic<int>& interrupts = watch_interrupts();
  TW_TRY(const std::vector<Dimensions> sets, dimension_sets(flags.dimensions, "tune"));
  for (const Dimensions& dimensions : sets) {
    TW_TRY(ModelRun run, imported_run(flags, dimensions, here, interrupts));
    tuned.runs.push_back(std::move(run));
  }
  TW_TRY(NetworkStore known, open_store(flags, here));
  tuner::Environment environment = tuning_environment(flags.place, here, target.device);
  environment.interrupts = &interrupts;
  TuneFlags share = flags;
  share.budget_s /= static_cast<double>(sets.size());
  // An interrupt is answered at once: what was measured is stored, and the line that goes on
  // builds.
  const Status done =
      tune_variants(tuned.runs, share, here, target.target, farm, known.store, environment);
  if (!done && done.error().code == ErrorCode::Interrupted) {
    note(done.error().message);
    return interrupted(here);
  }
  TW_RETURN_IF_ERROR(done);
  TW_RETURN_IF_ERROR(build_variants(tuned, share, target, farm, environment));
  TW_RETURN_IF_ERROR(print_model(tuned, flags, here));
  return interrupts.load() > 0 ? interrupted(here) : 0;
}

}  // namespace tw::tools
