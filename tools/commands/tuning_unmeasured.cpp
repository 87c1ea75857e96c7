// SPDX-License-Identifier: Apache-2.0
// The forms of `tune` that measure nothing: --dry-run and --compile-only.

#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "codegen/gpu/compile.h"
#include "db/answers.h"
#include "runtime/private_file.h"
#include "schedules/space/find_point.h"
#include "schedules/space/space.h"
#include "tools/interrupts.h"
#include "tools/outputs.h"
#include "tools/reports/report.h"
#include "tools/tuning.h"
#include "tuner/measure/reference.h"
#include "tuner/search/experience.h"
#include "tuner/search/first_pick.h"
#include "tuner/search/spill_check.h"
#include "tuner/targets.h"

namespace tw::tools {

Result<std::string> keep_artifact(const TuneFlags& flags, const Surroundings& here,
                                  const runtime::Artifact& artifact) {
  if (!flags.output.empty()) {
    TW_RETURN_IF_ERROR(runtime::write_artifact(flags.output, artifact));
    return flags.output;
  }
  return store_in_cache(flags.place, here, artifact);
}

namespace {

struct DryRun {
  double space_size = 0;
  std::string schedule;
  bool begins_in_space = false;  ///< true: the job's schedule is a point of the space
  std::string beginning;         ///< configuration of that point, or of the nearest point
  int64_t known = 0;
  std::optional<db::Record> best;
  std::string layer;  ///< layer that has `best`; empty: the database itself
};

/// Writes to `found` the point of the space at which the search would begin: the point of the job's
/// schedule, or the nearest point if the schedule is not in the space. For a job without a
/// schedule, changes nothing.
Status look_at_beginning(const schedules::Space& space, const Job& job, DryRun& found) {
  if (job.schedule.empty()) return {};
  TW_TRY(const schedules::Schedule schedule,
         schedules::parse_schedule(job.workload.compute, job.schedule));
  const std::optional<schedules::Point> point = schedules::point_of(space, schedule);
  found.begins_in_space = point.has_value();
  found.beginning =
      space.to_string(point ? *point : schedules::nearest_point(space, schedule).value());
  return {};
}

Result<DryRun> look_at(const TuneFlags& flags, const Job& job, const Target& target,
                       std::optional<db::Store>& store) {
  TW_RETURN_IF_ERROR(tuner::check_tunable(job.workload, target));
  const auto threads = static_cast<int>(flags.target.threads);
  DryRun found;
  TW_TRY(const schedules::Space space,
         schedules::Space::derive(schedules::problem_of(job.workload), target));
  found.space_size = schedules::size(space);
  TW_RETURN_IF_ERROR(look_at_beginning(space, job, found));
  TW_TRY(found.schedule, default_schedule(job.workload, target));
  if (!store) return found;
  TW_TRY(found.known, tuner::count_known(*store, job.workload, target, threads));
  TW_TRY(found.best, tuner::best_known(*store, job.workload, target, threads));
  if (found.best) {
    TW_TRY(found.layer, db::layer_of(*store, *found.best));
  }
  return found;
}

}  // namespace

Result<int> dry_run(const TuneFlags& flags, const Surroundings& here, const std::vector<Job>& jobs,
                    const Target& target) {
  TW_TRY(std::optional<db::Store> store, open_if_there(flags.place, here));
  nlohmann::json results = nlohmann::json::array();
  Table table{{"name", "space", "known trials", "best known", "workload"}, {}};
  Table sheet{{"name", "space_size", "known_trials", "best_latency_ns", "best_device", "workload",
               "layouts"},
              {}};
  std::string text;
  std::set<OtherDevice> other_devices;
  for (const Job& job : jobs) {
    TW_TRY(const DryRun found, look_at(flags, job, target, store));
    const std::string best = found.best ? show_latency(*found.best) : "-";
    const OtherDevice elsewhere = found.best ? other_device_of(*found.best, target) : OtherDevice{};
    const std::string size = fmt::format("{:.3g}", found.space_size);
    table.rows.push_back({job.name, size, std::to_string(found.known),
                          best + (elsewhere.empty() ? "" : " elsewhere"), job.workload.text()});
    sheet.rows.push_back({job.name, format_double(found.space_size), std::to_string(found.known),
                          found.best ? format_double(found.best->latency_ns) : "",
                          found.best ? found.best->device : "", job.workload.key(),
                          job.workload.asked()});
    nlohmann::json result = {
        {"workload", job.workload.key()},       {"layouts", job.workload.asked()},
        {"workload_hash", job.workload.hash()}, {"name", job.name},
        {"target", target.to_string()},         {"threads", flags.target.threads},
        {"space_size", found.space_size},       {"default_schedule", found.schedule},
        {"known_trials", found.known}};
    if (found.best) {
      result["best"] = as_json(*found.best);
      result["best"]["measured_here"] = elsewhere.empty();
      result["best"]["likeness"] = db::to_string(elsewhere.likeness);
      result["best"]["layer"] = found.layer;
    }
    if (!job.schedule.empty())
      result["begins_with"] = {{"schedule", job.schedule},
                               {"in_space", found.begins_in_space},
                               {"configuration", found.beginning}};
    results.push_back(std::move(result));
    Facts facts = {{"workload", job.workload.text()},
                   {"hash", job.workload.hash()},
                   {"target", target.to_string()},
                   {"threads", std::to_string(flags.target.threads)},
                   {"space", size + " points"},
                   {"known trials", std::to_string(found.known)},
                   {"best known", best}};
    if (!job.schedule.empty())
      facts.emplace_back(
          "begins with",
          fmt::format("{}, {} of the space: {}", source_name(flags.schedule),
                      found.begins_in_space ? "a point" : "near this point", found.beginning));
    if (!found.layer.empty()) facts.emplace_back("layer", found.layer);
    if (!elsewhere.empty()) {
      facts.emplace_back("measured on", show_other_device(elsewhere));
      other_devices.insert(elsewhere);
    }
    text = as_text(facts) + "\ndefault schedule\n" + found.schedule;
  }
  if (flags.format == Format::Json)
    TW_RETURN_IF_ERROR(print_json("tune", {{"dry_run", true},
                                           {"database", shown_database(flags.place, here)},
                                           {"results", results}}));
  else if (flags.format == Format::Csv)
    TW_RETURN_IF_ERROR(print_csv(sheet));
  else
    TW_RETURN_IF_ERROR(print(flags.suite.empty()
                                 ? text + (text.ends_with('\n') ? "" : "\n")
                                 : as_text(table, here) + elsewhere_lines(other_devices)));
  return 0;
}

namespace {

tl::unexpected<Error> interrupted_after(size_t compiled, size_t all) {
  return fail(ErrorCode::Interrupted,
              fmt::format("[tune] interrupted with {} of {} artifacts compiled, which are kept",
                          compiled, all));
}

/// Returns the schedule with which a search would begin. Without a database, this is the schedule
/// that the cost model prefers. If the schedule is illegal, returns the default schedule instead.
Result<Preferred> unmeasured_schedule(std::optional<db::Store>& store,
                                      const dsl::Workload& workload, const Target& target,
                                      int threads, const StopToken& stop,
                                      const tuner::Environment& environment) {
  if (!store) return preferred_schedule(workload, target, threads, environment, stop);
  TW_TRY(std::string picked,
         tuner::first_pick(
             *store, workload, target, threads, stop, environment.notes,
             tuner::accepts_without_spills(workload, target, environment.cuda_directories)));
  return legal_or_default(std::move(picked), workload, target, environment.notes);
}

}  // namespace

Result<int> compile_only(const TuneFlags& flags, const Surroundings& here,
                         const std::vector<Job>& jobs, const tuner::ChosenTarget& target) {
  const auto threads = static_cast<int>(flags.target.threads);
  if (!flags.output.empty()) TW_RETURN_IF_ERROR(runtime::check_output(flags.output));
  TW_TRY(std::optional<db::Store> store, open_if_there(flags.place, here));
  const std::atomic<int>& interrupts = watch_interrupts();
  tuner::Environment environment = tuning_environment(flags.place, here, target.device);
  environment.interrupts = &interrupts;
  nlohmann::json results = nlohmann::json::array();
  Table table{{"artifact", "schedule_from", "workload"}, {}};
  for (const Job& job : jobs) {
    if (interrupts.load() > 0) return interrupted_after(table.rows.size(), jobs.size());
    TW_RETURN_IF_ERROR(tuner::check_tunable(job.workload, target.target));
    std::optional<db::Record> best;
    if (store) {
      TW_TRY(best, tuner::best_known(*store, job.workload, target.target, threads));
    }
    std::string schedule, source;
    if (best) {
      schedule = best->schedule;
      source = best->hash.substr(0, 16);
    } else {
      auto preferred = unmeasured_schedule(store, job.workload, target.target, threads,
                                           stop_on_interrupt(&interrupts), environment);
      if (!preferred && interrupts.load() > 0)
        return interrupted_after(table.rows.size(), jobs.size());
      TW_RETURN_IF_ERROR(preferred);
      schedule = std::move(preferred->schedule);
      source = source_of_preferred(preferred->is_default);
    }
    const auto build = [&] {
      return tuner::build_schedule(job.workload, schedule, target.target, threads,
                                   target.missing.empty(), environment);
    };
    auto artifact = build();
    const Status spills = artifact && !best ? codegen::check_spills(*artifact) : Status();
    if (!spills) {
      note(spills.error().message + "; the default schedule takes its place");
      source = "default schedule";
      TW_TRY(schedule, default_schedule(job.workload, target.target));
      artifact = build();
      if (artifact) TW_RETURN_IF_ERROR(codegen::check_spills(*artifact));
    }
    if (!artifact && interrupts.load() > 0)
      return interrupted_after(table.rows.size(), jobs.size());
    TW_RETURN_IF_ERROR(artifact);
    TW_TRY(const std::string path, keep_artifact(flags, here, *artifact));
    table.rows.push_back({path, source, job.workload.text()});
    results.push_back({{"workload", job.workload.key()},
                       {"layouts", job.workload.asked()},
                       {"name", job.name},
                       {"target", target.target.to_string()},
                       {"artifact", path},
                       {"schedule_from", source},
                       {"schedule", schedule},
                       {"verified", target.missing.empty()}});
  }
  if (flags.format == Format::Json)
    TW_RETURN_IF_ERROR(print_json("tune", {{"compile_only", true},
                                           {"notes", notes_json(here.environment.notes)},
                                           {"results", results}}));
  else
    TW_RETURN_IF_ERROR(flags.format == Format::Csv ? print_csv(table)
                                                   : print(as_text(table, here)));
  return 0;
}

}  // namespace tw::tools
