// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: a connection to a database, and its statements, whatever engine is behind it:
// SQLite over one file (sqlite_connection.h) or a PostgreSQL server (postgres_connection.h). SQL is
// written once, with `?` for parameters; dialect.h has the words that differ. A Statement is always
// reset before a call returns, because a statement of SQLite that is left open after its row keeps
// a shared lock, and with it every other process from committing. Not thread-safe; not to be
// carried over a fork.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "db/engine/dialect.h"
#include "db/engine/waiting.h"

namespace tw::db {

/// The current row, valid inside the callback only. A column that holds another type, or NULL, is
/// 0 or empty.
class Row {
 public:
  virtual ~Row() = default;
  virtual int64_t integer(int column) const = 0;
  virtual double real(int column) const = 0;
  virtual std::string text(int column) const = 0;
  /// Valid as long as the row is.
  virtual std::string_view blob(int column) const = 0;
};

/// A prepared statement of an engine. Calls of bind() set the parameters in order; after each run
/// they start over at the first parameter.
class PreparedStatement {
 public:
  using Visitor = std::function<bool(const Row&)>;  ///< false: no more rows
  virtual ~PreparedStatement() = default;
  virtual void bind(int64_t value) = 0;
  virtual void bind(double value) = 0;
  virtual void bind(std::string_view text) = 0;
  virtual void bind_blob(std::string_view bytes) = 0;
  virtual Status each(const Visitor& visit) = 0;
  /// Statement::run_soon().
  virtual Status run_soon();
};

enum class Access { Read, Write };

/// Description of the engine and of its storage, for people.
struct EngineInfo {
  std::string sqlite;        ///< describe_sqlite() (filesystem.h); empty for a server
  std::string server;        ///< product and version; empty for a file
  std::string journal_mode;  ///< how commits are made durable
  int64_t bytes = 0;         ///< on disk
};

class Connection {
 public:
  virtual ~Connection() = default;

  /// The name of the database in messages: the path of the file, or the address of the server,
  /// which holds no password.
  virtual const std::string& path() const = 0;
  virtual const Dialect& dialect() const = 0;
  /// True if writing would fail: the file, its directory or the role on the server allows reading
  /// only.
  virtual Result<bool> is_read_only() = 0;

  /// Runs one or more statements without parameters.
  virtual Status execute(const std::string& sql) = 0;
  virtual Result<std::unique_ptr<PreparedStatement>> prepare(std::string_view sql) = 0;
  /// Prepares adding rows to a table: values are bound row after row, in the order of `columns`
  /// (names, separated by commas), and a run writes all rows, or none if the engine refuses one.
  /// Requires: dialect().has_copy.
  virtual Result<std::unique_ptr<PreparedStatement>> prepare_copy(std::string_view table,
                                                                  std::string_view columns);
  /// Rows that the last statement changed.
  virtual int64_t changes() const = 0;

  /// Begins a transaction. One that writes keeps other writers out, and is TryLater where another
  /// one stays longer than the wait that was allowed. One that reads sees one state throughout.
  virtual Status begin(Access access) = 0;
  virtual Status commit() = 0;
  /// Ends a transaction that is open without a trace; else does nothing.
  virtual void roll_back() = 0;
  virtual bool is_in_transaction() const = 0;
  /// True if each read outside a transaction takes a lock and frees it, which takes longer than
  /// reading a row.
  virtual bool locks_each_read() const = 0;

  /// Version of the schema; nullopt where the database holds none of ours.
  virtual Result<std::optional<int64_t>> schema_version() = 0;
  virtual Status set_schema_version(int64_t version) = 0;

  virtual Result<EngineInfo> engine() = 0;
  /// The faults that a check of the stored structures finds; empty if there are none.
  virtual Result<std::vector<std::string>> integrity() = 0;

  /// The first column of the first row.
  Result<int64_t> integer(const std::string& sql);
  Result<std::string> text(const std::string& sql);
};

/// Must not outlive its connection.
class Statement {
 public:
  using Visitor = PreparedStatement::Visitor;

  static Result<Statement> prepare(Connection& connection, std::string_view sql);
  static Result<Statement> prepare_copy(Connection& connection, std::string_view table,
                                        std::string_view columns);

  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view text);
  Statement& bind_blob(std::string_view bytes);

  Status each(const Visitor& visit) { return prepared_->each(visit); }
  /// True when there was a row.
  Result<bool> one(const std::function<void(const Row&)>& visit);
  Status run();
  /// Runs a statement that has no rows at the latest before the next statement or the end of the
  /// transaction, which then says what failed. A server gets many of them by one request. Requires:
  /// a transaction that writes; nobody asks for changes().
  Status run_soon() { return prepared_->run_soon(); }

 private:
  explicit Statement(std::unique_ptr<PreparedStatement> prepared)
      : prepared_(std::move(prepared)) {}
  std::unique_ptr<PreparedStatement> prepared_;
};

/// Rolled back unless commit() succeeded.
class Transaction {
 public:
  static Result<Transaction> begin(Connection& connection);  ///< for writing
  /// One state for all reads: that of the transaction which is open already, else of a new one.
  static Result<Transaction> begin_reading(Connection& connection);
  Transaction(Transaction&& other) noexcept
      : connection_(std::exchange(other.connection_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Connection* connection) : connection_(connection) {}
  Connection* connection_;  ///< null: a transaction around this one ends it
};

}  // namespace tw::db
