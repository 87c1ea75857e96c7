// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: interfaces of connections and statements, for both engines: SQLite with one file
// (sqlite_connection.h) and a PostgreSQL server (postgres_connection.h). SQL is written once, with
// `?` for parameters; dialect.h has the parts that differ between the engines.
//
// Every call resets its Statement before it returns. An SQLite statement that is left open after a
// row keeps a shared lock, which prevents all other processes from committing. Not thread-safe; do
// not use a connection after a fork.

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

/// The current row of a result, which is valid only while the callback runs. Columns are numbered
/// from 0. A column that is NULL or of another type reads as 0 or as an empty text.
class Row {
 public:
  virtual ~Row() = default;
  virtual int64_t integer(int column) const = 0;
  virtual double real(int column) const = 0;
  virtual std::string text(int column) const = 0;
  /// The bytes of the column, which are valid as long as the row is.
  virtual std::string_view blob(int column) const = 0;
};

/// A prepared statement of an engine. The first call of bind() sets the first parameter, the second
/// call the second parameter, and so on. After each run the next call of bind() sets the first
/// parameter again.
class PreparedStatement {
 public:
  using Visitor = std::function<bool(const Row&)>;  ///< returns false to stop
  virtual ~PreparedStatement() = default;
  virtual void bind(int64_t value) = 0;
  virtual void bind(double value) = 0;
  virtual void bind(std::string_view text) = 0;
  virtual void bind_blob(std::string_view bytes) = 0;
  virtual Status each(const Visitor& visit) = 0;
  /// See Statement::run_soon().
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

  /// Returns the name of the database in messages: the path of the file, or the address of the
  /// server. The address holds no password.
  virtual const std::string& path() const = 0;
  virtual const Dialect& dialect() const = 0;
  /// True if writing would fail, because the file, its directory or the role on the server allows
  /// only reading.
  virtual Result<bool> is_read_only() = 0;

  /// Runs one or more statements without parameters.
  virtual Status execute(const std::string& sql) = 0;
  virtual Result<std::unique_ptr<PreparedStatement>> prepare(std::string_view sql) = 0;
  /// Prepares a statement that adds many rows to a table. `columns` has the names of columns,
  /// separated by commas. Call bind() for each value of the first row in this order, then of the
  /// next row. A run writes all rows, or no row if the engine refuses one of them. Requires:
  /// dialect().has_copy.
  virtual Result<std::unique_ptr<PreparedStatement>> prepare_copy(std::string_view table,
                                                                  std::string_view columns);
  /// Returns the number of rows that the last statement changed.
  virtual int64_t changes() const = 0;

  /// Begins a transaction. In a Read transaction all reads see one state of the database. A Write
  /// transaction also keeps other writers out. Fails with TryLater if another writer holds the
  /// database longer than Waiting::limit_ms.
  virtual Status begin(Access access) = 0;
  virtual Status commit() = 0;
  /// Undoes and ends the open transaction; does nothing if there is none.
  virtual void roll_back() = 0;
  virtual bool is_in_transaction() const = 0;
  /// True if each read outside a transaction locks and unlocks the database, which costs more than
  /// reading a row.
  virtual bool locks_each_read() const = 0;

  /// Returns the version of the schema; nullopt if the database has no schema of this program.
  virtual Result<std::optional<int64_t>> schema_version() = 0;
  virtual Status set_schema_version(int64_t version) = 0;

  virtual Result<EngineInfo> engine() = 0;
  /// Checks the stored structures, such as pages and indexes. Returns a text for each fault; empty
  /// if there are none.
  virtual Result<std::vector<std::string>> integrity() = 0;

  /// Each runs a statement without parameters and returns the first column of its first row. Fails
  /// if there is no row.
  Result<int64_t> integer(const std::string& sql);
  Result<std::string> text(const std::string& sql);
};

/// A prepared statement of either engine, as the functions of db/ use it. It must not outlive its
/// connection.
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
  /// Runs the statement and visits the first row. Returns false if there is no row.
  Result<bool> one(const std::function<void(const Row&)>& visit);
  Status run();
  /// Runs a statement that returns no rows, at once or later, so that a server gets many statements
  /// by one request. A delayed statement runs before the next statement that is not run by
  /// run_soon(), or before the end of the transaction. If it fails then, the call that runs it
  /// returns the error. Requires: a transaction that writes; changes() is not called for this
  /// statement.
  Status run_soon() { return prepared_->run_soon(); }

 private:
  explicit Statement(std::unique_ptr<PreparedStatement> prepared)
      : prepared_(std::move(prepared)) {}
  std::unique_ptr<PreparedStatement> prepared_;
};

/// A transaction that the destructor rolls back unless commit() has succeeded.
class Transaction {
 public:
  static Result<Transaction> begin(Connection& connection);  ///< begins a transaction for writing
  /// Begins a transaction in which all reads see one state of the database. If a transaction is
  /// open already, reads see its state, and the new object does not end that transaction.
  static Result<Transaction> begin_reading(Connection& connection);
  Transaction(Transaction&& other) noexcept
      : connection_(std::exchange(other.connection_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Connection* connection) : connection_(connection) {}
  /// Null after commit(), and if begin_reading() found an open transaction.
  Connection* connection_;
};

}  // namespace tw::db
