// SPDX-License-Identifier: Apache-2.0
#pragma once
// The spool is a file of JSON lines for records that the database could not take, for example
// because it was locked. The file lies beside the database or on another disk. The next Recorder
// that writes to the database moves the records to the database. Other writers leave them in the
// spool. Several processes may use one spool; a Spool object is not thread-safe.

#include <span>
#include <string>

#include "base/result.h"
#include "db/engine/waiting.h"
#include "db/record.h"
#include "db/store.h"

namespace tw::db {

class Spool {
 public:
  /// `path` is the path of the file, such as Store::spool_path(). The file exists only while it has
  /// records. If the path is empty, no records can be spooled.
  explicit Spool(std::string path, Waiting waiting = {});
  static std::string spool_path(const std::string& database_path);

  const std::string& path() const { return path_; }
  bool empty() const;

  /// Appends records durably. After an error the spool is unchanged.
  Status append(std::span<const Record> records);

  /// Moves all records into the store. The store quarantines lines that a killed writer left
  /// incomplete. After an error the file still has all records. The next drain() then counts the
  /// records that the store has already as duplicates.
  Result<AppendSummary> drain(Store& store);

 private:
  std::string path_;
  Waiting waiting_;
};

}  // namespace tw::db
