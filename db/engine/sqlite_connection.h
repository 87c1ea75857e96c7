// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: a connection to one SQLite file. Writers take the gate (gate.h) before they begin
// a transaction. Not thread-safe.

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "db/engine/statement.h"
#include "db/engine/waiting.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tw::db {

/// Returns the error for a result code of SQLite, with a message that says what to do. `path` is
/// the file, `detail` the text of SQLite.
Error database_error(std::string_view operation, const std::string& path, int sqlite_code,
                     std::string_view detail);

/// Returns the error for a file that is damaged or is not a database of this program.
Error damaged(std::string_view operation, const std::string& path, std::string_view detail);

class SqliteConnection final : public Connection {
 public:
  struct Options {
    bool create = false;     ///< true: creates the file if it is absent
    bool writable = true;    ///< false: opened read-only
    bool in_memory = false;  ///< true: a new database in memory, which ends with the connection
    std::string vfs = {};    ///< a registered SQLite VFS; empty: the default one
    Waiting waiting = {};    ///< options of waits for locks of other processes
    /// Time in ms after opening from which on statements fail with TryLater; 0: never.
    int64_t read_limit_ms = 0;
  };

  /// Opens a file with SQLite's defensive settings and limits, because the file may be damaged or
  /// hostile. `path` is taken literally, not as a URI.
  static Result<std::unique_ptr<SqliteConnection>> open(const std::string& path, Options options);

  SqliteConnection(const SqliteConnection&) = delete;
  SqliteConnection& operator=(const SqliteConnection&) = delete;
  ~SqliteConnection() override;

  const std::string& path() const override { return path_; }
  const Dialect& dialect() const override { return sqlite_dialect(); }
  /// True if the file was opened for reading. Also true if it was opened for writing but the file
  /// or its directory does not allow it, because SQLite then opens the file for reading.
  Result<bool> is_read_only() override;
  Status execute(const std::string& sql) override;
  Result<std::unique_ptr<PreparedStatement>> prepare(std::string_view sql) override;
  int64_t changes() const override;
  Status begin(Access access) override;
  Status commit() override;
  void roll_back() override;
  bool is_in_transaction() const override;
  bool locks_each_read() const override { return true; }
  Result<std::optional<int64_t>> schema_version() override;
  Status set_schema_version(int64_t version) override;
  Result<EngineInfo> engine() override;
  Result<std::vector<std::string>> integrity() override;

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Compiled = std::map<std::string, std::unique_ptr<sqlite3_stmt, Finalize>, std::less<>>;
  /// Keeps a compiled statement, so that the next prepare() of the same text returns it. Requires:
  /// the statement was reset.
  void keep(Compiled::node_type statement);

  /// Replaces the content of the file of `to` by one committed state of this file, page by page.
  Status copy_pages(SqliteConnection& to);

 private:
  SqliteConnection(const std::string& path, const Waiting& waiting, int64_t read_limit_ms)
      : path_(path), lock_wait_(waiting, path), deadline_(waiting, read_limit_ms) {}

  std::string path_;
  LockWait lock_wait_;
  Deadline deadline_;
  sqlite3* handle_ = nullptr;
  Compiled idle_;  ///< compiled statements that are not in use, by their text
};

}  // namespace tw::db
