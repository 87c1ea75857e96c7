// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/tune_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "db/record.h"
#include "runtime/private_file.h"
#include "tuner/host_machine.h"
#include "tuner/network/difference.h"
#include "tuner/network/join_models.h"
#include "tuner/network/model_context.h"
#include "tuner/network/network_demand.h"
#include "tuner/network/passes_for_target.h"
#include "tuner/network/refresh.h"
#include "tuner/network/whole_networks.h"
#include "tuner/workers/farm.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {
namespace {

// Longest time in seconds for planning and building after an interrupt. It is enough to build a
// network with some hundred distinct kernels on two cores.
constexpr double longest_closing_s = 20;
// Shortest time in seconds for tuning a network without a fusion. In less time, the kernels that
// this network needs in addition would not be measured.
constexpr double least_fusion_s = 4;

// ---- from the source to graphs ----------------------------------------------

/// Applies the passes for the target to a variant. The target has the machine that the store knows
/// for it.
Result<ModelRun> rewritten(const NetworkVariant& variant, const std::vector<std::string>& left_out,
                           std::optional<DType> precision, const ModelContext& context) {
  const int64_t before = context.environment.clock();
  RewriteOptions rewriting{.left_out = {left_out.begin(), left_out.end()},
                           .accuracy = context.options.accuracy,
                           .precision = precision};
  TW_TRY(graph::Passed passed, apply_passes_for(with_known_machine(context.store, context.target),
                                                variant.graph, rewriting, context.environment));
  ModelRun run;
  run.dimensions = variant.dimensions;
  run.name = context.source.name;
  run.left_out = left_out;
  run.graph = std::make_shared<const graph::Graph>(std::move(passed.graph));
  run.passes = std::move(passed.runs);
  run.importing_s = static_cast<double>(context.environment.clock() - before) / 1e9;
  return run;
}

/// Returns the SHA-256 of the name, the dimensions and the workloads of the operators, in order.
/// Other weights do not change it.
std::string source_hash(const ModelRun& run) {
  std::string text = fmt::format("{}\n{}\n", run.name, dimensions_text(run.dimensions));
  for (const graph::Operator& op : run.graph->operators) text += op.workload.text() + "\n";
  return sha256_hex(text);
}

Result<std::vector<ModelRun>> rewritten_variants(const ModelContext& context) {
  std::vector<ModelRun> runs;
  for (const NetworkVariant& variant : context.source.variants) {
    TW_TRY(ModelRun run,
           rewritten(variant, context.options.left_out, context.options.precision, context));
    run.importing_s += variant.reading_s;
    run.source = source_hash(run);
    runs.push_back(std::move(run));
  }
  return runs;
}

/// Returns the variant of the source that the run tunes.
const NetworkVariant& variant_of(const ModelRun& run, const ModelContext& context) {
  return *std::ranges::find(context.source.variants, run.dimensions, &NetworkVariant::dimensions);
}

/// Gives the run the graph of the former network, which may have been tuned without some optional
/// passes: searches for a set of optional passes to leave out that gives this graph. Returns false
/// if there is no such set. A set is extended by further passes only if leaving it out gives a
/// graph that was not seen before. So few sets are tried if few passes change the graph.
Result<bool> match_former(ModelRun& run, const runtime::ModelVariant& former,
                          const ModelContext& context) {
  std::set<std::string> graphs = {graph::to_text(*run.graph)};
  if (graphs.contains(former.graph)) return true;
  std::vector<std::vector<std::string>> sets = {run.left_out};
  for (size_t i = 0; i < sets.size(); ++i)
    for (const graph::Pass& pass : graph::passes()) {
      if (!pass.is_optional || std::ranges::find(sets[i], pass.name) != sets[i].end()) continue;
      std::vector<std::string> left_out = sets[i];
      left_out.emplace_back(pass.name);
      TW_TRY(ModelRun other,
             rewritten(variant_of(run, context), left_out, context.options.precision, context));
      if (!graphs.insert(graph::to_text(*other.graph)).second) continue;
      if (graphs.contains(former.graph)) {
        other.source = run.source;
        other.importing_s += run.importing_s;
        run = std::move(other);
        return true;
      }
      sets.push_back(std::move(left_out));
    }
  return false;
}

/// Reads the file that a refreshed network may replace. The file must hold exactly the variants of
/// the source, in their order; each of them may have been tuned without some optional passes.
/// Variants are compared by the texts of their graphs, which contain the hashes of constants. Fails
/// with Invalid if the file holds another network or other weights, so that these are not
/// overwritten.
Status find_former(TunedModel& tuned, const ModelContext& context) {
  TW_TRY(tuned.former, former_model(context.options.path));
  if (!tuned.former) return {};
  TW_RETURN_IF_ERROR(check_comparable(*tuned.former, context));
  bool is_same = tuned.former->variants.size() == tuned.runs.size();
  for (size_t i = 0; is_same && i < tuned.runs.size(); ++i) {
    TW_TRY(is_same, match_former(tuned.runs[i], tuned.former->variants[i], context));
  }
  if (is_same) return {};
  return fail(ErrorCode::Invalid,
              fmt::format("[refresh] '{}' holds another network than {}, other weights, or other "
                          "variants: remove the file, or name another by --output",
                          context.options.path, context.source.name));
}

// ---- tuning -------------------------------------------------------------------

NetworkOptions network_options(const ModelContext& context) {
  NetworkOptions options;
  options.predictions = context.options.predictions;
  options.tuning = context.options.tuning;
  options.tuning.budget_s = context.share_s;
  if (context.options.farm)
    options.start_workers = [&context](const TuneOptions& tuning) {
      return start_workers(*context.options.farm, tuning.threads, context.environment,
                           tuning.timeout_s);
    };
  // If whole networks are not measured, only the plan with the lowest cost is needed.
  if (!context.times_networks() || context.options.farm)
    options.plans = 1;
  else if (context.measures())
    options.tuning.budget_s -= context.races() * context.race_s() + context.building_s();
  return options;
}

Status tune_heard(ModelRun& run, const NetworkOptions& options, const ModelContext& context) {
  const OnProgress told = context.options.listen ? context.options.listen(run) : OnProgress();
  const OnProgress listener = [&](const Progress& progress) {
    const auto ok = progress.trials.find(std::string(db::to_string(db::TrialStatus::Ok)));
    run.has_measured |= ok != progress.trials.end() && ok->second > 0;
    if (told) told(progress);
  };
  if (told) {
    Progress start;
    if (context.measures()) start.budget_s = options.tuning.budget_s;
    told(start);
  }
  TW_TRY(run.tuned, tune_network(*run.graph, context.target, options, context.store,
                                 context.environment, listener));
  return {};
}

/// Returns the optional passes that changed the graph, since the network may be faster without
/// them. Empty if there is no time to try.
std::vector<std::string> passes_to_doubt(const ModelRun& run, const ModelContext& context) {
  if (!context.measures() || context.fusion_s() < least_fusion_s) return {};
  std::vector<std::string> doubted;
  for (const graph::Pass& pass : graph::passes())
    if (pass.is_optional && std::ranges::any_of(run.passes, [&](const graph::PassRun& applied) {
          return applied.name == pass.name && applied.changed;
        }))
      doubted.emplace_back(pass.name);
  return doubted;
}

bool is_measured(const PlannedNetwork& planned) {
  return std::ranges::all_of(planned.kernels, [](const KernelChoice& kernel) {
    return kernel.schedule.empty() || kernel.measured_ns > 0;
  });
}

/// Tunes the network without the pass. If all kernels of both plans are measured and the network is
/// faster without the pass, replaces `run` by the run without it.
Status decide_fusion(ModelRun& run, const std::string& pass, const ModelContext& context) {
  std::vector<std::string> left_out = run.left_out;
  left_out.push_back(pass);
  TW_TRY(ModelRun other,
         rewritten(variant_of(run, context), left_out, context.options.precision, context));
  NetworkOptions options = network_options(context);
  options.tuning.budget_s = context.fusion_s();
  TW_RETURN_IF_ERROR(tune_heard(other, options, context));
  const PlannedNetwork &with_it = run.tuned.plans.front(), &without_it = other.tuned.plans.front();
  FusionChoice choice{.pass = pass,
                      .with_ns = with_it.plan.predicted_ns,
                      .without_ns = without_it.plan.predicted_ns,
                      .is_measured = is_measured(with_it) && is_measured(without_it)};
  choice.is_left_out = choice.is_measured && choice.without_ns < choice.with_ns;
  run.fusions.push_back(choice);
  run.has_measured |= other.has_measured;
  if (!choice.is_left_out) return {};
  other.has_measured = run.has_measured;
  other.source = run.source;
  other.fusions = std::move(run.fusions);
  other.importing_s += run.importing_s;
  run = std::move(other);
  return {};
}

Status tune_variant(ModelRun& run, const ModelContext& context) {
  const std::vector<std::string> doubted = passes_to_doubt(run, context);
  NetworkOptions options = network_options(context);
  // Reading a large network may take longer than the budget. The network is then planned from
  // records and predictions.
  options.tuning.budget_s = std::max(options.tuning.budget_s - run.importing_s -
                                         static_cast<double>(doubted.size()) * context.fusion_s(),
                                     0.0);
  TW_RETURN_IF_ERROR(tune_heard(run, options, context));
  for (const std::string& pass : doubted) {
    if (context.environment.interrupted()) return {};
    TW_RETURN_IF_ERROR(decide_fusion(run, pass, context));
  }
  return {};
}

/// Returns the environment for the work that is left after an interrupt. This work is stopped after
/// longest_closing_s, or at the next interrupt.
Environment closing(Environment environment) {
  environment.interrupts = environment.later_interrupts;
  environment.ends_ns = environment.clock() + static_cast<int64_t>(longest_closing_s * 1e9);
  return environment;
}

/// Plans a network from records and predictions, as with Effort::None.
Status plan_unmeasured(ModelRun& run, const ModelContext& context, const Environment& environment) {
  NetworkOptions options = network_options(context);
  options.tuning.effort = Effort::None;
  TW_TRY(run.tuned,
         tune_network(*run.graph, context.target, options, context.store, environment, nullptr));
  return {};
}

/// True if the user interrupted the run before it measured a kernel, and there is a file. The file
/// may have measured kernels, so a plan without measurements must not replace it.
bool keeps_file(const std::vector<ModelRun>& runs, const ModelContext& context) {
  std::error_code ignored;
  return context.measures() && context.environment.interrupted() &&
         std::ranges::none_of(runs, &ModelRun::has_measured) && !context.options.path.empty() &&
         std::filesystem::is_regular_file(context.options.path, ignored);
}

/// Tunes the variants one after the other. An interrupt ends only the measuring, so that every
/// variant has plans in the end. Fails with Interrupted if keeps_file().
Status tune_variants(std::vector<ModelRun>& runs, const ModelContext& context) {
  for (ModelRun& run : runs) {
    const bool is_skipped = context.measures() && context.environment.interrupted();
    const Status tuned = is_skipped ? Status() : tune_variant(run, context);
    const bool is_interrupted = !tuned && tuned.error().code == ErrorCode::Interrupted;
    if (!tuned && !(is_interrupted && context.measures())) return tuned;
    if (keeps_file(runs, context))
      return fail(ErrorCode::Interrupted,
                  fmt::format("[tune] interrupted before a kernel was measured: {} stays as it was",
                              context.options.path));
    if (run.tuned.plans.empty()) {
      TW_RETURN_IF_ERROR(plan_unmeasured(run, context, closing(context.environment)));
      run.tuned.ended = Ended::Interrupted;
    }
  }
  return {};
}

/// Adds a note that says how many kernels were not measured, and why. All reasons are in one note,
/// because only the first note of each kind is printed.
void note_failures(const std::vector<ModelRun>& runs, Notes* notes) {
  std::map<std::string, size_t> kernels;  // by reason
  for (const ModelRun& run : runs)
    for (const auto& [reason, workloads] : run.tuned.failures) kernels[reason] += workloads.size();
  std::vector<std::string> texts;
  for (const auto& [reason, count] : kernels)
    texts.push_back(fmt::format("{}: {}", counted(static_cast<int64_t>(count), "kernel"), reason));
  if (!texts.empty()) note(notes, NoteKind::KernelsUnmeasured, join(texts, "; "));
}

/// Fails with Usage if the options contradict each other or are out of range, or if the source has
/// no variant.
Status check(const NetworkSource& source, const ModelOptions& options) {
  TW_RETURN_IF_ERROR(check(options.tuning));
  if (source.variants.empty())
    return fail(ErrorCode::Usage, "[tune] the network has no variant: give at least one graph");
  const bool measures = options.tuning.effort != Effort::None;
  if (options.refresh && (measures || options.path.empty()))
    return fail(ErrorCode::Usage, "[refresh] expected the effort none, and the path of a file");
  if (options.only_plans && measures)
    return fail(ErrorCode::Usage, "[tune] plans alone are made with the effort none");
  return {};
}

// ---- building -----------------------------------------------------------------

/// Returns the environment for building the plans that are written. In a run that measures, the
/// first interrupt ends the measuring, but does not stop these builds.
Environment building_environment(const ModelContext& context) {
  if (!context.measures()) return context.environment;
  if (context.environment.interrupted()) {
    note(context.environment.notes, NoteKind::ClosingEarly,
         "the network is built from what is known; a second interrupt leaves it out");
    return closing(context.environment);
  }
  Environment environment = context.environment;
  environment.interrupts = environment.later_interrupts;
  return environment;
}

/// Returns a model with the present models of all variants.
runtime::ModelFile joined(const TunedModel& tuned) {
  std::vector<const runtime::ModelFile*> models;
  for (const ModelRun& run : tuned.runs) models.push_back(&run.model);
  return join_models(models);
}

/// Joins the variants into one model, and writes it to the file.
Status write_joined(TunedModel& tuned) {
  tuned.file = joined(tuned);
  return tuned.path.empty() ? Status() : runtime::write_model(tuned.path, tuned.file);
}

/// Chooses among the best plans of each variant by timing them as whole networks. Writes the
/// network, unless there is a file whose network is at least equally fast or must be kept for
/// another reason (compare_with_former()).
Status write_refreshed(TunedModel& tuned, ModelContext& context) {
  if (context.options.runs_here)
    for (ModelRun& run : tuned.runs) TW_RETURN_IF_ERROR(choose_by_runs(run, context));
  tuned.file = joined(tuned);
  if (tuned.former) {
    TW_TRY(tuned.refresh, compare_with_former(tuned, context));
  }
  if (!tuned.refresh || !tuned.refresh->is_kept)
    return runtime::write_model(tuned.path, tuned.file);
  tuned.file = *tuned.former;
  return {};
}

/// Builds the cheapest plan of each variant and writes the file. Only after that, times the best
/// plans as whole networks, so that a kernel that crashes this process loses no result. In a
/// refresh, the file is written after the timings instead.
Status build_variants(TunedModel& tuned, ModelContext& context) {
  const Environment environment = building_environment(context);
  for (ModelRun& run : tuned.runs) {
    TW_TRY(BuiltModel built, build_plan(run, 0, context, environment));
    run.model = std::move(built.file);
    run.bands = built.bands;
    run.unverified.push_back(built.unverified);
  }
  if (context.options.refresh) return write_refreshed(tuned, context);
  TW_RETURN_IF_ERROR(write_joined(tuned));
  if (!context.measures() || context.options.farm || context.environment.interrupted()) return {};
  for (ModelRun& run : tuned.runs) TW_RETURN_IF_ERROR(choose_by_runs(run, context));
  return write_joined(tuned);
}

std::vector<db::Demand> demands_of(const TunedModel& tuned, const ModelContext& context) {
  std::vector<db::Demand> demands;
  for (const ModelRun& run : tuned.runs) {
    if (run.tuned.plans.empty()) continue;
    std::string name = run.name;
    if (!run.dimensions.empty()) name += " " + dimensions_text(run.dimensions);
    demands.push_back(demand_of(run.tuned.plans[run.written], run.source, name, context.target,
                                context.threads(), run.tuned.most_error,
                                context.environment.now_ms()));
  }
  return demands;
}

/// Runs the network once and the same network in f32 once, and stores the largest difference of
/// their outputs. The kernels of the network in f32 come from records and predictions.
Status compare_precision(ModelRun& run, ModelContext& context) {
  TW_TRY(ModelRun wide, rewritten(variant_of(run, context), run.left_out, std::nullopt, context));
  if (graph::to_text(*wide.graph) == graph::to_text(*run.graph)) {
    run.rounding_error = 0;
    return {};
  }
  TW_RETURN_IF_ERROR(plan_unmeasured(wide, context, context.environment));
  TW_TRY(BuiltModel built, build_plan(wide, 0, context, context.environment));
  std::vector<runtime::ModelFile> files(1, run.model);
  files.push_back(std::move(built.file));
  TW_TRY(const PlacedModels placed, load_all(std::move(files), context));
  runtime::ThreadPool pool({.threads = context.threads()});
  std::vector<std::vector<dsl::Array>> outputs;
  for (const runtime::Model& model : placed.models) {
    TW_TRY(outputs.emplace_back(), random_outputs(model, context.options.tuning.seed, pool));
  }
  run.rounding_error = largest_difference(outputs[0], outputs[1]);
  return {};
}

double reading_s(const NetworkSource& source) {
  double seconds = 0;
  for (const NetworkVariant& variant : source.variants) seconds += variant.reading_s;
  return seconds;
}

}  // namespace

