// SPDX-License-Identifier: Apache-2.0
#pragma once
// Prints results as tables for people and as CSV and JSON for programs. Locale-independent;
// thread-safe.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time_text.h"
#include "db/record.h"
#include "tools/surroundings.h"
#include "tools/verb.h"
#include "tuner/workers/notes.h"

namespace tw::tools {

/// Version of all documents that `--format json` prints. A new field does not change the version; a
/// new meaning of a field does.
inline constexpr int json_schema_version = 1;

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};
/// Returns the table as aligned columns. Numbers are aligned to the right, and a text in the last
/// column is not padded. If a row exceeds `columns` characters (0: no limit), its remaining cells
/// are printed on the next line, indented, and a text in the last column is broken between words.
std::string as_text(const Table& table, bool color = false, int columns = 0);
/// Returns as_text() with the colours and the width of standard output.
std::string as_text(const Table& table, const Surroundings& here);
/// Returns the number of characters (code points) of a UTF-8 text.
size_t width(std::string_view text);
/// Pairs of a name and a text. as_text() prints each pair on a line of its own, the name first.
using Facts = std::vector<std::pair<std::string, std::string>>;
std::string as_text(const Facts& facts);
/// Returns the table as CSV (RFC 4180, but with "\n" as line end).
std::string as_csv(const Table& table);
/// Prints as_csv(). Control characters are not escaped, because programs read the cells. Fails as
/// print().
Status print_csv(const Table& table);

/// Returns the cells as a line of CSV, with its line end.
std::string csv_line(const std::vector<std::string>& cells);

/// Formats a table of any length without keeping its rows. The caller visits the rows twice: first
/// it calls fit() for every row, which finds the widths of the columns, then line() for every row,
/// which returns the text of the row.
class TableLayout {
 public:
  /// `columns` is the largest width of a line; 0: no limit.
  explicit TableLayout(std::vector<std::string> header, int columns = 0);
  void fit(const std::vector<std::string>& row);
  std::string header(bool color) const;
  std::string line(const std::vector<std::string>& row) const;

 private:
  std::vector<std::string> header_;
  std::vector<size_t> widths_;
  std::vector<bool> right_;  ///< columns of numbers, which are aligned to the right
  size_t columns_;
  bool has_rows_ = false;
};

/// Writes standard output piece by piece, either by write() or as the buffer of a stream. If the
/// reader closes its end of the pipe (`| head`), the output ends without an error.
class PieceByPiece : public std::streambuf {
 public:
  /// Writes a text. Returns false if this or an earlier write has failed, so that the caller can
  /// stop.
  bool write(std::string_view text);
  bool has_failed() const { return error_ != 0; }
  /// Flushes the output. Fails with Environment if writing failed, unless the reason is that the
  /// reader closed its end of the pipe.
  Status finish();

 protected:
  int overflow(int character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;

 private:
  int error_ = 0;  ///< errno of the first failure
};

/// Returns the text of a JSON value as print_json() prints it. All lines but the first are indented
/// by `indentation` more spaces, so that the text fits into an outer document.
std::string json_text(const nlohmann::json& value, int indentation);

/// Returns the flag --format with all formats: table, json and csv.
Flag format_flag(Format& format);
/// Returns the flag --format without csv, for results that are not a table.
Flag table_or_json_flag(Format& format);

/// Prints a text for people to standard output. Fails with Environment if the text cannot be
/// written completely, as on a full disk; a reader that closes its end of the pipe is no error.
/// Control characters are escaped as by without_controls(), except the escape sequences by which
/// as_text() highlights the header.
Status print(std::string_view text);
/// Prints the fields of `document` after the fields "schema_version" and "verb" as one indented
/// JSON object. Bytes that are not UTF-8 are replaced by U+FFFD. Fails as print().
Status print_json(std::string_view verb, const nlohmann::json& document);

/// Returns a share, such as 0.12 or 0.004, as a text: "12 %", "0.4 %" or "0.04 %".
std::string show_share(double share);
std::string show_bytes(int64_t bytes);
double gflops(double flops, double ns);

/// Returns the latency of a record as "235.1 µs", or as "235.1 µs disturbed" if every timing of the
/// record was disturbed.
std::string show_latency(const db::Record& record);
/// As show_latency() above, in the given time unit, which all rows of a table share.
std::string show_latency(const db::Record& record, const TimeUnit& unit);

/// Returns a record as JSON: the fields that people read, or all fields if `full` is true.
nlohmann::json as_json(const db::Record& record, bool full = false);

/// Returns the name of a trial status for people. It is the name in databases, JSON and CSV, except
/// that "hopeless" (stopped early as clearly slower) is shown as "pruned".
std::string show_status(db::TrialStatus status);

/// Returns a text that lists the number of trials of each status, the largest first: "45 ok, 3
/// pruned". The keys of `counts` are the names of statuses in databases.
std::string show_counts(const std::map<std::string, int64_t>& counts);

/// Returns the text with control characters escaped, such as "\x1b", except line feeds and tabs.
/// Messages and tables may quote untrusted files, and a terminal would obey control characters in
/// them.
std::string without_controls(std::string_view text);
/// Prints a note to standard error, escaped as by without_controls(): "tilewright: " and the text.
void note(std::string_view text);

/// Returns the notes of a run as JSON: for each kind of note the name of the kind, the number of
/// notes and the text of the first note. Returns an empty list if `notes` is null.
nlohmann::json notes_json(const tuner::Notes* notes);

}  // namespace tw::tools
