// SPDX-License-Identifier: Apache-2.0
// tilewright db: shows, merges, copies and repairs tuning databases.

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "db/maintenance.h"
#include "db/store.h"
#include "db/transfer.h"
#include "db/workload_text.h"
#include "tools/flags/command_line.h"
#include "tools/flags/db_flags.h"
#include "tools/flags/quote.h"
#include "tools/flags/workload_flags.h"
#include "tools/reports/report.h"
#include "tools/verbs.h"
#include "tuner/targets.h"
#include "tuner/workers/device.h"

namespace tw::tools {

db::Key key_of(const db::Record& record) {
  return {.workload = record.workload,
          .target = record.target,
          .device = record.device,
          .threads = record.threads,
          .codegen_abi = record.codegen_abi,
          .layouts = record.layouts};
}

Result<db::Store> open_named(const DbFlags& f, const Surroundings& here, db::OpenMode mode) {
  PlaceFlags place = f.place;
  if (!f.file.empty()) place.database = f.file;
  return open_database(place, here, mode);
}

namespace {

constexpr int64_t most_days = 36'500;

std::string show_summary(const db::AppendSummary& s) {
  std::string text = fmt::format("{} new, {} known already, {} quarantined", s.inserted,
                                 s.duplicates, s.quarantined);
  if (s.damaged > 0) text += fmt::format(", {} damaged", s.damaged);
  if (s.calibrations > 0) text += ", " + counted(s.calibrations, "new calibration");
  return text;
}

nlohmann::json json_of(const db::AppendSummary& s) {
  return {{"inserted", s.inserted},
          {"duplicates", s.duplicates},
          {"quarantined", s.quarantined},
          {"calibrations", s.calibrations}};
}

Status print_summary(const DbFlags& f, const char* verb, const db::AppendSummary& summary,
                     const nlohmann::json& document) {
  if (f.format == Format::Json) return print_json(verb, document);
  return print(show_summary(summary) + "\n");
}

/// Returns the command, in backquotes, that lists the quarantined lines of a database.
std::string quarantine_line(const std::string& path) {
  return fmt::format("`tilewright db quarantine {}`", shell_quoted(path));
}

std::string quarantined_text(const db::StoreInfo& i) {
  if (i.quarantined == 0) return "0";
  return fmt::format("{}: {} lists them", counted(i.quarantined, "line"), quarantine_line(i.path));
}

Result<int> info(const DbFlags& f, const Surroundings& here) {
  TW_TRY(db::Store store, open_named(f, here, db::OpenMode::ReadOnly));
  TW_TRY(const db::StoreInfo i, store.info());
  if (f.format == Format::Json) {
    TW_RETURN_IF_ERROR(print_json("db info", {{"path", i.path},
                                              {"schema", i.schema_version},
                                              {"sqlite", i.sqlite},
                                              {"server", i.server},
                                              {"journal_mode", i.journal_mode},
                                              {"file_bytes", i.file_bytes},
                                              {"records", i.records},
                                              {"workloads", i.workloads},
                                              {"best", i.best},
                                              {"calibrations", i.calibrations},
                                              {"quarantined", i.quarantined},
                                              {"by_status", i.by_status}}));
    return 0;
  }
  TW_RETURN_IF_ERROR(print(as_text(
      Facts{{"database", shell_quoted(i.path)},
            {"schema", std::to_string(i.schema_version)},
            {"size", show_bytes(i.file_bytes)},
            {"records", std::to_string(i.records)},
            {"by status", show_counts(i.by_status)},
            {"workloads", std::to_string(i.workloads)},
            {"best", std::to_string(i.best) + " groups"},
            {"calibrations", std::to_string(i.calibrations)},
            {"quarantined", quarantined_text(i)},
            {"journal", i.journal_mode},
            {i.server.empty() ? "sqlite" : "server", i.server.empty() ? i.sqlite : i.server}})));
  return 0;
}

/// Returns the canonical text of a target; "host" becomes the target of this machine.
Result<std::string> target_text(const std::string& name, const Surroundings& here) {
  TW_TRY(const tuner::ChosenTarget chosen, tuner::chosen_target(name, here.environment));
  return chosen.target.to_string();
}

Result<db::Filter> filter_of(const DbFlags& f, const Surroundings& here) {
  db::Filter filter;
  const auto set = [](std::optional<std::string>& member, const std::string& text) {
    if (!text.empty()) member = text;
  };
  const db::WorkloadName workload = db::parse_workload_text(f.workload);
  set(filter.workload, workload.key);
  set(filter.layouts, workload.layouts);
  set(filter.op, f.op);
  set(filter.session, f.session);
  if (!f.target.empty()) {
    TW_TRY(filter.target, target_text(f.target, here));
  }
  if (f.device == "this")
    filter.device = tuner::device_text(host_target());
  else
    set(filter.device_prefix, f.device);
  if (f.threads > 0) filter.threads = f.threads;
  if (!f.status.empty())
    filter.status =
        f.status == "pruned" ? db::TrialStatus::Hopeless : db::parse_trial_status(f.status);
  filter.order = f.order == "oldest"   ? db::Order::Oldest
                 : f.order == "newest" ? db::Order::Newest
                                       : db::Order::Fastest;
  filter.limit = f.limit;
  return filter;
}

std::vector<std::string> sheet_columns() {
  return {"record", "status",      "latency_ns", "latency_low_ns", "latency_high_ns",
          "flops",  "peak_gflops", "threads",    "session",        "target",
          "device", "workload",    "layouts"};
}

std::vector<std::string> sheet_row(const db::Record& r) {
  return {r.hash,
          std::string(db::to_string(r.status)),
          format_double(r.latency_ns),
          format_double(r.latency_low_ns),
          format_double(r.latency_high_ns),
          format_double(r.flops),
          format_double(r.peak_gflops),
          std::to_string(r.threads),
          r.session,
          r.target,
          r.device,
          r.workload,
          r.layouts};
}

std::vector<std::string> table_columns() {
  return {"record", "status",  "latency", "GFLOP/s", "% of peak",
          "target", "threads", "session", "device",  "workload"};
}

/// Makes the rows of the table for people. This machine's target is shown as "host", and its device
/// as "this one".
class TableRows {
 public:
  std::vector<std::string> row(const db::Record& r) const {
    return {r.hash.substr(0, 16),
            show_status(r.status),
            time_text(r.latency_ns),
            fmt::format("{:.1f}", gflops(r.flops, r.latency_ns)),
            fmt::format("{:.1f}", 100 * db::efficiency(r)),
            r.target == target_ && r.device == device_ ? "host" : r.target,
            std::to_string(r.threads),
            r.session,
            r.device == device_ ? "this one" : r.device,
            db::workload_text(r)};
  }

