// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: a cache of records that were read and agree with their hashes, so that they need
// not be read and hashed again. A record never changes, but its row may be deleted, and another
// record may then get the number of the row. So before a caller uses a cached record, it compares
// the hash in the row with the cached hash. Not thread-safe.

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

  /// Returns the cached record of a row; null if there is none. Valid until the next keep().
  const Kept* find(int64_t row) const;

  /// Caches the record that was read from a row. If the cache would then take more than most_bytes,
  /// it is emptied first. Requires: check(record) is Ok.
  void keep(int64_t row, const Record& record);

  /// Largest size of the cache in bytes, which is enough for some 3,000 records.
  static constexpr size_t most_bytes = 8 << 20;

 private:
  std::unordered_map<int64_t, Kept> kept_;
  size_t bytes_ = 0;
};

}  // namespace tw::db
