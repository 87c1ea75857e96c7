// SPDX-License-Identifier: Apache-2.0
// tilewright tune: searches for fast kernels and stores every trial.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "db/answers.h"
#include "runtime/private_file.h"
#include "tools/flags/db_flags.h"
#include "tools/flags/quote.h"
#include "tools/interrupts.h"
#include "tools/outputs.h"
#include "tools/reports/demand.h"
#include "tools/reports/progress.h"
#include "tools/reports/report.h"
#include "tools/suites.h"
#include "tools/tuning.h"
#include "tools/verbs.h"
#include "tuner/demand.h"
#include "tuner/search/experience.h"
#include "tuner/search/search.h"
#include "tuner/targets.h"
#include "tuner/workers/device.h"

namespace tw::tools {
namespace {

Result<std::vector<Job>> chosen_jobs(const TuneFlags& flags) {
  std::vector<Job> jobs;
  if (flags.suite.empty()) {
    TW_TRY(dsl::Workload workload, chosen_workload(flags.workload));
    jobs.push_back({"", std::move(workload), 1});
    return jobs;
  }
  TW_TRY(const std::vector<SuiteItem> items, suite(flags.suite, flags.workload.accuracy));
  for (const SuiteItem& item : items) {
    const dsl::Workload& w = item.workload;
    TW_TRY(dsl::Workload workload,
           dsl::make_workload(w.op, w.attributes, flags.workload.dtype, flags.workload.accuracy));
    workload.state = flags.workload.state;
    jobs.push_back({item.name, std::move(workload), static_cast<double>(item.count)});
  }
  return jobs;
}

}  // namespace

tuner::TuneOptions options_of(const TuneFlags& flags) {
  tuner::TuneOptions options;
  options.budget_s = flags.budget_s;
  options.timeout_s = flags.timeout_s;
  options.trials = flags.trials;
  options.effort = flags.effort;
  options.search = flags.search;
  options.seed = static_cast<uint64_t>(flags.seed);
  options.threads = static_cast<int>(flags.target.threads);
  return options;
}

std::string resume_line(const Surroundings& here) {
  std::string line = here.invoked_as;
  for (const std::string& argument : here.arguments)
    line.append(" ").append(shell_quoted(argument));
  return line;
}

int interrupted(const Surroundings& here) {
  note("interrupted; to go on: " + resume_line(here));
  return static_cast<int>(ErrorCode::Interrupted);
}

namespace {

/// Fails with Usage if --resume is given and the database has no trials to continue from.
Status check_resume(const TuneFlags& flags, const Surroundings& here, const std::vector<Job>& jobs,
                    const Target& target) {
  if (!flags.resume) return {};
  TW_TRY(std::optional<db::Store> store, open_if_there(flags.place, here));
  for (const Job& job : jobs) {
    if (!store) break;
    TW_TRY(const int64_t known, tuner::count_known(*store, job.workload, target,
                                                   static_cast<int>(flags.target.threads)));
    if (known > 0) return {};
  }
  return fail(
      ErrorCode::Usage,
      fmt::format("[tune] --resume: {} has no trials of {} for this target, device and {}; leave "
                  "the flag out to begin",
                  shell_quoted(shown_database(flags.place, here)), jobs.front().workload.text(),
                  counted(flags.target.threads, "thread")));
}

std::string title_of(const TuneFlags& flags, const std::vector<Job>& jobs) {
  const std::string what = fmt::format(
      "{} for {} on {}",
      flags.suite.empty()
          ? jobs.front().workload.text()
          : fmt::format("{} of {}", counted(static_cast<int64_t>(jobs.size()), "workload"),
                        flags.suite),
      flags.target.target_or_host(), counted(flags.target.threads, "thread"));
  if (!flags.measures()) return "looking up " + what;
  return fmt::format("tuning {}, {} s, seed {}{}", what, format_double(flags.budget_s), flags.seed,
                     flags.schedule.empty() ? "" : ", from " + source_name(flags.schedule));
}

Result<std::vector<Result<tuner::Tuned>>> tune_watched(
    const TuneFlags& flags, const Surroundings& here, const std::vector<Job>& jobs,
    const tuner::ChosenTarget& target, const std::optional<tuner::Farm>& farm, db::Store& store,
    const std::atomic<int>& interrupts) {
  tuner::Environment environment = tuning_environment(flags.place, here, target.device);
  environment.interrupts = &interrupts;
  const tuner::TuneOptions options = options_of(flags);
  std::vector<tuner::TaskSpec> tasks;
  for (const Job& job : jobs)
    tasks.push_back({.workload = job.workload,
                     .weight = job.weight,
                     .name = job.name,
                     .schedule = job.schedule,
                     .insists = !job.schedule.empty()});
  ProgressDisplay display(here, title_of(flags, jobs));
  tuner::Progress start;
  start.tasks = tasks.size();
  start.budget_s = options.budget_s;
  display.update(start);
  const auto on_progress = [&](const tuner::Progress& p) { display.update(p); };
  if (!farm) return tuner::tune_all(tasks, target.target, options, store, environment, on_progress);
  TW_TRY(tuner::Workers workers,
         tuner::start_workers(*farm, options.threads, environment, options.timeout_s));
  return tuner::tune_all(tasks, target.target, options, store, environment, on_progress,
                         std::move(workers));
}

/// Counts the trials of this run by status, and the schedules that were tried before this run. Adds
/// the numbers to `progress`.
Status count_trials(const dsl::Workload& workload, const Target& target, const TuneFlags& flags,
                    const Surroundings& here, db::Store& store, tuner::Progress& progress) {
  std::set<std::string> before;
  db::Filter filter;
  filter.workload = workload.key();
  filter.target = target.to_string();
  filter.device = tuner::device_text(target);
  filter.threads = flags.target.threads;
  filter.layouts = workload.asked();
  TW_RETURN_IF_ERROR(store.for_each(filter, [&](const db::Record& record) {
    if (record.session == here.environment.session)
      ++progress.trials[std::string(db::to_string(record.status))];
    else
      before.insert(record.schedule);
    return true;
  }));
  progress.known_trials = std::ssize(before);
  return {};
}

/// Returns the error for a run that was interrupted before it measured anything. Its result is the
/// best record that the database had before.
Error nothing_new() {
  return {ErrorCode::Interrupted,
          "[tune] interrupted before anything new was measured; the result is the best stored "
          "kernel, which was not compiled"};
}

/// Returns the outcome of a workload whose kernel was not compiled because of an interrupt: the
/// best record of the database, without an artifact. nullopt if there is no record.
Result<std::optional<Outcome>> interrupted_outcome(const TuneFlags& flags, const Surroundings& here,
                                                   const Job& job, const Target& target,
                                                   db::Store& store, const Error& why) {
  TW_TRY(const std::optional<db::Record> best,
         tuner::best_known(store, job.workload, target, static_cast<int>(flags.target.threads)));
  if (!best) return std::optional<Outcome>();
  Outcome outcome;
  outcome.job = &job;
  outcome.tuned.best = *best;
  outcome.tuned.ended = tuner::Ended::Interrupted;
  TW_RETURN_IF_ERROR(
      count_trials(job.workload, target, flags, here, store, outcome.tuned.progress));
  outcome.unkept = outcome.tuned.progress.trials.empty() ? nothing_new() : why;
  outcome.roofline = roofline(*best, job.workload, target);
  outcome.other_device = other_device_of(*best, target);
  TW_TRY(outcome.layer, db::layer_of(store, *best));
  return std::optional(std::move(outcome));
}

/// Prints a note, with the reason, if the database does not use the best record of the run because
/// of a doubt that `db quarantine` lists.
void note_doubt(db::Store& store, const db::Record& best) {
  const auto explained = db::explain(store, key_of(best));
  if (!explained || !*explained) return;
  for (const db::Doubted& other : (*explained)->not_used) {
    if (other.record.hash != best.hash || !db::is_listed(other.doubt)) continue;
    const std::string shown = best.hash.substr(0, 16);
    const std::string remedy = other.doubt == db::Doubt::Unconfirmed
                                   ? "`tilewright db verify --top 1` measures such records first"
                                   : fmt::format("`tilewright db explain {}` says more", shown);
    note(fmt::format("{} does not use record {} yet: {}; {}", shell_quoted(store.path()), shown,
                     other.why, remedy));
  }
}

/// Writes the kernel of each result to a file and returns an outcome for each result. For an
/// interrupted job, the outcome has the best record of the database and no file. Jobs without a
/// kernel and without such a record are added to `others`.
std::vector<Outcome> kept(const TuneFlags& flags, const Surroundings& here,
                          const std::vector<Job>& jobs, const Target& target, db::Store& store,
                          std::vector<Result<tuner::Tuned>> results, WithoutResult& others) {
  std::vector<Outcome> outcomes;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!results[i] && results[i].error().code == ErrorCode::Interrupted) {
      auto known = interrupted_outcome(flags, here, jobs[i], target, store, results[i].error());
      if (known && *known) {
        outcomes.push_back(std::move(**known));
        continue;
      }
    }
    if (!results[i]) {
      others.failed.push_back({jobs[i].name, jobs[i].workload.text(), results[i].error()});
      continue;
    }
    note_doubt(store, results[i]->best);
    const Roofline line = roofline(results[i]->best, jobs[i].workload, target);
    const OtherDevice other_device = other_device_of(results[i]->best, target);
    std::string layer = db::layer_of(store, results[i]->best).value_or("");
    Outcome outcome{&jobs[i], std::move(*results[i]), "", {}, line, other_device, std::move(layer)};
    const auto path = keep_artifact(flags, here, outcome.tuned.artifact);
    if (path)
      outcome.artifact = *path;
    else
      outcome.unkept = path.error();
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

/// Returns the message of the error, with the workload's text replaced by "the workload". So
/// workloads that fail for the same reason have equal texts.
std::string reason_of(const WithoutResult::Failed& failed) {
  std::string reason = failed.error.message;
  const std::string key = "'" + failed.workload + "'";
  if (const size_t at = reason.find(key); at != std::string::npos)
    reason.replace(at, key.size(), "the workload");
  return reason;
}

/// Prints notes about the workloads of a suite that have no kernel. There is one line for each
/// reason, with all workloads that failed for this reason.
void note_failures(const WithoutResult& others) {
  std::vector<std::string> interrupted;
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const auto& failed : others.failed) {
    if (failed.error.code == ErrorCode::Interrupted) {
      interrupted.push_back(failed.name);
      continue;
    }
    const std::string reason = reason_of(failed);
    const auto same = std::find_if(by_reason.begin(), by_reason.end(),
                                   [&](const auto& group) { return group.first == reason; });
    if (same == by_reason.end())
      by_reason.push_back({reason, {failed.name}});
    else
      same->second.push_back(failed.name);
  }
  for (const auto& [reason, names] : by_reason)
    note(fmt::format("{} without a kernel: {}: {}", counted(std::ssize(names), "workload"),
                     join(names, ", "), reason));
  if (!interrupted.empty())
    note("interrupted before a kernel was compiled; what was tried is stored: " +
         join(interrupted, ", "));
}

/// Returns the status of the run. It is the first error of these: a record could not be stored, a
/// kernel could not be written, a workload failed with another error than NoCandidate. NoCandidate,
/// which mostly means lack of time, counts only if no workload has a kernel.
Status verdict_on(const std::vector<Outcome>& outcomes, const WithoutResult& others) {
  for (const Outcome& outcome : outcomes)
    if (outcome.tuned.unstored) return tl::unexpected<Error>(*outcome.tuned.unstored);
  for (const Outcome& outcome : outcomes)
    if (outcome.unkept) return tl::unexpected<Error>(*outcome.unkept);
  for (const auto& failed : others.failed)
    if (failed.error.code != ErrorCode::NoCandidate) return tl::unexpected<Error>(failed.error);
  if (outcomes.empty() && !others.failed.empty())
    return tl::unexpected<Error>(others.failed.front().error);
  return {};
}

Result<int> tune_jobs(const TuneFlags& flags, const Surroundings& here,
                      const std::vector<Job>& jobs, WithoutResult others,
                      const tuner::ChosenTarget& target, const std::optional<tuner::Farm>& farm) {
  TW_RETURN_IF_ERROR(flags.output.empty() ? Status() : runtime::check_output(flags.output));
  TW_RETURN_IF_ERROR(check_page(flags));
  TW_RETURN_IF_ERROR(check_resume(flags, here, jobs, target.target));
  const bool reads = !flags.measures();
  TW_TRY(db::Store store,
         open_layered(flags.place, here, reads ? db::OpenMode::ReadOnly : db::OpenMode::ReadWrite));
  if (flags.output.empty()) TW_RETURN_IF_ERROR(check_cache(flags.place, here));
  const std::atomic<int>& interrupts = watch_interrupts();
  auto results = tune_watched(flags, here, jobs, target, farm, store, interrupts);
  if (!results && results.error().code == ErrorCode::Interrupted)
    results = std::vector<Result<tuner::Tuned>>(jobs.size(), tl::unexpected(results.error()));
  TW_RETURN_IF_ERROR(results);
  std::vector<db::Demand> demands;
  for (size_t i = 0; i < jobs.size(); ++i)
    if (auto demand = tuner::demand_left(jobs[i].workload, target.target,
                                         static_cast<int>(flags.target.threads), (*results)[i],
                                         here.environment.now_ms()))
      demands.push_back(std::move(*demand));
  std::vector<Outcome> outcomes =
      kept(flags, here, jobs, target.target, store, std::move(*results), others);
  // With a farm, `target` is the target of the farm's device. So the devices of records are
  // compared again, with the device of this machine.
  for (Outcome& o : outcomes)
    if (farm) o.other_device = other_device_of(o.tuned.best, host_target());
  // After an interrupt nothing more is measured, so that the run ends at once.
  for (Outcome& o : outcomes)
    if (interrupts.load() == 0 && !farm)
      o.roofline =
          with_bandwidth(o.roofline, target.target, flags.target.threads, here.environment.clock);
  if (jobs.size() > 1) note_failures(others);
  if (!outcomes.empty() || jobs.size() > 1)
    TW_RETURN_IF_ERROR(print_outcomes(flags, here, outcomes, others));
  if (reads)
    leave_demand_if_there(flags.place, here, demands);
  else
    leave_demand(store, demands);
  const Status verdict = verdict_on(outcomes, others);
  if (interrupts.load() > 0) {
    if (!verdict && jobs.size() == 1) note(verdict.error().message);
    note_missing_page(flags);
    return interrupted(here);
  }
  TW_RETURN_IF_ERROR(verdict);
  TW_RETURN_IF_ERROR(write_page(flags, here, jobs));
  if (!others.failed.empty() && flags.measures())
    note("to go on with those without a kernel: " + resume_line(here));
  return 0;
}

/// Fails if the run has to measure and this machine cannot measure kernels of the target
/// (tuner::check_measurable()).
Status check_measurable(const TuneFlags& flags, const tuner::ChosenTarget& target) {
  return tuner::check_measurable(target, options_of(flags),
                                 flags.model.empty() ? "--compile-only" : "--effort none");
}

/// Opens the farm of --workers; returns nullopt without this flag. An interrupt ends the wait for
/// the farm. Fails with Usage if --effort is none, which measures nothing.
Result<std::optional<tuner::Farm>> farm_of(const TuneFlags& flags, const Surroundings& here) {
  if (flags.farm.workers.empty()) return std::optional<tuner::Farm>();
  if (!flags.measures())
    return fail(ErrorCode::Usage,
                "[tune] --workers is for measuring, and --effort none measures nothing: leave one "
                "of them out");
  tuner::Environment environment = tuning_environment(flags.place, here);
  environment.interrupts = &watch_interrupts();
  return chosen_farm(flags.farm, flags.python, flags.target.target_or_host(), environment,
                     flags.timeout_s);
}

Result<tuner::ChosenTarget> target_of(const TuneFlags& flags, const Surroundings& here,
                                      const std::optional<tuner::Farm>& farm) {
  if (farm) return tuner::ChosenTarget{farm->target, {}};
  return tuner::chosen_target(flags.target.target_or_host(), here.environment);
}

Result<int> tune_network_of(const TuneFlags& flags, const Surroundings& here) {
  TW_TRY(const auto farm, farm_of(flags, here));
  TW_TRY(const tuner::ChosenTarget target, target_of(flags, here, farm));
  TW_RETURN_IF_ERROR(tuner::check_for_gpu(target.target, flags.target.threads, {}));
  TuneFlags own = flags;
  if (flags.mode != TuneMode::Search) own.effort = tuner::Effort::None;
  TW_RETURN_IF_ERROR(check_measurable(own, target));
  return tune_model(own, here, target, farm);
}

Result<int> tune_demand_of(const TuneFlags& flags, const Surroundings& here) {
  if (!flags.measures())
    return fail(ErrorCode::Usage,
                "[tune] --demand measures what is wanted, and --effort none measures nothing: "
                "`db demand` lists it");
  TW_TRY(const auto farm, farm_of(flags, here));
  TW_TRY(const tuner::ChosenTarget target, target_of(flags, here, farm));
  TW_RETURN_IF_ERROR(check_measurable(flags, target));
  return tune_demanded(flags, here, target, farm);
}

/// Reads the schedule of --schedule into the job, so that the search measures it first. Does
/// nothing without this flag. Fails with Usage if --effort is none.
Status begin_with_schedule(const TuneFlags& flags, const Target& target, Job& job) {
  if (flags.schedule.empty()) return {};
  if (!flags.measures())
    return fail(
        ErrorCode::Usage,
        "[tune] --schedule is measured first, and --effort none measures nothing: leave one "
        "of them out, or use `compile --schedule`");
  TW_TRY(HandSchedule by_hand, read_hand_schedule(flags.schedule, job.workload, target));
  job.schedule = std::move(by_hand.text);
  return {};
}

Result<int> tune_command(const TuneFlags& flags, const Surroundings& here) {
  if (flags.mode == TuneMode::Demand) return tune_demand_of(flags, here);
  if (!flags.model.empty()) return tune_network_of(flags, here);
  if (flags.mode == TuneMode::Refresh)
    return fail(ErrorCode::Usage, "[tune] --refresh is about a network: give --model");
  if (!flags.dimensions.empty() || !flags.constants.empty() || !flags.left_out.empty() ||
      flags.precision)
    return fail(ErrorCode::Usage,
                "[tune] --dim, --constant, --no-pass and --precision are about a network: give "
                "--model");
  TW_RETURN_IF_ERROR(
      check_separate({flags.schedule, flags.workload.expression}, {flags.output, flags.report}));
  TW_TRY(const std::vector<Job> all, chosen_jobs(flags));
  TW_TRY(const auto farm, farm_of(flags, here));
  TW_TRY(const tuner::ChosenTarget target, target_of(flags, here, farm));
  for (const Job& job : all)
    TW_RETURN_IF_ERROR(tuner::check_for_gpu(target.target, flags.target.threads, job.workload));
  std::vector<Job> jobs;
  WithoutResult others;
  for (const Job& job : all) {
    if (!job.workload.is_empty()) {
      jobs.push_back(job);
      continue;
    }
    others.empty.push_back(job.workload.text());
    if (!flags.output.empty()) return nothing_to_write("tune", flags.output, job.workload);
    note(fmt::format("{} is empty: there is nothing to tune", job.workload.text()));
  }
  if (jobs.empty()) {
    TW_RETURN_IF_ERROR(flags.format == Format::Json ? print_outcomes(flags, here, {}, others)
                                                    : Status());
    return 0;
  }
  TW_RETURN_IF_ERROR(begin_with_schedule(flags, target.target, jobs.front()));
  if (flags.mode == TuneMode::DryRun) return dry_run(flags, here, jobs, target.target);
  if (flags.mode == TuneMode::CompileOnly) {
    auto done = compile_only(flags, here, jobs, target);
    if (done || done.error().code != ErrorCode::Interrupted) return done;
    note(done.error().message);
    return interrupted(here);
  }
  TW_RETURN_IF_ERROR(check_measurable(flags, target));
  return tune_jobs(flags, here, jobs, std::move(others), target, farm);
}

std::vector<std::string> search_names() {
  std::vector<std::string> names;
  for (const auto& info : tuner::searches()) names.emplace_back(info.name);
  return names;
}

}  // namespace

