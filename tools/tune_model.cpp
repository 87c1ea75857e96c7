// SPDX-License-Identifier: Apache-2.0
// tilewright tune --model: a network from its ONNX file to a file that the runtime loads.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "codegen/backend.h"
#include "graph/onnx/import.h"
#include "graph/passes.h"
#include "graph/plan_text.h"
#include "tools/gpu_targets.h"
#include "tools/interrupts.h"
#include "tools/model_files.h"
#include "tools/progress.h"
#include "tools/quote.h"
#include "tools/report.h"
#include "tools/standing_models.h"
#include "tools/tuning.h"
#include "tuner/network.h"
#include "tuner/race.h"

namespace tw::tools {
namespace {

constexpr std::string_view default_output = "net.twart";
// The share of the budget in which the best plans are measured as wholes.
constexpr double race_share = 0.1, longest_race_s = 10;

/// A network on its way to its file.
struct ModelRun {
  std::string name;
  graph::Graph graph;
  std::vector<graph::PassRun> passes;
  tuner::TunedNetwork tuned;
  size_t written = 0;               ///< number of the plan in the file
  std::vector<double> measured_ns;  ///< of plans as wholes; empty: none was measured
  size_t measured = 0;              ///< which of these is that of the file
  double importing_s = 0, building_s = 0;
  runtime::ModelFile model;        ///< as written
  std::vector<size_t> unverified;  ///< of each plan that was built: kernels that were never run
};

Result<std::map<std::string, int64_t>> dimensions_of(const TuneFlags& flags) {
  std::map<std::string, int64_t> dimensions;
  for (const std::string& text : flags.dimensions) {
    const size_t equals = text.find('=');
    const auto value =
        equals == std::string::npos ? std::nullopt : parse_int(text.substr(equals + 1));
    if (equals == 0 || !value || *value < 1)
      return fail(
          ErrorCode::Usage,
          fmt::format("[tune] --dim {}: expected NAME=VALUE, such as batch=1", shell_quoted(text)));
    dimensions[text.substr(0, equals)] = *value;
  }
  return dimensions;
}

Result<ModelRun> import_model(const TuneFlags& flags, const Surroundings& here,
                              const std::atomic<int>& interrupts) {
  const int64_t before = here.environment.clock();
  ModelRun run;
  TW_TRY(const auto dimensions, dimensions_of(flags));
  TW_TRY(const std::string path, onnx_file_of(flags.model, flags.place, here));
  run.name = std::filesystem::path(path).stem().string();
  TW_TRY(graph::Graph graph, graph::read_onnx(path, {.dimensions = dimensions}));
  graph::PassOptions options;
  options.disabled = {flags.left_out.begin(), flags.left_out.end()};
  options.stops = [&] { return interrupts.load() > 0; };
  options.clock_s = [&] { return static_cast<double>(here.environment.clock()) / 1e9; };
  TW_TRY(graph::Passed passed, graph::apply_passes(std::move(graph), options));
  run.graph = std::move(passed.graph);
  run.passes = std::move(passed.runs);
  run.importing_s = static_cast<double>(here.environment.clock() - before) / 1e9;
  return run;
}

tuner::NetworkOptions network_options(const TuneFlags& flags) {
  tuner::NetworkOptions options;
  options.tuning = options_of(flags);
  if (options.tuning.effort == tuner::Effort::None)
    options.plans = 1;
  else
    options.tuning.budget_s -= std::min(race_share * flags.budget_s, longest_race_s);
  return options;
}

std::string title_of(const ModelRun& run, const TuneFlags& flags) {
  const std::string target = flags.target.target_or_host();
  return fmt::format("{} {}, {} for {}{}", flags.effort == "none" ? "planning" : "tuning", run.name,
                     show_count(std::ssize(run.graph.operators), "operator"), target,
                     names_gpu(target) ? "" : " on " + show_count(flags.target.threads, "thread"));
}

Status tune_watched(ModelRun& run, const TuneFlags& flags, const Surroundings& here,
                    const Target& target, db::Store& store, const tuner::Environment& environment) {
  const tuner::NetworkOptions options = network_options(flags);
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

/// Measures the best plans as wholes, by turns, and keeps the fastest in the file. Plans with
/// kernels that were never run behind a worker's limits do not take part.
Status race_plans(ModelRun& run, const std::string& path, const TuneFlags& flags,
                  const ChosenTarget& target, const tuner::Environment& environment) {
  if (run.unverified.front() > 0) return {};
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
  tuner::RaceOptions options;
  options.threads = static_cast<int>(flags.target.threads);
  options.budget_s = std::min(race_share * flags.budget_s, longest_race_s);
  options.stops = [&] { return environment.interrupts->load() > 0; };
  TW_TRY(run.measured_ns, tuner::race(models, environment.clock, options));
  const auto fastest =
      static_cast<size_t>(std::ranges::min_element(run.measured_ns) - run.measured_ns.begin());
  run.written = plans[fastest];
  run.measured = fastest;
  if (fastest == 0) return {};
  run.model = std::move(files[fastest]);
  return runtime::write_model(path, run.model);
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

Facts facts_of_run(const ModelRun& run, const std::string& path) {
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
  for (const auto& [name, text] : facts_of(run.model)) facts.emplace_back(name, text);
  if (const size_t unverified = run.unverified[run.written]; unverified > 0)
    facts.emplace_back("not verified",
                       fmt::format("{}, which were predicted and never run",
                                   show_count(static_cast<int64_t>(unverified), "kernel")));
  facts.emplace_back("file", shell_quoted(path));
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
          {"model", as_json(run.model)}};
}

Status print_model(const ModelRun& run, const std::string& path, const TuneFlags& flags,
                   const Surroundings& here) {
  if (flags.format == "json") return print_json("tune", json_of_run(run, path));
  if (flags.format == "csv") return print(as_csv(table_of_steps(run.model)));
  return print(as_text(facts_of_run(run, path)) + "\n" + as_text(table_of_costs(run.model), here));
}

}  // namespace

Result<int> tune_model(const TuneFlags& flags, const Surroundings& here,
                       const ChosenTarget& target) {
  const std::string path = flags.output.empty() ? std::string(default_output) : flags.output;
  TW_RETURN_IF_ERROR(check_output(path));
  const std::atomic<int>& interrupts = watch_interrupts();
  TW_TRY(ModelRun run, import_model(flags, here, interrupts));
  TW_TRY(db::Store store, open_database(flags.place, here, db::OpenMode::ReadWrite));
  tuner::Environment environment = tuning_environment(flags.place, here, target.device);
  environment.interrupts = &interrupts;
  if (const Status tuned = tune_watched(run, flags, here, target.target, store, environment);
      !tuned) {
    if (tuned.error().code != ErrorCode::Interrupted) return tl::unexpected(tuned.error());
    note(tuned.error().message);
    return interrupted(here);
  }
  for (const auto& [reason, workloads] : run.tuned.failures)
    note(fmt::format("{} not measured: {}", show_count(std::ssize(workloads), "kernel"), reason));
  // An interrupt is answered at once: what was measured is stored, and the line that goes on
  // builds.
  if (interrupts.load() > 0) return interrupted(here);
  TW_TRY(run.model, build(run, 0, flags, target.target, environment));
  TW_RETURN_IF_ERROR(runtime::write_model(path, run.model));
  if (options_of(flags).effort != tuner::Effort::None) {
    const Status raced = race_plans(run, path, flags, target, environment);
    if (!raced && raced.error().code != ErrorCode::Interrupted)
      return tl::unexpected(raced.error());
  }
  TW_RETURN_IF_ERROR(print_model(run, path, flags, here));
  return interrupts.load() > 0 ? interrupted(here) : 0;
}

}  // namespace tw::tools
