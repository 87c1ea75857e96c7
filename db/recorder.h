// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes a tuner's records in batches, without losing a measurement to a locked database or a full
// disk. A batch is appended to the store, or, if that fails, to the spool. If both fail, the batch
// stays in memory, and flush() returns an error that names both failures, so that the tuner stops.
// Not thread-safe.
//
//   Recorder recorder(store, Spool(Spool::spool_path(store.path())));
//   TW_RETURN_IF_ERROR(recorder.add(record));   // often
//   TW_RETURN_IF_ERROR(recorder.flush());       // at the end, and whenever a person waits

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "db/record.h"
#include "db/spool.h"
#include "db/store.h"

namespace tw::db {

struct RecorderOptions {
  size_t batch = 64;          ///< records per transaction; a kill loses at most this many
  OnMessage on_message = {};  ///< called when records are spooled; may be empty
};

class Recorder {
 public:
  /// The store must outlive the recorder.
  Recorder(Store& store, Spool spool, RecorderOptions options = {});

  /// Seals the record and adds it to the batch; writes the batch when it is full. After an error
  /// the record is still pending.
  Status add(Record record);

  /// Writes all pending records. If the store takes them, the records in the spool are moved to the
  /// store too. After an error the pending records remain in memory.
  Status flush();

  size_t pending() const { return pending_.size(); }
  /// Counts of all records that this recorder has appended to the store.
  const AppendSummary& stored() const { return stored_; }
  int64_t spooled() const { return spooled_; }

 private:
  Status spool_pending(const Error& why);

  Store* store_;
  Spool spool_;
  RecorderOptions options_;
  std::vector<Record> pending_;
  AppendSummary stored_;
  int64_t spooled_ = 0;
};

}  // namespace tw::db
