// SPDX-License-Identifier: Apache-2.0
#include "db/engine/postgres_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "db/engine/libpq.h"

namespace tw::db {

/// A PGresult, which the destructor frees.
class PostgresReply {
 public:
  PostgresReply(const Libpq& library, PGresult* result) : library_(&library), result_(result) {}
  PostgresReply(PostgresReply&& other) noexcept
      : library_(other.library_), result_(std::exchange(other.result_, nullptr)) {}
  PostgresReply& operator=(PostgresReply&& other) noexcept {
    std::swap(result_, other.result_);
    return *this;
  }
  ~PostgresReply() { library_->PQclear(result_); }

  bool is_ok() const {
    const ExecStatusType status = library_->PQresultStatus(result_);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
  }
  /// True if the server waits for the data of a COPY.
  bool is_copying() const { return library_->PQresultStatus(result_) == PGRES_COPY_IN; }
  /// True if this reply shows that the connection has ended. This is so if the server says it, or
  /// if the error did not come from the server. The status of the connection may show the end only
  /// later.
  bool is_last() const {
    if (is_ok() || is_copying()) return false;
    const std::string state = sqlstate();
    return state.empty() || state.starts_with("08") || state.starts_with("57P");
  }
  /// Returns the SQLSTATE of five characters; empty if the server sent none.
  std::string sqlstate() const { return field(PG_DIAG_SQLSTATE); }
  /// Returns the server's message without its details, which may quote the content of a row.
  std::string message() const { return field(PG_DIAG_MESSAGE_PRIMARY); }
  std::string tag() const { return library_->PQcmdStatus(result_); }
  int64_t changes() const { return std::atoll(library_->PQcmdTuples(result_)); }
  int rows() const { return library_->PQntuples(result_); }
  bool is_absent() const { return result_ == nullptr; }
#ifdef LIBPQ_HAS_PIPELINING
  /// True if this reply marks the end of the replies to statements that were sent together.
  bool is_synchronized() const { return library_->PQresultStatus(result_) == PGRES_PIPELINE_SYNC; }
#endif
  std::string_view bytes(int row, int column) const {
    return {library_->PQgetvalue(result_, row, column),
            static_cast<size_t>(library_->PQgetlength(result_, row, column))};
  }

 private:
  std::string field(int code) const {
    const char* text = library_->PQresultErrorField(result_, code);
    return text ? text : "";
  }
  const Libpq* library_;
  PGresult* result_;
};

namespace {

// Seconds to wait for a server that does not answer. With the timeouts of the system, a tuner would
// wait for minutes if the host is down.
constexpr const char* connect_timeout_s = "10";
constexpr const char* tcp_user_timeout_ms = "20000";
// Least time between attempts to reconnect. An attempt takes at most 10 s (connect_timeout_s), so a
// tuner spends at most a quarter of its time waiting for a host that is down.
constexpr int64_t attempt_every_ms = 30'000;
// Duration of one attempt to take a lock, which is the lock_timeout of the server. Messages and
// interrupts are handled between attempts.
constexpr int lock_slice_ms = 250;
constexpr int64_t writers_lock = 0x54574442;  // "TWDB"
// Number of bytes from which on the rows of a copy are sent.
constexpr size_t copied_bytes = 64 << 10;
constexpr int oldest_server = 120'000;
// Largest number of statements that are sent together. Their replies have some 30 bytes each and
// fit into the buffers of the connection, so the server never waits until the replies are read.
constexpr size_t most_waiting = 256;

void say_nothing(void*, const char*) {}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// Integers and doubles are sent and received as big-endian bytes.
std::string big_endian(uint64_t value) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (56 - 8 * i));
  return bytes;
}

uint64_t from_big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

class PostgresRow final : public Row {
 public:
  PostgresRow(const PostgresReply& reply, int row) : reply_(reply), row_(row) {}
  int64_t integer(int column) const override {
    const std::string_view bytes = reply_.bytes(row_, column);
    // Columns of tables have 64 bits; expressions may have 32 bits, or be booleans.
    if (bytes.size() == 4) return static_cast<int32_t>(from_big_endian(bytes));
    return bytes.size() == 8 || bytes.size() == 1 ? static_cast<int64_t>(from_big_endian(bytes))
                                                  : 0;
  }
  double real(int column) const override {
    const std::string_view bytes = reply_.bytes(row_, column);
    return bytes.size() == 8 ? std::bit_cast<double>(from_big_endian(bytes)) : 0;
  }
  std::string text(int column) const override { return std::string(reply_.bytes(row_, column)); }
  std::string_view blob(int column) const override { return reply_.bytes(row_, column); }

