// SPDX-License-Identifier: Apache-2.0
#include "db/exchange/csv.h"

#include <fmt/format.h>

#include <ios>
#include <istream>
#include <map>

#include "base/hash.h"
#include "base/text.h"

namespace tw::db {
namespace {

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + '"';
}

std::string cell_of(const std::string& value) { return quoted(value); }
std::string cell_of(int64_t value) { return std::to_string(value); }
std::string cell_of(double value) { return format_double(value == 0 ? 0.0 : value); }
std::string cell_of(TrialStatus value) { return std::string(to_string(value)); }
std::string cell_of(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(cell_of(value));
  return join(texts, " ");
}

// read_cell() sets `out` to the value of a cell. It returns false if the cell has no value of this
// type.
bool read_cell(const std::string& cell, std::string& out) {
  out = cell;
  return true;
}
bool read_cell(const std::string& cell, int64_t& out) {
  const auto value = parse_int(cell);
  out = value.value_or(0);
  return value.has_value();
}
bool read_cell(const std::string& cell, double& out) {
  const auto value = parse_double(cell);
  out = value.value_or(0);
  return value.has_value();
}
bool read_cell(const std::string& cell, TrialStatus& out) {
  const auto status = parse_trial_status(cell);
  out = status.value_or(TrialStatus::Ok);
  return status.has_value();
}
bool read_cell(const std::string& cell, std::vector<double>& out) {
  out.clear();
  for (const std::string& word : words(cell)) {
    double value = 0;
    if (!read_cell(word, value)) return false;
    out.push_back(value);
  }
  return true;
}

bool is_of_first_version(std::string_view name) {
  bool is = false;
  Record record;
  visit_fields(
      record, [&](std::string_view field, const auto&) { is |= field == name; }, 1);
  return is;
}

tl::unexpected<Error> bad_row(const std::string& what) {
  return fail(ErrorCode::Invalid,
              fmt::format("[record] {}; a row written by `tilewright db export NAME.csv` was "
                          "expected; export it again",
                          what));
}

/// Splits the characters of one row into cells.
class RowReader {
 public:
  explicit RowReader(std::vector<std::string>& cells) : cells_(cells) { cells_.assign(1, ""); }

  /// Processes the next character of the row. Returns false if it ends the row.
  bool take(char c) {
    if (is_quoted_) return take_quoted(c);
    if (c == '\n') return false;
    if (c == ',')
      cells_.emplace_back();
    else if (c == '"' && (cells_.back().empty() || was_quote_))
      open_quote();
    else if (c != '\r')
      cells_.back() += c;
    was_quote_ = false;
    return true;
  }

 private:
  bool take_quoted(char c) {
    is_quoted_ = c != '"';
    was_quote_ = !is_quoted_;
    if (is_quoted_) cells_.back() += c;
    return true;
  }
  /// Opens a quoted part of a cell. A quote directly after a closing quote is also a character of
  /// the cell.
  void open_quote() {
    if (was_quote_) cells_.back() += '"';
    is_quoted_ = true;
  }

  std::vector<std::string>& cells_;
  bool is_quoted_ = false, was_quote_ = false;
};

}  // namespace

std::string csv_header() {
  std::string line;
  Record record;
  visit_fields(record, [&](const char* name, const auto&) { line += std::string(name) + ","; });
  return line + "hash\r\n";
}

std::string to_csv(const Record& record) {
  std::string line;
  visit_fields(record, [&](const char*, const auto& member) { line += cell_of(member) + ","; });
  return line + record.hash + "\r\n";
}

Result<bool> next_csv_row(std::istream& in, std::vector<std::string>& cells,
                          std::string& text) try {
  text.clear();
  RowReader reader(cells);
  std::streambuf* buffer = in.rdbuf();
  int c = buffer->sbumpc();
  if (c == std::char_traits<char>::eof()) return false;
  for (; c != std::char_traits<char>::eof(); c = buffer->sbumpc()) {
    if (text.size() > max_line_bytes) {
      if (c == '\n') break;
      continue;
    }
    if (!reader.take(static_cast<char>(c))) break;
    text += static_cast<char>(c);
  }
  if (text.size() > max_line_bytes) cells.clear();
  return true;
} catch (const std::ios_base::failure& failure) {
  return fail(ErrorCode::Database,
              fmt::format("[import] the rows cannot be read to their end: {}; check the file",
                          failure.what()));
}

Result<Record> from_csv(const std::vector<std::string>& names,
                        const std::vector<std::string>& cells) {
  if (cells.size() != names.size())
    return bad_row(
        fmt::format("the row has {} cells, and {} columns have names", cells.size(), names.size()));
  std::map<std::string_view, const std::string*> by_name;
  for (size_t i = 0; i < names.size(); ++i) by_name[names[i]] = &cells[i];
  Record record;
  std::string problem;
  visit_fields(record, [&](const char* name, auto& member) {
    const auto cell = by_name.find(name);
    if (cell == by_name.end()) {
      if (is_of_first_version(name)) problem = fmt::format("there is no column {}", name);
    } else if (!read_cell(*cell->second, member)) {
      problem = fmt::format("{} is '{:.32}'", name, *cell->second);
    }
  });
  const auto hash = by_name.find("hash");
  if (hash == by_name.end()) problem = "there is no column hash";
  if (!problem.empty()) return bad_row(problem);
  record.workload_hash = sha256_hex(record.workload);
  record.schedule_hash = sha256_hex(record.schedule);
  record.hash = *hash->second;
  return record;
}

}  // namespace tw::db
