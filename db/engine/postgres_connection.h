// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: a connection to a PostgreSQL server. The tables lie in the schema `tilewright` of
// the database that the address names. A transaction that writes holds an advisory lock, for which
// other writers wait. The server frees the lock when the transaction ends or its connection is
// lost.
//
// If the connection is lost outside a transaction, the next statement or transaction reconnects and
// runs normally. If it is lost inside a transaction, all statements of this transaction fail with
// TryLater. While the server cannot be reached, all functions fail with TryLater; at most every
// half minute, one of these calls tries to connect. Not thread-safe.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/engine/waiting.h"

struct pg_conn;

namespace tw::db {

struct Libpq;
class PostgresReply;

class PostgresConnection final : public Connection {
 public:
  struct Options {
    bool writable = true;  ///< false: the server refuses changes
    /// Options of waits for other writers. waiting.on_message also gets a message when the
    /// connection to the server is lost and when it is back.
    Waiting waiting = {};
    /// Time in ms after opening from which on statements fail with TryLater; 0: never.
    int64_t read_limit_ms = 0;
  };

  /// Connects to the server. Requires: is_server(address) and check_address(address).
  static Result<std::unique_ptr<PostgresConnection>> open(const std::string& address,
                                                          Options options);

  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;
  ~PostgresConnection() override;

  const std::string& path() const override { return address_; }
  const Dialect& dialect() const override { return postgres_dialect(); }
  /// Requires: the tables exist.
  Result<bool> is_read_only() override;
  Status execute(const std::string& sql) override;
  /// Prepares a statement. The statement is sent to the server when it first runs, so errors in its
  /// SQL are reported only then.
  Result<std::unique_ptr<PreparedStatement>> prepare(std::string_view sql) override;
  Result<std::unique_ptr<PreparedStatement>> prepare_copy(std::string_view table,
                                                          std::string_view columns) override;
  int64_t changes() const override { return changes_; }
  Status begin(Access access) override;
  Status commit() override;
  void roll_back() override;
  bool is_in_transaction() const override { return in_transaction_; }
  bool locks_each_read() const override { return false; }
  Result<std::optional<int64_t>> schema_version() override;
  /// Stores the version. Creates the schema `tilewright` if it is absent.
  Status set_schema_version(int64_t version) override;
  Result<EngineInfo> engine() override;
  Result<std::vector<std::string>> integrity() override;

  /// Runs a statement with the parameters $1, $2, ... in binary form. At its first run on this
  /// connection, the statement is prepared.
  Result<PostgresReply> run(const std::string& sql, const std::vector<std::string>& parameters);
  /// Queues a statement that returns no rows. All queued statements are sent together, before the
  /// next request. Runs the statement at once if no transaction is open or libpq has no pipeline
  /// mode.
  Status run_soon(const std::string& sql, std::vector<std::string> parameters);
  /// A running statement COPY ... FROM STDIN, which sends rows. The server accepts no other
  /// statement until the COPY has ended.
  class CopyStream {
   public:
    explicit CopyStream(PostgresConnection& connection) : connection_(connection) {}
    /// Requires: a transaction that writes.
    Status begin(const std::string& sql);
    /// Sends bytes of rows to the server. If this fails, end() returns the error.
    void put(std::string_view bytes);
    Status end();
    /// Aborts the COPY. This also aborts the transaction, so no rows are written.
    void give_up();

   private:
    PostgresConnection& connection_;
  };

 private:
  PostgresConnection(const Libpq& library, const std::string& address, Options options);

  Status connect();
  /// Applies the settings of a connection that has just been made.
  Status settle();
  void disconnect();
  /// Closes a connection that was lost and stores the reason in why_lost_.
  void lose();
  Status reconnect_if_lost();
  Error lost() const;
  struct WaitingStatement {
    std::string sql;
    std::vector<std::string> parameters;
  };
  Status run_waiting();
  PostgresReply run_together(const std::vector<WaitingStatement>& statements);
  /// Prepares a statement if this connection has not prepared it yet. Sets `name` to the name of
  /// the prepared statement. Adds the name to `names_` only on success.
  PostgresReply prepare_once(const std::string& sql, std::string& name);
  PostgresReply run_once(const std::string& sql, const std::vector<std::string>& parameters);
  PostgresReply end_copy_once(const char* error);
  /// Sends a request and returns the reply. If the connection turns out to be lost, and no
  /// transaction is open, reconnects and sends the request again.
  template <typename Request>
  Result<PostgresReply> ask(const Request& request);
  Result<PostgresReply> checked(PostgresReply reply);
  Result<PostgresReply> command(const std::string& sql);

  const Libpq& library_;
  std::string address_;
  Options options_;
  LockWait lock_wait_;
  Deadline deadline_;
  pg_conn* connection_ = nullptr;  ///< null if the connection is lost
  bool in_transaction_ = false;
  int64_t changes_ = 0;
  std::map<std::string, std::string> names_;  ///< names of prepared statements, by their SQL
  std::vector<WaitingStatement> waiting_;     ///< queued statements
  std::string why_lost_;         ///< why the connection was lost; empty while it exists
  bool is_away_ = false;         ///< true if the last attempt could not reach the server
  int64_t next_attempt_ms_ = 0;  ///< time of the next attempt to reach the server
};

}  // namespace tw::db
