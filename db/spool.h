// SPDX-License-Identifier: Apache-2.0
#pragma once
// The spool: a file of JSON lines beside the database (or on another disk), in which records wait
// that the database cannot take. The next writer merges them. Several processes may use one spool;
// a Spool is not thread-safe.

#include <span>
#include <string>

#include "base/result.h"
#include "db/engine/waiting.h"
#include "db/record.h"
#include "db/store.h"

namespace tw::db {

class Spool {
 public:
  /// `path` is a file, absent while nothing waits, as Store::spool_path() names it; where it is
  /// empty nothing can wait.
  explicit Spool(std::string path, Waiting waiting = {});
  static std::string spool_path(const std::string& database_path);

  const std::string& path() const { return path_; }
  bool empty() const;

  /// Durable when it returns; after an error the spool is as it was.
  Status append(std::span<const Record> records);

  /// Moves everything into the store, which quarantines the lines of a killed writer. After an
  /// error nothing is lost: what the store has already is a duplicate the next time.
  Result<AppendSummary> drain(Store& store);

 private:
  std::string path_;
  Waiting waiting_;
};

}  // namespace tw::db
