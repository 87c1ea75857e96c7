// SPDX-License-Identifier: Apache-2.0
#include "db/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>

#include "base/hash.h"
#include "db/ranking.h"
#include "db/rows.h"
#include "db/schema.h"
#include "db/store_state.h"

namespace tw::db {
namespace {

namespace fs = std::filesystem;

constexpr int64_t max_quarantined = 10'000;
constexpr size_t max_quarantined_bytes = 4 << 10;

// What best is kept for.
struct Group {
  std::string workload_hash;  // hex
  std::string target;
  int64_t threads;
  int64_t codegen_abi;
  std::string device;
  std::string layouts;
  auto operator<=>(const Group&) const = default;
};

Group group_of(const Record& record) {
  return {record.workload_hash, record.target, record.threads,
          record.codegen_abi,   record.device, record.layouts};
}

constexpr const char* group_condition =
    "workload_hash = ? AND target = ? AND threads = ? AND codegen_abi = ? AND device = ? AND "
    "layouts = ?";

// Of a row that begins with the columns of a group.
Group read_group(const Row& row) {
  return {hex_of_bytes(row.blob(0)),
          row.text(1),
          row.integer(2),
          row.integer(3),
          row.text(4),
          row.text(5)};
}

void bind_group(Statement& statement, const Group& group) {
  statement.bind_blob(bytes_of_hex(group.workload_hash)).bind(std::string_view(group.target));
  statement.bind(group.threads).bind(group.codegen_abi);
  statement.bind(std::string_view(group.device)).bind(std::string_view(group.layouts));
}

Result<std::vector<Candidate>> candidates_of(Connection& connection, const Group& group) {
  TW_TRY(Statement statement,
         Statement::prepare(
             connection, fmt::format("SELECT seq, hash, schedule_hash, status, latency_ns, flops, "
                                     "peak_gflops FROM trials WHERE {}",
                                     group_condition)));
  bind_group(statement, group);
  std::vector<Candidate> candidates;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    const auto status = parse_trial_status(row.text(3));
    if (status)
      candidates.push_back({row.integer(0), row.blob(1), row.blob(2), *status, row.real(4),
                            row.real(5), row.real(6)});
    return true;
  }));
  return candidates;
}

struct BestRow {
  Group group;
  int64_t trial;
  double latency_ns;
  double efficiency;
  auto operator<=>(const BestRow&) const = default;
};

Result<std::optional<BestRow>> best_row_of(Connection& connection, const Group& group) {
  TW_TRY(const std::vector<Candidate> candidates, candidates_of(connection, group));
  const auto best = best_of(candidates);
  if (!best) return std::optional<BestRow>();
  return std::optional<BestRow>(
      {group, candidates[best->index].trial, best->latency_ns, best->efficiency});
}

Status refresh_best(Connection& connection, const Group& group) {
  TW_TRY(const std::optional<BestRow> best, best_row_of(connection, group));
  TW_TRY(Statement statement,
         Statement::prepare(connection,
                            best ? "INSERT OR REPLACE INTO best VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"
                                 : fmt::format("DELETE FROM best WHERE {}", group_condition)));
  bind_group(statement, group);
  if (best) statement.bind(best->trial).bind(best->latency_ns).bind(best->efficiency);
  return statement.run();
}

Status add_quarantined(Connection& connection, std::span<const Quarantined> bad) {
  if (bad.empty()) return {};
  TW_TRY(int64_t room, connection.integer("SELECT count(*) FROM quarantine"));
  room = max_quarantined - room;
  TW_TRY(Statement insert, Statement::prepare(connection,
                                              "INSERT INTO quarantine VALUES(?, ?, ?) "
                                              "ON CONFLICT DO NOTHING"));
  for (const Quarantined& item : bad) {
    if (room-- <= 0) break;
    insert.bind_blob(bytes_of_hex(sha256_hex(item.line)));
    insert.bind(std::string_view(item.reason));
    insert.bind(std::string_view(item.line).substr(0, max_quarantined_bytes));
    TW_RETURN_IF_ERROR(insert.run());
  }
  return {};
}

