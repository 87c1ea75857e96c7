// SPDX-License-Identifier: Apache-2.0
#include "db/engine/sqlite_connection.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <utility>

#include "db/engine/filesystem.h"

namespace tw::db {
namespace {

constexpr int max_value_bytes = 4 << 20;
// Largest number of compiled statements that are kept. The program has fewer different statements,
// not counting queries with varying conditions.
constexpr size_t most_kept_statements = 64;

constexpr std::pair<int, int> limits[] = {
    {SQLITE_LIMIT_LENGTH, max_value_bytes},
    {SQLITE_LIMIT_SQL_LENGTH, 64 << 10},
    {SQLITE_LIMIT_COLUMN, 64},
    {SQLITE_LIMIT_EXPR_DEPTH, 32},
    {SQLITE_LIMIT_ATTACHED, 0},
    {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 256},
    {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

// Memory mapping is off, because an I/O error in mapped memory would be a signal that ends the
// process. The page cache grows to 32 MB, which is enough for all pages that a merge writes in one
// transaction.
constexpr const char* settings =
    "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
    "PRAGMA synchronous=EXTRA; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-32000;";

struct Advice {
  ErrorCode code;
  std::string_view what;
  std::string_view todo;
};

constexpr std::string_view recover_advice =
    "restore a backup, or save what is readable with `tilewright db recover FILE NEW`; the file "
    "itself was not changed";

Advice advice_for(int code) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::TryLater, "is locked by another process",
              "try again when it has finished"};
    case SQLITE_INTERRUPT:
      return {ErrorCode::TryLater, "takes too long to answer", "ask for less, or try again"};
    case SQLITE_FULL:
      return {ErrorCode::Database, "has no room: the disk is full",
              "free some space; what was committed is safe"};
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {ErrorCode::Database, "cannot be written",
              "check the permissions of the file and its directory, or name another with --db"};
    case SQLITE_CANTOPEN:
      return {ErrorCode::Database, "cannot be opened",
              "check the path and its permissions, or name another with --db"};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {ErrorCode::Database, "is damaged or not a tuning database", recover_advice};
    default:
      return {ErrorCode::Database, "failed",
              "check the disk, or save what is readable with `tilewright db recover FILE NEW`"};
  }
}

int on_busy(void* lock_wait, int calls) {
  auto& waiting = *static_cast<LockWait*>(lock_wait);
  if (calls == 0) waiting.begin();
  return waiting.wait() ? 1 : 0;
}

int on_progress(void* deadline) {
  return static_cast<const Deadline*>(deadline)->has_passed() ? 1 : 0;
}

// Number of instructions of SQLite's virtual machine between two checks of the deadline, which take
// some 50 microseconds.
constexpr int instructions_between_looks = 4096;

class SqliteRow final : public Row {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  int64_t integer(int column) const override { return sqlite3_column_int64(statement_, column); }
  double real(int column) const override { return sqlite3_column_double(statement_, column); }
  std::string text(int column) const override {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text ? std::string(text, bytes(column)) : std::string();
  }
  std::string_view blob(int column) const override {
    const auto* blob = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return blob ? std::string_view(blob, bytes(column)) : std::string_view();
  }

 private:
  size_t bytes(int column) const {
    return static_cast<size_t>(sqlite3_column_bytes(statement_, column));
  }
  sqlite3_stmt* statement_;
};

class SqliteStatement final : public PreparedStatement {
 public:
  /// `deadline` is a member of the connection, which outlives its statements.
  SqliteStatement(SqliteConnection& connection, SqliteConnection::Compiled::node_type compiled,
                  const Deadline& deadline)
      : connection_(connection),
        compiled_(std::move(compiled)),
        statement_(compiled_.mapped().get()),
        deadline_(deadline) {}
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;
  ~SqliteStatement() override {
    reset();
    connection_.keep(std::move(compiled_));
  }

