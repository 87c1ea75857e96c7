// SPDX-License-Identifier: Apache-2.0
#include "db/tables/read_records.h"

#include "base/text.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

/// Returns the approximate memory of a record in bytes. Only texts that can be long are counted by
/// their length.
size_t bytes_of(const Record& record) {
  constexpr size_t of_short_texts = 1024;
  return sizeof(Record) + of_short_texts + record.workload.size() + record.schedule.size() +
         record.configuration.size() + record.reason.size() +
         record.samples_ns.size() * sizeof(double);
}

}  // namespace

const ReadRecords::Kept* ReadRecords::find(int64_t row) const {
  const auto found = kept_.find(row);
  return found == kept_.end() ? nullptr : &found->second;
}

void ReadRecords::keep(int64_t row, const Record& record) {
  const size_t more = bytes_of(record);
  if (bytes_ + more > most_bytes) {
    kept_.clear();
    bytes_ = 0;
  }
  const auto [place, is_new] = kept_.try_emplace(row);
  if (!is_new) bytes_ -= bytes_of(place->second.record);
  place->second = {bytes_of_hex(record.hash), record};
  bytes_ += more;
}

}  // namespace tw::db
