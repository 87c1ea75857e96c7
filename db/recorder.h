// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Recorder writes the records of a tuner in batches. It loses no measurement if the database is
// locked or the disk is full. It appends a batch to the store or, if that fails, to the spool (a
// file for records that the database could not take). If both fail, the batch stays in memory, and
// the error names both failures, so that the tuner can stop. Not thread-safe.
//
//   Recorder recorder(store, Spool(Spool::spool_path(store.path())));
//   TW_RETURN_IF_ERROR(recorder.add(record));   // often
//   TW_RETURN_IF_ERROR(recorder.flush());       // at the end, and whenever a person waits

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/record.h"
#include "db/spool.h"
#include "db/store.h"

namespace tw::db {

struct RecorderOptions {
  size_t batch = 64;  ///< records per transaction; a killed process loses at most this number
  /// Called each time records are appended to the spool. Also called the first time that records in
  /// the spool cannot be moved to the store. May be empty.
  OnMessage on_message = {};
};

class Recorder {
 public:
  /// The store must outlive the recorder.
  Recorder(Store& store, Spool spool, RecorderOptions options = {});

  /// Sets the hashes of the record and adds it to the batch. Writes the batch if it is full. After
  /// an error the record is still in the batch.
  Status add(Record record);

  /// Writes all records of the batch. If this succeeds, the records in the spool are moved to the
  /// store too. If moving them fails, they stay in the spool, and flush() still returns Ok. If
  /// neither the store nor the spool can be written, the batch stays in memory, and the error is
  /// returned.
  Status flush();

  size_t pending() const { return pending_.size(); }
  /// Returns the counts of all records that this recorder has appended to the store, including
  /// those that it moved there from the spool.
  const AppendSummary& stored() const { return stored_; }
  int64_t spooled() const { return spooled_; }

 private:
  Status spool_pending(const Error& why);
  /// Moves the records in the spool, including those of earlier runs, to the store.
  void drain_spool();
  void say(std::string_view message) const {
    if (options_.on_message) options_.on_message(message);
  }

  Store* store_;
  Spool spool_;
  RecorderOptions options_;
  std::vector<Record> pending_;
  AppendSummary stored_;
  int64_t spooled_ = 0;
  bool has_told_undrained_ = false;
};

}  // namespace tw::db