Verb tune_verb() {
  auto f = std::make_shared<TuneFlags>();
  Flag schedule = schedule_flag(f->schedule);
  schedule.help += "; it is measured first";
  schedule.excludes = {"suite", "model", "compile-only"};
  std::vector<Flag> own = {
      schedule,
      {"suite",
       Text{&f->suite},
       "tune a list of workloads, see `list suites`; with --dtype, of that type",
       {"op", "shape", "attr", "expr", "workload", "layout", "output"}},
      {"model",
       Path{&f->model},
       "tune a network: an ONNX file, or the name of a standing model such as resnet50",
       {"op", "shape", "attr", "expr", "workload", "dtype", "layout", "state", "suite", "resume"}},
      {"demand",
       Switch(&f->mode, TuneMode::Demand),
       "tune what networks and operators use on devices like this one, what saves most first; see "
       "`db demand`",
       {"op",       "shape",   "attr",   "expr",     "workload",     "dtype",
        "layout",   "state",   "suite",  "model",    "accuracy",     "threads",
        "schedule", "trials",  "resume", "dry-run",  "compile-only", "output",
        "report",   "refresh", "dim",    "constant", "no-pass",      "precision"}},
      {"refresh",
       Switch(&f->mode, TuneMode::Refresh),
       "of --model: plan again from what is known by now, in seconds, and replace the network of "
       "--output where the new one is faster",
       {"effort", "trials", "dry-run", "compile-only", "workers", "report"}},
      {"dim", Texts{&f->dimensions},
       "of --model: NAME=VALUE of a symbolic dimension, batch=1, or x.2=48 for dimension 2 of the "
       "input x; a variant of the network for each "
       "value of batch=1,8"},
      {"constant", Texts{&f->constants},
       "of --model: NAME=VALUE makes an input a constant, sr=16000; NAME=VALUE,VALUE for one of "
       "several elements"},
      {"no-pass", Texts{&f->left_out}, "of --model: leave out a pass over its graph, by its name"},
      {"precision",
       Choice(&f->precision,
              std::vector<std::pair<std::string, std::optional<DType>>>{{"f32", std::nullopt},
                                                                        {"bf16", BFloat16}}),
       "of --model: bf16 rounds what products of f32 read, where the machine gains by that"},
      {"budget", Seconds{&f->budget_s}, "time for all workloads together: 500ms, 60s, 5m"},
      {"trials", Whole{&f->trials, 0, 1'000'000'000},
       "at most so many new ones of each workload, the finals included; 0: no limit"},
      {"effort",
       Choice(&f->effort, {{"none", tuner::Effort::None},
                           {"quick", tuner::Effort::Quick},
                           {"normal", tuner::Effort::Normal},
                           {"full", tuner::Effort::Full}}),
       "none: only what the database knows; quick, normal: until the expected gain of the next "
       "minute is below 1 %, 0.1 %; full: until the budget is used"},
      {"search", Choice{&f->search, search_names()}, "how candidates are chosen"},
      {"seed", Whole{&f->seed, 0, INT64_MAX}, "of random choices"},
      {"timeout", Seconds{&f->timeout_s}, "for one candidate to be verified and measured"},
      {"resume", Switch{&f->resume}, "insist that the database has trials to go on from"},
      {"dry-run",
       Switch(&f->mode, TuneMode::DryRun),
       "show the search space and what is known; measure nothing",
       {"compile-only"}},
      {"compile-only",
       Switch(&f->mode, TuneMode::CompileOnly),
       "compile what is known best, or the cost model's choice; measure nothing",
       {"resume"}},
      {"output", Path{&f->output}, "write the compiled kernel, or the network, there"},
      {"report",
       Path{&f->report},
       "at the end write an HTML page there: charts of the search, tables, schedules, layouts",
       {"dry-run", "compile-only"}},
      {"python", Path{&f->python},
       "the Python whose package tilewright makes the page of --report, or speaks with --workers"},
      format_flag(f->format),
  };
  return {.name = "tune",
          .summary = "find a fast kernel by searching and measuring",
          .flags = concatenated({flags_of(f->workload), flags_of(f->target), flags_of(f->place),
                                 own, flags_of(f->farm)}),
          .run = [f](const Surroundings& here) { return tune_command(*f, here); }};
}

}  // namespace tw::tools