Status insert_records(Connection& connection, std::span<const Record> records,
                      AppendSummary& summary) {
  TW_TRY(Statement insert, Statement::prepare(connection, insert_trial_sql()));
  std::set<Group> touched;
  for (const Record& record : records) {
    bind_record(insert, record);
    TW_RETURN_IF_ERROR(insert.run());
    const bool inserted = connection.changes() == 1;
    ++(inserted ? summary.inserted : summary.duplicates);
    if (inserted) touched.insert(group_of(record));
  }
  for (const Group& group : touched) TW_RETURN_IF_ERROR(refresh_best(connection, group));
  return {};
}

// ---- opening ----

Error unwritable(const std::string& path, std::string_view why) {
  return {ErrorCode::Database,
          fmt::format("[open] {} cannot be written: {}; check the permissions, or name another "
                      "database with --db",
                      path, why)};
}

Status prepare_directory(const std::string& path, const StoreOptions& options) {
  const std::string directory = fs::path(path).parent_path();
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return tl::unexpected(unwritable(path, error.message()));
  TW_TRY(const int64_t type, options.filesystem(directory));
  const std::string unsafe = unsafe_filesystem(type);
  if (!unsafe.empty() && !options.allow_network_filesystem)
    return fail(
        ErrorCode::Database,
        fmt::format("[open] {} is on {}, where locks do not hold between processes; put the "
                    "database on a local disk and merge it with `tilewright db merge`",
                    path, unsafe));
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK, AT_EACCESS) != 0)
    return tl::unexpected(unwritable(path, directory + ": " + std::strerror(errno)));
  return {};
}

// The file gets its name when it is complete, so that a process killed here leaves nothing under
// it.
Status create_file(const std::string& path, const StoreOptions& options) {
  const std::string fresh = path + ".new";
  std::error_code error;
  fs::remove(fresh, error);
  fs::remove(fresh + "-journal", error);
  {
    TW_TRY(Connection connection,
           Connection::open(
               fresh,
               {.create = true, .writable = true, .vfs = options.vfs, .waiting = options.waiting}));
    TW_RETURN_IF_ERROR(create_schema(connection));
  }
  fs::rename(fresh, path, error);
  if (error) return tl::unexpected(unwritable(path, error.message()));
  sync_directory_of(path);
  return {};
}

Status create_if_absent(const std::string& path, Gate& gate, const StoreOptions& options) {
  if (fs::exists(path)) return {};
  TW_TRY(const Gate::Hold hold, gate.enter());
  return fs::exists(path) ? Status() : create_file(path, options);
}

Status check_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    return fail(
        ErrorCode::Database,
        fmt::format("[open] {} does not exist; an existing database was expected; `tilewright "
                    "tune` creates one, --db names another",
                    path));
  if (!fs::is_regular_file(status)) return tl::unexpected(unwritable(path, "it is not a file"));
  if (fs::file_size(path, error) == 0) return tl::unexpected(damaged("open", path, "it is empty"));
  return {};
}

Status check_version(int64_t version, const std::string& path) {
  if (version == schema_version) return {};
  const bool newer = version > schema_version;
  return fail(ErrorCode::Database,
              fmt::format("[open] {} has schema version {}, this program {}; {}", path, version,
                          schema_version,
                          newer ? "use the newer program that wrote it"
                                : "bring it up to date with `tilewright db upgrade`"));
}

// What a writer may mend before it starts: an older schema, a journal mode that is not ours.
Status bring_up_to_date(Connection& connection, Gate& gate) {
  TW_TRY(const int64_t version, version_of(connection));
  if (version > schema_version) return check_version(version, connection.path());
  TW_TRY(const std::string mode, connection.text("PRAGMA journal_mode"));
  if (version == schema_version && mode == "delete") return {};
  TW_TRY(const Gate::Hold hold, gate.enter());
  if (mode != "delete") TW_RETURN_IF_ERROR(connection.execute("PRAGMA journal_mode=DELETE"));
  TW_TRY(const int64_t now, version_of(connection));  // another process may have been faster
  if (now == schema_version) return {};
  return migrate(connection, known_migrations(), schema_version);
}

Result<Connection> open_checked(const std::string& path, const StoreOptions& options, Gate* gate) {
  TW_RETURN_IF_ERROR(check_file(path));
  // A reader too asks for write access: it may have to roll back the journal of a killed writer.
  TW_TRY(Connection connection,
         Connection::open(
             path,
             {.create = false, .writable = true, .vfs = options.vfs, .waiting = options.waiting}));
  if (gate && connection.is_read_only()) return tl::unexpected(unwritable(path, "it is read-only"));
  if (gate) TW_RETURN_IF_ERROR(bring_up_to_date(connection, *gate));
  TW_TRY(const int64_t version, version_of(connection));
  TW_RETURN_IF_ERROR(check_version(version, path));
  TW_RETURN_IF_ERROR(check_objects(connection));
  if (!gate) TW_RETURN_IF_ERROR(connection.execute("PRAGMA query_only=ON"));
  return connection;
}

