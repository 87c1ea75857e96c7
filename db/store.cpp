// SPDX-License-Identifier: Apache-2.0
#include "db/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "db/calibration.h"
#include "db/opening.h"
#include "db/ranking.h"
#include "db/server_address.h"
#include "db/spool.h"
#include "db/store_state.h"
#include "db/tables/best.h"
#include "db/tables/insertion.h"
#include "db/tables/quarantine.h"
#include "db/tables/rows.h"
#include "db/tables/schema.h"

namespace tw::db {
namespace {

Status insert_calibrations(Connection& connection, std::span<const Calibration> calibrations,
                           AppendSummary& summary) {
  if (calibrations.empty()) return {};
  TW_TRY(Statement insert, Statement::prepare(connection, insert_calibration_sql()));
  for (const Calibration& calibration : calibrations) {
    bind_calibration(insert, calibration);
    TW_RETURN_IF_ERROR(insert.run());
    summary.calibrations += connection.changes();
  }
  return {};
}

// ---- reading ----

// At most this many calibrations of a device are read to find the newest one that is not damaged. A
// calibration takes at most some 12 KiB of memory.
constexpr int64_t most_of_device = 4096;
// Number of calibrations that one statement reads in for_each_calibration().
constexpr int64_t calibrations_at_once = 256;

constexpr std::string_view newest_first =
    " ORDER BY target, device, generation DESC, created_ms DESC, hash DESC";

/// The position of a row in the order of `newest_first`.
struct CalibrationPosition {
  std::string target, device;
  int64_t generation, created_ms;
  std::string hash;  ///< 32 bytes

  bool is_before(const CalibrationPosition& other) const {
    return std::tie(target, device, other.generation, other.created_ms, other.hash) <
           std::tie(other.target, other.device, generation, created_ms, hash);
  }
};

/// The calibrations that one statement has read.
struct CalibrationPage {
  std::vector<Calibration> calibrations;    ///< those that agree with their hashes
  int64_t damaged = 0;                      ///< number of rows that do not agree with their hashes
  std::optional<CalibrationPosition> last;  ///< position of the last row; nullopt: no row was read
};

Result<CalibrationPage> read_page(Statement& statement) {
  CalibrationPage page;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    if (Result<Calibration> calibration = calibration_of(row))
      page.calibrations.push_back(std::move(*calibration));
    else
      ++page.damaged;
    page.last = {row.text(0), row.text(1), row.integer(5), row.integer(6),
                 std::string(row.blob(2))};
    return true;
  }));
  return page;
}

/// Reads at most calibrations_at_once calibrations after a position; nullopt: from the first one
/// on.
Result<CalibrationPage> page_after(Connection& connection,
                                   const std::optional<CalibrationPosition>& position) {
  // The first comparison follows from the other two. It is there because SQLite can use the primary
  // key for it, so that earlier rows of a file are not read.
  constexpr std::string_view after =
      " WHERE (target, device) >= (?, ?) AND ((target, device) > (?, ?) OR (generation, "
      "created_ms, hash) < (?, ?, ?))";
  TW_TRY(Statement statement,
         Statement::prepare(
             connection, fmt::format("{}{}{} LIMIT {}", select_calibrations_sql(),
                                     position ? after : "", newest_first, calibrations_at_once)));
  if (!position) return read_page(statement);
  for (int i = 0; i < 2; ++i)
    statement.bind(std::string_view(position->target)).bind(std::string_view(position->device));
  statement.bind(position->generation).bind(position->created_ms).bind_blob(position->hash);
  TW_TRY(CalibrationPage page, read_page(statement));
  // In a damaged table the position may move backwards, and the caller would then never reach the
  // end.
  if (page.last && !position->is_before(*page.last))
    return tl::unexpected(damaged("read", connection.path(), "its calibrations are out of order"));
  return page;
}

void say_damaged(const Store::State& state, int64_t calibrations) {
  if (calibrations == 0) return;
  state.say(
      fmt::format("{}: {} calibrations are damaged and left out; look with `tilewright db verify`",
                  state.path, calibrations));
}

