// SPDX-License-Identifier: Apache-2.0
// Transfer of records and calibrations between databases and files: merge, import, export, recover.

#include "db/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ios>
#include <istream>
#include <optional>
#include <ostream>
#include <set>
#include <variant>

#include "db/calibration.h"
#include "db/exchange/csv.h"
#include "db/exchange/read_ahead.h"
#include "db/exchange/t4.h"
#include "db/opening.h"
#include "db/server_address.h"
#include "db/store.h"
#include "db/store_state.h"
#include "db/tables/old_rows.h"
#include "db/tables/rows.h"
#include "db/tables/schema.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;

// Number of records in one transaction. Each transaction syncs the file and writes pages of
// indexes. With this many records, these costs do not dominate an import, and other writers wait
// only some 0.1 s.
constexpr size_t batch_size = 4096;

// Reads the next line; returns false at the end. Of a line that is too long, only the beginning is
// kept, which is enough to refuse the line. Fails if the file cannot be read, which the buffer of
// the stream reports by an exception.
Result<bool> next_line(std::istream& in, std::string& line) try {
  line.clear();
  std::streambuf* buffer = in.rdbuf();
  int c = buffer->sbumpc();
  if (c == std::char_traits<char>::eof()) return false;
  for (; c != std::char_traits<char>::eof() && c != '\n'; c = buffer->sbumpc())
    if (line.size() <= max_line_bytes) line += static_cast<char>(c);
  return true;
} catch (const std::ios_base::failure& failure) {
  return fail(ErrorCode::Database,
              fmt::format("[import] the lines cannot be read to their end: {}; check the file",
                          failure.what()));
}

/// Visits the lines that are not empty. `number` is the number of the line in the input, from 1 on.
Status each_line(std::istream& in,
                 const std::function<Status(const std::string& line, int64_t number)>& visit) {
  std::string line;
  for (int64_t number = 1;; ++number) {
    TW_TRY(const bool found, next_line(in, line));
    if (!found) return {};
    if (!line.empty()) TW_RETURN_IF_ERROR(visit(line, number));
  }
}

/// The content of a line of an export.
using Fact = std::variant<Record, Calibration>;

/// Parses a line. If the line is neither a record nor a calibration, returns the error about
/// calibrations if the line has a field "calibration", else the error about records.
Result<Fact> fact_of(std::string_view line) {
  Result<Record> record = from_json(line);
  if (record) return Fact(std::move(*record));
  Result<Calibration> calibration = calibration_from_json(line);
  if (calibration) return Fact(std::move(*calibration));
  const bool names_calibration = line.find("\"calibration\":") != std::string_view::npos;
  return tl::unexpected(names_calibration ? calibration.error() : record.error());
}

// Collects facts and bad lines, and appends them batch by batch.
class Batches {
 public:
  explicit Batches(Store::State& state) : state_(state) {}

  template <typename FactType>
  Status add(FactType fact, const std::string& line) {
    facts_.add(std::move(fact), [&](const FactType&) { return line; });
    return flush_if_full();
  }
  /// Adds a record or calibration of a store, which has passed check() already.
  template <typename FactType>
  Status keep(FactType fact) {
    facts_.keep(std::move(fact));
    return flush_if_full();
  }
  Status add(Fact fact, const std::string& line) {
    return std::visit([&](auto& f) { return add(std::move(f), line); }, fact);
  }
  Status add_bad(Quarantined line) {
    facts_.bad.push_back(std::move(line));
    return flush_if_full();
  }
  /// Adds the calibrations of `from`, and appends everything that was not appended yet.
  Result<AppendSummary> finish(Store& from) {
    TW_RETURN_IF_ERROR(
        for_each_calibration(from, [&](const Calibration& machine) { return keep(machine); }));
    TW_RETURN_IF_ERROR(flush());
    return summary_;
  }
  Status flush() {
    if (facts_.size() == 0) return {};
    TW_TRY(const AppendSummary added, append_checked(state_, facts_));
    summary_ += added;
    facts_ = {};
    return {};
  }
  const AppendSummary& summary() const { return summary_; }

