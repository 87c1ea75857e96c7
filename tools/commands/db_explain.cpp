// SPDX-License-Identifier: Apache-2.0
// tilewright db explain: shows the measurements on which an answer of the database is based, how
// well these measurements agree, and why records with a smaller latency are not used.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "db/answers.h"
#include "db/exchange/t4.h"
#include "db/workload_text.h"
#include "tools/flags/db_flags.h"
#include "tools/places.h"
#include "tools/reports/explanation.h"
#include "tools/reports/report.h"
#include "tools/selection.h"
#include "tuner/host_machine.h"
#include "tuner/targets.h"
#include "tuner/workers/device.h"

namespace tw::tools {
namespace {

struct DbExplainFlags {
  SelectionFlags selection;
  Format format = Format::Table;
  int64_t limit = 10;
};

/// The key that is explained. If the user gives the hash of a record, it is the key of the record's
/// group. If the user gives a workload, it is the key of the best known record, which may be of
/// another target or device than the user asked for. If no record is known, the key has the
/// workload, target, device and threads that the user asked for.
struct Asked {
  db::Key key;
  /// Likeness of the best known record's device to the device that the user asked for. nullopt if
  /// the user gave a hash, or if no record is known.
  std::optional<db::Likeness> likeness = {};
};
Result<Asked> asked_of(const DbExplainFlags& f, const Surroundings& here, db::Store& store) {
  SelectionFlags flags = f.selection;
  const std::string& operand = flags.hash;
  if (!operand.empty() && is_hex(operand)) {
    TW_TRY(const db::Record record, find_record(store, operand));
    return Asked{key_of(record)};
  }
  if (!operand.empty()) flags.workload.key = operand;
  TW_TRY(const dsl::Workload workload, chosen_workload(flags.workload));
  TW_TRY(const tuner::ChosenTarget chosen,
         tuner::chosen_target(flags.target.target_or_host(), here.environment));
  TW_RETURN_IF_ERROR(tuner::check_for_gpu(chosen.target, flags.target.threads, workload));
  const Target target = tuner::with_known_machine(store, chosen.target);
  const auto threads = static_cast<int>(flags.target.threads);
  TW_TRY(const auto best, tuner::best_known(store, workload, target, threads));
  if (!best) return Asked{tuner::database_key(workload, target, threads)};
  return Asked{key_of(*best), other_device_of(*best, target).likeness};
}

/// Returns a text about the trials that contradict an answer: "record 0123456789abcdef, crash:
/// SIGSEGV, of session a; one session alone says ...".
std::string show_against(const db::Explanation& e) {
  std::vector<std::string> records;
  for (const auto& [record, doubt, why] : e.against)
    records.push_back(fmt::format("record {}, {}: {}, of session {}", record.hash.substr(0, 16),
                                  show_status(record.status), record.reason, record.session));
  return fmt::format("{}; {}", join(records, "; "), e.against.front().why);
}

Facts facts_of(const db::Explanation& e, const Surroundings& here) {
  const db::Record& r = e.record;
  const bool is_here = r.host == here.environment.host;
  Facts facts = {{"workload", db::workload_text(r)},
                 {"answer", fmt::format("record {}, {}", r.hash.substr(0, 16), show_latency(r))},
                 {"rests on", show_likeness(e)},
                 {"layer", e.layer.empty() ? "the database itself" : e.layer},
                 {"target", fmt::format("{}, {}", r.target, counted(r.threads, "thread"))},
                 {"device", r.device},
                 {"toolchain", r.toolchain},
                 {"machine", is_here          ? "this one"
                             : r.host.empty() ? "unknown"
                                              : r.host},
                 {"session", fmt::format("{}, trial {}", r.session, r.trial)},
                 {"when", db::utc_text(r.created_ms)},
                 {"samples", fmt::format("{}, noise {}", r.samples_ns.size(), show_share(r.noise))},
                 {"peak", r.peak_gflops > 0
                              ? fmt::format("{:.1f} GFLOP/s measured with it, {:.1f} % of it used",
                                            r.peak_gflops, 100 * db::efficiency(r))
                              : "not measured with it"},
                 {"agreement", show_agreement(e)}};
  if (!e.against.empty()) facts.emplace_back("against it", show_against(e));
  return facts;
}

Table not_used_table(const db::Explanation& e, size_t count, bool is_sheet) {
  Table table = {is_sheet
                     ? std::vector<std::string>{"record", "latency_ns", "session", "doubt", "why"}
                     : std::vector<std::string>{"record", "latency", "session", "doubt", "why"},
                 {}};
  std::vector<double> times;
  for (size_t i = 0; i < count; ++i) times.push_back(e.not_used[i].record.latency_ns);
  const TimeUnit unit(times);
  for (size_t i = 0; i < count; ++i) {
    const auto& [record, doubt, why] = e.not_used[i];
    table.rows.push_back(
        {is_sheet ? record.hash : record.hash.substr(0, 16),
         is_sheet ? fmt::format("{}", record.latency_ns) : show_latency(record, unit),
         record.session, std::string(db::to_string(doubt)), why});
  }
  return table;
}

/// Returns the message about a key that has no answer. The message has the number of the key's own
/// records, none of which is believed. It also lists the other targets, numbers of threads, layouts
/// and versions of the code generator for which the workload has valid records.
Result<std::string> why_none(db::Store& store, const db::Key& key) {
  int64_t own = 0;
  std::set<std::string> others;
  const auto note_other = [&](const db::Record& record) {
    const bool is_own = record.target == key.target && record.threads == key.threads &&
                        record.codegen_abi == key.codegen_abi && record.layouts == key.layouts;
    own += is_own;
    if (!is_own && record.status == db::TrialStatus::Ok)
      others.insert(fmt::format("{}, {}{}{}", record.target, counted(record.threads, "thread"),
                                record.layouts.empty() ? "" : ", asked for as " + record.layouts,
                                record.codegen_abi == key.codegen_abi
                                    ? ""
                                    : ", by another version of the code generator"));
    return true;
  };
  const db::Filter of_workload{.workload = key.workload};
  TW_RETURN_IF_ERROR(store.for_each(of_workload, note_other));
  db::for_each_below(store, of_workload, note_other);
  std::string why = fmt::format("[explain] no record of '{}' for {} and {}{} is believed",
                                key.workload, key.target, counted(key.threads, "thread"),
                                key.layouts.empty() ? "" : ", asked for as " + key.layouts);
  if (own > 0)
    why += fmt::format("; {} there: look with `db query` and `db quarantine`",
                       own == 1 ? "one is" : fmt::format("{} are", own));
  if (!others.empty()) why += fmt::format("; there are some for {}", fmt::join(others, "; for "));
  return why + (own > 0 || !others.empty() ? "" : ", and none is there: tune it");
}

Result<int> db_explain(const DbExplainFlags& f, const Surroundings& here) {
  TW_TRY(db::Store store, open_layered(f.selection.place, here, db::OpenMode::ReadOnly));
  TW_TRY(const Asked asked, asked_of(f, here, store));
  TW_TRY(std::optional<db::Explanation> found, db::explain(store, asked.key));
  if (!found) {
    TW_TRY(std::string why, why_none(store, asked.key));
    return fail(ErrorCode::NoCandidate, std::move(why));
  }
  if (asked.likeness) found->likeness = *asked.likeness;
  const size_t all = found->not_used.size();
  const size_t count = f.limit > 0 ? std::min(all, static_cast<size_t>(f.limit)) : all;
  if (f.format == Format::Json) {
    TW_RETURN_IF_ERROR(print_json("db explain", as_json(*found, count)));
    return 0;
  }
  if (f.format == Format::Csv) {
    TW_RETURN_IF_ERROR(print_csv(not_used_table(*found, count, true)));
    return 0;
  }
  std::string text = as_text(facts_of(*found, here));
  if (all > 0)
    text += fmt::format("\n{} with a smaller latency {} not used\n", counted(all, "record"),
                        all == 1 ? "is" : "are") +
            as_text(not_used_table(*found, count, false), here);
  if (count < all) text += fmt::format("... {} more: --limit 0 shows them\n", all - count);
  TW_RETURN_IF_ERROR(print(text));
  return 0;
}

}  // namespace

Verb db_explain_verb() {
  auto f = std::make_shared<DbExplainFlags>();
  const Flag limit = {"limit", Whole{&f->limit, 0, INT64_MAX},
                      "records that are not used, at most; 0: all"};
  return {.name = "explain",
          .summary = "whose measurement an answer rests on, and why others are not used",
          .flags = concatenated({flags_of(f->selection), {limit, format_flag(f->format)}}),
          .operands = {{"WORKLOAD", Text{&f->selection.hash},
                        "a workload's key, or the beginning of a record's hash; or use --op, "
                        "--expr"}},
          .run = [f](const Surroundings& here) { return db_explain(*f, here); }};
}

}  // namespace tw::tools
