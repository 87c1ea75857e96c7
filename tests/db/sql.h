// SPDX-License-Identifier: Apache-2.0
#pragma once
// SQLite as a stranger would use it, without our settings. Tests use it to make files that our
// program did not write.

#include <sqlite3.h>

#include <stdexcept>
#include <string>

namespace tw::db {

class RawSql {
 public:
  explicit RawSql(const std::string& path) {
    if (sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                        nullptr))
      throw std::runtime_error(sqlite3_errmsg(handle_));
  }
  RawSql(const RawSql&) = delete;
  RawSql& operator=(const RawSql&) = delete;
  ~RawSql() { sqlite3_close(handle_); }

  void run(const std::string& sql) {
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      throw std::runtime_error(sql + ": " + sqlite3_errmsg(handle_));
  }

 private:
  sqlite3* handle_ = nullptr;
};

}  // namespace tw::db