 private:
  const PostgresReply& reply_;
  int row_;
};

/// Replaces each `?` that is not in quotes: `a = ? AND b = ?` -> `a = $1 AND b = $2`.
std::string numbered(std::string_view sql) {
  std::string text;
  int count = 0;
  bool quoted = false;
  for (const char c : sql) {
    if (c == '\'') quoted = !quoted;
    if (c == '?' && !quoted)
      text += fmt::format("${}", ++count);
    else
      text += c;
  }
  return text;
}

// A prepared statement of a server. Its parameters have no declared type. The server infers each
// type from the column of the parameter, so text goes unchanged into columns of bytes.
class PostgresStatement final : public PreparedStatement {
 public:
  PostgresStatement(PostgresConnection& connection, std::string_view sql)
      : connection_(connection), sql_(numbered(sql)) {}

  void bind(int64_t value) override {
    parameters_.push_back(big_endian(static_cast<uint64_t>(value)));
  }
  void bind(double value) override {
    parameters_.push_back(big_endian(std::bit_cast<uint64_t>(value)));
  }
  void bind(std::string_view text) override { parameters_.emplace_back(text); }
  void bind_blob(std::string_view bytes) override { parameters_.emplace_back(bytes); }

  Status each(const Visitor& visit) override {
    const std::vector<std::string> parameters = std::exchange(parameters_, {});
    TW_TRY(const PostgresReply reply, connection_.run(sql_, parameters));
    for (int row = 0; row < reply.rows(); ++row)
      if (!visit(PostgresRow(reply, row))) break;
    return {};
  }
  Status run_soon() override { return connection_.run_soon(sql_, std::exchange(parameters_, {})); }

 private:
  PostgresConnection& connection_;
  std::string sql_;
  std::vector<std::string> parameters_;
};

// Adds rows by COPY in the "Binary Format" of
// https://www.postgresql.org/docs/current/sql-copy.html. A value is sent as its length, followed by
// the bytes that it has as a binary parameter.
class PostgresCopy final : public PreparedStatement {
 public:
  PostgresCopy(PostgresConnection& connection, std::string_view table, std::string_view columns)
      : stream_(connection),
        sql_(fmt::format("COPY {}({}) FROM STDIN (FORMAT binary)", table, columns)),
        columns_(std::count(columns.begin(), columns.end(), ',') + 1) {}

  ~PostgresCopy() override {
    if (is_begun_) stream_.give_up();
  }

  void bind(int64_t value) override { add(big_endian(static_cast<uint64_t>(value))); }
  void bind(double value) override { add(big_endian(std::bit_cast<uint64_t>(value))); }
  void bind(std::string_view text) override { add(text); }
  void bind_blob(std::string_view bytes) override { add(bytes); }

  Status each(const Visitor&) override {
    TW_CHECK(values_ % columns_ == 0, "a row lacks values");
    if (rows_.empty() && !is_begun_ && status_) return {};
    rows_ += last_two(end_of_rows);
    send();
    is_begun_ = false;
    TW_RETURN_IF_ERROR(std::exchange(status_, {}));
    return stream_.end();
  }

 private:
  static constexpr std::string_view header{"PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0", 19};
  static constexpr uint64_t end_of_rows = 0xffff;

  static std::string last_two(uint64_t value) { return big_endian(value).substr(6); }

  void add(std::string_view value) {
    if (values_++ % columns_ == 0) rows_ += last_two(static_cast<uint64_t>(columns_));
    rows_ += big_endian(value.size()).substr(4);
    rows_ += value;
    if (rows_.size() >= copied_bytes) send();
  }

  /// Sends the rows in `rows_` and clears it. The first call begins the COPY and sends the header
  /// before the rows. Errors are returned later, by each().
  void send() {
    if (!status_) return rows_.clear();
    if (!is_begun_) {
      status_ = stream_.begin(sql_);
      if (!status_) return rows_.clear();
      is_begun_ = true;
      rows_.insert(0, header);
    }
    stream_.put(rows_);
    rows_.clear();
  }

