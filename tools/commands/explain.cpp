// SPDX-License-Identifier: Apache-2.0
// tilewright explain: compares a kernel with the limits of its machine, names the resource that
// limits it, and shows the steps in which the next best schedule differs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "codegen/inspect.h"
#include "cost_model/expected.h"
#include "db/answers.h"
#include "schedules/problem.h"
#include "tools/flags/db_flags.h"
#include "tools/model_files.h"
#include "tools/places.h"
#include "tools/reports/gpu_explanation.h"
#include "tools/reports/kernel_limits.h"
#include "tools/reports/pipeline_stages.h"
#include "tools/reports/report.h"
#include "tools/reports/roofline.h"
#include "tools/selection.h"
#include "tools/verbs.h"
#include "tuner/workers/device.h"

namespace tw::tools {
namespace {

struct ExplainFlags {
  SelectionFlags selection;
  Drawing drawing = Drawing::None;  ///< --dot or --svg; only for networks
  Format format = Format::Table;
};

/// The results of a static analysis of a schedule. The kernel is compiled but not run.
struct Analysis : KernelLimits {
  /// Time predicted by the pretrained model, or by the analytic model alone if the target has no
  /// pretrained model.
  double expected_ns = 0;
  int spills = 0;
  std::optional<GpuExplanation> gpu = {};  ///< nullopt for kernels of processors
  std::vector<PipelineStages> pipelines = {};
};

/// The fastest other schedule of the workload with the same layouts, and the steps in which it
/// differs from the explained schedule.
struct Rival {
  db::Record record;
  std::vector<std::string> only_here, only_there;
  /// The reason why the rival is not the answer although it is faster; empty if it is slower.
  std::string why_not_best;
  double expected_ns = 0;  ///< predicted time; only if the explained schedule was not measured
};

/// Returns the number of register spills in the instructions of the compiled kernel.
Result<int> count_spills(const Selection& s, const std::string& schedule,
                         const tuner::Environment& environment) {
  TW_TRY(const runtime::Artifact artifact,
         tuner::build_schedule(s.workload, schedule, s.target, s.threads, false, environment));
  TW_TRY(const std::string assembly, codegen::disassemble(artifact.object, s.target));
  return codegen::count_spills(assembly, s.target.architecture);
}

Result<Analysis> analyse(Selection& s, const Surroundings& here,
                         const tuner::Environment& environment) {
  TW_TRY(const std::string text, schedule_of(s, here));
  TW_TRY(const schedules::Program kernel, program_of(s.workload, text, s.target));
  TW_TRY(KernelLimits limits, kernel_limits(kernel, s.workload, s.target, s.threads));
  TW_TRY(const double expected_ns,
         cost_model::expected_ns(kernel, schedules::problem_of(s.workload), s.target, s.threads));
  Analysis analysis{std::move(limits), expected_ns};
  if (analysis.facts.gpu) {
    TW_TRY(analysis.gpu, explain_gpu(kernel, *analysis.facts.gpu, s.target,
                                     {.directories = environment.cuda_directories}));
    analysis.spills = static_cast<int>(analysis.gpu->spilled_bytes() / 4);
    TW_TRY(analysis.pipelines, pipeline_stages(s.workload, text, s.target));
    return analysis;
  }
  TW_TRY(analysis.spills, count_spills(s, text, environment));
  return analysis;
}

std::vector<std::string> lines_missing_in(const std::string& there, const std::string& here) {
  const std::vector<std::string> lines = tw::split(there, '\n');
  const std::set<std::string> present(lines.begin(), lines.end());
  std::vector<std::string> missing;
  for (const std::string& line : tw::split(here, '\n'))
    if (!present.contains(line)) missing.push_back(line);
  return missing;
}

/// Returns the reason why the database does not use a record that is faster than its answer; empty
/// if the record is the answer or is slower.
Result<std::string> why_not_used(db::Store& store, const db::Record& record) {
  TW_TRY(const std::optional<db::Explanation> answer, db::explain(store, key_of(record)));
  if (!answer) return "";
  const auto found = std::ranges::find_if(answer->not_used, [&](const db::Doubted& doubted) {
    return doubted.record.hash == record.hash;
  });
  return found == answer->not_used.end() ? "" : found->why;
}

/// Returns the reason why `rival` is not the answer although its latency is smaller than that of
/// `record`. Empty if its latency is not smaller or no reason is known. `is_confirmed` says that
/// the final comparison of the run that made `record` has measured its schedule again.
Result<std::string> why_not_best(db::Store& store, const db::Record& rival,
                                 const db::Record& record, bool is_confirmed) {
  if (rival.latency_ns >= record.latency_ns) return "";
  const double against_peak = db::efficiency(rival) - db::efficiency(record);
  if (rival.peak_gflops > 0 && record.peak_gflops > 0 && against_peak < 0)
    return fmt::format(
        "the machine was faster then: {:.1f} % of the peak measured beside it, this "
        "one {:.1f} %",
        100 * db::efficiency(rival), 100 * db::efficiency(record));
  if (is_confirmed && rival.session == record.session)
    return "each was measured alone; the finals of the run, interleaved, chose this one";
  return why_not_used(store, rival);
}

Result<std::optional<Rival>> find_rival(db::Store& store, const db::Record& record) {
  db::Filter same;
  same.workload = record.workload;
  same.target = record.target;
  same.device = record.device;
  same.threads = record.threads;
  same.codegen_abi = record.codegen_abi;
  same.layouts = record.layouts;
  same.status = db::TrialStatus::Ok;
  std::optional<db::Record> next;
  int own_trials = 0;  // trials of this schedule in its run; a second trial is the final comparison
  TW_RETURN_IF_ERROR(store.for_each(same, [&](const db::Record& other) {
    own_trials += other.schedule == record.schedule && other.session == record.session;
    if (other.schedule != record.schedule && (!next || other.latency_ns < next->latency_ns))
      next = other;
    return true;
  }));
  if (!next) return std::optional<Rival>();
  TW_TRY(const std::string why, why_not_best(store, *next, record, own_trials > 1));
  return std::optional(Rival{*next, lines_missing_in(next->schedule, record.schedule),
                             lines_missing_in(record.schedule, next->schedule), why});
}

/// Returns the rival of a schedule by hand that was not measured: the best known record of the
/// workload. nullopt if there is no record or it has the same schedule.
Result<std::optional<Rival>> find_best_known(db::Store& store, const Selection& s) {
  TW_TRY(const std::optional<db::Record> best,
         tuner::best_known(store, s.workload, s.target, s.threads));
  if (!best || best->schedule == s.by_hand->text) return std::optional<Rival>();
  TW_TRY(schedules::Program kernel, program_of(s.workload, best->schedule, s.target));
  TW_TRY(const double expected_ns,
         cost_model::expected_ns(std::move(kernel), schedules::problem_of(s.workload), s.target,
                                 s.threads));
  return std::optional(Rival{*best, lines_missing_in(best->schedule, s.by_hand->text),
                             lines_missing_in(s.by_hand->text, best->schedule), "", expected_ns});
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// Returns the load balance of the threads, from 0 to 1, in the worst phase: the number of tasks
/// for each thread in an even split, divided by the number of tasks of the busiest thread.
double balance(const cost_model::KernelFacts& facts, int threads) {
  double worst = 1;
  for (const cost_model::PhaseFacts& phase : facts.phases)
    worst = std::min(worst, phase.tasks / threads / std::ceil(phase.tasks / threads));
  return worst;
}

/// Returns a clause that compares a predicted time with the measured time: ", 0.87 of what was
/// measured". Empty if nothing was measured.
std::string against_measured(const Selection& s, double ns) {
  if (!s.record || s.record->latency_ns <= 0) return "";
  return fmt::format(", {:.2f} of what was measured", ns / s.record->latency_ns);
}

void add_what_runs_on(const Selection& s, Facts& facts) {
  if (!s.target.is_gpu()) {
    facts.emplace_back("threads", std::to_string(s.threads));
    return;
  }
  facts.emplace_back("target", s.target.to_string());
  if (!s.target.cpu.empty()) facts.emplace_back("device", tuner::device_text(s.target));
}

void add_what_is_particular(const Selection& s, const Analysis& a, Facts& facts) {
  if (a.gpu) {
    for (const Facts& more : {as_facts(*a.gpu), as_facts(a.pipelines)})
      facts.insert(facts.end(), more.begin(), more.end());
    return;
  }
  if (const auto* hot = a.facts.hot_block())
    facts.emplace_back("hot block",
                       fmt::format("{:.0f} statements, {:.0f} accumulators, {:.0f} "
                                   "operands in registers",
                                   hot->statements, hot->accumulators, hot->operand_registers));
  facts.emplace_back("spills", fmt::format("{} in the generated code", a.spills));
  facts.emplace_back("balance", fmt::format("{:.1f} % of an even split over the threads",
                                            100 * balance(a.facts, s.threads)));
}

/// Returns a text about three shares: useful operations, used lanes of vectors, and operations in
/// partial tiles. For a GPU the text has no lanes, because GpuExplanation has the active lanes of
/// warps.
std::string work_text(const Analysis& a) {
  std::string text = fmt::format("{:.1f} % of the operations are useful, ",
                                 100 * share(a.facts.useful_flops, a.facts.flops));
  if (!a.gpu)
    text += fmt::format("{:.1f} % of the lanes are used, ",
                        100 * share(a.facts.flops, a.facts.lane_flops));
  return text + fmt::format("{:.1f} % lie in partial tiles",
                            100 * share(a.facts.partial_flops, a.facts.flops));
}

/// Returns the operations per byte of two levels of the memory: L1 and DRAM of a processor, L2 and
/// DRAM of a GPU.
std::string intensity_text(const Analysis& a) {
  const auto per_byte = [&](double bytes, const char* of) {
    return bytes > 0
               ? fmt::format("{:.1f} FLOP per byte {}", share(a.facts.useful_flops, bytes), of)
               : fmt::format("no bytes {}", of);
  };
  std::string near = per_byte(a.facts.loaded_bytes, "loaded");
  if (a.facts.gpu) {
    double bytes = 0;
    for (const cost_model::GpuPhaseFacts& phase : a.facts.gpu->phases) bytes += phase.l2_bytes;
    near = per_byte(bytes, "between L2 and the multiprocessors");
  }
  return fmt::format("{}; {}", near, per_byte(a.memory_bytes(), "of DRAM traffic"));
}

Facts summary(const Selection& s, const Analysis& a, const Roofline& line) {
  Facts facts = {{"workload", s.workload.text()}};
  add_what_runs_on(s, facts);
  facts.emplace_back("tuned for", describe(s.target.machine));
  facts.emplace_back("schedule", show_source(s));
  if (s.record) {
    const db::Record& r = *s.record;
    facts.emplace_back("measured", time_text(r.latency_ns));
    if (!s.other_device.empty())
      facts.emplace_back("measured on", show_other_device(s.other_device));
    if (!s.layer.empty()) facts.emplace_back("layer", s.layer);
    for (auto& fact : speeds(line)) facts.push_back(std::move(fact));
  }
  if (const std::string by = cost_model::expectation_name(s.target); by != "analytic")
    facts.emplace_back("expected", fmt::format("{}{}, by {}", time_text(a.expected_ns),
                                               against_measured(s, a.expected_ns), by));
  facts.emplace_back("analytic model",
                     fmt::format("{}{}, limited by {}", time_text(a.analytic_ns),
                                 against_measured(s, a.analytic_ns), a.limited_by()));
  facts.emplace_back("arithmetic intensity", intensity_text(a));
  facts.emplace_back("work", work_text(a));
  add_what_is_particular(s, a, facts);
  return facts;
}

/// Returns the roofline of the selected kernel, with the latency of the record if there is a
/// record. If the record's kernel can run on this machine, the bandwidth is measured now; otherwise
/// it is unknown.
Roofline line_of(const Selection& s, const tuner::Clock& clock) {
  if (!s.record)
    return with_algorithm(roofline(s.workload, s.target, s.threads, 0, 0), s.workload.compute,
                          s.by_hand ? s.by_hand->text : "");
  const Roofline line = roofline(*s.record, s.workload, s.target);
  return s.runs_here ? with_bandwidth(line, s.target, s.threads, clock) : line;
}

Table resource_table(const Analysis& a) {
  Table table{{"resource", "time", "share"}, {}};
  std::vector<double> times;
  for (const auto& [resource, ns] : a.resources)
    if (ns > 0.005 * a.analytic_ns) times.push_back(ns);
  const TimeUnit unit(times);
  for (const auto& [resource, ns] : a.resources)
    if (ns > 0.005 * a.analytic_ns)
      table.rows.push_back(
          {resource, unit.text(ns), fmt::format("{:.0f} %", 100 * share(ns, a.analytic_ns))});
  return table;
}

Table resource_sheet(const Analysis& a) {
  Table table{{"resource", "analytic_ns", "share"}, {}};
  for (const auto& [resource, ns] : a.resources)
    table.rows.push_back({resource, format_double(ns), format_double(share(ns, a.analytic_ns))});
  return table;
}

/// Returns the first line about a rival. It compares the rival's latency with that of the record.
/// If there is no record, it compares the predicted times of both schedules.
std::string comparison_with(const Rival& rival, const std::optional<db::Record>& record,
                            const Analysis& a) {
  const std::string hash = rival.record.hash.substr(0, 16);
  if (!record)
    return fmt::format("best known: {}, record {}; expected: {} for it, {} for this\n",
                       time_text(rival.record.latency_ns), hash, time_text(rival.expected_ns),
                       time_text(a.expected_ns));
  const double ratio = share(rival.record.latency_ns, record->latency_ns);
  return fmt::format("best other: {}, {:.1f} % {}, record {}\n", time_text(rival.record.latency_ns),
                     100 * std::abs(ratio - 1), ratio < 1 ? "faster" : "slower", hash);
}

std::string describe(const Rival& rival, const std::optional<db::Record>& record,
                     const Analysis& a) {
  std::string text = comparison_with(rival, record, a);
  if (!rival.why_not_best.empty()) text += "  (" + rival.why_not_best + ")\n";
  for (const std::string& step : rival.only_here) text += "  - " + step + "\n";
  for (const std::string& step : rival.only_there) text += "  + " + step + "\n";
  return text;
}

Status explain_as_json(const Selection& s, const Analysis& a, const Roofline& line,
                       const std::optional<Rival>& rival) {
  nlohmann::json json = {{"workload", s.workload.key()},
                         {"layouts", s.workload.asked()},
                         {"target", s.target.to_string()},
                         {"tuned_for", describe(s.target.machine)},
                         {"threads", s.threads},
                         {"schedule_from", schedule_source(s)},
                         {"predicted_ns", a.expected_ns},
                         {"predicted_by", cost_model::expectation_name(s.target)},
                         {"analytic_ns", a.analytic_ns},
                         {"limited_by", a.limited_by()},
                         {"spills", a.spills},
                         {"useful_share", share(a.facts.useful_flops, a.facts.flops)},
                         {"partial_share", share(a.facts.partial_flops, a.facts.flops)},
                         {"memory_bytes", a.memory_bytes()}};
  if (a.gpu) {
    json["gpu"] = as_json(*a.gpu);
    json["gpu"]["pipelines"] = as_json(a.pipelines);
  } else {
    json["lane_share"] = share(a.facts.flops, a.facts.lane_flops);
    json["balance"] = balance(a.facts, s.threads);
  }
  for (const auto& [resource, ns] : a.resources)
    json["resources"].push_back({{"resource", resource}, {"ns", ns}});
  if (s.record) {
    json["record"] = as_json(*s.record);
    json["measured_here"] = s.other_device.empty();
    json["likeness"] = db::to_string(s.other_device.likeness);
    json["layer"] = s.layer;
  }
  json["memory"] = memory_json(line);
  json["algorithm"] = algorithm_json(line);
  if (rival)
    json["best_other"] = {{"record", as_json(rival->record)},
                          {"only_in_this", rival->only_here},
                          {"only_in_other", rival->only_there},
                          {"predicted_ns", rival->expected_ns},
                          {"why_not_best", rival->why_not_best}};
  return print_json("explain", json);
}

Result<int> explain_command(const ExplainFlags& flags, const Surroundings& here) {
  TW_TRY(const bool is_network, names_network(flags.selection, NetworkUse::Print, here));
  if (is_network) return explain_model(flags.selection.hash, flags.drawing, flags.format, here);
  if (flags.drawing != Drawing::None)
    return fail(ErrorCode::Usage, fmt::format("[explain] --{} draws a network: name its file",
                                              flags.drawing == Drawing::Dot ? "dot" : "svg"));
  TW_TRY(Selection s, select(flags.selection, here));
  if (s.workload.is_empty()) {
    note(fmt::format("{} is empty: there is nothing to explain", s.workload.text()));
    if (flags.format == Format::Json)
      TW_RETURN_IF_ERROR(
          print_json("explain", {{"workload", s.workload.key()}, {"analytic_ns", 0}}));
    if (flags.format == Format::Csv) TW_RETURN_IF_ERROR(print_csv(resource_sheet(Analysis())));
    return 0;
  }
  TW_TRY(const Analysis analysis,
         analyse(s, here, tuning_environment(flags.selection.place, here, s.device)));
  std::optional<Rival> rival;
  if (s.record) {
    TW_TRY(db::Store store, open_layered(flags.selection.place, here, db::OpenMode::ReadOnly));
    TW_TRY(rival, find_rival(store, *s.record));
  } else if (s.by_hand) {
    TW_TRY(std::optional<db::Store> store, open_if_there(flags.selection.place, here));
    if (store) {
      TW_TRY(rival, find_best_known(*store, s));
    }
  }
  const Roofline line = line_of(s, here.environment.clock);
  if (flags.format == Format::Json) {
    TW_RETURN_IF_ERROR(explain_as_json(s, analysis, line, rival));
    return 0;
  }
  if (flags.format == Format::Csv) {
    TW_RETURN_IF_ERROR(print_csv(resource_sheet(analysis)));
    return 0;
  }
  const Table table = resource_table(analysis);
  TW_RETURN_IF_ERROR(print(as_text(summary(s, analysis, line)) + "\n" + as_text(table, here) +
                           (rival ? "\n" + describe(*rival, s.record, analysis) : "")));
  return 0;
}

}  // namespace

Verb explain_verb() {
  auto f = std::make_shared<ExplainFlags>();
  return {.name = "explain",
          .summary = "what limits a kernel, or what a network's time is made of",
          .flags = concatenated({flags_of(f->selection),
                                 {{"dot",
                                   Switch(&f->drawing, Drawing::Dot),
                                   "of a network: its steps for Graphviz",
                                   {"format"}},
                                  {"svg",
                                   Switch(&f->drawing, Drawing::Svg),
                                   "of a network: its steps, drawn by Graphviz",
                                   {"format", "dot"}},
                                  format_flag(f->format)}}),
          .operands = {hash_operand(f->selection)},
          .run = [f](const Surroundings& here) { return explain_command(*f, here); }};
}

}  // namespace tw::tools
