// SPDX-License-Identifier: Apache-2.0
#include "tools/reports/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tools/standard_streams.h"

namespace tw::tools {
namespace {

bool begins_with_digit(std::string_view text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9';
}

// Escape sequences that begin and end a highlight on a terminal. Both have the same length.
constexpr std::string_view highlight_begin = "\033[1m", highlight_end = "\033[0m";

constexpr size_t indent = 4;        // indentation of continuation lines
constexpr size_t least_words = 24;  // least width of a text that is broken between words

/// Breaks a text between words into lines of at most `columns` characters. The caller has printed
/// `from` characters before the first line; the other lines are indented by `from` spaces.
std::string broken(const std::string& text, size_t from, size_t columns) {
  std::string result;
  size_t at = from;
  for (const std::string& word : words(text)) {
    const bool first = at == from;
    if (!first && at + 1 + width(word) > columns) {
      result += "\n" + std::string(from, ' ');
      at = from;
    } else if (!first) {
      result += ' ';
      ++at;
    }
    result += word;
    at += width(word);
  }
  return result;
}

/// Returns the text of a cell with control characters and line feeds escaped. An unescaped line
/// feed would look like the end of the row.
std::string shown_cell(std::string_view text) {
  std::string cell = without_controls(text);
  for (size_t at = cell.find('\n'); at != std::string::npos; at = cell.find('\n', at))
    cell.replace(at, 1, "\\x0a");
  return cell;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string csv_line(const std::vector<std::string>& cells) {
  std::vector<std::string> quoted;
  for (const std::string& cell : cells) quoted.push_back(csv_cell(cell));
  return join(quoted, ",") + "\n";
}

size_t width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

TableLayout::TableLayout(std::vector<std::string> header, int columns)
    : header_(std::move(header)),
      right_(header_.size(), true),
      columns_(static_cast<size_t>(std::max(columns, 0))) {
  for (const std::string& name : header_) widths_.push_back(width(name));
}

void TableLayout::fit(const std::vector<std::string>& row) {
  has_rows_ = true;
  for (size_t i = 0; i < header_.size(); ++i) {
    const std::string cell = shown_cell(row[i]);
    widths_[i] = std::max(widths_[i], width(cell));
    right_[i] = right_[i] && begins_with_digit(cell);
  }
}

std::string TableLayout::header(bool color) const {
  std::string text = line(header_);
  text.pop_back();
  return (color ? std::string(highlight_begin) + text + std::string(highlight_end) : text) + "\n";
}

std::string TableLayout::line(const std::vector<std::string>& row) const {
  std::string line;
  size_t at = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const std::string cell = shown_cell(row[i]);
    const bool last = i + 1 == row.size(), right = has_rows_ && right_[i];
    const size_t needed = last && !right ? std::min(least_words, widths_[i]) : widths_[i];
    if (i > 0 && columns_ > 0 && at + 2 + needed > columns_) {
      line += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (i > 0) {
      line += "  ";
      at += 2;
    }
    const std::string gap(widths_[i] - std::min(widths_[i], width(cell)), ' ');
    const bool breaks = last && columns_ > 0 && at + width(cell) > columns_;
    line += right ? gap + cell : breaks ? broken(cell, at, columns_) : last ? cell : cell + gap;
    at += widths_[i];
  }
  while (line.ends_with(' ')) line.pop_back();
  return line + "\n";
}

std::string as_text(const Table& table, bool color, int columns) {
  TableLayout layout(table.header, columns);
  for (const auto& row : table.rows) layout.fit(row);
  std::string text = layout.header(color);
  for (const auto& row : table.rows) text += layout.line(row);
  return text;
}

std::string as_text(const Table& table, const Surroundings& here) {
  return as_text(table, here.color, here.output_columns);
}

std::string as_text(const Facts& facts) {
  size_t widest = 0;
  for (const auto& [name, text] : facts) widest = std::max(widest, width(name));
  std::string lines;
  for (const auto& [name, text] : facts)
    lines += fmt::format("{}{}  {}\n", name, std::string(widest - width(name), ' '),
                         without_controls(text));
  return lines;
}

std::string as_csv(const Table& table) {
  std::string text = csv_line(table.header);
  for (const auto& row : table.rows) text += csv_line(row);
  return text;
}

Flag format_flag(Format& format) {
  return {"format",
          Choice(&format, {{"table", Format::Table}, {"json", Format::Json}, {"csv", Format::Csv}}),
          "of what is printed"};
}

Flag table_or_json_flag(Format& format) {
  return {"format", Choice(&format, {{"table", Format::Table}, {"json", Format::Json}}),
          "of what is printed"};
}

namespace {

/// Returns the status of output. `error` is the errno of its first failure; 0: no failure. EPIPE is
/// no error: the reader, such as `| head`, has closed its end of the pipe.
Status written(int error) {
  if (error == 0 || error == EPIPE) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[output] standard output cannot be written ({}): check the disk",
                          std::strerror(error)));
}

Status print_as_it_is(std::string_view text) {
  const bool is_whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  return written(is_whole && std::fflush(stdout) == 0 ? 0 : errno);
}

}  // namespace

Status print(std::string_view text) {
  std::string shown;
  while (true) {
    const size_t own = std::min(text.find(highlight_begin), text.find(highlight_end));
    shown += without_controls(text.substr(0, own));
    if (own == std::string_view::npos) return print_as_it_is(shown);
    shown += text.substr(own, highlight_begin.size());
    text.remove_prefix(own + highlight_begin.size());
  }
}

bool PieceByPiece::write(std::string_view text) {
  if (error_ == 0 && std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    error_ = errno;
  return error_ == 0;
}

Status PieceByPiece::finish() {
  if (error_ == 0 && std::fflush(stdout) != 0) error_ = errno;
  return written(error_);
}

int PieceByPiece::overflow(int character) {
  const char c = traits_type::to_char_type(character);
  return write({&c, 1}) ? character : traits_type::eof();
}

std::streamsize PieceByPiece::xsputn(const char* text, std::streamsize count) {
  return write({text, static_cast<size_t>(count)}) ? count : 0;
}

std::string json_text(const nlohmann::json& value, int indentation) {
  const std::string text = value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string shifted;
  for (const char c : text)
    shifted +=
        c == '\n' ? "\n" + std::string(static_cast<size_t>(indentation), ' ') : std::string(1, c);
  return shifted;
}

Status print_csv(const Table& table) { return print_as_it_is(as_csv(table)); }

Status print_json(std::string_view verb, const nlohmann::json& document) {
  nlohmann::ordered_json whole;
  whole["schema_version"] = json_schema_version;
  whole["verb"] = verb;
  for (const auto& [key, value] : document.items()) whole[key] = value;
  return print_as_it_is(whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::string show_share(double share) {
  const double percent = 100 * share;
  const int digits = percent >= 9.95 ? 0 : percent >= 0.095 ? 1 : 2;
  return fmt::format("{:.{}f} %", percent, digits);
}

std::string show_bytes(int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (bytes < 1 << 10) return fmt::format("{} B", bytes);
  if (bytes < 1 << 20) return fmt::format("{:.1f} KiB", size / (1 << 10));
  if (bytes < 1 << 30) return fmt::format("{:.1f} MiB", size / (1 << 20));
  return fmt::format("{:.1f} GiB", size / (1 << 30));
}

double gflops(double flops, double ns) { return ns > 0 ? flops / ns : 0; }

std::string show_latency(const db::Record& record) {
  return show_latency(record, TimeUnit(std::array{record.latency_ns}));
}

std::string show_latency(const db::Record& record, const TimeUnit& unit) {
  const bool is_disturbed = record.status == db::TrialStatus::Unstable;
  return unit.text(record.latency_ns) + (is_disturbed ? " disturbed" : "");
}

nlohmann::json as_json(const db::Record& record, bool full) {
  nlohmann::json json = {
      {"record", record.hash},
      {"workload", record.workload},
      {"layouts", record.layouts},
      {"op", record.op},
      {"target", record.target},
      {"device", record.device},
      {"threads", record.threads},
      {"status", db::to_string(record.status)},
      {"reason", record.reason},
      {"latency_ns", record.latency_ns},
      {"latency_low_ns", record.latency_low_ns},
      {"latency_high_ns", record.latency_high_ns},
      {"gflops", gflops(record.flops, record.latency_ns)},
      {"peak_gflops", record.peak_gflops},
      {"efficiency", db::efficiency(record)},
      {"schedule", record.schedule},
      {"session", record.session},
  };
  if (!full) return json;
  db::visit_fields(record, [&](const char* name, const auto& member) {
    using Member = std::decay_t<decltype(member)>;
    if constexpr (std::is_same_v<Member, db::TrialStatus>)
      json[name] = db::to_string(member);
    else
      json[name] = member;
  });
  return json;
}

std::string show_status(db::TrialStatus status) {
  return status == db::TrialStatus::Hopeless ? "pruned" : std::string(db::to_string(status));
}

std::string show_counts(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [name, count] : counts) sorted.emplace_back(-count, name);
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> parts;
  for (const auto& [count, name] : sorted) {
    const auto status = db::parse_trial_status(name);
    parts.push_back(fmt::format("{} {}", -count, status ? show_status(*status) : name));
  }
  return join(parts, ", ");
}

std::string without_controls(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c0 = byte < ' ' && text[i] != '\n' && text[i] != '\t';
    if (is_c0 || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xc2 && i + 1 < text.size() && (text[i + 1] & 0xe0) == 0x80) {
      // The control characters U+0080 to U+009f (C1). Terminals obey them too: U+009b means the
      // same as ESC [.
      shown += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[++i]));
    } else {
      shown += text[i];
    }
  }
  return shown;
}

void note(std::string_view text) {
  print_error(fmt::format("tilewright: {}\n", without_controls(text)));
}

nlohmann::json notes_json(const tuner::Notes* notes) {
  nlohmann::json list = nlohmann::json::array();
  if (notes == nullptr) return list;
  for (const tuner::Note& one : notes->all())
    list.push_back(
        {{"kind", tuner::to_string(one.kind)}, {"count", one.count}, {"first", one.text}});
  return list;
}

}  // namespace tw::tools