std::string dimensions_text(const Dimensions& dimensions) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : dimensions) texts.push_back(fmt::format("{}={}", name, value));
  return join(texts, " ");
}

Result<BuiltModel> build_plan(ModelRun& run, size_t plan, ModelContext& context,
                              const Environment& environment,
                              const std::vector<bool>& side_by_side) {
  const int64_t before = environment.clock();
  TW_TRY(BuiltModel built, build_model(*run.graph, run.tuned, plan,
                                       {run.name, context.target, context.threads(), side_by_side},
                                       environment, context.kernels));
  run.building_s += static_cast<double>(environment.clock() - before) / 1e9;
  return built;
}

Result<TunedModel> tune_model(const NetworkSource& source, const Target& target,
                              const ModelOptions& options, db::Store& store,
                              const Environment& environment) {
  TW_RETURN_IF_ERROR(check(source, options));
  if (!options.path.empty() && !options.only_plans)
    TW_RETURN_IF_ERROR(runtime::check_output(options.path, source.name + ".twart"));
  const double budget_s = options.tuning.budget_s;
  ModelContext context{
      .source = source,
      .target = target,
      .options = options,
      .store = store,
      .environment = environment,
      .share_s = budget_s / static_cast<double>(source.variants.size()),
      .ends_ns = environment.clock() + static_cast<int64_t>((budget_s - reading_s(source)) * 1e9)};
  TunedModel tuned;
  tuned.path = options.path;
  TW_TRY(tuned.runs, rewritten_variants(context));
  for (const ModelRun& run : tuned.runs) TW_RETURN_IF_ERROR(check_assemblable(*run.graph, target));
  if (options.refresh) TW_RETURN_IF_ERROR(find_former(tuned, context));
  TW_RETURN_IF_ERROR(tune_variants(tuned.runs, context));
  note_failures(tuned.runs, environment.notes);
  if (options.only_plans) return tuned;
  TW_RETURN_IF_ERROR(build_variants(tuned, context));
  if (!tuned.refresh || !tuned.refresh->is_kept) tuned.demands = demands_of(tuned, context);
  const bool runs = options.runs_here && !options.farm && !environment.interrupted();
  if (!options.precision || !runs) return tuned;
  // The file is already written, so a failure of the comparison is only noted.
  std::vector<std::string> reasons;
  for (ModelRun& run : tuned.runs)
    if (const Status compared = compare_precision(run, context); !compared)
      reasons.push_back(compared.error().message);
  if (!reasons.empty()) note(environment.notes, NoteKind::PrecisionUncompared, join(reasons, "; "));
  return tuned;
}

}  // namespace tw::tuner