  PostgresConnection::CopyStream stream_;
  std::string sql_;
  int64_t columns_, values_ = 0;
  std::string rows_;       ///< bytes of rows that were not sent yet
  bool is_begun_ = false;  ///< true while the server waits for rows
  Status status_;          ///< error of an attempt to begin the COPY
};

struct ServerAdvice {
  std::string_view sqlstate;  ///< the beginning of the SQLSTATE; empty: any
  ErrorCode code;
  std::string_view what;
  std::string_view todo;
};

// https://www.postgresql.org/docs/current/errcodes-appendix.html
constexpr ServerAdvice server_advices[] = {
    {"55P03", ErrorCode::TryLater, "is locked by another process",
     "try again when it has finished"},
    {"40", ErrorCode::TryLater, "was changed by another process", "try again"},
    {"57", ErrorCode::TryLater, "ended the request", "try again"},
    {"53100", ErrorCode::Database, "has no room: the server's disk is full",
     "free some space; what was committed is safe"},
    {"53", ErrorCode::TryLater, "has no room for the request", "try again"},
    {"42501", ErrorCode::Database, "does not allow this to the role",
     "ask for the role tilewright_reader to look up, tilewright_recorder to tune, or "
     "tilewright_curator to delete"},
    {"25006", ErrorCode::Database, "cannot be written", "name another database with --db"},
    {"", ErrorCode::Database, "failed", "look at the server's log"},
};

Error server_error(const std::string& address, const PostgresReply& reply) {
  const std::string state = reply.sqlstate();
  for (const ServerAdvice& advice : server_advices)
    if (state.starts_with(advice.sqlstate))
      return {advice.code, fmt::format("[database] {} {} ({}); {}", address, advice.what,
                                       reply.message(), advice.todo)};
  TW_CHECK(false, "the last row is for every state");
}

}  // namespace

PostgresConnection::PostgresConnection(const Libpq& library, const std::string& address,
                                       Options options)
    : library_(library),
      address_(address),
      options_(std::move(options)),
      lock_wait_(options_.waiting, address),
      deadline_(options_.waiting, options_.read_limit_ms) {}

PostgresConnection::~PostgresConnection() { disconnect(); }

Result<std::unique_ptr<PostgresConnection>> PostgresConnection::open(const std::string& address,
                                                                     Options options) {
  TW_TRY(const Libpq* library, libpq());
  std::unique_ptr<PostgresConnection> connection(
      new PostgresConnection(*library, address, std::move(options)));
  TW_RETURN_IF_ERROR(connection->connect());
  return connection;
}

Status PostgresConnection::connect() {
  disconnect();
  // The address (`dbname`) overrides parameters before it and is overridden by those after it.
  constexpr const char* keywords[] = {"connect_timeout",
                                      "tcp_user_timeout",
                                      "keepalives_idle",
                                      "keepalives_interval",
                                      "keepalives_count",
                                      "fallback_application_name",
                                      "dbname",
                                      "client_encoding",
                                      nullptr};
  const char* values[] = {connect_timeout_s, tcp_user_timeout_ms, "20",   "5",    "3",
                          "tilewright",      address_.c_str(),    "UTF8", nullptr};
  connection_ = library_.PQconnectdbParams(keywords, values, 1);
  if (library_.PQstatus(connection_) == CONNECTION_OK) {
    const Status settled = settle();
    if (!settled) disconnect();
    return settled;
  }
  const std::string why = first_line(library_.PQerrorMessage(connection_));
  disconnect();
  return fail(ErrorCode::Database,
              fmt::format("[open] {} cannot be reached ({}); check the address and the server, or "
                          "tune into a file with --db and take it over later with `tilewright db "
                          "merge`",
                          address_, why));
}