Result<std::vector<Calibration>> calibrations_of(Store::State& state, const std::string& target,
                                                 const std::string& device) {
  TW_TRY(Statement statement,
         Statement::prepare(state.connection,
                            fmt::format("{} WHERE target = ? AND device = ?{} LIMIT {}",
                                        select_calibrations_sql(), newest_first, most_of_device)));
  statement.bind(std::string_view(target)).bind(std::string_view(device));
  TW_TRY(CalibrationPage page, read_page(statement));
  state.damaged += page.damaged;
  say_damaged(state, page.damaged);
  return std::move(page.calibrations);
}

// One row of the table `best` that matches a key.
struct Served {
  std::string device;
  int64_t trial;
  double latency_ns;
  double efficiency;
  int64_t group;
};

Result<std::vector<Served>> served_for(Connection& connection, const Key& key) {
  TW_TRY(Statement statement,
         Statement::prepare(connection,
                            "SELECT g.device, b.trial, b.latency_ns, b.efficiency, g.id FROM "
                            "groups g JOIN best b ON b.group_id = g.id WHERE g.workload_hash = ? "
                            "AND g.threads = ? AND g.codegen_abi = ? AND g.target = ? AND "
                            "g.layouts = ?"));
  statement.bind_blob(bytes_of_hex(sha256_hex(key.workload))).bind(key.threads);
  statement.bind(key.codegen_abi).bind(std::string_view(key.target));
  statement.bind(std::string_view(key.layouts));
  std::vector<Served> rows;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    rows.push_back({row.text(0), row.integer(1), row.real(2), row.real(3), row.integer(4)});
    return true;
  }));
  // Records of the exact device come first, then those of the same model. Within each kind they are
  // sorted by efficiency, which is comparable between machines.
  std::sort(rows.begin(), rows.end(), [&](const Served& a, const Served& b) {
    return std::tuple(likeness_of(a.device, key.device), -a.efficiency, a.latency_ns, a.device) <
           std::tuple(likeness_of(b.device, key.device), -b.efficiency, b.latency_ns, b.device);
  });
  return rows;
}

bool answers(const Record& record, const Key& key) {
  return record.status == TrialStatus::Ok && record.workload == key.workload &&
         record.target == key.target && record.threads == key.threads &&
         record.codegen_abi == key.codegen_abi && record.layouts == key.layouts;
}

bool is_answer(Store::State& state, const Record& record, const Key& key, const Accept& accepts) {
  if (!answers(record, key)) return false;
  const Result<bool> accepted = accepts ? accepts(record) : true;
  if (!accepted)
    state.say(fmt::format("{}: record {:.16} of session '{}' is left out: {}", state.path,
                          record.hash, record.session, accepted.error().message));
  return accepted.value_or(false);
}

// Returns the best record of a group that `accepts` accepts, other than `served`; nullopt if there
// is none. `served` is the record in the table `best`, which is damaged or not accepted.
Result<std::optional<Record>> next_best(Store::State& state, const Key& key, const Accept& accepts,
                                        const Served& served) {
  TW_TRY(std::vector<RankedTrial> rest, candidates_of(state.connection, served.group));
  std::erase_if(rest, [&](const RankedTrial& trial) { return trial.trial == served.trial; });
  while (const auto best = best_of(rest)) {
    TW_TRY(std::optional<Record> record, state.read(rest[best->index].trial));
    if (record && is_answer(state, *record, key, accepts)) return record;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(best->index));
  }
  return std::optional<Record>();
}

Result<std::optional<Record>> best_of_device(Store::State& state, const Key& key,
                                             const Accept& accepts, const Served& served) {
  TW_TRY(std::optional<Record> record, state.read_again(served.trial));
  if (record && is_answer(state, *record, key, accepts)) return record;
  return next_best(state, key, accepts, served);
}

/// Returns the hash (32 bytes) in row `seq` of `trials`; nullopt if the row is gone or cannot be
/// read.
std::optional<std::string> hash_of_row(Connection& connection, int64_t seq) {
  auto statement = Statement::prepare(connection, "SELECT hash FROM trials WHERE seq = ?");
  std::optional<std::string> hash;
  if (statement) (void)statement->bind(seq).one([&](const Row& row) { hash.emplace(row.blob(0)); });
  return hash;
}