// ---- reading ----

// One row of `best` that matches a key.
struct Served {
  std::string device;
  std::string layouts;
  int64_t trial;
  double latency_ns;
  double efficiency;
};

Result<std::vector<Served>> served_for(Connection& connection, const Key& key) {
  TW_TRY(
      Statement statement,
      Statement::prepare(connection,
                         "SELECT device, layouts, trial, latency_ns, efficiency FROM best WHERE "
                         "workload_hash = ? AND target = ? AND threads = ? AND codegen_abi = ?"));
  statement.bind_blob(bytes_of_hex(sha256_hex(key.workload))).bind(std::string_view(key.target));
  statement.bind(key.threads).bind(key.codegen_abi);
  std::vector<Served> rows;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    Served served{row.text(0), row.text(1), row.integer(2), row.real(3), row.real(4)};
    if (!key.layouts || *key.layouts == served.layouts) rows.push_back(std::move(served));
    return true;
  }));
  // The exact device first; then what uses its machine best, which compares between machines.
  std::sort(rows.begin(), rows.end(), [&](const Served& a, const Served& b) {
    return std::tuple(a.device != key.device, -a.efficiency, a.latency_ns, a.device, a.layouts) <
           std::tuple(b.device != key.device, -b.efficiency, b.latency_ns, b.device, b.layouts);
  });
  return rows;
}

bool answers(const Record& record, const Key& key) {
  return record.status == TrialStatus::Ok && record.workload == key.workload &&
         record.target == key.target && record.threads == key.threads &&
         record.codegen_abi == key.codegen_abi && (!key.layouts || record.layouts == *key.layouts);
}

// Where the record that `best` names is damaged: the best of the rest of its group.
Result<std::optional<Record>> next_best(Store::State& state, Statement& by_seq, const Key& key,
                                        const Served& served) {
  const Group group{sha256_hex(key.workload), key.target,    key.threads,
                    key.codegen_abi,          served.device, served.layouts};
  TW_TRY(std::vector<Candidate> rest, candidates_of(state.connection, group));
  std::erase_if(rest, [&](const Candidate& trial) { return trial.trial == served.trial; });
  while (const auto best = best_of(rest)) {
    TW_TRY(std::optional<Record> record, state.read(by_seq, rest[best->index].trial));
    if (record && answers(*record, key)) return record;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(best->index));
  }
  return std::optional<Record>();
}

bool matches(const Record& record, const Filter& filter) {
  return (!filter.workload || record.workload == *filter.workload) &&
         (!filter.op || record.op == *filter.op) &&
         (!filter.target || record.target == *filter.target) &&
         (!filter.device || record.device == *filter.device) &&
         (!filter.session || record.session == *filter.session) &&
         (!filter.status || record.status == *filter.status) &&
         (!filter.threads || record.threads == *filter.threads) &&
         (!filter.codegen_abi || record.codegen_abi == *filter.codegen_abi);
}

std::string condition_of(const Filter& filter) {
  std::string sql = " WHERE 1";
  if (filter.workload) sql += " AND workload_hash = ?";
  if (filter.op) sql += " AND op = ?";
  if (filter.target) sql += " AND target = ?";
  if (filter.device) sql += " AND device = ?";
  if (filter.session) sql += " AND session = ?";
  if (filter.status) sql += " AND status = ?";
  if (filter.threads) sql += " AND threads = ?";
  if (filter.codegen_abi) sql += " AND codegen_abi = ?";
  return sql;
}

void bind_condition(Statement& statement, const Filter& filter) {
  if (filter.workload) statement.bind_blob(bytes_of_hex(sha256_hex(*filter.workload)));
  for (const auto* text : {&filter.op, &filter.target, &filter.device, &filter.session})
    if (*text) statement.bind(std::string_view(**text));
  if (filter.status) statement.bind(to_string(*filter.status));
  if (filter.threads) statement.bind(*filter.threads);
  if (filter.codegen_abi) statement.bind(*filter.codegen_abi);
}

