// SPDX-License-Identifier: Apache-2.0
#include "db/statement.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

namespace tw::db {
namespace {

constexpr int max_value_bytes = 4 << 20;

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

// No memory mapping: with several writers it turns an I/O error into a signal.
constexpr const char* settings =
    "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
    "PRAGMA synchronous=EXTRA; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-8000;";

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

struct Connection::State {
  std::string path;
  LockWait lock_wait;
  sqlite3* handle = nullptr;
  State(const std::string& path_, Waiting waiting)
      : path(path_), lock_wait(std::move(waiting), path_) {}
  ~State() { sqlite3_close_v2(handle); }
};

Connection::Connection(std::unique_ptr<State> state) : state_(std::move(state)) {}
Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;
Connection::~Connection() = default;

Result<Connection> Connection::open(const std::string& path, Options options) {
  // Builds of SQLite may treat every "file:" name as a URI; an absolute path is never one.
  TW_CHECK(path.starts_with("/"));
  auto state = std::make_unique<State>(path, std::move(options.waiting));
  const int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                    (options.writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) |
                    (options.create ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path.c_str(), &state->handle, flags,
                                   options.vfs.empty() ? nullptr : options.vfs.c_str());
  if (code != SQLITE_OK)
    return tl::unexpected(database_error("open", path, code, sqlite3_errstr(code)));
  sqlite3_extended_result_codes(state->handle, 1);
  sqlite3_busy_handler(state->handle, on_busy, &state->lock_wait);
  sqlite3_db_config(state->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(state->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(state->handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(state->handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  for (const auto& [limit, value] : limits) sqlite3_limit(state->handle, limit, value);
  Connection connection(std::move(state));
  TW_RETURN_IF_ERROR(connection.execute(settings));
  return connection;
}

const std::string& Connection::path() const { return state_->path; }
sqlite3* Connection::handle() const { return state_->handle; }
bool Connection::is_read_only() const { return sqlite3_db_readonly(state_->handle, "main") == 1; }
int64_t Connection::changes() const { return sqlite3_changes64(state_->handle); }

Status Connection::execute(const std::string& sql) {
  const int code = sqlite3_exec(state_->handle, sql.c_str(), nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return {};
  return tl::unexpected(database_error("database", path(), code, sqlite3_errmsg(state_->handle)));
}

Result<int64_t> Connection::integer(const std::string& sql) {
  TW_TRY(Statement statement, Statement::prepare(*this, sql));
  int64_t value = 0;
  TW_TRY(const bool found, statement.one([&](const Row& row) { value = row.integer(0); }));
  if (!found) return tl::unexpected(database_error("database", path(), SQLITE_CORRUPT, sql));
  return value;
}

Result<std::string> Connection::text(const std::string& sql) {
  TW_TRY(Statement statement, Statement::prepare(*this, sql));
  std::string value;
  TW_TRY(const bool found, statement.one([&](const Row& row) { value = row.text(0); }));
  if (!found) return tl::unexpected(database_error("database", path(), SQLITE_CORRUPT, sql));
  return value;
}

int64_t Row::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Row::real(int column) const { return sqlite3_column_double(statement_, column); }

std::string Row::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (!text) return {};
  return {text, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

std::string Row::blob(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  if (!bytes) return {};
  return {bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Result<Statement> Statement::prepare(Connection& connection, std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(connection.handle(), sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK)
    return tl::unexpected(
        database_error("database", connection.path(), code, sqlite3_errmsg(connection.handle())));
  return Statement(statement, connection.path());
}

Statement& Statement::bind(int64_t value) {
  bind_code_ |= sqlite3_bind_int64(statement_.get(), next_parameter_++, value);
  return *this;
}
Statement& Statement::bind(double value) {
  bind_code_ |= sqlite3_bind_double(statement_.get(), next_parameter_++, value);
  return *this;
}
Statement& Statement::bind(std::string_view text) {
  bind_code_ |= sqlite3_bind_text64(statement_.get(), next_parameter_++, text.data(), text.size(),
                                    SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
Statement& Statement::bind_blob(std::string_view bytes) {
  bind_code_ |= sqlite3_bind_blob64(statement_.get(), next_parameter_++, bytes.data(), bytes.size(),
                                    SQLITE_TRANSIENT);
  return *this;
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  next_parameter_ = 1;
  bind_code_ = 0;
}

Status Statement::each(const Visitor& visit) {
  int code = bind_code_;
  if (code == SQLITE_OK)
    while ((code = sqlite3_step(statement_.get())) == SQLITE_ROW)
      if (!visit(Row(statement_.get()))) break;
  const std::string detail = sqlite3_errmsg(sqlite3_db_handle(statement_.get()));
  reset();
  if (code == SQLITE_ROW || code == SQLITE_DONE) return {};
  return tl::unexpected(database_error("database", path_, code, detail));
}

Result<bool> Statement::one(const std::function<void(const Row&)>& visit) {
  bool found = false;
  TW_RETURN_IF_ERROR(each([&](const Row& row) {
    found = true;
    visit(row);
    return false;
  }));
  return found;
}

Status Statement::run() {
  return each([](const Row&) { return true; });
}

Result<Transaction> Transaction::begin(Connection& connection) {
  TW_RETURN_IF_ERROR(connection.execute("BEGIN IMMEDIATE"));
  return Transaction(&connection);
}

Result<Transaction> Transaction::begin_reading(Connection& connection) {
  TW_RETURN_IF_ERROR(connection.execute("BEGIN"));
  return Transaction(&connection);
}

Transaction::~Transaction() {
  if (connection_ && !sqlite3_get_autocommit(connection_->handle()))
    sqlite3_exec(connection_->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

Status Transaction::commit() {
  TW_RETURN_IF_ERROR(connection_->execute("COMMIT"));
  connection_ = nullptr;
  return {};
}

}  // namespace tw::db