bool matches(const Record& record, const Filter& filter) {
  return (!filter.workload || record.workload == *filter.workload) &&
         (!filter.op || record.op == *filter.op) &&
         (!filter.target || record.target == *filter.target) &&
         (!filter.device || record.device == *filter.device) &&
         (!filter.device_prefix || record.device.starts_with(*filter.device_prefix)) &&
         (!filter.session || record.session == *filter.session) &&
         (!filter.layouts || record.layouts == *filter.layouts) &&
         (!filter.status || record.status == *filter.status) &&
         (!filter.threads || record.threads == *filter.threads) &&
         (!filter.codegen_abi || record.codegen_abi == *filter.codegen_abi) &&
         (!filter.hash_prefix || record.hash.starts_with(*filter.hash_prefix));
}

bool asks_for_groups(const Filter& filter) {
  return filter.workload || filter.op || filter.target || filter.device || filter.layouts;
}

/// Returns a WHERE clause for rows of `trials`; bind_condition() binds its parameters. The rows may
/// be more than the filter selects, so matches() tests their records again.
std::string condition_of(const Filter& filter, const Dialect& dialect) {
  std::string sql = " WHERE true";
  if (asks_for_groups(filter)) {
    sql += " AND group_id IN (SELECT id FROM groups WHERE true";
    if (filter.workload) sql += " AND workload_hash = ?";
    if (filter.op) sql += fmt::format(" AND {}", dialect.op_condition);
    if (filter.target) sql += " AND target = ?";
    if (filter.device) sql += " AND device = ?";
    if (filter.layouts) sql += " AND layouts = ?";
    sql += ")";
  }
  if (filter.session) sql += " AND session_id IN (SELECT id FROM sessions WHERE session = ?)";
  if (filter.status) sql += " AND status = ?";
  if (filter.threads) sql += " AND threads = ?";
  if (filter.codegen_abi) sql += " AND codegen_abi = ?";
  if (filter.hash_prefix) sql += " AND hash BETWEEN ? AND ?";
  return sql;
}

void bind_condition(Statement& statement, const Filter& filter) {
  if (filter.workload) statement.bind_blob(bytes_of_hex(sha256_hex(*filter.workload)));
  for (const auto* text :
       {&filter.op, &filter.target, &filter.device, &filter.layouts, &filter.session})
    if (*text) statement.bind(std::string_view(**text));
  if (filter.status) statement.bind(to_string(*filter.status));
  if (filter.threads) statement.bind(*filter.threads);
  if (filter.codegen_abi) statement.bind(*filter.codegen_abi);
  if (filter.hash_prefix)
    for (const char rest : {'0', 'f'})
      statement.bind_blob(
          bytes_of_hex(*filter.hash_prefix + std::string(64 - filter.hash_prefix->size(), rest)));
}

std::string_view order_clause(Order order) {
  switch (order) {
    case Order::Oldest:
      return " ORDER BY seq";
    case Order::Newest:
      return " ORDER BY seq DESC";
    case Order::Fastest:
      return " ORDER BY CASE WHEN latency_ns > 0 THEN 0 ELSE 1 END, latency_ns, hash";
    case Order::Created:
      return " ORDER BY created_ms, hash";
  }
  return "";
}

// Number of row numbers that one statement reads, if records are read in the order of these
// numbers.
constexpr int64_t numbers_at_once = 4096;

/// Selects the numbers of the rows that match a filter. State::read() reads the records afterwards,
/// 64 at a time.
class RowNumbers {
 public:
  RowNumbers(Connection& connection, const Filter& filter)
      : connection_(connection),
        filter_(filter),
        last_(filter.order == Order::Newest ? INT64_MAX : 0) {}