 private:
  const Target host_ = host_target();
  const std::string target_ = host_.to_string(), device_ = tuner::device_text(host_);
};

/// Prints a table. The records are read twice: first to find the widths of the columns, then to
/// print the rows.
Status print_table(db::Store& store, const db::Filter& filter, const Surroundings& here,
                   PieceByPiece& output) {
  const TableRows rows;
  TableLayout layout(table_columns(), here.output_columns);
  TW_RETURN_IF_ERROR(store.for_each(filter, [&](const db::Record& record) {
    layout.fit(rows.row(record));
    return true;
  }));
  output.write(layout.header(here.color));
  return store.for_each(filter, [&](const db::Record& record) {
    return output.write(layout.line(rows.row(record)));
  });
}

/// Prints the text that print_json() would print for a list of the records, but one record at a
/// time.
Status print_records_json(db::Store& store, const db::Filter& filter, PieceByPiece& output) {
  output.write(
      fmt::format("{{\n  \"schema_version\": {},\n  \"verb\": \"db query\",\n  \"path\": {},\n"
                  "  \"records\": [",
                  json_schema_version, json_text(store.path(), 0)));
  std::string_view before = "\n    ";
  TW_RETURN_IF_ERROR(store.for_each(filter, [&](const db::Record& record) {
    const std::string piece = std::string(before) + json_text(as_json(record), 4);
    before = ",\n    ";
    return output.write(piece);
  }));
  output.write(before.front() == ',' ? "\n  ]\n}\n" : "]\n}\n");
  return {};
}

Status print_records_csv(db::Store& store, const db::Filter& filter, PieceByPiece& output) {
  output.write(csv_line(sheet_columns()));
  return store.for_each(
      filter, [&](const db::Record& record) { return output.write(csv_line(sheet_row(record))); });
}

/// Prints the records that match the flags. Each record is printed as it is read, so that many
/// records need little memory.
Result<int> query(const DbFlags& f, const Surroundings& here) {
  TW_TRY(db::Store store, open_named(f, here, db::OpenMode::ReadOnly));
  TW_TRY(const db::Filter filter, filter_of(f, here));
  PieceByPiece output;
  TW_RETURN_IF_ERROR(f.format == Format::Json  ? print_records_json(store, filter, output)
                     : f.format == Format::Csv ? print_records_csv(store, filter, output)
                                               : print_table(store, filter, here, output));
  TW_RETURN_IF_ERROR(output.finish());
  return 0;
}

void note_quarantined(const db::AppendSummary& summary, const db::Store& store) {
  if (summary.quarantined > 0)
    note(fmt::format("{} not believed and kept aside: {} lists them",
                     counted(summary.quarantined, "line"), quarantine_line(store.path())));
}

bool has_facts(const db::AppendSummary& summary) {
  return summary.inserted + summary.duplicates + summary.calibrations > 0;
}

Result<int> merge(const DbFlags& f, const Surroundings& here) {
  // Input files are checked first, so that a bad input file does not leave a newly created database
  // behind.
  for (const std::string& file : f.files) {
    if (file.ends_with(".jsonl"))
      return fail(ErrorCode::Usage,
                  fmt::format("[merge] {}: JSON lines are taken over with `tilewright db import`",
                              shell_quoted(file)));
    TW_RETURN_IF_ERROR(db::Store::open(file, db::OpenMode::ReadOnly));
  }
  TW_TRY(db::Store store, open_database(f.place, here, db::OpenMode::ReadWrite));
  db::AppendSummary all;
  for (const std::string& file : f.files) {
    TW_TRY(const db::AppendSummary one, db::merge_from(store, file));
    all += one;
  }
  note_quarantined(all, store);
  nlohmann::json document = json_of(all);
  document["damaged"] = all.damaged;
  TW_RETURN_IF_ERROR(print_summary(f, "db merge", all, document));
  if (has_facts(all) || all.damaged == 0) return 0;
  return fail(ErrorCode::Database,
              fmt::format("[merge] none of {} was believed: they do not agree with their hashes; "
                          "take a copy that is not damaged",
                          counted(all.damaged, "record")));
}

/// Fails with Usage if the command line has --as although no file is "-".
Status check_as(const Surroundings& here, std::string_view verb,
                const std::vector<std::string>& files) {
  if (!typed_flags(here.arguments).contains("--as") || std::ranges::count(files, "-") > 0)
    return {};
  return fail(ErrorCode::Usage,
              fmt::format("[{}] --as gives the format of `-` only; the format of a file follows "
                          "from its extension: leave --as out",
                          verb));
}

Result<db::AppendSummary> import_one(db::Store& store, const std::string& file,
                                     Lines lines_of_input) {
  if (file == "-")
    return lines_of_input == Lines::Csv  ? db::import_csv(store, std::cin, "standard input")
           : lines_of_input == Lines::T4 ? db::import_t4(store, std::cin, "standard input")
                                         : db::import_jsonl(store, std::cin, "standard input");
  return file.ends_with(".csv")    ? db::import_csv(store, file)
         : file.ends_with(".json") ? db::import_t4(store, file)
                                   : db::import_jsonl(store, file);
}

Result<int> import(const DbFlags& f, const Surroundings& here) {
  TW_RETURN_IF_ERROR(check_as(here, "import", f.files));
  for (const std::string& file : f.files)
    if (file != "-") TW_RETURN_IF_ERROR(db::check_importable(file));
  TW_TRY(db::Store store, open_database(f.place, here, db::OpenMode::ReadWrite));
  db::AppendSummary all;
  for (const std::string& file : f.files) {
    TW_TRY(const db::AppendSummary one, import_one(store, file, f.lines));
    all += one;
  }
  note_quarantined(all, store);
  TW_RETURN_IF_ERROR(print_summary(f, "db import", all, json_of(all)));
  if (has_facts(all) || all.quarantined == 0) return 0;
  return fail(ErrorCode::Database,
              fmt::format("[import] none of {} was believed: {} says why",
                          counted(all.quarantined, "line"), quarantine_line(store.path())));
}

Result<int> export_records(const DbFlags& f, const Surroundings& here) {
  TW_RETURN_IF_ERROR(check_as(here, "export", {f.output}));
  TW_TRY(db::Store store, open_database(f.place, here, db::OpenMode::ReadOnly));
  if (f.output == "-") {
    PieceByPiece output;
    std::ostream lines(&output);
    const Status exported = f.lines == Lines::Csv  ? db::export_csv(store, lines)
                            : f.lines == Lines::T4 ? db::export_t4(store, lines)
                                                   : db::export_jsonl(store, lines);
    TW_RETURN_IF_ERROR(output.finish());
    if (!output.has_failed()) TW_RETURN_IF_ERROR(exported);
    return 0;
  }
  TW_RETURN_IF_ERROR(db::export_to(store, f.output));
  return 0;
}

std::string quarantine_text(int64_t quarantined, const std::string& path) {
  if (quarantined == 0) return "";
  return fmt::format("{} in quarantine, which no verb uses: {} lists them, --drop deletes them\n",
                     counted(quarantined, "line"), quarantine_line(path));
}

Result<int> verify(const DbFlags& f, const Surroundings& here) {
  if (f.top > 0) return measure_again(f, here);
  TW_TRY(db::Store store,
         open_named(f, here, f.repair ? db::OpenMode::Update : db::OpenMode::ReadOnly));
  if (f.repair) TW_RETURN_IF_ERROR(db::derive_best(store));
  TW_TRY(const db::VerifyReport r, db::verify(store));
  if (f.format == Format::Json)
    TW_RETURN_IF_ERROR(print_json("db verify", {{"path", store.path()},
                                                {"ok", r.ok()},
                                                {"records", r.records},
                                                {"calibrations", r.calibrations},
                                                {"damaged", r.damaged},
                                                {"wrong_best", r.wrong_best},
                                                {"quarantined", r.quarantined},
                                                {"integrity", r.integrity}}));
  else
    TW_RETURN_IF_ERROR(
        print(fmt::format("{} records, {} damaged, {} wrong rows of the best table{}\n{}",
                          r.records, r.damaged, r.wrong_best, r.ok() ? ": all is well" : "",
                          quarantine_text(r.quarantined, store.path()))));
  if (r.ok()) return 0;
  for (const std::string& line : r.integrity) note(line);
  if (r.damaged == 0 && r.integrity.empty())
    return fail(ErrorCode::Database,
                fmt::format("[verify] the best table of {} does not follow from its records: "
                            "`tilewright db verify --repair {}` derives it anew",
                            store.path(), shell_quoted(store.path())));
  return fail(
      ErrorCode::Database,
      fmt::format(
          "[verify] {} is damaged: save what is readable with `tilewright db recover {} NEW`",
          store.path(), shell_quoted(store.path())));
}

Result<int> recover(const DbFlags& f, const Surroundings&) {
  TW_TRY(const db::AppendSummary summary, db::recover(f.file, f.output));
  TW_RETURN_IF_ERROR(print_summary(f, "db recover", summary, json_of(summary)));
  return 0;
}

/// Upgrades a database to the newest schema. Opening it for writing does that.
Result<int> upgrade(const DbFlags& f, const Surroundings& here) {
  TW_TRY(db::Store store, open_named(f, here, db::OpenMode::Update));
  TW_TRY(const db::StoreInfo i, store.info());
  TW_RETURN_IF_ERROR(print(fmt::format("{} has schema {}\n", i.path, i.schema_version)));
  return 0;
}

std::vector<std::string> statuses() {
  return {
#define X(enumerator, text, meaning, proves_wrong) text,
      TW_TRIAL_STATUSES(X)
#undef X
          "pruned"};
}

using Command = Result<int> (*)(const DbFlags&, const Surroundings&);

Verb make_verb(const char* name, const char* summary, const DbFlagsPtr& f, std::vector<Flag> flags,
               std::vector<Flag> operands, Command command) {
  return {.name = name,
          .summary = summary,
          .flags = std::move(flags),
          .operands = std::move(operands),
          .run = [f, command](const Surroundings& here) { return command(*f, here); }};
}

Choice lines_choice(Lines& lines) {
  return {&lines, {{"jsonl", Lines::Jsonl}, {"csv", Lines::Csv}, {"t4", Lines::T4}}};
}

}  // namespace

Verb db_verb() {
  auto f = std::make_shared<DbFlags>();
  const Flag db = database_flag(f->place);
  const Flag json = table_or_json_flag(f->format);
  const Flag file = {"FILE", Path{&f->file}, "database; default: that of --db", {}, false};
  const Flag files = {"FILES", Paths{&f->files}, "databases to take records from", {}, true};
  Flag lines = files;
  lines.help = "files of JSON lines, or of rows, NAME.csv; - is standard input";
  Flag damaged = file;
  damaged.help = "the damaged database, which is only read";
  damaged.required = true;
  const Flag fresh = {"NEW", Path{&f->output}, "the database to make", {}, true};
  const Flag output = {"FILE",
                       Path{&f->output},
                       "NAME.db, NAME.jsonl, NAME.csv, NAME.json (T4); - is standard output",
                       {},
                       true};
  const Flag limit = {"limit", Whole{&f->limit, 0, INT64_MAX}, "at most so many; 0: all"};
  const std::vector<Flag> filters = {
      db,
      {"workload", Text{&f->workload}, "key; layouts and a state may follow in braces"},
      {"op", Text{&f->op}, "operator"},
      {"status", Choice{&f->status, statuses()}, "of the trial; pruned and hopeless are the same"},
      {"session", Text{&f->session}, "that measured"},
      {"target", Text{&f->target}, "that the kernel is for; host is this machine's"},
      {"device", Text{&f->device}, "the beginning of its name; `this` is the one of this machine"},
      {"threads", Whole{&f->threads, 0, 4096}, "of the kernel; 0: any"},
      {"order", Choice{&f->order, {"oldest", "newest", "fastest"}}, "of the records"},
      limit,
      format_flag(f->format)};
  const Flag ship_output = {"output", Path{&f->output},
                            "NAME.jsonl, to be kept in a repository, or NAME.db"};
  const Flag ship_keep = {"keep", Whole{&f->keep_shipped, 1, 64},
                          "schedules of each workload and model of a device"};
  Verb verb{.name = "db", .summary = "look at, join, copy and repair tuning databases"};
  verb.verbs = {
      make_verb("info", "what a database holds", f, {db, json}, {file}, info),
      make_verb("query", "records by workload, operator, status, session, target or device", f,
                filters, {file}, query),
      make_verb("merge", "take the records of other databases over", f, {db, json}, {files}, merge),
      make_verb(
          "export", "a copy, while others may write", f,
          {db,
           {"as", lines_choice(f->lines), "of standard output; a file's name says it by its end"}},
          {output}, export_records),
      make_verb(
          "import", "records from JSON lines, CSV or T4", f,
          {db,
           json,
           {"as", lines_choice(f->lines), "of standard input; a file's name says it by its end"}},
          {lines}, import),
      make_verb("verify", "check every record and the file", f,
                concatenated(
                    {{db,
                      json,
                      {"repair", Switch{&f->repair}, "derive the table of best records anew first"},
                      {"top", Whole{&f->top, 0, 100'000},
                       "instead measure so many of this machine's best kernels again, and store "
                       "that"}},
                     worker_flags(f->place)}),
                {file}, verify),
      db_explain_verb(),
      db_serve_verb(),
      make_verb(
          "quarantine", "lines and records that are not believed, and why", f,
          {db,
           {"entry", Text{&f->entry}, "only the one whose hash begins so, whole"},
           {"drop", Switch{&f->drop}, "delete all lines, or with --entry that line or record"},
           limit,
           format_flag(f->format)},
          {file}, quarantine_command),
      make_verb("demand",
                "kernels that networks and operators use, and what better ones would save", f,
                {db,
                 {"target", Text{&f->target}, "that the kernels are for; host is this machine's"},
                 {"device", Text{&f->device}, "its name; `this` is the one of this machine"},
                 {"entry", Text{&f->entry}, "only the one whose hash begins so, with its kernels"},
                 {"drop", Switch{&f->drop}, "forget the one of --entry"},
                 limit,
                 format_flag(f->format)},
                {file}, demand_command),
      make_verb("prune", "records that can never be an answer: counts them, or deletes them", f,
                {db,
                 {"delete", Switch{&f->remove}, "delete them; without it nothing changes"},
                 {"slower-than", Text{&f->slower_than}, "the best by this factor: clearly slower"},
                 {"keep", Whole{&f->keep, 0, INT64_MAX},
                  "records that stay of each workload on a device, for cost models"},
                 {"older-than", Whole{&f->older_than, 0, most_days},
                  "days: of workloads that got no record on a device since then, only the answer "
                  "and proofs that schedules are wrong stay; older demand is forgotten"},
                 json},
                {file}, prune_command),
      make_verb("recover", "save what is readable of a damaged database", f, {json},
                {damaged, fresh}, recover),
      make_verb("ship", "write the best records, for a layer below other databases", f,
                {ship_output,
                 ship_keep,
                 {"sign", Path{&f->sign},
                  "file of a private key (`db key`): NAME.layer.json beside NAME.jsonl says what "
                  "was signed"},
                 json},
                {files}, ship_command),
      make_verb(
          "key", "make a key by which a team signs the layers that it publishes", f,
          {{"output", Path{&f->output}, "file of the private key, which has to be new"}, json}, {},
          key_command),
      make_verb("upgrade", "bring a database of an older version up to date", f, {db}, {file},
                upgrade),
  };
  return verb;
}

}  // namespace tw::tools
