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

/// An error of the database, with what to do about it.
Error database_error(std::string_view operation, const std::string& path, int sqlite_code,
                     std::string_view detail);

/// The error of a file that is not what it should be.
Error damaged(std::string_view operation, const std::string& path, std::string_view detail);

class SqliteConnection final : public Connection {
 public:
  struct Options {
    bool create = false;        ///< the file may be absent
    bool writable = true;       ///< false: opened read-only
    bool in_memory = false;     ///< a new one without a file, which goes with the connection
    std::string vfs = {};       ///< a registered SQLite VFS; empty: the default one
    Waiting waiting = {};       ///< while another process holds a lock
    int64_t read_limit_ms = 0;  ///< after which statements fail with TryLater; 0: never
  };

  /// Opens with defensive settings and limits. `path` is taken literally.
  static Result<std::unique_ptr<SqliteConnection>> open(const std::string& path, Options options);

  SqliteConnection(const SqliteConnection&) = delete;
  SqliteConnection& operator=(const SqliteConnection&) = delete;
  ~SqliteConnection() override;

  const std::string& path() const override { return path_; }
  const Dialect& dialect() const override { return sqlite_dialect(); }
  /// SQLite falls back to reading where the file or its directory cannot be written.
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
  /// Keeps a compiled statement that was reset, for the next one who prepares the same text.
  void keep(Compiled::node_type statement);

  /// Replaces the content of `to` by that of this file, page by page, as one committed state.
  Status copy_pages(SqliteConnection& to);

 private:
  SqliteConnection(const std::string& path, const Waiting& waiting, int64_t read_limit_ms)
      : path_(path), lock_wait_(waiting, path), deadline_(waiting, read_limit_ms) {}

  std::string path_;
  LockWait lock_wait_;
  Deadline deadline_;
  sqlite3* handle_ = nullptr;
  Compiled idle_;  ///< compiled statements that nobody uses at present, by their text
};

}  // namespace tw::db
