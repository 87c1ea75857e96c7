// SPDX-License-Identifier: Apache-2.0
// tilewright db ship: selects the few records of databases that are worth shipping with a program
// or publishing for a team (db::distilled()), and writes them as a database layer.

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/hash.h"
#include "base/signature.h"
#include "base/text.h"
#include "codegen/abi.h"
#include "db/answers.h"
#include "db/published_layer.h"
#include "db/store.h"
#include "db/transfer.h"
#include "runtime/private_file.h"
#include "tools/flags/db_flags.h"
#include "tools/flags/quote.h"
#include "tools/reports/report.h"
#include "tuner/processes/scratch.h"

namespace tw::tools {
namespace {

std::string lines_of(const std::vector<db::Record>& records) {
  std::string lines;
  for (const db::Record& record : records) lines += db::to_json(record) + '\n';
  return lines;
}

Status write_text(std::string_view text, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
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

Result<SigningKey> key_in(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return fail(ErrorCode::Usage,
                fmt::format("[ship] --sign {}: it is a directory; the file of a private key, as "
                            "`tilewright db key` makes it, was expected",
                            shell_quoted(path)));
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in && text.empty())
    return fail(ErrorCode::Usage,
                fmt::format("[ship] --sign {}: it cannot be read", shell_quoted(path)));
  Result<SigningKey> key = parse_signing_key(text);
  if (key) return key;
  const std::string& why = key.error().message;  // "[key] this is no private key ..."
  return fail(key.error().code, fmt::format("[ship] --sign {}: {}", shell_quoted(path),
                                            why.substr(why.find("] ") + 2)));
}

/// "dir/team.jsonl" -> "dir/team.layer.json"
std::string manifest_path(const std::string& lines_path) {
  return lines_path.substr(0, lines_path.rfind('.')) + std::string(db::manifest_ending);
}

/// Returns the manifest, without keys and signature, of the file `path`. `lines` is the content of
/// the file, the text of `records`.
db::LayerManifest manifest_of(const std::vector<db::Record>& records, const std::string& lines,
                              const std::string& path, const Surroundings& here) {
  std::set<std::string> devices;
  for (const db::Record& record : records) devices.emplace(db::model_of(record.device));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.data = std::filesystem::path(path).filename(),
          .sha256 = sha256_hex(lines),
          .bytes = std::ssize(lines),
          .records = std::ssize(records),
          .created_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count(),
          .program_version = here.environment.program_version,
          .devices = {devices.begin(), devices.end()},
          .public_key = {},
          .signature = {}};
}

/// Replaces a file atomically. After a failure the old file is unchanged.
Status replace_file(std::string_view text, const std::string& path) {
  const std::string part = path + ".part";
  TW_RETURN_IF_ERROR(write_text(text, part));
  std::error_code error;
  std::filesystem::rename(part, path, error);
  if (!error) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[ship] {} cannot be written ({})", shell_quoted(path), error.message()));
}

/// Writes the lines of the records and then the signed manifest. Between the two, the new lines do
/// not match the old manifest, so users who fetch both files refuse the layer and keep their old
/// copy. Fails with Usage and writes nothing if the manifest is one that users' programs refuse.
Status write_signed(const std::vector<db::Record>& records, const std::string& path,
                    const SigningKey& key, const Surroundings& here) {
  const std::string lines = lines_of(records);
  const std::string manifest = to_json(db::signed_by(key, manifest_of(records, lines, path, here)));
  if (const auto accepted = db::parse_manifest(manifest, key.public_key); !accepted)
    return fail(ErrorCode::Usage,
                fmt::format("[ship] --output {}: no program would fetch it: {}; choose a plain "
                            "name, or ship less",
                            shell_quoted(path), accepted.error().message));
  TW_RETURN_IF_ERROR(replace_file(lines, path));
  return replace_file(manifest, manifest_path(path));
}

/// Checks that `path` ends with .db or .jsonl, and that no database exists there, because the new
/// records would be added to its records. Fails with Usage otherwise, and with the errors of
/// runtime::check_output().
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
  return runtime::check_output(path);
}

}  // namespace

Result<int> ship_command(const DbFlags& f, const Surroundings& here) {
  TW_RETURN_IF_ERROR(check_free(f.output));
  if (f.sign.empty() && f.output.ends_with(".jsonl") &&
      std::filesystem::exists(manifest_path(f.output)))
    return fail(ErrorCode::Usage,
                fmt::format("[ship] --output {}: {} is the manifest of a published layer, which "
                            "would no longer fit: add --sign, or remove it",
                            shell_quoted(f.output), shell_quoted(manifest_path(f.output))));
  if (!f.sign.empty() && f.output.ends_with(".db"))
    return fail(ErrorCode::Usage,
                "[ship] --sign: a layer that is fetched has lines, NAME.jsonl: name such an "
                "--output");
  std::optional<SigningKey> key;
  if (!f.sign.empty()) {
    TW_TRY(key, key_in(f.sign));
  }
  TW_TRY(const tuner::Scratch scratch, tuner::Scratch::make(tuner::temporary_places()));
  db::StoreOptions options;
  options.waiting.on_message = [](std::string_view text) { note(text); };
  TW_TRY(db::Store all,
         db::Store::open(scratch.path() + "/all.db", db::OpenMode::ReadWrite, std::move(options)));
  db::AppendSummary summary;
  for (const std::string& file : f.files) {
    TW_TRY(const db::AppendSummary one,
           file.ends_with(".jsonl") ? db::import_jsonl(all, file) : db::merge_from(all, file));
    summary += one;
  }
  if (summary.quarantined > 0)
    note(counted(summary.quarantined, "line") + " not believed and left out");
  if (summary.damaged > 0) note(counted(summary.damaged, "record") + " damaged and left out");
  TW_TRY(const std::vector<db::Record> records,
         db::distilled(all, {.codegen_abi = codegen::codegen_abi, .keep = f.keep_shipped}));
  if (records.empty())
    return fail(ErrorCode::NoCandidate,
                "[ship] no record of these databases is believed and of this program's code "
                "generator: nothing is written");
  TW_RETURN_IF_ERROR(f.output.ends_with(".db") ? write_database(records, f.output)
                     : key                     ? write_signed(records, f.output, *key, here)
                                               : write_text(lines_of(records), f.output));
  if (f.format == Format::Json)
    TW_RETURN_IF_ERROR(print_json("db ship", {{"output", f.output},
                                              {"records", records.size()},
                                              {"of", summary.inserted},
                                              {"damaged", summary.damaged}}));
  else
    TW_RETURN_IF_ERROR(
        print(fmt::format("{} of {} written to {}\n", records.size(),
                          counted(summary.inserted, "record"), shell_quoted(f.output))));
  return 0;
}

}  // namespace tw::tools
