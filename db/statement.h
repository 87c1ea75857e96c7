// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: a connection to one SQLite file, and its statements. A Statement is always reset
// before a call returns, because a statement that is left open after its row keeps a shared lock,
// and with it every other process from committing. Not thread-safe; not to be carried over a fork.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "db/waiting.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tw::db {

/// An error of the database, with what to do about it.
Error database_error(std::string_view operation, const std::string& path, int sqlite_code,
                     std::string_view detail);

/// The error of a file that is not what it should be.
Error damaged(std::string_view operation, const std::string& path, std::string_view detail);

class Connection {
 public:
  struct Options {
    bool create = false;   ///< the file may be absent
    bool writable = true;  ///< false: opened read-only
    std::string vfs = {};  ///< a registered SQLite VFS; empty: the default one
    Waiting waiting = {};  ///< while another process holds a lock
  };

  /// Opens with defensive settings and limits. `path` is taken literally.
  static Result<Connection> open(const std::string& path, Options options);

  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;
  ~Connection();

  const std::string& path() const;
  sqlite3* handle() const;
  /// SQLite may fall back to reading where the file or its directory cannot be written.
  bool is_read_only() const;

  Status execute(const std::string& sql);
  /// The first column of the first row.
  Result<int64_t> integer(const std::string& sql);
  Result<std::string> text(const std::string& sql);

  int64_t changes() const;

 private:
  struct State;
  explicit Connection(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The current row, valid inside the callback only.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::string blob(int column) const;

 private:
  sqlite3_stmt* statement_;
};

class Statement {
 public:
  static Result<Statement> prepare(Connection& connection, std::string_view sql);

  Statement(Statement&&) noexcept = default;
  Statement& operator=(Statement&&) noexcept = default;

  // Parameters are bound by the order of the calls; each run starts over at the first.
  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view text);
  Statement& bind_blob(std::string_view bytes);

  using Visitor = std::function<bool(const Row&)>;  ///< false: no more rows
  Status each(const Visitor& visit);
  /// True when there was a row.
  Result<bool> one(const std::function<void(const Row&)>& visit);
  Status run();

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(sqlite3_stmt* statement, std::string path)
      : statement_(statement), path_(std::move(path)) {}
  void reset();

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string path_;
  int next_parameter_ = 1;
  int bind_code_ = 0;
};

/// Rolled back unless commit() succeeded.
class Transaction {
 public:
  static Result<Transaction> begin(Connection& connection);          ///< BEGIN IMMEDIATE
  static Result<Transaction> begin_reading(Connection& connection);  ///< one state for all reads
  Transaction(Transaction&& other) noexcept
      : connection_(std::exchange(other.connection_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Connection* connection) : connection_(connection) {}
  Connection* connection_;
};

}  // namespace tw::db