  /// Returns the next row numbers; empty at the end.
  Result<std::vector<int64_t>> next() {
    const bool is_paged =
        is_by_number() && !asks_for_groups(filter_) && !filter_.session && !filter_.hash_prefix;
    if (is_ended_) return std::vector<int64_t>();
    const bool is_down = filter_.order == Order::Newest;
    std::string sql = "SELECT seq FROM trials" + condition_of(filter_, connection_.dialect());
    if (is_paged) sql += is_down ? " AND seq < ?" : " AND seq > ?";
    sql += order_clause(filter_.order);
    if (is_paged) sql += fmt::format(" LIMIT {}", numbers_at_once);
    TW_TRY(Statement statement, Statement::prepare(connection_, sql));
    bind_condition(statement, filter_);
    if (is_paged) statement.bind(last_);
    std::vector<int64_t> rows;
    TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
      rows.push_back(row.integer(0));
      return true;
    }));
    is_ended_ = !is_paged || std::ssize(rows) < numbers_at_once;
    if (rows.empty() || !is_paged) return rows;
    // In a damaged table the numbers may run backwards, and the caller would then never reach the
    // end.
    if (is_down ? rows.back() >= last_ : rows.back() <= last_)
      return tl::unexpected(damaged("read", connection_.path(), "its rows are out of order"));
    last_ = rows.back();
    return rows;
  }

 private:
  bool is_by_number() const {
    return filter_.order == Order::Oldest || filter_.order == Order::Newest;
  }

  Connection& connection_;
  const Filter& filter_;
  int64_t last_;
  bool is_ended_ = false;
};

// Number of records that are read by one statement and under one lock.
constexpr size_t rows_at_once = 64;

/// Reads the records that match a filter, some rows at a time, and holds no lock while the caller
/// works on the records.
class Matching {
 public:
  Matching(Store::State& state, const Filter& filter) : state_(state), filter_(filter) {}

  Result<std::vector<Record>> read(std::span<const int64_t> rows) {
    std::optional<Transaction> one_lock;
    if (state_.connection.locks_each_read()) {
      TW_TRY(Transaction begun, Transaction::begin_reading(state_.connection));
      one_lock.emplace(std::move(begun));
    }
    TW_TRY(std::vector<StoredRecord> stored, state_.read(rows));
    std::vector<Record> records;
    for (StoredRecord& of : stored) {
      if (!matches(of.record, filter_)) continue;
      if (filter_.believed) {
        TW_TRY(const bool is_believed, believes(of.record, of.row));
        if (!is_believed) continue;
      }
      records.push_back(std::move(of.record));
    }
    return records;
  }

 private:
  /// True if the record is believed when it is judged by all trials of its group. The trials of a
  /// group are read at the first call for this group.
  Result<bool> believes(const Record& record, int64_t seq) {
    const auto [known, is_new] = believed_.try_emplace(group_key_of(record));
    if (is_new) {
      TW_TRY(const std::optional<Group> found, find_group(state_.connection, known->first));
      if (!found) return false;
      TW_TRY(const JudgedGroup group, judged_group(state_.connection, found->id));
      for (size_t i = 0; i < group.trials.size(); ++i)
        if (group.judgements[i].doubt == Doubt::None) known->second.insert(group.trials[i].trial);
    }
    return known->second.contains(seq);
  }

  Store::State& state_;
  const Filter& filter_;
  /// Rows of believed trials, for each group that was read.
  std::map<GroupKey, std::set<int64_t>> believed_;
};

}  // namespace

AppendSummary& AppendSummary::operator+=(const AppendSummary& other) {
  inserted += other.inserted;
  duplicates += other.duplicates;
  quarantined += other.quarantined;
  calibrations += other.calibrations;
  damaged += other.damaged;
  return *this;
}