Status PostgresConnection::settle() {
  library_.PQsetNoticeProcessor(connection_, say_nothing, nullptr);
  const char* encoding = library_.PQparameterStatus(connection_, "server_encoding");
  if (library_.PQserverVersion(connection_) < oldest_server)
    return fail(ErrorCode::Database,
                fmt::format("[open] {} is an old PostgreSQL; version 12 or newer was expected; "
                            "name another database with --db",
                            address_));
  if (!encoding || std::string_view(encoding) != "UTF8")
    return fail(ErrorCode::Database,
                fmt::format("[open] {} keeps text as {}; a database with the encoding UTF8 was "
                            "expected; create one with `createdb --encoding=UTF8 "
                            "--template=template0`",
                            address_, encoding ? encoding : "nothing known"));
  // The search path has no schema in which another user could create tables or operators. So names
  // in the SQL of this program cannot refer to objects of other users.
  const std::string sql = fmt::format(
      "SET search_path = tilewright, pg_temp; SET lock_timeout = {}; "
      "SET default_transaction_read_only = {}; SET statement_timeout = {}",
      lock_slice_ms, options_.writable ? "off" : "on", options_.read_limit_ms);
  TW_RETURN_IF_ERROR(checked({library_, library_.PQexec(connection_, sql.c_str())}));
  return {};
}

void PostgresConnection::disconnect() {
  library_.PQfinish(connection_);
  connection_ = nullptr;
  names_.clear();
  waiting_.clear();
}

Error PostgresConnection::lost() const {
  return {ErrorCode::TryLater,
          fmt::format("[database] {} cannot be reached any more ({}); try again when it is back",
                      address_, why_lost_)};
}

void PostgresConnection::lose() {
  why_lost_ = first_line(library_.PQerrorMessage(connection_));
  disconnect();
}

Status PostgresConnection::reconnect_if_lost() {
  if (connection_) return {};
  if (in_transaction_ || (is_away_ && now_ms(options_.waiting) < next_attempt_ms_))
    return tl::unexpected(lost());
  const Status connected = connect();
  if (connected)
    why_lost_.clear();
  else
    next_attempt_ms_ = now_ms(options_.waiting) + attempt_every_ms;
  const bool was_away = std::exchange(is_away_, !connected);
  if (was_away != is_away_ && options_.waiting.on_message)
    options_.waiting.on_message(connected ? fmt::format("{} is back", address_) : lost().message);
  return connected ? Status() : tl::unexpected(lost());
}

template <typename Request>
Result<PostgresReply> PostgresConnection::ask(const Request& request) {
  TW_RETURN_IF_ERROR(run_waiting());
  // A second attempt follows if the connection was lost outside a transaction.
  for (int attempt = 0; attempt < 2; ++attempt) {
    TW_RETURN_IF_ERROR(reconnect_if_lost());
    PostgresReply reply = request();
    if (!reply.is_last() && library_.PQstatus(connection_) == CONNECTION_OK)
      return checked(std::move(reply));
    lose();
  }
  return tl::unexpected(lost());
}

Result<PostgresReply> PostgresConnection::checked(PostgresReply reply) {
  if (reply.is_ok() || reply.is_copying()) {
    changes_ = reply.changes();
    return reply;
  }
  return tl::unexpected(server_error(address_, reply));
}

Result<PostgresReply> PostgresConnection::command(const std::string& sql) {
  return ask([&] { return PostgresReply(library_, library_.PQexec(connection_, sql.c_str())); });
}

Status PostgresConnection::execute(const std::string& sql) {
  TW_RETURN_IF_ERROR(command(sql));
  return {};
}

PostgresReply PostgresConnection::prepare_once(const std::string& sql, std::string& name) {
  const auto [known, is_new] = names_.try_emplace(sql, fmt::format("s{}", names_.size()));
  name = known->second;
  if (!is_new) return {library_, nullptr};
  PostgresReply prepared(library_,
                         library_.PQprepare(connection_, name.c_str(), sql.c_str(), 0, nullptr));
  if (!prepared.is_ok()) names_.erase(known);
  return prepared;
}

namespace {

/// Parameters in the form that libpq's functions require.
struct Values {
  explicit Values(const std::vector<std::string>& parameters)
      : binary(parameters.size(), 1), count(static_cast<int>(parameters.size())) {
    for (const std::string& parameter : parameters) {
      values.push_back(parameter.data());
      lengths.push_back(static_cast<int>(parameter.size()));
    }
  }
  std::vector<const char*> values;
  std::vector<int> lengths, binary;
  int count;
};

}  // namespace

