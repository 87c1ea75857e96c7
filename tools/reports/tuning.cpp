// SPDX-License-Identifier: Apache-2.0
// Prints the results of `tune`.

#include "tools/tuning.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "db/workload_text.h"
#include "tools/flags/quote.h"
#include "tools/outputs.h"
#include "tools/reports/report.h"
#include "tuner/measure/reference.h"

namespace tw::tools {
namespace {

int64_t total(const std::map<std::string, int64_t>& counts) {
  int64_t sum = 0;
  for (const auto& [name, count] : counts) sum += count;
  return sum;
}

double speed_up(const Outcome& o) {
  const double untuned = o.tuned.progress.untuned_ns, best = o.tuned.best.latency_ns;
  return untuned > 0 && best > 0 ? untuned / best : 0;
}

/// True if an interrupt left no time to compile the kernel.
bool was_cut_off(const Outcome& o) { return o.unkept && o.unkept->code == ErrorCode::Interrupted; }

std::string result_text(const Outcome& o) {
  const std::string ended(tuner::to_string(o.tuned.ended));
  if (o.tuned.ended == tuner::Ended::FromDatabase) return ended;
  if (was_cut_off(o)) return ended + "; the best kernel that is stored";
  return fmt::format("{}; expected gain of the next minute: {}", ended,
                     show_share(o.tuned.next_minute_gain));
}

/// Returns the facts that are printed about one result.
Facts details(const TuneFlags& flags, const Surroundings& here, const Outcome& o) {
  const db::Record& best = o.tuned.best;
  Facts facts = {{"result", result_text(o)}};
  const auto row = [&](const char* name, std::string text) {
    facts.emplace_back(name, std::move(text));
  };
  row("workload", db::workload_text(best));
  row("latency", fmt::format("{} [{}, {}]", time_text(best.latency_ns),
                             time_text(best.latency_low_ns), time_text(best.latency_high_ns)));
  if (best.status == db::TrialStatus::Unstable) row("disturbed", best.reason);
  for (auto& [name, text] : speeds(o.roofline)) row(name.c_str(), std::move(text));
  if (!o.roofline.algorithm.empty())
    row("error", fmt::format("{:.1e} of the largest element, at most {:.1e} allowed",
                             best.verified_error, tuner::tolerance_of(o.job->workload)));
  if (!o.other_device.empty()) row("measured on", show_other_device(o.other_device));
  if (!o.layer.empty()) row("layer", o.layer);
  if (speed_up(o) > 0)
    row("untuned", fmt::format("{}, {:.1f} times as long", time_text(o.tuned.progress.untuned_ns),
                               speed_up(o)));
  if (o.tuned.progress.given_ns > 0)
    row("by hand", fmt::format("{}, {:.2f} times as long", time_text(o.tuned.progress.given_ns),
                               o.tuned.progress.given_ns / best.latency_ns));
  if (o.tuned.ended != tuner::Ended::FromDatabase)
    row("trials", fmt::format("{} new{}, {} known before", total(o.tuned.progress.trials),
                              o.tuned.progress.trials.empty()
                                  ? ""
                                  : fmt::format(" ({})", show_counts(o.tuned.progress.trials)),
                              o.tuned.progress.known_trials));
  if (!o.tuned.progress.model.empty()) row("model", o.tuned.progress.model);
  if (!o.tuned.progress.machine_note.empty()) row("machine", o.tuned.progress.machine_note);
  for (auto& fact : sandbox_facts(flags.place)) facts.push_back(std::move(fact));
  row("threads", std::to_string(best.threads));
  row("target", best.target);
  row("session", best.session);
  row("artifact", was_cut_off(o) ? "none, as the run was interrupted: `compile` makes it"
                  : o.unkept     ? "not written: " + o.unkept->message
                                 : shell_quoted(o.artifact));
  row("record", best.hash);
  row("database", shell_quoted(shown_database(flags.place, here)));
  if (o.tuned.unstored)
    row("not stored", o.tuned.unstored->message);
  else
    row("replay", replay_line(flags.place, here, best.hash));
  return facts;
}

/// Returns the share of the level's bandwidth in percent and the name of the level, "72.1 L3"; "-"
/// if the bandwidth was not measured.
std::string level_share(const Roofline& line) {
  if (line.level_gb_per_s <= 0) return "-";
  return fmt::format("{:.1f} {}", 100 * line.level_share(), line.level);
}

Table overview(const std::vector<Outcome>& outcomes) {
  Table table{{"name", "latency", "GFLOP/s", "% of peak", "GB/s", "% of level", "x untuned",
               "trials", "record"},
              {}};
  std::vector<double> times;
  for (const Outcome& o : outcomes) times.push_back(o.tuned.best.latency_ns);
  const TimeUnit unit(times);
  for (const Outcome& o : outcomes) {
    const db::Record& best = o.tuned.best;
    table.rows.push_back({o.job->name,
                          show_latency(best, unit) + (o.other_device.empty() ? "" : " elsewhere"),
                          fmt::format("{:.1f}", gflops(best.flops, best.latency_ns)),
                          fmt::format("{:.1f}", 100 * db::efficiency(best)),
                          fmt::format("{:.1f}", o.roofline.gb_per_s()), level_share(o.roofline),
                          speed_up(o) > 0 ? fmt::format("{:.1f}", speed_up(o)) : "-",
                          std::to_string(total(o.tuned.progress.trials)), best.hash.substr(0, 16)});
  }
  return table;
}

std::set<OtherDevice> other_devices(const std::vector<Outcome>& outcomes) {
  std::set<OtherDevice> devices;
  for (const Outcome& o : outcomes)
    if (!o.other_device.empty()) devices.insert(o.other_device);
  return devices;
}

Table as_sheet(const std::vector<Outcome>& outcomes) {
  Table table{{"name",           "workload",        "target",        "threads",     "latency_ns",
               "latency_low_ns", "latency_high_ns", "gflops",        "peak_gflops", "speed_up",
               "trials",         "known_trials",    "ended",         "record",      "artifact",
               "device",         "read_bytes",      "written_bytes", "gb_per_s",    "level",
               "level_gb_per_s", "status",          "layouts"},
              {}};
  for (const Outcome& o : outcomes) {
    const db::Record& best = o.tuned.best;
    table.rows.push_back({o.job->name,
                          best.workload,
                          best.target,
                          std::to_string(best.threads),
                          format_double(best.latency_ns),
                          format_double(best.latency_low_ns),
                          format_double(best.latency_high_ns),
                          format_double(gflops(best.flops, best.latency_ns)),
                          format_double(best.peak_gflops),
                          format_double(speed_up(o)),
                          std::to_string(total(o.tuned.progress.trials)),
                          std::to_string(o.tuned.progress.known_trials),
                          std::string(tuner::to_string(o.tuned.ended)),
                          best.hash,
                          o.artifact,
                          best.device,
                          format_double(o.roofline.traffic.read_bytes),
                          format_double(o.roofline.traffic.written_bytes),
                          format_double(o.roofline.gb_per_s()),
                          o.roofline.level,
                          format_double(o.roofline.level_gb_per_s),
                          std::string(db::to_string(best.status)),
                          best.layouts});
  }
  return table;
}

nlohmann::json json_of(const TuneFlags& flags, const Surroundings& here, const Outcome& o) {
  nlohmann::json json = as_json(o.tuned.best);
  json["name"] = o.job->name;
  json["measured_here"] = o.other_device.empty();
  json["likeness"] = db::to_string(o.other_device.likeness);
  json["layer"] = o.layer;
  json["ended"] = tuner::to_string(o.tuned.ended);
  json["untuned_ns"] = o.tuned.progress.untuned_ns;
  json["speed_up"] = speed_up(o);
  json["by_hand_ns"] = o.tuned.progress.given_ns;
  json["trials"] = o.tuned.progress.trials;
  json["known_trials"] = o.tuned.progress.known_trials;
  json["next_minute_gain"] = o.tuned.next_minute_gain;
  json["spent_s"] = o.tuned.spent_s;
  json["elapsed_s"] = o.tuned.progress.elapsed_s;
  json["working_s"] = o.tuned.progress.working_s;
  json["model"] = o.tuned.progress.model;
  json["machine_note"] = o.tuned.progress.machine_note;
  json["memory"] = memory_json(o.roofline);
  json["algorithm"] = algorithm_json(o.roofline);
  json["failures"] = o.tuned.failures;
  json["artifact"] = o.artifact;
  if (o.unkept) {
    json["artifact"] = nullptr;
    json["artifact_error"] = o.unkept->message;
  }
  json["stored"] = !o.tuned.unstored;
  json["replay"] = replay_line(flags.place, here, o.tuned.best.hash);
  return json;
}

}  // namespace

Status print_outcomes(const TuneFlags& flags, const Surroundings& here,
                      const std::vector<Outcome>& outcomes, const WithoutResult& others) {
  if (flags.format == Format::Csv) return print_csv(as_sheet(outcomes));
  if (flags.format == Format::Json) {
    nlohmann::json results = nlohmann::json::array(), failed = nlohmann::json::array();
    for (const Outcome& o : outcomes) results.push_back(json_of(flags, here, o));
    for (const auto& [name, workload, error] : others.failed)
      failed.push_back({{"name", name},
                        {"workload", workload},
                        {"exit_code", static_cast<int>(error.code)},
                        {"error", error.message}});
    return print_json("tune", {{"database", shown_database(flags.place, here)},
                               {"session", here.environment.session},
                               {"sandbox", !flags.place.no_sandbox},
                               {"seed", flags.seed},
                               {"search", flags.search},
                               {"budget_s", flags.budget_s},
                               {"empty", others.empty},
                               {"notes", notes_json(here.environment.notes)},
                               {"failed", failed},
                               {"results", results}});
  }
  if (!flags.suite.empty())
    return print(as_text(overview(outcomes), here) + elsewhere_lines(other_devices(outcomes)) +
                 as_text(sandbox_facts(flags.place)));
  std::string text;
  for (const Outcome& o : outcomes)
    text += as_text(details(flags, here, o)) + "\n" + o.tuned.best.schedule;
  if (!text.empty() && text.back() != '\n') text += '\n';
  return print(text);
}

}  // namespace tw::tools
