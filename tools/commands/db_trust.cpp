// SPDX-License-Identifier: Apache-2.0
// Three verbs below `tilewright db`: quarantine lists lines and records that are not believed,
// prune deletes records that can never be an answer, and verify --top measures records again.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/text.h"
#include "codegen/abi.h"
#include "db/answers.h"
#include "db/maintenance.h"
#include "db/store.h"
#include "db/workload_text.h"
#include "tools/flags/db_flags.h"
#include "tools/reports/report.h"
#include "tuner/host_machine.h"
#include "tuner/targets.h"
#include "tuner/workers/device.h"

namespace tw::tools {
namespace {

// ---- quarantine ----

/// An entry of the quarantine: a line whose import was refused, or a record of the database that is
/// not believed (then `record` has a value).
struct Entry {
  std::string hash, kind, why, text;
  std::optional<db::Record> record;
};

Result<std::vector<Entry>> entries_of(db::Store& store) {
  TW_TRY(const std::vector<db::Quarantined> lines, db::quarantined(store, 0));
  TW_TRY(std::vector<db::Doubted> doubted, db::doubted(store, 0));
  std::vector<Entry> entries;
  for (const db::Quarantined& line : lines)
    entries.push_back({line.hash, "line", line.reason, line.line, {}});
  for (db::Doubted& doubt : doubted)
    entries.push_back({doubt.record.hash, std::string(db::to_string(doubt.doubt)),
                       std::move(doubt.why), db::to_json(doubt.record), std::move(doubt.record)});
  return entries;
}

/// Returns the first 60 bytes of a line, with "?" in place of every byte that is not printable
/// ASCII. If the line is longer, "..." follows.
std::string shown_line(const std::string& line) {
  constexpr size_t most = 60;
  std::string text;
  for (const char c : line.substr(0, most)) text += c >= ' ' && c <= '~' ? c : '?';
  return line.size() > most ? text + "..." : text;
}

std::string shown_entry(const Entry& entry) {
  if (!entry.record) return shown_line(entry.text);
  return fmt::format("{} of {}", time_text(entry.record->latency_ns),
                     db::workload_text(*entry.record));
}

Result<Entry> find_entry(const std::vector<Entry>& entries, const std::string& prefix) {
  std::vector<const Entry*> found;
  for (const Entry& entry : entries)
    if (entry.hash.starts_with(prefix)) found.push_back(&entry);
  if (found.size() == 1) return *found.front();
  return fail(ErrorCode::Usage,
              fmt::format("[quarantine] --entry {}: {} of the {} hashes begin so, one was "
                          "expected: look with `db quarantine --limit 0`",
                          prefix, found.size(), entries.size()));
}

Status print_dropped(const DbFlags& f, int64_t dropped) {
  if (f.format == Format::Json) return print_json("db quarantine", {{"dropped", dropped}});
  return print(counted(dropped, f.entry.empty() ? "line" : "entry") + " dropped\n");
}

Status drop_entry(const DbFlags& f, db::Store& store, const Entry& entry) {
  if (entry.record) {
    TW_RETURN_IF_ERROR(db::drop_record(store, *entry.record));
    return print_dropped(f, 1);
  }
  TW_TRY(const int64_t dropped, db::drop_quarantined(store, entry.hash));
  return print_dropped(f, dropped);
}

nlohmann::json entry_json(const Entry& entry) {
  return {{"hash", entry.hash}, {"kind", entry.kind}, {"reason", entry.why}, {"line", entry.text}};
}

Status inspect(const DbFlags& f, const Entry& entry) {
  if (f.format == Format::Json) return print_json("db quarantine", entry_json(entry));
  return print(as_text(Facts{{"hash", entry.hash}, {"kind", entry.kind}, {"why", entry.why}}) +
               "\n" + entry.text + "\n");
}

Status list_entries(const DbFlags& f, const Surroundings& here, const db::Store& store,
                    const std::vector<Entry>& entries) {
  const auto count =
      f.limit > 0 ? std::min(entries.size(), static_cast<size_t>(f.limit)) : entries.size();
  const auto lines = std::ranges::count_if(entries, [](const Entry& e) { return !e.record; });
  const auto records = std::ssize(entries) - lines;
  nlohmann::json list = nlohmann::json::array();
  Table table{{"hash", "kind", "why", f.format == Format::Csv ? "line" : "what"}, {}};
  for (size_t i = 0; i < count; ++i) {
    const Entry& e = entries[i];
    list.push_back(entry_json(e));
    table.rows.push_back({f.format == Format::Csv ? e.hash : e.hash.substr(0, 16), e.kind, e.why,
                          f.format == Format::Csv ? e.text : shown_entry(e)});
  }
  if (f.format == Format::Json)
    return print_json(
        "db quarantine",
        {{"path", store.path()}, {"quarantined", lines}, {"doubted", records}, {"lines", list}});
  if (f.format == Format::Csv) return print_csv(table);
  return print(
      (list.empty() ? "" : as_text(table, here)) +
      fmt::format("{} of {} and {}\n", count, counted(lines, "line"), counted(records, "record")));
}

}  // namespace

Result<int> quarantine_command(const DbFlags& f, const Surroundings& here) {
  TW_TRY(db::Store store,
         open_named(f, here, f.drop ? db::OpenMode::Update : db::OpenMode::ReadOnly));
  if (f.drop && f.entry.empty()) {
    TW_TRY(const int64_t dropped, db::drop_quarantined(store));
    TW_RETURN_IF_ERROR(print_dropped(f, dropped));
    return 0;
  }
  TW_TRY(const std::vector<Entry> entries, entries_of(store));
  if (f.entry.empty()) {
    TW_RETURN_IF_ERROR(list_entries(f, here, store, entries));
    return 0;
  }
  TW_TRY(const Entry entry, find_entry(entries, f.entry));
  TW_RETURN_IF_ERROR(f.drop ? drop_entry(f, store, entry) : inspect(f, entry));
  return 0;
}

Result<int> prune_command(const DbFlags& f, const Surroundings& here) {
  const auto factor = parse_double(f.slower_than);
  if (!factor || !(*factor >= 1))
    return fail(ErrorCode::Usage,
                fmt::format("[prune] --slower-than {}: a factor of at least 1 was expected",
                            f.slower_than));
  constexpr int64_t ms_a_day = 86'400'000;
  const db::PruneRules rules = {
      .codegen_abi = codegen::codegen_abi,
      .slower_than = *factor,
      .keep = f.keep,
      .before_ms =
          f.older_than > 0 ? here.environment.now_ms() - f.older_than * ms_a_day : int64_t{0}};
  TW_TRY(db::Store store,
         open_named(f, here, f.remove ? db::OpenMode::Update : db::OpenMode::ReadOnly));
  TW_TRY(const db::PruneReport report,
         db::prune(store, rules, f.remove ? db::Pruning::Delete : db::Pruning::DryRun));
  if (f.format == Format::Json) {
    TW_RETURN_IF_ERROR(print_json("db prune", {{"path", store.path()},
                                               {"deleted", f.remove},
                                               {"records", report.records},
                                               {"pruned", report.pruned},
                                               {"by_reason", report.by_reason},
                                               {"demands", report.demands}}));
    return 0;
  }
  std::string reasons;
  for (const auto& [reason, count] : report.by_reason)
    reasons += fmt::format("  {}: {}\n", reason, count);
  if (report.demands > 0)
    reasons += fmt::format("{} {}\n", counted(report.demands, "demand"),
                           f.remove ? "forgotten" : "can be forgotten");
  const bool is_idle = report.pruned == 0 && report.demands == 0;
  TW_RETURN_IF_ERROR(
      print(fmt::format("{} of {} {}\n{}{}", report.pruned, counted(report.records, "record"),
                        f.remove           ? "deleted"
                        : f.older_than > 0 ? "can be deleted"
                                           : "can never be an answer",
                        reasons, f.remove || is_idle ? "" : "--delete deletes them\n")));
  return 0;
}

// ---- verify --top ----

namespace {

/// A record of this machine, and the result of measuring its schedule again in a new session.
struct Retimed {
  db::Record stored;
  /// Believed sessions that timed the schedule; 0: a second session has to confirm the record.
  int64_t sessions = 0;
  std::optional<db::Record> now;  ///< the new record; nullopt if measuring failed
  std::string fault = {};         ///< reason why the schedule was not timed; empty if it was timed
  bool is_contradicted = false;   ///< one session found that the schedule is wrong
};

/// Finds the targets of this machine by their texts in records, and caches them. find() returns
/// null if this machine cannot run kernels of the record's target, or if the record was measured on
/// another device.
class LocalTargets {
 public:
  explicit LocalTargets(const Surroundings& here) : here_(here) {}