namespace {

using FoundRecords = std::map<int64_t, Result<Record>>;

/// Returns a SELECT with rows_at_once parameters, which are numbers of rows.
const std::string& select_rows_sql() {
  static const std::string sql = [] {
    std::string marks = "?";
    for (size_t count = 1; count < rows_at_once; ++count) marks += ", ?";
    return fmt::format("{} WHERE seq IN ({})", select_trials_sql(), marks);
  }();
  return sql;
}

/// Returns a SELECT of these rows, with their numbers bound. Only two statements are ever prepared:
/// one for a single row, and one for a fixed number of rows. If there are fewer rows than this, the
/// last row is bound several times.
Result<Statement> select_of(Connection& connection, std::span<const int64_t> rows) {
  const bool is_single = rows.size() == 1;
  TW_TRY(Statement select,
         Statement::prepare(connection, is_single ? select_trial_sql() : select_rows_sql()));
  const size_t count = is_single ? 1 : rows_at_once;
  for (size_t i = 0; i < count; ++i) select.bind(rows[std::min(i, rows.size() - 1)]);
  return select;
}

/// Adds to `found` the record of each selected row, or the reason why the record is damaged.
/// Returns an error if a row cannot be read.
Status add_records(Statement& select, FoundRecords& found) {
  return select.each([&](const Row& row) {
    Result<Record> record = record_of(row);
    if (record && !agrees_with_columns(row, *record))
      record = fail(ErrorCode::Database, "[record] the columns derived from it were changed");
    found.insert_or_assign(number_of(row).seq, std::move(record));
    return true;
  });
}

/// Adds to `found` the records of at most rows_at_once rows, or the reason why a record is damaged.
/// Rows that do not exist are left out.
Status find_records(Connection& connection, std::span<const int64_t> rows, FoundRecords& found) {
  TW_TRY(Statement all, select_of(connection, rows));
  Status done = add_records(all, found);
  if (done || done.error().code == ErrorCode::TryLater) return done;
  // If a page cannot be read, the request for all rows fails, although only some rows lie on that
  // page. So each row is read by itself.
  for (const int64_t row : rows) {
    TW_TRY(Statement single, select_of(connection, {&row, 1}));
    done = add_records(single, found);
    if (!done && done.error().code == ErrorCode::TryLater) return done;
    if (!done) found.insert_or_assign(row, tl::unexpected(done.error()));
  }
  return {};
}

}  // namespace

// ---- Store ----

std::vector<Record> records_of(std::vector<StoredRecord> stored) {
  std::vector<Record> records;
  records.reserve(stored.size());
  for (StoredRecord& of : stored) records.push_back(std::move(of.record));
  return records;
}

void Store::State::leave_out(int64_t seq, const Error& why) {
  if (why.code == ErrorCode::Unsupported) {
    if (newer++ == 0)
      say(fmt::format("{}: records of a newer program are left out: use that program to read them",
                      path));
    return;
  }
  ++damaged;
  say(fmt::format("{}: record {} is damaged and left out; look with `tilewright db verify`", path,
                  seq));
}

Result<std::optional<Record>> Store::State::read(int64_t seq) {
  TW_TRY(std::vector<StoredRecord> records, read({&seq, 1}));
  if (records.empty()) return std::optional<Record>();
  return std::optional(std::move(records.front().record));
}

Result<std::vector<StoredRecord>> Store::State::read(std::span<const int64_t> rows) {
  std::vector<StoredRecord> records;
  records.reserve(rows.size());
  for (size_t begin = 0; begin < rows.size(); begin += rows_at_once) {
    const auto chunk = rows.subspan(begin, std::min(rows_at_once, rows.size() - begin));
    FoundRecords found;
    TW_RETURN_IF_ERROR(find_records(connection, chunk, found));
    for (const int64_t seq : chunk) {
      const auto of_row = found.find(seq);
      // Another process has deleted the row since its number was read.
      if (of_row == found.end()) continue;
      if (!of_row->second)
        leave_out(seq, of_row->second.error());
      else
        records.push_back({seq, *of_row->second});
    }
  }
  return records;
}

Result<std::optional<Record>> Store::State::read_again(int64_t seq) {
  // If the row is gone or its hash cannot be read, read() finds this too, and reports damage.
  if (const ReadRecords::Kept* kept = read_records.find(seq))
    if (hash_of_row(connection, seq) == kept->hash) return std::optional(kept->record);
  TW_TRY(std::optional<Record> record, read(seq));
  if (record) read_records.keep(seq, *record);
  return record;
}

