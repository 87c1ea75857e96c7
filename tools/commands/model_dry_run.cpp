// SPDX-License-Identifier: Apache-2.0
// tilewright tune --model --dry-run: prints the plan with which tuning would begin.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tools/reports/model.h"
#include "tools/reports/report.h"
#include "tuner/search/experience.h"

namespace tw::tools {
namespace {

/// A kernel that a plan calls: the kernel of an operator or of a transform (a copy into another
/// layout). All calls of the same kernel are counted together.
struct PlannedKernel {
  tuner::KernelRequest request;
  std::string name = {};  ///< name of the first call
  int64_t calls = 0;
  double cost_ns = 0;  ///< time of the first call: measured, or predicted if `is_measured` is false
  bool is_measured = false;
  int64_t known_trials = 0;
};

/// One variant of the network, and the kernels of the plan with which its tuning would begin.
struct PlannedRun {
  const tuner::ModelRun* run = nullptr;
  std::vector<PlannedKernel> kernels;
};

Result<PlannedRun> planned_run(const tuner::ModelRun& run, const TuneFlags& flags,
                               const Target& target, db::Store& store) {
  TW_TRY(const tuner::Script script, tuner::make_script(*run.graph, run.tuned.plans.front()));
  PlannedRun planned{&run, {}};
  for (const tuner::KernelRequest& request : script.kernels) {
    planned.kernels.push_back({.request = request});
    TW_TRY(planned.kernels.back().known_trials,
           tuner::count_known(store, request.workload, target,
                              static_cast<int>(flags.target.threads)));
  }
  for (const tuner::ScriptCall& call : script.calls) {
    PlannedKernel& kernel = planned.kernels[call.kernel];
    if (kernel.calls++ > 0) continue;
    kernel.name = call.name;
    kernel.cost_ns = call.cost_ns;
    kernel.is_measured = call.is_measured;
  }
  return planned;
}

int64_t unmeasured_kernels(const PlannedRun& planned) {
  return std::ranges::count(planned.kernels, false, &PlannedKernel::is_measured);
}

double least_tuning_s(const PlannedRun& planned) {
  return tuner::least_task_s * static_cast<double>(unmeasured_kernels(planned));
}

std::string tuning_text(const PlannedRun& planned, const TuneFlags& flags) {
  const std::string budget = fmt::format("at most {} s (--budget)", format_double(flags.budget_s));
  if (unmeasured_kernels(planned) == 0) return budget + "; all kernels of this plan are measured";
  return fmt::format("{}; about {:.0f} s to measure each of {} for the first time", budget,
                     std::ceil(least_tuning_s(planned)),
                     counted(unmeasured_kernels(planned), "kernel"));
}

Facts facts_of_plan(const PlannedRun& planned, const TuneFlags& flags) {
  const tuner::ModelRun& run = *planned.run;
  const graph::Plan& plan = run.tuned.plans.front().plan;
  Facts facts = {{"network", run.name}};
  if (!run.dimensions.empty())
    facts.emplace_back("variant", tuner::dimensions_text(run.dimensions));
  facts.emplace_back("operators",
                     fmt::format("{}, {} distinct", run.graph->operators.size(), run.tuned.groups));
  facts.emplace_back("schemes", fmt::format("{}, {} measured on this device", run.tuned.kernels,
                                            run.tuned.measured));
  facts.emplace_back("plan", fmt::format("{}, {}, {} not measured",
                                         counted(std::ssize(planned.kernels), "distinct kernel"),
                                         counted(std::ssize(plan.transforms), "transform"),
                                         unmeasured_kernels(planned)));
  facts.emplace_back("predicted", time_text(plan.predicted_ns));
  facts.emplace_back("caches", std::string(dsl::to_string(run.tuned.state)));
  facts.emplace_back("tuning takes", tuning_text(planned, flags));
  return facts;
}

Table table_of_kernels(const PlannedRun& planned) {
  Table table{{"kernel", "calls", "time of one", "known trials", "layouts", "workload"}, {}};
  std::vector<double> times;
  for (const PlannedKernel& kernel : planned.kernels) times.push_back(kernel.cost_ns);
  const TimeUnit unit(times);
  for (const PlannedKernel& kernel : planned.kernels)
    table.rows.push_back({kernel.name, std::to_string(kernel.calls),
                          unit.text(kernel.cost_ns) + (kernel.is_measured ? "" : " predicted"),
                          std::to_string(kernel.known_trials), kernel.request.workload.asked(),
                          kernel.request.workload.key()});
  return table;
}

Table sheet_of_kernels(const std::vector<PlannedRun>& runs) {
  Table sheet{{"variant", "kernel", "calls", "call_ns", "is_measured", "known_trials", "layouts",
               "workload"},
              {}};
  for (size_t number = 0; number < runs.size(); ++number)
    for (const PlannedKernel& kernel : runs[number].kernels)
      sheet.rows.push_back({std::to_string(number), kernel.name, std::to_string(kernel.calls),
                            format_double(kernel.cost_ns), kernel.is_measured ? "1" : "0",
                            std::to_string(kernel.known_trials), kernel.request.workload.asked(),
                            kernel.request.workload.key()});
  return sheet;
}

nlohmann::json json_of_plan(const PlannedRun& planned) {
  const tuner::ModelRun& run = *planned.run;
  const graph::Plan& plan = run.tuned.plans.front().plan;
  nlohmann::json kernels = nlohmann::json::array();
  for (const PlannedKernel& kernel : planned.kernels)
    kernels.push_back({{"name", kernel.name},
                       {"calls", kernel.calls},
                       {"call_ns", kernel.cost_ns},
                       {"is_measured", kernel.is_measured},
                       {"known_trials", kernel.known_trials},
                       {"layouts", kernel.request.workload.asked()},
                       {"workload", kernel.request.workload.key()},
                       {"schedule", kernel.request.schedule}});
  return {{"network", run.name},
          {"dimensions", run.dimensions},
          {"operators", run.graph->operators.size()},
          {"distinct_operators", run.tuned.groups},
          {"schemes", run.tuned.kernels},
          {"measured_schemes", run.tuned.measured},
          {"transforms", plan.transforms.size()},
          {"predicted_ns", plan.predicted_ns},
          {"lower_bound_ns", plan.lower_bound_ns},
          {"is_optimal", plan.is_optimal},
          {"caches", dsl::to_string(run.tuned.state)},
          {"least_tuning_s", least_tuning_s(planned)},
          {"kernels", kernels}};
}

nlohmann::json json_of_plans(const std::vector<PlannedRun>& runs, const TuneFlags& flags) {
  nlohmann::json document = json_of_plan(runs.front());
  document["dry_run"] = true;
  document["target"] = flags.target.target_or_host();
  document["threads"] = flags.target.threads;
  document["budget_s"] = flags.budget_s;
  if (runs.size() > 1)
    for (const PlannedRun& planned : runs) document["variants"].push_back(json_of_plan(planned));
  return document;
}

}  // namespace

Status print_dry_run(const tuner::TunedModel& tuned, const TuneFlags& flags,
                     const Surroundings& here, const Target& target, db::Store& store) {
  std::vector<PlannedRun> runs;
  for (const tuner::ModelRun& run : tuned.runs) {
    TW_TRY(runs.emplace_back(), planned_run(run, flags, target, store));
  }
  if (flags.format == Format::Json) return print_json("tune", json_of_plans(runs, flags));
  if (flags.format == Format::Csv) return print_csv(sheet_of_kernels(runs));
  std::string text;
  for (const PlannedRun& planned : runs)
    text += (text.empty() ? "" : "\n") + as_text(facts_of_plan(planned, flags)) + "\n" +
            as_text(table_of_kernels(planned), here);
  return print(text);
}

}  // namespace tw::tools