std::string_view order_clause(Order order) {
  switch (order) {
    case Order::Oldest:
      return " ORDER BY seq";
    case Order::Newest:
      return " ORDER BY seq DESC";
    case Order::Fastest:
      return " ORDER BY latency_ns, hash";
  }
  return "";
}

// The rows first, then the records one by one: a row that cannot be read costs only itself, and no
// lock is held while the caller works.
Result<std::vector<int64_t>> rows_matching(Connection& connection, const Filter& filter) {
  std::string sql = "SELECT seq FROM trials" + condition_of(filter);
  sql += order_clause(filter.order);
  TW_TRY(Statement statement, Statement::prepare(connection, sql));
  bind_condition(statement, filter);
  std::vector<int64_t> rows;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    rows.push_back(row.integer(0));
    return true;
  }));
  return rows;
}

// ---- verifying ----

Result<std::vector<std::string>> integrity_of(Connection& connection) {
  TW_TRY(Statement statement, Statement::prepare(connection, "PRAGMA integrity_check(20)"));
  std::vector<std::string> lines;
  const Status status = statement.each([&](const Row& row) {
    if (row.text(0) != "ok") lines.push_back(row.text(0));
    return true;
  });
  if (!status) lines.push_back(status.error().message);
  return lines;
}

Result<std::set<BestRow>> stored_best(Connection& connection) {
  TW_TRY(Statement statement,
         Statement::prepare(connection,
                            "SELECT workload_hash, target, threads, codegen_abi, device, "
                            "layouts, trial, latency_ns, efficiency FROM best"));
  std::set<BestRow> rows;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    rows.insert({read_group(row), row.integer(6), row.real(7), row.real(8)});
    return true;
  }));
  return rows;
}

Result<std::set<BestRow>> recomputed_best(Connection& connection) {
  TW_TRY(Statement statement,
         Statement::prepare(connection,
                            "SELECT DISTINCT workload_hash, target, threads, codegen_abi, "
                            "device, layouts FROM trials"));
  std::vector<Group> groups;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    groups.push_back(read_group(row));
    return true;
  }));
  std::set<BestRow> rows;
  for (const Group& group : groups) {
    TW_TRY(std::optional<BestRow> best, best_row_of(connection, group));
    if (best) rows.insert(std::move(*best));
  }
  return rows;
}

Result<int64_t> count_wrong_best(Connection& connection) {
  TW_TRY(const std::set<BestRow> stored, stored_best(connection));
  TW_TRY(const std::set<BestRow> computed, recomputed_best(connection));
  int64_t wrong = 0;
  for (const BestRow& row : stored) wrong += !computed.contains(row);
  for (const BestRow& row : computed) wrong += !stored.contains(row);
  return wrong;
}

}  // namespace

// ---- Store ----

AppendSummary& AppendSummary::operator+=(const AppendSummary& other) {
  inserted += other.inserted;
  duplicates += other.duplicates;
  quarantined += other.quarantined;
  return *this;
}

Result<std::string> canonical_path(const std::string& path) {
  std::error_code error;
  fs::path canonical;
  if (!path.empty() && path.find('\0') == std::string::npos) canonical = fs::absolute(path, error);
  if (!error && !canonical.empty()) canonical = fs::weakly_canonical(canonical, error);
  if (error || canonical.empty() || !canonical.has_filename())
    return fail(ErrorCode::Database,
                fmt::format("[open] '{}' is not the path of a file; name a file with --db", path));
  return canonical.string();
}

Result<std::optional<Record>> Store::State::read(Statement& by_seq, int64_t seq) {
  Result<Record> record = fail(ErrorCode::Database, "[record] its row is gone");
  const Result<bool> found = by_seq.bind(seq).one([&](const Row& row) { record = record_of(row); });
  if (!found && found.error().code == ErrorCode::TryLater) return tl::unexpected(found.error());
  if (found && record) return std::optional(std::move(*record));
  ++damaged;
  say(fmt::format("{}: record {} is damaged and left out; look with `tilewright db verify`", path,
                  seq));
  return std::optional<Record>();
}

