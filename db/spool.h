// SPDX-License-Identifier: Apache-2.0
#pragma once
// The spool is a file of JSON lines, beside the database or on another disk, that keeps records
// which the database could not take. The next writer moves them into the database. Several
// processes may use one spool; a Spool object is not thread-safe.

#include <span>
#include <string>

#include "base/result.h"
#include "db/engine/waiting.h"
#include "db/record.h"
#include "db/store.h"

namespace tw::db {

class Spool {
 public:
  /// `path` is the file, as Store::spool_path() gives it. The file is absent while no record waits.
  /// An empty path means that no records can be spooled.
  explicit Spool(std::string path, Waiting waiting = {});
  static std::string spool_path(const std::string& database_path);

  const std::string& path() const { return path_; }
  bool empty() const;

  /// Appends records durably. After an error the spool is unchanged.
  Status append(std::span<const Record> records);

  /// Moves all records into the store, which quarantines lines that a killed writer left
  /// incomplete. After an error nothing is lost: the next drain() counts the records that the store
  /// already has as duplicates.
  Result<AppendSummary> drain(Store& store);

 private:
  std::string path_;
  Waiting waiting_;
};

}  // namespace tw::db
