// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/model.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "graph/plan_text.h"
#include "tools/flags/quote.h"
#include "tools/model_files.h"
#include "tools/reports/report.h"

namespace tw::tools {
namespace {

double seconds_of(const std::vector<graph::PassRun>& passes) {
  double seconds = 0;
  for (const graph::PassRun& pass : passes) seconds += pass.seconds;
  return seconds;
}

std::string proof_of(const graph::Plan& plan) {
  if (plan.is_optimal) return "no choice among these schemes costs less";
  return fmt::format("not proved: no choice among these schemes costs less than {} ({} less)",
                     time_text(plan.lower_bound_ns),
                     show_share(1 - plan.lower_bound_ns / plan.predicted_ns));
}

std::string result_of(const tuner::TunedNetwork& tuned) {
  if (tuned.ended == tuner::Ended::FromDatabase) return "planned from records and predictions";
  return std::string(tuner::to_string(tuned.ended));
}

std::string fusion_text(const tuner::FusionChoice& fusion) {
  const std::string what =
      fmt::format("{} {}", fusion.pass, fusion.is_left_out ? "left out" : "kept");
  if (!fusion.is_measured) return what + ": not all kernels that it makes or spares were measured";
  return fmt::format("{}: {} with it, {} without", what, time_text(fusion.with_ns),
                     time_text(fusion.without_ns));
}

std::string rounding_text(double error) {
  if (std::isinf(error)) return "an output on random inputs is finite in f32 and not so here";
  return fmt::format(
      "outputs on random inputs differ from those in f32 by {:.1e} of the largest "
      "element at most",
      error);
}

/// Returns the error as JSON: null if it is unknown, and the text "infinite" for infinity, which
/// JSON does not have.
nlohmann::json rounding_json(const std::optional<double>& error) {
  if (!error) return nullptr;
  return std::isinf(*error) ? nlohmann::json("infinite") : nlohmann::json(*error);
}

Facts facts_of_run(const tuner::ModelRun& run) {
  const tuner::TunedNetwork& tuned = run.tuned;
  const graph::Plan& plan = tuned.plans[run.written].plan;
  Facts facts = {{"network", run.name},
                 {"result", result_of(tuned)},
                 {"predicted", time_text(plan.predicted_ns)}};
  if (!run.measured_ns.empty())
    facts.emplace_back("measured", time_text(run.measured_ns[run.measured]));
  facts.emplace_back("optimal", proof_of(plan));
  facts.emplace_back("schemes",
                     fmt::format("{} of {}, {} measured on this device",
                                 counted(static_cast<int64_t>(tuned.kernels), "scheme"),
                                 counted(static_cast<int64_t>(tuned.groups), "distinct operator"),
                                 tuned.measured));
  for (const tuner::FusionChoice& fusion : run.fusions)
    facts.emplace_back("fusion", fusion_text(fusion));
  facts.emplace_back("caches", std::string(dsl::to_string(tuned.state)));
  for (const tuner::NetworkRound& round : tuned.rounds)
    facts.emplace_back("round",
                       fmt::format("{:.1f} s, {} of the plan, {}: predicted {}", round.seconds,
                                   counted(static_cast<int64_t>(round.tasks), "kernel"),
                                   counted(static_cast<int64_t>(round.contenders), "contender"),
                                   time_text(round.predicted_ns)));
  facts.emplace_back(
      "time spent",
      fmt::format("importing {:.1f} s (passes {:.1f} s), predicting {:.1f} s, planning {:.1f} s, "
                  "building {:.1f} s",
                  run.importing_s, seconds_of(run.passes), tuned.predicting_s, tuned.planning_s,
                  run.building_s));
  if (run.rounding_error) facts.emplace_back("rounding", rounding_text(*run.rounding_error));
  for (const auto& [name, text] : facts_of(run.model, 0)) facts.emplace_back(name, text);
  if (const size_t unverified = run.unverified[run.written]; unverified > 0)
    facts.emplace_back("not verified",
                       fmt::format("{}, predicted and never run",
                                   counted(static_cast<int64_t>(unverified), "kernel")));
  return facts;
}

nlohmann::json json_of_run(const tuner::ModelRun& run, const std::string& path) {
  const tuner::TunedNetwork& tuned = run.tuned;
  const graph::Plan& plan = tuned.plans[run.written].plan;
  nlohmann::json passes = nlohmann::json::array(), rounds = passes, fusions = passes;
  for (const graph::PassRun& pass : run.passes)
    passes.push_back({{"name", pass.name},
                      {"seconds", pass.seconds},
                      {"operators_before", pass.operators_before},
                      {"operators_after", pass.operators_after},
                      {"changed", pass.changed}});
  for (const tuner::NetworkRound& round : tuned.rounds)
    rounds.push_back({{"kernels", round.tasks},
                      {"contenders", round.contenders},
                      {"seconds", round.seconds},
                      {"predicted_ns", round.predicted_ns}});
  for (const tuner::FusionChoice& fusion : run.fusions)
    fusions.push_back({{"pass", fusion.pass},
                       {"with_ns", fusion.with_ns},
                       {"without_ns", fusion.without_ns},
                       {"is_measured", fusion.is_measured},
                       {"is_left_out", fusion.is_left_out}});
  return {{"network", run.name},
          {"artifact", path},
          {"ended", tuner::to_string(tuned.ended)},
          {"predicted_ns", plan.predicted_ns},
          {"lower_bound_ns", plan.lower_bound_ns},
          {"is_optimal", plan.is_optimal},
          {"measured_ns", run.measured_ns},
          {"written_plan", run.written},
          {"unverified_kernels", run.unverified[run.written]},
          {"operators", run.graph->operators.size()},
          {"distinct_operators", tuned.groups},
          {"caches", dsl::to_string(tuned.state)},
          {"schemes", tuned.kernels},
          {"measured_schemes", tuned.measured},
          {"transforms", plan.transforms.size()},
          {"passes", passes},
          {"rounds", rounds},
          {"fusions", fusions},
          {"failures", tuned.failures},
          {"importing_s", run.importing_s},
          {"predicting_s", tuned.predicting_s},
          {"planning_s", tuned.planning_s},
          {"building_s", run.building_s},
          {"rounding_error", rounding_json(run.rounding_error)},
          {"dimensions", run.dimensions}};
}

/// Returns the results as JSON. The top level describes the first variant. If there are several
/// variants, "variants" lists all of them.
nlohmann::json json_of(const tuner::TunedModel& tuned, const TuneFlags& flags) {
  nlohmann::json document = json_of_run(tuned.runs.front(), tuned.path);
  document["sandbox"] = !flags.place.no_sandbox;
  document["model"] = as_json(tuned.file);
  if (tuned.refresh)
    document["refresh"] = {{"former_ns", tuned.refresh->former_ns},
                           {"latency_ns", tuned.refresh->latency_ns},
                           {"is_measured", tuned.refresh->is_measured},
                           {"is_kept", tuned.refresh->is_kept},
                           {"reason", tuned.refresh->reason}};
  if (tuned.runs.size() > 1)
    for (const tuner::ModelRun& run : tuned.runs)
      document["variants"].push_back(json_of_run(run, tuned.path));
  return document;
}

/// Returns the number of bytes that the constants of all variants would need together if the
/// variants did not share constants.
int64_t unshared_constant_bytes(const tuner::TunedModel& tuned) {
  int64_t bytes = 0;
  for (const tuner::ModelRun& run : tuned.runs) bytes += std::ssize(run.model.constants);
  return bytes;
}

std::string refresh_text(const tuner::Refresh& refresh) {
  return fmt::format("{}: {} before, {} as planned now{}{}",
                     refresh.is_kept ? "the file stays as it was" : "replaced",
                     time_text(refresh.former_ns), time_text(refresh.latency_ns),
                     refresh.is_measured ? ", timed by turns" : ", by the times of the plans",
                     refresh.reason.empty() ? "" : "; " + refresh.reason);
}

std::string text_of(const tuner::TunedModel& tuned, const TuneFlags& flags,
                    const Surroundings& here) {
  Facts last = sandbox_facts(flags.place);
  if (tuned.refresh) last.emplace_back("refreshed", refresh_text(*tuned.refresh));
  last.emplace_back("file", shell_quoted(tuned.path));
  if (tuned.runs.size() == 1) {
    Facts facts = facts_of_run(tuned.runs.front());
    facts.insert(facts.end(), last.begin(), last.end());
    return as_text(facts) + "\n" + as_text(table_of_costs(tuned.file, 0), here);
  }
  std::string text;
  for (size_t variant = 0; variant < tuned.runs.size(); ++variant)
    text += fmt::format("variant {}: {}\n\n{}\n{}\n", variant,
                        tuner::dimensions_text(tuned.runs[variant].dimensions),
                        as_text(facts_of_run(tuned.runs[variant])),
                        as_text(table_of_costs(tuned.file, variant), here));
  last.insert(last.begin(),
              {{"variants", std::to_string(tuned.runs.size())},
               {"constants", fmt::format("{}, {} if the variants shared none",
                                         show_bytes(std::ssize(tuned.file.constants)),
                                         show_bytes(unshared_constant_bytes(tuned)))}});
  return text + as_text(last);
}

}  // namespace

/// Prints the results. In CSV they are a table of the steps of all variants. If there are several
/// variants, the first column has the index of the variant.
Status print_model(const tuner::TunedModel& tuned, const TuneFlags& flags,
                   const Surroundings& here) {
  if (flags.format == Format::Json) {
    nlohmann::json document = json_of(tuned, flags);
    document["notes"] = notes_json(here.environment.notes);
    return print_json("tune", document);
  }
  if (flags.format == Format::Csv) return print_csv(sheet_of_steps(tuned.file));
  return print(text_of(tuned, flags, here));
}

}  // namespace tw::tools
