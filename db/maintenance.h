// SPDX-License-Identifier: Apache-2.0
#pragma once
// Care of a database: checks of all that it holds, lines and records that are kept aside, deletions
// by rule. Not thread-safe, as the Store.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"
#include "db/trust.h"

namespace tw::db {

/// Options of prune(). It deletes all records of older code generators. In other groups it deletes
/// records that are not timed (Doubt::NotTimed) or clearly slower than the answer, but never a
/// record that proves a schedule wrong, is of the answer's schedule, or has another doubt
/// (trust.h). Of an old group, one whose trials were all made before `before_ms`, it deletes every
/// record that does not prove a schedule wrong and is not of the answer's schedule. A group that
/// has no answer, or whose answer would change, is left alone. Demands that were left before
/// `before_ms` for the last time are forgotten.
struct PruneRules {
  int64_t codegen_abi = 0;  ///< records with a smaller one are deleted: no key asks for them
  double slower_than = 2;   ///< clearly slower: more than this times the latency of the answer
  int64_t keep = 64;        ///< at least so many stay in each group, the fastest, for cost models
  int64_t before_ms = 0;    ///< of an old group; 0: no group and no demand is old
};
enum class Pruning { DryRun, Delete };

struct PruneReport {
  int64_t records = 0;  ///< before
  int64_t pruned = 0;
  std::map<std::string, int64_t> by_reason;
  int64_t demands = 0;  ///< forgotten
};

struct VerifyReport {
  int64_t records = 0;
  int64_t calibrations = 0;
  int64_t damaged = 0;      ///< records and calibrations that do not agree with their hash
  int64_t wrong_best = 0;   ///< rows of the derived table that differ from their recomputation
  int64_t quarantined = 0;  ///< lines kept aside, which is no damage
  std::vector<std::string> integrity;  ///< what the engine found; empty where all is well
  bool ok() const { return damaged == 0 && wrong_best == 0 && integrity.empty(); }
};

/// Reads everything: hashes, the derived table, the file's structure.
Result<VerifyReport> verify(Store& store);
/// Derives the table of best trials anew from the trials.
Status derive_best(Store& store);
/// At most `limit` quarantined lines; 0: all.
Result<std::vector<Quarantined>> quarantined(Store& store, int64_t limit);
/// Deletes all quarantined lines, or the one with that hash, and returns their number.
Result<int64_t> drop_quarantined(Store& store, const std::string& hash = {});
/// Records that are stored and not used, for a doubt that is_listed(); at most `limit`, 0: all.
Result<std::vector<Doubted>> doubted(Store& store, int64_t limit);
/// Deletes, or only counts, records that can never be an answer. The answers stay the same. The
/// file keeps its size and uses the room again.
Result<PruneReport> prune(Store& store, const PruneRules& rules, Pruning pruning);
/// Deletes one record. A merge with a database that has it brings it back.
Status drop_record(Store& store, const Record& record);

}  // namespace tw::db