PostgresReply PostgresConnection::run_once(const std::string& sql,
                                           const std::vector<std::string>& parameters) {
  std::string name;
  PostgresReply prepared = prepare_once(sql, name);
  if (!names_.contains(sql)) return prepared;
  const Values v(parameters);
  return {library_, library_.PQexecPrepared(connection_, name.c_str(), v.count, v.values.data(),
                                            v.lengths.data(), v.binary.data(), 1)};
}

Status PostgresConnection::run_soon(const std::string& sql, std::vector<std::string> parameters) {
  if (!library_.has_pipeline || !in_transaction_) {
    TW_RETURN_IF_ERROR(run(sql, parameters));
    return {};
  }
  waiting_.push_back({sql, std::move(parameters)});
  return waiting_.size() < most_waiting ? Status() : run_waiting();
}

#ifdef LIBPQ_HAS_PIPELINING
PostgresReply PostgresConnection::run_together(const std::vector<WaitingStatement>& statements) {
  std::vector<std::string> names(statements.size());
  for (size_t i = 0; i < statements.size(); ++i) {
    PostgresReply prepared = prepare_once(statements[i].sql, names[i]);
    if (!names_.contains(statements[i].sql)) return prepared;
  }
  library_.PQenterPipelineMode(connection_);
  for (size_t i = 0; i < statements.size(); ++i) {
    const Values v(statements[i].parameters);
    library_.PQsendQueryPrepared(connection_, names[i].c_str(), v.count, v.values.data(),
                                 v.lengths.data(), v.binary.data(), 1);
  }
  library_.PQpipelineSync(connection_);
  // For each statement libpq returns a reply and then a null. If a statement failed, the server
  // does not run the statements after it, and its reply is the answer.
  PostgresReply answer(library_, library_.PQgetResult(connection_));
  for (int nulls = answer.is_absent(); !answer.is_absent() && nulls < 2;) {
    PostgresReply next(library_, library_.PQgetResult(connection_));
    nulls = next.is_absent() ? nulls + 1 : 0;  // two nulls in a row: the connection is lost
    if (next.is_synchronized()) break;
    if (!next.is_absent() && answer.is_ok()) answer = std::move(next);
  }
  library_.PQexitPipelineMode(connection_);
  return answer;
}
#else
PostgresReply PostgresConnection::run_together(const std::vector<WaitingStatement>& statements) {
  TW_CHECK(statements.empty(), "statements wait for a library that has pipelines");
  return {library_, nullptr};
}
#endif

Status PostgresConnection::run_waiting() {
  if (waiting_.empty()) return {};
  const std::vector<WaitingStatement> statements = std::exchange(waiting_, {});
  TW_RETURN_IF_ERROR(reconnect_if_lost());
  PostgresReply reply = run_together(statements);
  if (reply.is_last() || library_.PQstatus(connection_) != CONNECTION_OK) {
    lose();
    return tl::unexpected(lost());
  }
  TW_RETURN_IF_ERROR(checked(std::move(reply)));
  return {};
}

Result<PostgresReply> PostgresConnection::run(const std::string& sql,
                                              const std::vector<std::string>& parameters) {
  if (deadline_.has_passed())
    return fail(ErrorCode::TryLater,
                fmt::format("[database] {} takes too long to answer; ask for less, or try again",
                            address_));
  return ask([&] { return run_once(sql, parameters); });
}

Status PostgresConnection::CopyStream::begin(const std::string& sql) {
  PostgresConnection& c = connection_;
  TW_TRY(const PostgresReply reply, c.ask([&] {
    return PostgresReply(c.library_, c.library_.PQexec(c.connection_, sql.c_str()));
  }));
  TW_CHECK(reply.is_copying(), "a copy was begun");
  return {};
}

void PostgresConnection::CopyStream::put(std::string_view bytes) {
  if (connection_.connection_)
    connection_.library_.PQputCopyData(connection_.connection_, bytes.data(),
                                       static_cast<int>(bytes.size()));
}

Status PostgresConnection::CopyStream::end() {
  TW_RETURN_IF_ERROR(connection_.ask([&] { return connection_.end_copy_once(nullptr); }));
  return {};
}

