// SPDX-License-Identifier: Apache-2.0
// tilewright tune --demand: tunes the kernels that networks and operators use on devices like this
// one. The kernels whose tuning is expected to save the most time come first.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "db/demand.h"
#include "tools/interrupts.h"
#include "tools/reports/demand.h"
#include "tools/reports/progress.h"
#include "tools/tuning.h"
#include "tuner/demand.h"
#include "tuner/targets.h"

namespace tw::tools {
namespace {

std::string title_of_demand(const TuneFlags& flags) {
  return fmt::format("tuning what is wanted of {}, {} s, seed {}", flags.target.target_or_host(),
                     format_double(flags.budget_s), flags.seed);
}

Result<tuner::DemandRun> work_off(const TuneFlags& flags, const Surroundings& here,
                                  const tuner::ChosenTarget& target,
                                  const std::optional<tuner::Farm>& farm, db::Store& store,
                                  const std::atomic<int>& interrupts) {
  tuner::Environment environment = tuning_environment(flags.place, here, target.device);
  environment.interrupts = &interrupts;
  const tuner::TuneOptions options = options_of(flags);
  ProgressDisplay display(here, title_of_demand(flags));
  tuner::Progress start;
  start.budget_s = options.budget_s;
  display.update(start);
  // tune_demand() tunes kernels in waves. Each wave has its own number of threads and starts
  // workers for it: on the farm if there is one, or else on this machine.
  const tuner::TuneAll tune_all =
      [&](const std::vector<tuner::TaskSpec>& tasks, const tuner::TuneOptions& tuning,
          const tuner::OnProgress& progress) -> Result<std::vector<Result<tuner::Tuned>>> {
    if (!farm) return tuner::tune_all(tasks, target.target, tuning, store, environment, progress);
    TW_TRY(tuner::Workers workers,
           tuner::start_workers(*farm, tuning.threads, environment, tuning.timeout_s));
    return tuner::tune_all(tasks, target.target, tuning, store, environment, progress,
                           std::move(workers));
  };
  return tuner::tune_demand(
      target.target, options, store, environment,
      [&](const tuner::Progress& p) { display.update(p); }, tune_all);
}

Table compared(const tuner::DemandRun& run) {
  Table table{{"threads", "kernels", "used", "best before", "best now", "gained", "name"}, {}};
  for (const db::Demand& demand : run.after) {
    const tuner::DemandTimes now = tuner::times_of(demand);
    const auto before = std::ranges::find(run.before, demand.hash, &db::Demand::hash);
    const double before_ns = before == run.before.end() ? 0 : tuner::times_of(*before).best_ns;
    table.rows.push_back(
        {std::to_string(demand.threads), std::to_string(demand.kernels.size()),
         time_text(now.used_ns), before_ns > 0 ? time_text(before_ns) : "-", time_text(now.best_ns),
         now.used_ns > 0 ? show_share(1 - now.best_ns / now.used_ns) : "-", demand.name});
  }
  return table;
}

Status print_run(const TuneFlags& flags, const Surroundings& here, const tuner::DemandRun& run) {
  if (flags.format == Format::Csv) return print_csv(sheet_of(run.after));
  if (flags.format == Format::Json) {
    nlohmann::json before = nlohmann::json::array(), after = before;
    for (const db::Demand& demand : run.before) before.push_back(as_json(demand));
    for (const db::Demand& demand : run.after) after.push_back(as_json(demand));
    return print_json("tune", {{"demand", true},
                               {"ended", tuner::to_string(run.ended)},
                               {"seconds", run.seconds},
                               {"tuned_kernels", run.tuned},
                               {"waves", run.waves},
                               {"failures", run.failures},
                               {"before", before},
                               {"after", after},
                               {"sandbox", !flags.place.no_sandbox},
                               {"notes", notes_json(here.environment.notes)}});
  }
  Facts facts = {
      {"result", std::string(tuner::to_string(run.ended))},
      {"tuned", fmt::format("{} in {:.1f} s", counted(static_cast<int64_t>(run.tuned), "kernel"),
                            run.seconds)}};
  for (auto& fact : sandbox_facts(flags.place)) facts.push_back(std::move(fact));
  return print(as_text(facts) + "\n" + as_text(compared(run), here));
}

}  // namespace

Result<int> tune_demanded(const TuneFlags& flags, const Surroundings& here,
                          const tuner::ChosenTarget& target,
                          const std::optional<tuner::Farm>& farm) {
  TW_TRY(db::Store store, open_layered(flags.place, here, db::OpenMode::Update));
  TW_TRY(const std::vector<db::Demand> any, db::demands(store, {.limit = 1}));
  if (any.empty()) note(nobody_wants(shown_database(flags.place, here)));
  const std::atomic<int>& interrupts = watch_interrupts();
  TW_TRY(const tuner::DemandRun run, work_off(flags, here, target, farm, store, interrupts));
  if (!any.empty() && run.after.empty())
    note(fmt::format("no demand in {} is of a device like this one: `db demand` lists them",
                     shown_database(flags.place, here)));
  TW_RETURN_IF_ERROR(print_run(flags, here, run));
  for (const auto& [reason, workloads] : run.failures)
    note(
        fmt::format("{} without a kernel: {}", counted(std::ssize(workloads), "workload"), reason));
  if (run.unstored) return tl::unexpected<Error>(*run.unstored);
  return interrupts.load() > 0 ? interrupted(here) : 0;
}

}  // namespace tw::tools
