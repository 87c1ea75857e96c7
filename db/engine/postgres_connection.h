// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: a connection to a PostgreSQL server. Tables lie in the schema `tilewright` of the
// database that the address names. Writers wait for each other at an advisory lock, which the
// server gives back when its holder goes away.
//
// A connection that is lost is made anew by the next statement or transaction, which goes on as if
// nothing had happened; one that is inside a transaction fails with TryLater. While the server
// cannot be reached everything is TryLater, and the server is tried again every half minute.
// Not thread-safe.

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
    Waiting waiting = {};  ///< for other writers; hears when the server goes away and comes back
    int64_t read_limit_ms = 0;  ///< after which statements fail with TryLater; 0: never
  };

  /// Requires: is_server(address) and check_address(address).
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
  /// The server sees the statement when it runs.
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
  /// Makes the schema `tilewright` where it is absent.
  Status set_schema_version(int64_t version) override;
  Result<EngineInfo> engine() override;
  Result<std::vector<std::string>> integrity() override;

  /// Runs a statement with the parameters $1, $2, ... in binary form; prepares it where this
  /// connection has not yet.
  Result<PostgresReply> run(const std::string& sql, const std::vector<std::string>& parameters);
  /// Runs a statement without rows before the next request, together with others that wait.
  Status run_soon(const std::string& sql, std::vector<std::string> parameters);
  /// A COPY from standard input. Until it has ended the server takes no other statement.
  class CopyStream {
   public:
    explicit CopyStream(PostgresConnection& connection) : connection_(connection) {}
    /// Requires: a transaction that writes.
    Status begin(const std::string& sql);
    /// Sends bytes that the COPY reads. end() says what failed.
    void put(std::string_view bytes);
    Status end();
    /// Ends the COPY, and with it the transaction, without rows.
    void give_up();

   private:
    PostgresConnection& connection_;
  };

 private:
  PostgresConnection(const Libpq& library, const std::string& address, Options options);

  Status connect();
  /// Settings of a connection that has just been made.
  Status settle();
  void disconnect();
  /// Gives up a connection that has ended.
  void lose();
  Status reconnect_if_lost();
  Error lost() const;
  struct WaitingStatement {
    std::string sql;
    std::vector<std::string> parameters;
  };
  Status run_waiting();
  PostgresReply run_together(const std::vector<WaitingStatement>& statements);
  /// Prepares a statement where this connection has not yet; `names_` lacks it where that failed.
  PostgresReply prepare_once(const std::string& sql, std::string& name);
  PostgresReply run_once(const std::string& sql, const std::vector<std::string>& parameters);
  PostgresReply end_copy_once(const char* error);
  /// The reply to a request, which is repeated where the connection was found lost outside a
  /// transaction.
  template <typename Request>
  Result<PostgresReply> ask(const Request& request);
  Result<PostgresReply> checked(PostgresReply reply);
  Result<PostgresReply> command(const std::string& sql);

  const Libpq& library_;
  std::string address_;
  Options options_;
  LockWait lock_wait_;
  Deadline deadline_;
  pg_conn* connection_ = nullptr;  ///< null: lost
  bool in_transaction_ = false;
  int64_t changes_ = 0;
  std::map<std::string, std::string> names_;  ///< of prepared statements, by their SQL
  std::vector<WaitingStatement> waiting_;     ///< not sent yet
  std::string why_lost_;                      ///< empty while the connection is there
  bool is_away_ = false;                      ///< the server could not be reached
  int64_t next_attempt_ms_ = 0;               ///< when to try it again
};

}  // namespace tw::db