  const tuner::ChosenTarget* find(const db::Record& record) {
    auto known = targets_.find(record.target);
    if (known == targets_.end()) known = targets_.emplace(record.target, choose(record)).first;
    const std::optional<tuner::ChosenTarget>& chosen = known->second;
    const bool is_local = chosen && record.device == tuner::device_text(chosen->target);
    return is_local ? &*chosen : nullptr;
  }

 private:
  std::optional<tuner::ChosenTarget> choose(const db::Record& record) const {
    const auto chosen = tuner::chosen_target(record.target, here_.environment);
    if (!chosen || !chosen->missing.empty()) return std::nullopt;
    return *chosen;
  }

  const Surroundings& here_;
  std::map<std::string, std::optional<tuner::ChosenTarget>> targets_;
};

/// Returns the records of this machine to measure again: the best record of each group, and records
/// that a second session has to confirm. Records whose schedule a session found to be wrong come
/// first. The others are sorted by their number of sessions, the smallest first, and records with
/// equally many sessions by age, the oldest first.
Result<std::vector<Retimed>> records_to_retime(db::Store& store, LocalTargets& targets) {
  std::vector<Retimed> found;
  TW_TRY(std::vector<db::Doubted> doubted, db::doubted(store, 0));
  for (db::Doubted& doubt : doubted)
    if (doubt.doubt == db::Doubt::Unconfirmed && targets.find(doubt.record))
      found.push_back({std::move(doubt.record), 0, {}, {}});
  TW_TRY(std::vector<db::Record> best, db::best_records(store));
  for (db::Record& record : best) {
    if (record.codegen_abi != codegen::codegen_abi || !targets.find(record)) continue;
    TW_TRY(const auto explained, db::explain(store, key_of(record)));
    found.push_back({std::move(record), explained ? explained->sessions : 1, {}, {}});
    found.back().is_contradicted = explained && !explained->against.empty();
  }
  std::ranges::stable_sort(found, {}, [](const Retimed& retimed) {
    return std::tuple(!retimed.is_contradicted, retimed.sessions, retimed.stored.created_ms);
  });
  return found;
}

Result<db::Record> measured_now(const db::Record& stored, const tuner::ChosenTarget& target,
                                db::Store& store, const DbFlags& f, const Surroundings& here) {
  TW_TRY(dsl::Workload workload, dsl::parse_workload(stored.workload));
  TW_TRY(workload, dsl::with_asked(std::move(workload), stored.layouts));
  const tuner::Environment environment = tuning_environment(f.place, here, target.device);
  TW_TRY(db::Record record, tuner::try_schedule(workload, stored.schedule,
                                                tuner::with_known_machine(store, target.target),
                                                static_cast<int>(stored.threads), environment));
  record.configuration = stored.configuration;
  record.program_version = environment.program_version;
  record.host = environment.host;
  record.session = environment.session;
  return db::seal(std::move(record));
}

/// Returns the new latency divided by the stored latency. If both peaks are known, each latency is
/// first multiplied by the peak that was measured with it, so that another clock rate of the
/// machine does not count. Requires: `r.now` has a value.
double drift_of(const Retimed& r) {
  const bool knows_peaks = r.stored.peak_gflops > 0 && r.now->peak_gflops > 0;
  const double scale = knows_peaks ? r.now->peak_gflops / r.stored.peak_gflops : 1;
  return r.now->latency_ns * scale / r.stored.latency_ns;
}

// Relative difference within which the latencies of two sessions on an undisturbed machine agree.
constexpr double least_drift = 0.1;

std::string verdict_of(const Retimed& r) {
  if (!r.now) return "failed";
  const double drift = drift_of(r);
  if (drift > 1 + least_drift) return "slower";
  return drift * (1 + least_drift) < 1 ? "faster" : "agrees";
}

nlohmann::json json_of(const Retimed& r) {
  nlohmann::json json = {
      {"stored", as_json(r.stored)}, {"sessions_before", r.sessions}, {"verdict", verdict_of(r)}};
  if (r.now) {
    json["now"] = as_json(*r.now);
    json["ratio"] = drift_of(r);
  } else {
    json["fault"] = r.fault;
  }
  return json;
}

Table table_of(const std::vector<Retimed>& retimed) {
  Table table{{"record", "stored", "now", "ratio", "verdict", "sessions before", "workload"}, {}};
  std::vector<double> times;
  for (const Retimed& r : retimed) {
    times.push_back(r.stored.latency_ns);
    if (r.now) times.push_back(r.now->latency_ns);
  }
  const TimeUnit unit(times);
  for (const Retimed& r : retimed)
    table.rows.push_back({r.stored.hash.substr(0, 16), unit.text(r.stored.latency_ns),
                          r.now ? unit.text(r.now->latency_ns) : "-",
                          r.now ? fmt::format("{:.3f}", drift_of(r)) : "-", verdict_of(r),
                          std::to_string(r.sessions), db::workload_text(r.stored)});
  return table;
}

}  // namespace

Result<int> measure_again(const DbFlags& f, const Surroundings& here) {
  TW_TRY(db::Store store, open_named(f, here, db::OpenMode::Update));
  LocalTargets targets(here);
  TW_TRY(std::vector<Retimed> retimed, records_to_retime(store, targets));
  if (retimed.empty())
    return fail(ErrorCode::NoCandidate,
                "[verify] the database has no best kernel of this machine: tune one first");
  if (std::ssize(retimed) > f.top) retimed.resize(static_cast<size_t>(f.top));
  for (Retimed& r : retimed) {
    const auto now = measured_now(r.stored, *targets.find(r.stored), store, f, here);
    if (!now) {
      r.fault = now.error().message;
      note(r.fault);
      continue;
    }
    // A trial that proves the schedule wrong is stored too. Such a proof counts only after a second
    // session has confirmed it.
    const bool is_timed = now->status == db::TrialStatus::Ok;
    if (is_timed || db::proves_wrong(now->status)) TW_RETURN_IF_ERROR(store.append({&*now, 1}));
    if (is_timed) {
      r.now = *now;
      continue;
    }
    r.fault = fmt::format("[replay] {}: {}", db::to_string(now->status), now->reason);
    note(r.fault);
  }
  if (f.format == Format::Json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Retimed& r : retimed) list.push_back(json_of(r));
    TW_RETURN_IF_ERROR(
        print_json("db verify",
                   {{"path", store.path()}, {"sandbox", !f.place.no_sandbox}, {"retimed", list}}));
  } else {
    TW_RETURN_IF_ERROR(print(as_text(table_of(retimed), here) + as_text(sandbox_facts(f.place))));
  }
  const bool has_failed = std::ranges::any_of(retimed, [](const Retimed& r) { return !r.now; });
  if (!has_failed) return 0;
  return fail(ErrorCode::Invalid, "[verify] some kernels could not be measured again: see above");
}

}  // namespace tw::tools
