// SPDX-License-Identifier: Apache-2.0
#pragma once
// Maintenance of a database: checking its whole content, listing quarantined lines and doubted
// records, and deleting records by rules. Like a Store, these functions are not thread-safe.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"
#include "db/trust.h"

namespace tw::db {

/// Options of prune(), which deletes records that can never be an answer. A group is the set of
/// comparable trials of one workload; its answer is its best record.
///
/// All records of older code generators are deleted. In all other groups, prune() deletes the
/// records that are not timed (Doubt::NotTimed) and those that are clearly slower than the answer.
/// It keeps records that prove a schedule wrong, records of the answer's schedule, and records with
/// any other doubt (trust.h).
///
/// A group is old if all its trials were made before `before_ms`. In an old group, prune() keeps
/// only the records that prove a schedule wrong and those of the answer's schedule. If this would
/// change the answer, the old group is pruned as any other group. A group keeps all its records if
/// it has no answer, or if pruning it as any other group would change the answer. Demands that were
/// stored last before `before_ms` are deleted.
struct PruneRules {
  /// Records with a smaller codegen_abi are deleted, because no lookup asks for them.
  int64_t codegen_abi = 0;
  /// A record is clearly slower if its latency is more than this multiple of the answer's latency.
  double slower_than = 2;
  /// Smallest number of records to leave in each group that is not old, because cost models learn
  /// from them. If the rules above leave fewer records, the fastest of the other records stay too.
  int64_t keep = 64;
  int64_t before_ms = 0;  ///< a group or demand from before this time is old; 0: none is old
};
enum class Pruning { DryRun, Delete };

struct PruneReport {
  int64_t records = 0;  ///< number of records before pruning
  int64_t pruned = 0;
  std::map<std::string, int64_t> by_reason;
  int64_t demands = 0;  ///< number of demands that were deleted
};

struct VerifyReport {
  int64_t records = 0;
  int64_t calibrations = 0;
  int64_t damaged = 0;      ///< records and calibrations that do not agree with their hashes
  int64_t wrong_best = 0;   ///< derived rows that differ from their recomputation
  int64_t quarantined = 0;  ///< quarantined lines, which do not count as damage
  std::vector<std::string> integrity;  ///< faults that the engine found; empty if there are none
  bool ok() const { return damaged == 0 && wrong_best == 0 && integrity.empty(); }
};

/// Checks the whole database: the hashes of all records and calibrations, the tables that are
/// derived from records, and the structure of the file.
Result<VerifyReport> verify(Store& store);
/// Recomputes from the trials all tables that are derived from them, such as that of the best
/// trials.
Status derive_best(Store& store);
/// Returns at most `limit` of the quarantined lines; 0: all.
Result<std::vector<Quarantined>> quarantined(Store& store, int64_t limit);
/// Deletes the quarantined line with this hash, or all lines if the hash is empty. Returns the
/// number of deleted lines.
Result<int64_t> drop_quarantined(Store& store, const std::string& hash = {});
/// Returns at most `limit` (0: all) of the stored records that are not used because they raise a
/// doubt for which is_listed() is true (trust.h).
Result<std::vector<Doubted>> doubted(Store& store, int64_t limit);
/// Deletes the records that PruneRules describes, or only counts them (DryRun). Lookups with a
/// codegen_abi of at least PruneRules::codegen_abi have the same answers as before. The file keeps
/// its size, and later records use the free space.
Result<PruneReport> prune(Store& store, const PruneRules& rules, Pruning pruning);
/// Deletes one record. A later merge with a database that has the record brings it back.
Status drop_record(Store& store, const Record& record);

}  // namespace tw::db
