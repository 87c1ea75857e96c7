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

/// Version of all documents that `--format json` prints. Added fields do not change the version; a
/// new meaning of a field does.
inline constexpr int json_schema_version = 1;

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};
/// The table as aligned columns. Numbers are aligned to the right, and the last column is not
/// padded. If a row exceeds `columns` characters (0: no limit), its rest is printed below,
/// indented, and the text of its last column is broken between words.
std::string as_text(const Table& table, bool color = false, int columns = 0);
/// as_text() with the colours and the width of standard output.
std::string as_text(const Table& table, const Surroundings& here);
/// Number of characters (code points) of a text, not of bytes.
size_t width(std::string_view text);
/// Pairs of a name and a text. as_text() prints each pair on a line of its own, the name first.
using Facts = std::vector<std::pair<std::string, std::string>>;
std::string as_text(const Facts& facts);
/// The table as CSV (RFC 4180).
std::string as_csv(const Table& table);
/// Prints as_csv(). Control characters are not escaped, as programs read the cells.
Status print_csv(const Table& table);

/// The cells as a line of CSV (RFC 4180), with its line end.
std::string csv_line(const std::vector<std::string>& cells);

/// Formats a table of any length without keeping its rows. Go through the rows twice: first call
/// fit() for every row, which finds the widths of the columns, then line() for every row, which
/// returns its text.
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

/// Writes standard output piece by piece; it can also be the buffer of a stream. If the reader goes
/// away (`| head`), the output ends without an error.
class PieceByPiece : public std::streambuf {
 public:
  /// Writes a text. Returns false if this or an earlier write has failed, so that the caller can
  /// stop.
  bool write(std::string_view text);
  bool has_failed() const { return error_ != 0; }
  /// Flushes the output. Environment if writing failed, unless the reason is that the reader went
  /// away.
  Status finish();

 protected:
  int overflow(int character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;

 private:
  int error_ = 0;  ///< errno of the first failure
};

/// The text of a JSON value as print_json() prints it, for an element that is indented by
/// `indentation` spaces.
std::string json_text(const nlohmann::json& value, int indentation);

/// The flag --format with all formats.
Flag format_flag(Format& format);
/// The flag --format without CSV, for results that are no table.
Flag table_or_json_flag(Format& format);

/// Prints a text for people to standard output. Environment if the text cannot be written
/// completely, as on a full disk; a reader that goes away is no error. Control characters are
/// escaped as by without_controls(), except the highlight that as_text() makes.
Status print(std::string_view text);
/// Prints {"schema_version": 1, "verb": verb, ...document}, indented. Bytes that are not UTF-8 are
/// replaced.
Status print_json(std::string_view verb, const nlohmann::json& document);

/// A share from 0 to 1 as "12 %", "0.4 %" or "0.04 %".
std::string show_share(double share);
std::string show_bytes(int64_t bytes);
double gflops(double flops, double ns);

/// The latency of a record as "235.1 µs", or "235.1 µs disturbed" if every timing of the record was
/// disturbed.
std::string show_latency(const db::Record& record);
/// As show_latency(), in the time unit that all rows of a table have.
std::string show_latency(const db::Record& record, const TimeUnit& unit);

/// A record as JSON: the fields that people read, or with `full` all fields.
nlohmann::json as_json(const db::Record& record, bool full = false);

/// The name of a trial status for people. The status that databases, JSON and CSV call "hopeless"
/// (stopped early as clearly slower) is "pruned" here.
std::string show_status(db::TrialStatus status);

/// A text that lists the number of trials of each status: "45 ok, 3 pruned". `counts` has a number
/// for each status; the keys are the names of statuses in databases.
std::string show_counts(const std::map<std::string, int64_t>& counts);

/// The text with control characters other than line feeds and tabs escaped, as \x1b. Messages and
/// tables may quote files of strangers, and a terminal would obey control characters in them.
std::string without_controls(std::string_view text);
/// Prints a note to standard error: "tilewright: text", escaped as by without_controls().
void note(std::string_view text);

/// The notes of a run as JSON: for each kind of note the name of the kind, the number of notes and
/// the text of the first one. An empty list if `notes` is null.
nlohmann::json notes_json(const tuner::Notes* notes);

}  // namespace tw::tools