Status Store::State::write(const std::function<Status()>& work) {
  if (!gate)
    return fail(ErrorCode::Database,
                fmt::format("[append] {} was opened for reading; open it for writing", path));
  TW_TRY(const Gate::Hold hold, gate->enter());
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
  std::optional<Gate> gate;
  if (mode == OpenMode::ReadWrite) {
    TW_RETURN_IF_ERROR(prepare_directory(canonical, options));
    TW_TRY(Gate opened, Gate::open(canonical, options.waiting));
    gate.emplace(std::move(opened));
    TW_RETURN_IF_ERROR(create_if_absent(canonical, *gate, options));
  }
  TW_TRY(Connection connection, open_checked(canonical, options, gate ? &*gate : nullptr));
  return Store(std::make_unique<State>(canonical, std::move(options), std::move(connection),
                                       std::move(gate)));
}

const std::string& Store::path() const { return state_->path; }
int64_t Store::damaged() const { return state_->damaged; }

Result<AppendSummary> append_checked(Store::State& state, std::span<const Record> records,
                                     std::span<const Quarantined> bad) {
  AppendSummary summary;
  summary.quarantined = static_cast<int64_t>(bad.size());
  const Status status = state.write([&]() -> Status {
    TW_RETURN_IF_ERROR(insert_records(state.connection, records, summary));
    return add_quarantined(state.connection, bad);
  });
  if (!status) return tl::unexpected(status.error());
  return summary;
}

Result<AppendSummary> Store::append(std::span<const Record> records) {
  std::vector<Record> good;
  std::vector<Quarantined> bad;
  for (const Record& record : records) {
    if (const Status status = check(record))
      good.push_back(record);
    else
      bad.push_back({to_json(record), status.error().message});
  }
  return append_checked(*state_, good, bad);
}

Result<std::optional<Record>> Store::best(const Key& key) {
  TW_TRY(const std::vector<Served> rows, served_for(state_->connection, key));
  if (rows.empty()) return std::optional<Record>();
  TW_TRY(Statement by_seq, Statement::prepare(state_->connection, select_trial_sql()));
  for (const Served& served : rows) {
    TW_TRY(std::optional<Record> record, state_->read(by_seq, served.trial));
    if (record && answers(*record, key)) return record;
    TW_TRY(record, next_best(*state_, by_seq, key, served));
    if (record) return record;
  }
  return std::optional<Record>();
}

Status Store::for_each(const Filter& filter, const std::function<bool(const Record&)>& visit) {
  TW_TRY(const std::vector<int64_t> rows, rows_matching(state_->connection, filter));
  TW_TRY(Statement by_seq, Statement::prepare(state_->connection, select_trial_sql()));
  int64_t visited = 0;
  for (const int64_t seq : rows) {
    if (filter.limit > 0 && visited == filter.limit) break;
    TW_TRY(const std::optional<Record> record, state_->read(by_seq, seq));
    if (!record || !matches(*record, filter)) continue;
    ++visited;
    if (!visit(*record)) break;
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
  info.sqlite = describe_sqlite(sqlite_version_number());
  TW_TRY(info.schema_version, version_of(connection));
  TW_TRY(info.journal_mode, connection.text("PRAGMA journal_mode"));
  TW_TRY(info.workloads, connection.integer("SELECT count(DISTINCT workload_hash) FROM trials"));
  TW_TRY(info.best, connection.integer("SELECT count(*) FROM best"));
  TW_TRY(info.quarantined, connection.integer("SELECT count(*) FROM quarantine"));
  TW_TRY(Statement statement,
         Statement::prepare(connection, "SELECT status, count(*) FROM trials GROUP BY status"));
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    info.by_status[row.text(0)] = row.integer(1);
    info.records += row.integer(1);
    return true;
  }));
  std::error_code error;
  info.file_bytes = static_cast<int64_t>(fs::file_size(path(), error));
  return info;
}

Result<VerifyReport> Store::verify() {
  VerifyReport report;
  TW_TRY(const Transaction one_state, Transaction::begin_reading(state_->connection));
  TW_TRY(report.integrity, integrity_of(state_->connection));
  const int64_t damaged_before = state_->damaged;
  const Status read = for_each({}, [&](const Record&) {
    ++report.records;
    return true;
  });
  if (!read) report.integrity.push_back(read.error().message);
  report.damaged = state_->damaged - damaged_before;
  const Result<int64_t> wrong = count_wrong_best(state_->connection);
  if (wrong)
    report.wrong_best = *wrong;
  else
    report.integrity.push_back(wrong.error().message);
  return report;
}

}  // namespace tw::db