 private:
  Status flush_if_full() { return facts_.size() < batch_size ? Status() : flush(); }

  Store::State& state_;
  Checked facts_;
  AppendSummary summary_;
};

bool is_database(std::string_view text) { return text.starts_with(database_magic); }

Error database_to_import(const std::string& name) {
  return {ErrorCode::Invalid,
          fmt::format("[import] {} is a database; a file of JSON lines was expected; take its "
                      "records over with `tilewright db merge`",
                      name)};
}

/// Returns the error for an input without records. `expected` describes the form of such an input,
/// for example "lines as `tilewright db export NAME.jsonl` writes them".
Error no_facts_in(const std::string& name, std::string_view expected, std::string_view why) {
  return {ErrorCode::Invalid,
          fmt::format("[import] {} holds no records, and nothing was stored: {} were expected; {}",
                      name, expected, why)};
}

// If none of the first `most_leading` entries is a record or calibration, the input is not an
// export.
constexpr size_t most_leading = 64;

/// Stores the entries of an import, which are lines, rows or results. Bad entries before the first
/// record or calibration stay in memory until that is found. So nothing is stored if the input is
/// not an export.
class Import {
 public:
  /// `name` and `expected` are as in no_facts_in(); `entry` is the word for an entry in messages,
  /// such as "line". The texts must outlive the import.
  Import(Store::State& state, const std::string& name, std::string_view expected,
         std::string_view entry)
      : batches_(state), name_(name), expected_(expected), entry_(entry) {}

  /// Adds entry number `number`, given as its text and as the result of parsing it. Fails with
  /// Invalid if the input is not an export.
  Status add(Result<Fact> fact, const std::string& text, int64_t number) {
    if (!fact && has_facts_) return batches_.add_bad({text, fact.error().message});
    if (!fact) return add_leading({text, fact.error().message}, number);
    has_facts_ = true;
    for (Quarantined& bad : std::exchange(leading_, {}))
      TW_RETURN_IF_ERROR(batches_.add_bad(std::move(bad)));
    return batches_.add(std::move(*fact), text);
  }
  /// Stores what add() has not stored yet. Fails with Invalid if all entries are bad.
  Result<AppendSummary> finish() {
    if (!leading_.empty()) return tl::unexpected(refused());
    TW_RETURN_IF_ERROR(batches_.flush());
    return batches_.summary();
  }

 private:
  Status add_leading(Quarantined bad, int64_t number) {
    if (leading_.empty()) first_ = number;
    leading_.push_back(std::move(bad));
    if (is_database(leading_.front().line)) return tl::unexpected(database_to_import(name_));
    return leading_.size() < most_leading ? Status() : tl::unexpected(refused());
  }
  Error refused() const {
    return no_facts_in(
        name_, expected_,
        fmt::format("{} {} is refused: {}", entry_, first_, leading_.front().reason));
  }

  Batches batches_;
  const std::string& name_;
  const std::string_view expected_, entry_;
  std::vector<Quarantined> leading_;
  int64_t first_ = 0;  ///< number of the first entry of `leading_`
  bool has_facts_ = false;
};

Result<std::ifstream> open_lines(const std::string& path) {
  std::error_code error;
  std::ifstream in(path, std::ios::binary);
  if (in && !fs::is_directory(path, error)) return in;
  return fail(
      ErrorCode::Database,
      fmt::format("[import] {} cannot be read; a file of JSON lines was expected; check the path",
                  path));
}

Status path_is_free(const std::string& path) {
  if (!fs::exists(path)) return {};
  return fail(
      ErrorCode::Database,
      fmt::format("[export] {} exists; a new path was expected; choose another name", path));
}