Status Store::State::write(const std::function<Status()>& work) {
  if (mode == OpenMode::ReadOnly)
    return fail(ErrorCode::Database,
                fmt::format("[append] {} was opened for reading; open it for writing", path));
  std::optional<Gate::Hold> hold;
  if (opened.gate) {
    TW_TRY(Gate::Hold entered, opened.gate->enter());
    hold.emplace(std::move(entered));
  }
  TW_TRY(Transaction transaction, Transaction::begin(connection));
  TW_RETURN_IF_ERROR(work());
  return transaction.commit();
}

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::open(const std::string& path, OpenMode mode, StoreOptions options) {
  TW_TRY(const std::string canonical, canonical_path(path));
  TW_TRY(Opened opened, open_canonical(canonical, mode, options));
  auto state = std::make_unique<State>(canonical, mode, std::move(options), std::move(opened));
  state->open_layers();
  return Store(std::move(state));
}

Result<Store> Store::open_absent(const std::string& path, StoreOptions options) {
  TW_TRY(const std::string canonical, canonical_path(path));
  TW_TRY(auto connection,
         SqliteConnection::open(is_server(canonical) ? "/absent" : canonical, {.in_memory = true}));
  TW_RETURN_IF_ERROR(create_schema(*connection));
  SqliteConnection* const file = connection.get();
  auto state = std::make_unique<State>(canonical, OpenMode::ReadOnly, std::move(options),
                                       Opened{std::move(connection), std::nullopt, file});
  state->open_layers();
  return Store(std::move(state));
}

const std::string& Store::path() const { return state_->path; }

std::string Store::spool_path() const {
  if (!is_server(path())) return Spool::spool_path(path());
  const std::string& directory = state_->options.spool_directory;
  if (directory.empty()) return {};
  return Spool::spool_path(fmt::format("{}/postgresql-{}", directory, short_hash(path())));
}

bool Store::may_write() const { return state_->mode != OpenMode::ReadOnly; }

int64_t Store::damaged() const { return state_->damaged; }

Result<AppendSummary> append_checked(Store::State& state, const Checked& facts) {
  AppendSummary summary;
  summary.quarantined = static_cast<int64_t>(facts.bad.size());
  const Status status = state.write([&]() -> Status {
    TW_TRY(summary.inserted, insert_records(state.connection, facts.records));
    summary.duplicates = std::ssize(facts.records) - summary.inserted;
    TW_RETURN_IF_ERROR(insert_calibrations(state.connection, facts.calibrations, summary));
    return add_quarantined(state.connection, facts.bad);
  });
  if (!status) return tl::unexpected(status.error());
  return summary;
}

Result<AppendSummary> Store::append(std::span<const Record> records) {
  Checked facts;
  for (const Record& record : records)
    facts.add(record, [](const Record& r) { return to_json(r); });
  return append_checked(*state_, facts);
}

Result<AppendSummary> append_calibrations(Store& store, std::span<const Calibration> calibrations) {
  Checked facts;
  for (const Calibration& calibration : calibrations)
    facts.add(calibration, [](const Calibration& c) { return to_json(c); });
  return append_checked(store.state(), facts);
}

Status add_calibration(Store& store, Calibration calibration) {
  return store.state().write([&]() -> Status {
    TW_TRY(const std::vector<Calibration> known,
           calibrations_of(store.state(), calibration.target, calibration.device));
    calibration.generation = known.empty() ? 1 : known.front().generation + 1;
    const Calibration sealed = seal(std::move(calibration));
    TW_RETURN_IF_ERROR(check(sealed));
    AppendSummary summary;
    return insert_calibrations(store.state().connection, {&sealed, 1}, summary);
  });
}

Result<std::optional<Calibration>> newest_calibration(Store& store, const std::string& target,
                                                      const std::string& device) {
  TW_TRY(std::vector<Calibration> known, calibrations_of(store.state(), target, device));
  if (known.empty()) return std::optional<Calibration>();
  return std::optional(std::move(known.front()));
}

Status for_each_calibration(Store& store, const VisitCalibration& visit) {
  Store::State& state = store.state();
  const int64_t damaged_before = state.damaged;
  for (std::optional<CalibrationPosition> last;;) {
    TW_TRY(CalibrationPage page, page_after(state.connection, last));
    state.damaged += page.damaged;
    if (!page.last) break;
    for (const Calibration& calibration : page.calibrations) TW_RETURN_IF_ERROR(visit(calibration));
    last = std::move(page.last);
  }
  say_damaged(state, state.damaged - damaged_before);
  return {};
}