void PostgresConnection::CopyStream::give_up() {
  if (connection_.connection_) const PostgresReply ignored = connection_.end_copy_once("given up");
}

PostgresReply PostgresConnection::end_copy_once(const char* error) {
  library_.PQputCopyEnd(connection_, error);
  PostgresReply reply(library_, library_.PQgetResult(connection_));
  while (PGresult* const more = library_.PQgetResult(connection_)) library_.PQclear(more);
  return reply;
}

Result<std::unique_ptr<PreparedStatement>> PostgresConnection::prepare(std::string_view sql) {
  return std::make_unique<PostgresStatement>(*this, sql);
}

Result<std::unique_ptr<PreparedStatement>> PostgresConnection::prepare_copy(
    std::string_view table, std::string_view columns) {
  return std::make_unique<PostgresCopy>(*this, table, columns);
}

Status PostgresConnection::begin(Access access) {
  if (access == Access::Read) {
    TW_RETURN_IF_ERROR(command("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"));
    in_transaction_ = true;
    return {};
  }
  const std::string lock = fmt::format("SELECT pg_advisory_xact_lock({})", writers_lock);
  for (lock_wait_.begin();;) {
    TW_RETURN_IF_ERROR(command("BEGIN ISOLATION LEVEL READ COMMITTED"));
    in_transaction_ = true;
    const Result<PostgresReply> locked = command(lock);
    if (locked) return {};
    const bool gave_up = !connection_ || locked.error().code != ErrorCode::TryLater;
    roll_back();
    if (gave_up || !lock_wait_.wait()) return tl::unexpected(locked.error());
  }
}

Status PostgresConnection::commit() {
  TW_TRY(const PostgresReply reply, command("COMMIT"));
  in_transaction_ = false;
  if (reply.tag() == "COMMIT") return {};
  return fail(ErrorCode::Internal, fmt::format("[database] {} rolled a transaction back that "
                                               "should be committed",
                                               address_));
}

void PostgresConnection::roll_back() {
  waiting_.clear();
  if (!std::exchange(in_transaction_, false) || !connection_) return;
  const PostgresReply ignored(library_, library_.PQexec(connection_, "ROLLBACK"));
}

Result<bool> PostgresConnection::is_read_only() {
  TW_TRY(const int64_t answer,
         integer("SELECT pg_is_in_recovery() OR NOT has_table_privilege('trials', 'INSERT')"));
  return answer != 0;
}

// Reads the tables of the system catalog. The function to_regclass() may answer from a cache that
// is older than the lock, and so miss tables that another process has just created.
Result<std::optional<int64_t>> PostgresConnection::schema_version() {
  TW_TRY(const int64_t is_there,
         integer("SELECT count(*) FROM pg_class WHERE relname = 'schema_version' AND relnamespace "
                 "= (SELECT oid FROM pg_namespace WHERE nspname = 'tilewright')"));
  if (!is_there) return std::optional<int64_t>();
  TW_TRY(const int64_t version, integer("SELECT version FROM tilewright.schema_version"));
  return std::optional(version);
}

Status PostgresConnection::set_schema_version(int64_t version) {
  TW_TRY(const int64_t is_there,
         integer("SELECT count(*) FROM pg_namespace WHERE nspname = 'tilewright'"));
  if (!is_there) TW_RETURN_IF_ERROR(execute("CREATE SCHEMA tilewright"));
  return execute(
      fmt::format("CREATE TABLE IF NOT EXISTS schema_version(version BIGINT NOT NULL); "
                  "DELETE FROM schema_version; INSERT INTO schema_version VALUES({})",
                  version));
}

Result<EngineInfo> PostgresConnection::engine() {
  EngineInfo info;
  TW_TRY(const std::string version, text("SELECT current_setting('server_version')"));
  info.server = "PostgreSQL " + version.substr(0, version.find(' '));
  info.journal_mode = "write-ahead log";
  TW_TRY(info.bytes,
         integer("SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
                 "WHERE relnamespace = to_regnamespace('tilewright') AND relkind = 'r'"));
  return info;
}

// Returns no faults, because the server checks its pages itself.
Result<std::vector<std::string>> PostgresConnection::integrity() {
  return std::vector<std::string>();
}

}  // namespace tw::db
