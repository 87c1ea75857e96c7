// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: records that were read and agree with their hash, so that asking for one again
// neither reads nor hashes it again. What is kept by a hash never becomes old, as a hash names one
// content; the row that a record was read from may be deleted, and then hold another one. So a kept
// record is served where its row still has its hash, whoever wrote to the database meanwhile. Not
// thread-safe.

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "db/record.h"

namespace tw::db {

class ReadRecords {
 public:
  struct Kept {
    std::string hash;  ///< 32 bytes
    Record record;
  };

  /// The record that was kept for the row; null if there is none. Valid until the next keep().
  const Kept* find(int64_t row) const;

  /// Keeps the record that was read from a row. Drops all others first if all together would take
  /// more than most_bytes. Requires: check(record).
  void keep(int64_t row, const Record& record);

  /// The memory that all kept records may take, some 3,000 of them.
  static constexpr size_t most_bytes = 8 << 20;

 private:
  std::unordered_map<int64_t, Kept> kept_;
  size_t bytes_ = 0;
};

}  // namespace tw::db