  void bind(int64_t value) override {
    bind_code_ |= sqlite3_bind_int64(statement_, next_parameter_++, value);
  }
  void bind(double value) override {
    bind_code_ |= sqlite3_bind_double(statement_, next_parameter_++, value);
  }
  void bind(std::string_view text) override {
    bind_code_ |= sqlite3_bind_text64(statement_, next_parameter_++, text.data(), text.size(),
                                      SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  void bind_blob(std::string_view bytes) override {
    bind_code_ |= sqlite3_bind_blob64(statement_, next_parameter_++, bytes.data(), bytes.size(),
                                      SQLITE_TRANSIENT);
  }

  Status each(const Visitor& visit) override {
    int code = deadline_.has_passed() ? SQLITE_INTERRUPT : bind_code_;
    if (code == SQLITE_OK)
      while ((code = sqlite3_step(statement_)) == SQLITE_ROW)
        if (!visit(SqliteRow(statement_))) break;
    const bool is_done = code == SQLITE_ROW || code == SQLITE_DONE;
    const std::string detail = is_done ? ""
                               : code == SQLITE_INTERRUPT
                                   ? sqlite3_errstr(code)
                                   : sqlite3_errmsg(sqlite3_db_handle(statement_));
    reset();
    if (is_done) return {};
    return tl::unexpected(database_error("database", connection_.path(), code, detail));
  }

 private:
  void reset() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
    next_parameter_ = 1;
    bind_code_ = 0;
  }

  SqliteConnection& connection_;
  SqliteConnection::Compiled::node_type compiled_;
  sqlite3_stmt* statement_;
  const Deadline& deadline_;
  int next_parameter_ = 1;
  int bind_code_ = 0;
};

constexpr int64_t application_id = 0x54574442;  // "TWDB"

}  // namespace

Error database_error(std::string_view operation, const std::string& path, int sqlite_code,
                     std::string_view detail) {
  const Advice advice = advice_for(sqlite_code);
  return {advice.code,
          fmt::format("[{}] {} {} ({}); {}", operation, path, advice.what, detail, advice.todo)};
}

Error damaged(std::string_view operation, const std::string& path, std::string_view detail) {
  return database_error(operation, path, SQLITE_CORRUPT, detail);
}

Result<std::unique_ptr<SqliteConnection>> SqliteConnection::open(const std::string& path,
                                                                 Options options) {
  // Builds of SQLite may treat every "file:" name as a URI; an absolute path is never one.
  TW_CHECK(path.starts_with("/"));
  std::unique_ptr<SqliteConnection> connection(
      new SqliteConnection(path, options.waiting, options.read_limit_ms));
  sqlite3*& handle = connection->handle_;
  const int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                    (options.writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) |
                    (options.create ? SQLITE_OPEN_CREATE : 0) |
                    (options.in_memory ? SQLITE_OPEN_MEMORY : 0);
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags,
                                   options.vfs.empty() ? nullptr : options.vfs.c_str());
  if (code != SQLITE_OK)
    return tl::unexpected(database_error("open", path, code, sqlite3_errstr(code)));
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_handler(handle, on_busy, &connection->lock_wait_);
  if (options.read_limit_ms > 0)
    sqlite3_progress_handler(handle, instructions_between_looks, on_progress,
                             &connection->deadline_);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  for (const auto& [limit, value] : limits) sqlite3_limit(handle, limit, value);
  TW_RETURN_IF_ERROR(connection->execute(settings));
  return connection;
}

SqliteConnection::~SqliteConnection() {
  idle_.clear();
  sqlite3_close_v2(handle_);
}

void SqliteConnection::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void SqliteConnection::keep(Compiled::node_type statement) {
  // Pragmas are not kept, because SQLite may run a pragma already while compiling it.
  const bool is_kept =
      idle_.size() < most_kept_statements && !statement.key().starts_with("PRAGMA");
  if (is_kept) idle_.insert(std::move(statement));
}

Result<bool> SqliteConnection::is_read_only() { return sqlite3_db_readonly(handle_, "main") == 1; }

int64_t SqliteConnection::changes() const { return sqlite3_changes64(handle_); }

Status SqliteConnection::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return {};
  return tl::unexpected(database_error("database", path_, code, sqlite3_errmsg(handle_)));
}

Result<std::unique_ptr<PreparedStatement>> SqliteConnection::prepare(std::string_view sql) {
  if (const auto known = idle_.find(sql); known != idle_.end())
    return std::make_unique<SqliteStatement>(*this, idle_.extract(known), deadline_);
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK)
    return tl::unexpected(database_error("database", path_, code, sqlite3_errmsg(handle_)));
  Compiled fresh;
  fresh[std::string(sql)].reset(statement);
  return std::make_unique<SqliteStatement>(*this, fresh.extract(fresh.begin()), deadline_);
}

Status SqliteConnection::begin(Access access) {
  return execute(access == Access::Write ? "BEGIN IMMEDIATE" : "BEGIN");
}

Status SqliteConnection::commit() { return execute("COMMIT"); }

void SqliteConnection::roll_back() {
  if (is_in_transaction()) sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
}

bool SqliteConnection::is_in_transaction() const { return !sqlite3_get_autocommit(handle_); }

Result<std::optional<int64_t>> SqliteConnection::schema_version() {
  TW_TRY(const int64_t application, integer("PRAGMA application_id"));
  if (application != application_id) return std::optional<int64_t>();
  TW_TRY(const int64_t version, integer("PRAGMA user_version"));
  return std::optional(version);
}

Status SqliteConnection::set_schema_version(int64_t version) {
  return execute(
      fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", application_id, version));
}

Result<EngineInfo> SqliteConnection::engine() {
  EngineInfo info;
  info.sqlite = describe_sqlite(sqlite_version_number());
  TW_TRY(info.journal_mode, text("PRAGMA journal_mode"));
  std::error_code error;
  info.bytes = static_cast<int64_t>(std::filesystem::file_size(path_, error));
  return info;
}

Result<std::vector<std::string>> SqliteConnection::integrity() {
  TW_TRY(Statement statement, Statement::prepare(*this, "PRAGMA integrity_check(20)"));
  std::vector<std::string> lines;
  const Status status = statement.each([&](const Row& row) {
    if (row.text(0) != "ok") lines.push_back(row.text(0));
    return true;
  });
  if (!status) lines.push_back(status.error().message);
  return lines;
}

// SQLite's backup functions copy one committed state.
Status SqliteConnection::copy_pages(SqliteConnection& to) {
  sqlite3_backup* backup = sqlite3_backup_init(to.handle_, "main", handle_, "main");
  if (backup) sqlite3_backup_step(backup, -1);
  const int code = backup ? sqlite3_backup_finish(backup) : sqlite3_errcode(to.handle_);
  if (code == SQLITE_OK) return {};
  return tl::unexpected(database_error("export", to.path(), code, sqlite3_errmsg(to.handle_)));
}

}  // namespace tw::db