Status written(const std::ostream& out, const std::string& path) {
  if (out.good()) return {};
  return fail(
      ErrorCode::Database,
      fmt::format("[export] {} could not be written; check the path and the room on its disk",
                  path));
}

using Export = Status (*)(Store&, std::ostream&);

/// Returns the export function for the ending of the path; nullptr if there is none.
Export export_of(std::string_view path) {
  return path.ends_with(".jsonl")  ? &export_jsonl
         : path.ends_with(".csv")  ? &export_csv
         : path.ends_with(".json") ? &export_t4
                                   : nullptr;
}

Status export_text_to(Store& store, Export write, const std::string& path) {
  const std::string part = path + ".part";
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    TW_RETURN_IF_ERROR(written(out, path));
    TW_RETURN_IF_ERROR(write(store, out));
    out.close();
    TW_RETURN_IF_ERROR(written(out, path));
  }
  std::error_code error;
  fs::rename(part, path, error);
  if (!error) return {};
  return fail(ErrorCode::Database,
              fmt::format("[export] {} cannot be written ({}); choose another path", path,
                          error.message()));
}

/// Copies a server's database to a new file, which is renamed to `path` when complete.
Status copy_to_file(Store& store, const std::string& path) {
  const std::string part = path + ".part";
  std::error_code error;
  for (const char* suffix : {"", ".lock", "-journal"}) fs::remove(part + suffix, error);
  {
    TW_TRY(Store copy, Store::open(part, OpenMode::ReadWrite));
    TW_RETURN_IF_ERROR(merge_from(copy, store));
  }
  fs::remove(part + ".lock", error);
  fs::rename(part, path, error);
  if (!error) return {};
  return fail(ErrorCode::Database,
              fmt::format("[export] {} cannot be written ({}); choose another path", path,
                          error.message()));
}

// ---- recover ----

/// Appends zeros to a file that was cut off, up to the size that its header states. SQLite does not
/// open a file that is shorter than this size. With the zeros, SQLite treats only the missing pages
/// as broken. (In the header, the page size is at byte 16 and the number of pages at byte 28, both
/// big endian.)
void fill_up(const std::string& path) {
  std::array<unsigned char, 32> header = {};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(header.data()), header.size())) return;
  const auto number = [&](size_t at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | header[at + i];
    return value;
  };
  const uint64_t page = number(16, 2) == 1 ? 65536 : number(16, 2);
  // A larger size shows that the header is broken too.
  constexpr uint64_t most_bytes = uint64_t{1} << 36;
  std::error_code error;
  const uint64_t bytes = page * number(28, 4), has = fs::file_size(path, error);
  if (!error && has < bytes && bytes <= most_bytes) fs::resize_file(path, bytes, error);
}

/// A private copy of a damaged file and its journal. SQLite may repair the copy; the file itself is
/// only read. The destructor deletes the copy.
class Copy {
 public:
  static Result<Copy> make(const std::string& damaged, const std::string& folder) {
    std::error_code error;
    fs::remove_all(folder, error);
    fs::create_directories(folder, error);
    const std::string path = folder + "/copy.db";
    if (!error) fs::copy_file(damaged, path, error);
    if (error)
      return fail(ErrorCode::Database,
                  fmt::format("[recover] {} cannot be copied to {} ({}); check both "
                              "paths",
                              damaged, folder, error.message()));
    fill_up(path);
    for (const char* suffix : {"-journal", "-wal"})
      if (fs::exists(damaged + suffix)) fs::copy_file(damaged + suffix, path + suffix, error);
    return Copy(folder);
  }
  Copy(Copy&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}
  Copy& operator=(Copy&&) = delete;
  ~Copy() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  std::string path() const { return folder_ + "/copy.db"; }

