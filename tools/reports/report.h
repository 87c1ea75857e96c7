// SPDX-License-Identifier: Apache-2.0
#pragma once
// Output formats of results: tables for people, CSV and JSON for programs. Locale-independent;
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
/// Columns side by side, the last one unpadded; numbers to the right. Where they do not fit into
/// `columns` characters (0: they do), the rest of a row stands below it, indented, and the text of
/// its last column is broken between words.
std::string as_text(const Table& table, bool color = false, int columns = 0);
/// The same with the colours and the width of standard output.
std::string as_text(const Table& table, const Surroundings& here);
/// Number of characters (code points), not bytes.
size_t width(std::string_view text);
/// Pairs of a name and a text. as_text() prints one pair a line, the name first.
using Facts = std::vector<std::pair<std::string, std::string>>;
std::string as_text(const Facts& facts);
/// The table as CSV (RFC 4180).
std::string as_csv(const Table& table);
/// Prints as_csv() as it is: a program reads the cells.
Status print_csv(const Table& table);

/// The cells as a line of CSV (RFC 4180), with its line end.
std::string csv_line(const std::vector<std::string>& cells);

/// The layout of a table of any length whose rows are not kept. Call fit() for every row, then
/// line() for every row again.
class TableLayout {
 public:
  /// `columns` as for as_text().
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

/// Standard output, written piece by piece, or as the buffer of a stream. A reader that goes away
/// (`| head`) ends the output, which is no error.
class PieceByPiece : public std::streambuf {
 public:
  /// False once writing has failed, so that the caller can stop.
  bool write(std::string_view text);
  bool has_failed() const { return error_ != 0; }
  /// Environment where writing failed for another reason than a reader that went away.
  Status finish();

 protected:
  int overflow(int character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;

 private:
  int error_ = 0;  ///< errno of the first failure
};

/// JSON as print_json() writes it, for an element at this indentation (in spaces).
std::string json_text(const nlohmann::json& value, int indentation);

/// The flag --format with all formats.
Flag format_flag(Format& format);
/// The same without CSV, for results that are no table.
Flag table_or_json_flag(Format& format);

/// Prints a text for people to standard output, whole or with an error (Environment): a full disk
/// must not look like success. A reader that goes away is no error. Control characters are escaped
/// as by without_controls(), but the highlight that as_text() makes.
Status print(std::string_view text);
/// {"schema_version": 1, "verb": verb, ...document}, indented; bytes that are not UTF-8 are
/// replaced.
Status print_json(std::string_view verb, const nlohmann::json& document);

/// A share of one as "12 %", "0.4 %" or "0.04 %".
std::string show_share(double share);
std::string show_bytes(int64_t bytes);
double gflops(double flops, double ns);

/// The latency of a record as "235.1 µs", or "235.1 µs disturbed" where it was never timed
/// undisturbed.
std::string show_latency(const db::Record& record);
/// show_latency() in the unit of a table.
std::string show_latency(const db::Record& record, const TimeUnit& unit);

/// Numbers of a record that people want, and everything that it holds with `full`.
nlohmann::json as_json(const db::Record& record, bool full = false);

/// A status of trials for people. Those that were stopped early because they are clearly slower are
/// "pruned", which databases, JSON and CSV call "hopeless".
std::string show_status(db::TrialStatus status);

/// "45 ok, 3 pruned": counts by status as databases call it.
std::string show_counts(const std::map<std::string, int64_t>& counts);

/// The text with control characters but line feeds and tabs as \x1b and the like: messages and
/// tables quote files of strangers, and a terminal would obey them.
std::string without_controls(std::string_view text);
/// A note on standard error: "tilewright: text", without_controls().
void note(std::string_view text);

/// The notes of a run as a list of {"kind", "count", "first"}; an empty list for null.
nlohmann::json notes_json(const tuner::Notes* notes);

}  // namespace tw::tools
