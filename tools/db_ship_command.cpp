// SPDX-License-Identifier: Apache-2.0
// tilewright db ship: the few records of databases that are worth installing beside a program.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "codegen/abi.h"
#include "db/store.h"
#include "tools/db_flags.h"
#include "tools/quote.h"
#include "tools/report.h"
#include "tools/selection.h"
#include "tuner/processes/scratch.h"

namespace tw::tools {
namespace {

Status write_lines(const std::vector<db::Record>& records, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  for (const db::Record& record : records) out << db::to_json(record) << '\n';
  out.close();
  if (out) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[ship] {} cannot be written: check the disk", shell_quoted(path)));
}

Status write_database(const std::vector<db::Record>& records, const std::string& path) {
  TW_TRY(db::Store store, db::Store::open(path, db::OpenMode::ReadWrite));
  TW_RETURN_IF_ERROR(store.append(records));
  return {};
}

/// An existing file would be mixed with what it held.
Status check_free(const std::string& path) {
  std::error_code error;
  if (!path.ends_with(".db") && !path.ends_with(".jsonl"))
    return fail(
        ErrorCode::Usage,
        fmt::format("[ship] --output {}: NAME.jsonl or NAME.db was expected", shell_quoted(path)));
  if (path.ends_with(".db") && std::filesystem::exists(path, error))
    return fail(
        ErrorCode::Usage,
        fmt::format("[ship] --output {}: there is a file of that name: remove it, or choose "
                    "another",
                    shell_quoted(path)));
  return check_output(path);
}

}  // namespace

Result<int> ship_command(const DbFlags& f, const Surroundings&) {
  TW_RETURN_IF_ERROR(check_free(f.output));
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  TW_TRY(db::Store all, db::Store::open(scratch.path() + "/all.db", db::OpenMode::ReadWrite));
  db::AppendSummary summary;
  for (const std::string& file : f.files) {
    TW_TRY(const db::AppendSummary one,
           file.ends_with(".jsonl") ? all.import_jsonl(file) : all.merge_from(file));
    summary += one;
  }
  if (summary.quarantined > 0)
    note(counted(summary.quarantined, "line") + " not believed and left out");
  TW_TRY(const std::vector<db::Record> records,
         all.distilled({.codegen_abi = codegen::codegen_abi, .keep = f.keep_shipped}));
  if (records.empty())
    return fail(ErrorCode::NoCandidate,
                "[ship] no record of these databases is believed and of this program's code "
                "generator: nothing is written");
  TW_RETURN_IF_ERROR(f.output.ends_with(".db") ? write_database(records, f.output)
                                               : write_lines(records, f.output));
  if (f.format == "json")
    TW_RETURN_IF_ERROR(print_json(
        "db ship", {{"output", f.output}, {"records", records.size()}, {"of", summary.inserted}}));
  else
    TW_RETURN_IF_ERROR(
        print(fmt::format("{} of {} written to {}\n", records.size(),
                          counted(summary.inserted, "record"), shell_quoted(f.output))));
  return 0;
}

}  // namespace tw::tools