 private:
  explicit Copy(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

// Lower bound of the size of a row.
constexpr int64_t least_row_bytes = 128;

/// The row numbers to try in a damaged file. Rows are numbered consecutively, so these are all
/// numbers up to the number of rows that fit into the file, and larger numbers that were found.
struct RowsToTry {
  int64_t up_to = 0;
  std::set<int64_t> beyond = {};
};

/// Finds the row numbers to try. A scan of a table stops at the first broken page, so the table is
/// scanned from both ends. Its indexes are scanned too, because they may have the numbers of rows
/// between two broken pages.
RowsToTry rows_to_try(Connection& connection, int64_t file_bytes) {
  // The indexes of the present schema, and those of versions 1 to 3.
  constexpr const char* scans[] = {
      "SELECT seq FROM trials NOT INDEXED ORDER BY seq",
      "SELECT seq FROM trials NOT INDEXED ORDER BY seq DESC",
      "SELECT seq FROM trials INDEXED BY trials_schedule ORDER BY group_id, schedule, session_id",
      ("SELECT seq FROM trials INDEXED BY trials_schedule ORDER BY group_id DESC, schedule DESC, "
       "session_id DESC"),
      "SELECT seq FROM trials INDEXED BY trials_op ORDER BY op, target",
      "SELECT seq FROM trials INDEXED BY trials_op ORDER BY op DESC, target DESC",
      "SELECT seq FROM trials INDEXED BY trials_group ORDER BY workload_hash, target",
      "SELECT seq FROM trials INDEXED BY trials_group ORDER BY workload_hash DESC, target DESC",
  };
  RowsToTry rows{file_bytes / least_row_bytes};
  for (const char* sql : scans) {
    auto statement = Statement::prepare(connection, sql);
    if (!statement) continue;
    // A scan that fails has visited the rows before the damage.
    (void)statement->each([&](const Row& row) {
      if (row.integer(0) > rows.up_to) rows.beyond.insert(row.integer(0));
      return true;
    });
  }
  return rows;
}

/// Returns the error for a file in which the table of records cannot be found.
Error nothing_to_recover(const std::string& path) {
  return {ErrorCode::Database,
          fmt::format("[recover] nothing can be saved from {}: it is no tuning database, or its "
                      "table of records is lost; restore a backup",
                      path)};
}

/// Reads one record by row number, from rows of this schema version or an older one.
struct RecordReader {
  Statement by_seq;
  int old_version;  ///< 0: the present schema

  Result<Record> record_of(const Row& row) const {
    return old_version == 0 ? db::record_of(row) : old_record_of(row, old_version);
  }
};

Result<RecordReader> reader_of(Connection& connection) {
  Result<Statement> by_seq = Statement::prepare(connection, select_trial_sql());
  if (by_seq) return RecordReader{std::move(*by_seq), 0};
  for (int version = last_old_version; version > 0; --version) {
    by_seq =
        Statement::prepare(connection, select_old_trials_sql("trials", version) + " WHERE seq = ?");
    if (by_seq) return RecordReader{std::move(*by_seq), version};
  }
  return tl::unexpected(by_seq.error());
}

Result<AppendSummary> append_readable(Store& store, RecordReader& reader, const RowsToTry& rows) {
  AppendSummary summary;
  std::vector<Record> batch;
  const auto flush = [&]() -> Status {
    TW_TRY(const AppendSummary added, store.append(batch));
    summary += added;
    batch.clear();
    return {};
  };
  const auto try_row = [&](int64_t seq) -> Status {
    const Result<bool> read = reader.by_seq.bind(seq).one([&](const Row& row) {
      if (Result<Record> record = reader.record_of(row)) batch.push_back(std::move(*record));
    });
    return read && batch.size() == batch_size ? flush() : Status();
  };
  for (int64_t seq = 1; seq <= rows.up_to; ++seq) TW_RETURN_IF_ERROR(try_row(seq));
  for (const int64_t seq : rows.beyond) TW_RETURN_IF_ERROR(try_row(seq));
  TW_RETURN_IF_ERROR(flush());
  return summary;
}

/// Returns the calibrations before the first broken page; empty if the schema has no calibrations.
std::vector<Calibration> readable_calibrations(Connection& connection) {
  std::vector<Calibration> found;
  auto statement = Statement::prepare(connection, select_calibrations_sql());
  if (!statement) return found;
  (void)statement->each([&](const Row& row) {
    if (Result<Calibration> calibration = calibration_of(row)) found.push_back(*calibration);
    return true;
  });
  return found;
}

}  // namespace

Result<AppendSummary> merge_from(Store& store, const std::string& path) {
  TW_TRY(const std::string canonical, canonical_path(path));
  if (canonical == store.state().path) return AppendSummary{};
  TW_TRY(const auto reading, ReadAhead::open(canonical, store.state().options.waiting));
  Batches batches(store.state());
  while (true) {
    TW_TRY(std::vector<Record> records, reading->next());
    if (records.empty()) {
      TW_TRY(AppendSummary summary, batches.finish(reading->store()));
      summary.damaged = reading->store().damaged();
      return summary;
    }
    for (Record& record : records) TW_RETURN_IF_ERROR(batches.keep(std::move(record)));
  }
}

Result<AppendSummary> merge_from(Store& store, Store& other) {
  Batches batches(store.state());
  const int64_t damaged_before = other.damaged();
  Status appended;
  TW_RETURN_IF_ERROR(other.for_each({}, [&](const Record& record) {
    appended = batches.keep(record);
    return appended.has_value();
  }));
  TW_RETURN_IF_ERROR(appended);
  TW_TRY(AppendSummary summary, batches.finish(other));
  summary.damaged = other.damaged() - damaged_before;
  return summary;
}

Result<AppendSummary> import_jsonl(Store& store, std::istream& in, const std::string& name) {
  Import entries(store.state(), name, "lines as `tilewright db export NAME.jsonl` writes them",
                 "line");
  TW_RETURN_IF_ERROR(each_line(in, [&](const std::string& line, int64_t number) {
    return entries.add(fact_of(line), line, number);
  }));
  return entries.finish();
}

Result<AppendSummary> import_spooled(Store& store, std::istream& in) {
  Batches batches(store.state());
  TW_RETURN_IF_ERROR(each_line(in, [&](const std::string& line, int64_t) {
    Result<Fact> fact = fact_of(line);
    return fact ? batches.add(std::move(*fact), line)
                : batches.add_bad({line, fact.error().message});
  }));
  TW_RETURN_IF_ERROR(batches.flush());
  return batches.summary();
}

Status check_importable(const std::string& path) {
  std::error_code error;
  // The bytes of a pipe can be read only once, so they are left for the import.
  if (fs::is_other(path, error)) return {};
  TW_TRY(std::ifstream in, open_lines(path));
  std::string start(database_magic.size(), '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  return is_database(start) ? tl::unexpected(database_to_import(path)) : Status();
}

Result<AppendSummary> import_jsonl(Store& store, const std::string& path) {
  TW_TRY(std::ifstream in, open_lines(path));
  return import_jsonl(store, in, path);
}

Result<AppendSummary> import_csv(Store& store, std::istream& in, const std::string& name) {
  constexpr std::string_view expected = "rows as `tilewright db export NAME.csv` writes them";
  std::vector<std::string> names, cells;
  std::string text;
  TW_TRY(const bool found, next_csv_row(in, names, text));
  if (found && is_database(text)) return tl::unexpected(database_to_import(name));
  if (!found || std::find(names.begin(), names.end(), "hash") == names.end())
    return tl::unexpected(no_facts_in(name, expected, "it has no column hash"));
  Import entries(store.state(), name, expected, "row");
  for (int64_t number = 2;; ++number) {  // row 1 has the names of the columns
    TW_TRY(const bool more, next_csv_row(in, cells, text));
    if (!more) return entries.finish();
    if (text.empty() || text == "\r") continue;
    TW_RETURN_IF_ERROR(entries.add(from_csv(names, cells), text, number));
  }
}

Result<AppendSummary> import_csv(Store& store, const std::string& path) {
  TW_TRY(std::ifstream in, open_lines(path));
  return import_csv(store, in, path);
}

Result<AppendSummary> import_t4(Store& store, std::istream& in, const std::string& name) {
  Import entries(store.state(), name, "results as `tilewright db export NAME.json` writes them",
                 "result");
  int64_t number = 0;
  TW_RETURN_IF_ERROR(read_t4(in, name, [&](Result<Record> record, const std::string& text) {
    return entries.add(std::move(record), text.substr(0, max_line_bytes), ++number);
  }));
  return entries.finish();
}

Result<AppendSummary> import_t4(Store& store, const std::string& path) {
  TW_TRY(std::ifstream in, open_lines(path));
  return import_t4(store, in, path);
}

Status export_jsonl(Store& store, std::ostream& out) {
  TW_RETURN_IF_ERROR(store.for_each({.order = Order::Created}, [&](const Record& record) {
    out << to_json(record) << '\n';
    return out.good();
  }));
  TW_RETURN_IF_ERROR(for_each_calibration(store, [&](const Calibration& machine) {
    out << to_json(machine) << '\n';
    return written(out, "the output");
  }));
  out.flush();
  return written(out, "the output");
}

Status export_csv(Store& store, std::ostream& out) {
  out << csv_header();
  TW_RETURN_IF_ERROR(store.for_each({.order = Order::Created}, [&](const Record& record) {
    out << to_csv(record);
    return out.good();
  }));
  out.flush();
  return written(out, "the output");
}

Status export_t4(Store& store, std::ostream& out) {
  out << "{\"schema_version\": \"" << t4_schema_version << "\", \"results\": [";
  const char* separator = "\n";
  TW_RETURN_IF_ERROR(store.for_each({.order = Order::Created}, [&](const Record& record) {
    out << separator << to_t4(record);
    separator = ",\n";
    return out.good();
  }));
  out << "\n]}\n";
  out.flush();
  return written(out, "the output");
}

Status export_to(Store& store, const std::string& path) {
  TW_TRY(const std::string target, canonical_path(path));
  TW_RETURN_IF_ERROR(path_is_free(target));
  if (target.ends_with(".db"))
    return store.state().opened.file ? back_up(*store.state().opened.file, target)
                                     : copy_to_file(store, target);
  if (const Export write = export_of(target)) return export_text_to(store, write, target);
  return fail(
      ErrorCode::Usage,
      fmt::format("[export] {}: a path that ends in .db, .jsonl, .csv or .json was expected",
                  path));
}

Result<AppendSummary> recover(const std::string& damaged_path, const std::string& fresh,
                              StoreOptions options) {
  TW_TRY(const std::string from, canonical_path(damaged_path));
  if (is_server(from))
    return fail(ErrorCode::Usage,
                fmt::format("[recover] {} is on a server; a damaged file was expected; restore the "
                            "server's own backup",
                            from));
  TW_TRY(const std::string to, canonical_path(fresh));
  TW_RETURN_IF_ERROR(path_is_free(to));
  TW_TRY(const Copy copy, Copy::make(from, to + ".recover"));
  const auto opened = SqliteConnection::open(copy.path(), {});
  if (!opened) return tl::unexpected(nothing_to_recover(from));
  Connection& connection = **opened;
  Result<RecordReader> reader = reader_of(connection);
  if (!reader) return tl::unexpected(nothing_to_recover(from));
  TW_TRY(Store store, Store::open(to, OpenMode::ReadWrite, std::move(options)));
  std::error_code error;
  const auto bytes = static_cast<int64_t>(fs::file_size(from, error));
  TW_TRY(AppendSummary summary,
         append_readable(store, *reader, rows_to_try(connection, error ? 0 : bytes)));
  TW_TRY(const AppendSummary machines,
         append_calibrations(store, readable_calibrations(connection)));
  return summary += machines;
}

}  // namespace tw::db