Result<std::vector<Calibration>> calibrations(Store& store) {
  std::vector<Calibration> all;
  TW_RETURN_IF_ERROR(for_each_calibration(store, [&](const Calibration& calibration) -> Status {
    all.push_back(calibration);
    return {};
  }));
  return all;
}

Result<std::optional<Record>> Store::State::best(const Key& key, const Accept& accepts) {
  TW_TRY(const std::vector<Served> rows, served_for(connection, key));
  for (const Served& served : rows) {
    TW_TRY(std::optional<Record> record, best_of_device(*this, key, accepts, served));
    if (record) return record;
  }
  return std::optional<Record>();
}

Result<std::vector<Record>> Store::State::best_elsewhere(const Key& key, int64_t most,
                                                         const Accept& accepts) {
  TW_TRY(const std::vector<Served> rows, served_for(connection, key));
  std::vector<Record> records;
  for (const Served& served : rows) {
    if (std::ssize(records) == most) break;
    if (likeness_of(served.device, key.device) != Likeness::OtherClass) continue;
    TW_TRY(std::optional<Record> record, best_of_device(*this, key, accepts, served));
    if (record) records.push_back(std::move(*record));
  }
  return records;
}

Store::Reading::Reading(std::unique_ptr<Transaction> transaction)
    : transaction_(std::move(transaction)) {}
Store::Reading::Reading(Reading&&) noexcept = default;
Store::Reading::~Reading() = default;

Result<Store::Reading> Store::read_together() {
  TW_TRY(Transaction transaction, Transaction::begin_reading(state_->connection));
  return Reading(std::make_unique<Transaction>(std::move(transaction)));
}

Status Store::for_each(const Filter& filter, const std::function<bool(const Record&)>& visit) {
  RowNumbers numbers(state_->connection, filter);
  Matching matching(*state_, filter);
  for (int64_t left = filter.limit > 0 ? filter.limit : INT64_MAX; left > 0;) {
    TW_TRY(const std::vector<int64_t> rows, numbers.next());
    if (rows.empty()) return {};
    for (std::span<const int64_t> rest(rows); left > 0 && !rest.empty();) {
      const auto count =
          static_cast<size_t>(std::min({left, int64_t{rows_at_once}, std::ssize(rest)}));
      TW_TRY(const std::vector<Record> records, matching.read(rest.first(count)));
      rest = rest.subspan(count);
      left -= std::ssize(records);
      for (const Record& record : records)
        if (!visit(record)) return {};
    }
  }
  return {};
}

Result<std::vector<Record>> Store::query(const Filter& filter) {
  std::vector<Record> records;
  TW_RETURN_IF_ERROR(for_each(filter, [&](const Record& record) {
    records.push_back(record);
    return true;
  }));
  return records;
}

Result<StoreInfo> Store::info() {
  Connection& connection = state_->connection;
  StoreInfo info;
  info.path = path();
  TW_TRY(const EngineInfo engine, connection.engine());
  info.sqlite = engine.sqlite;
  info.server = engine.server;
  info.journal_mode = engine.journal_mode;
  info.file_bytes = engine.bytes;
  TW_TRY(info.schema_version, version_of(connection));
  TW_TRY(info.workloads, connection.integer("SELECT count(DISTINCT workload_hash) FROM groups"));
  TW_TRY(info.best, connection.integer("SELECT count(*) FROM best"));
  TW_TRY(info.quarantined, connection.integer("SELECT count(*) FROM quarantine"));
  TW_TRY(info.calibrations, connection.integer("SELECT count(*) FROM calibrations"));
  TW_TRY(Statement statement,
         Statement::prepare(connection, "SELECT status, trials FROM statuses WHERE trials > 0"));
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    info.by_status[row.text(0)] = row.integer(1);
    info.records += row.integer(1);
    return true;
  }));
  return info;
}

}  // namespace tw::db
