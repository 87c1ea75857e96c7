// SPDX-License-Identifier: Apache-2.0
#pragma once
// Times operations of the tuning database: looking up the best records, merging, opening,
// committing, the first page of `db serve`, and the operations whose time grows with the number of
// records of a workload (database_growth.h). Records are synthetic and have the sizes of those that
// tuning writes. Not thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/databases/database_growth.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

struct DatabaseOptions {
  /// The path of a file or the address of a server. The database must be empty, or must have been
  /// filled by an earlier run of this benchmark. If the text is empty, a file in `folder` is used.
  std::string database;
  /// Folder for the databases that this run makes; they are not deleted.
  std::string folder;
  int64_t records = 1'000'000;  ///< number of records in the database that is queried
  /// Number of records of the file that is merged into another database.
  int64_t merged = 100'000;
  int64_t lookups = 1'000;  ///< number of different keys that are looked up
  int64_t rounds = 10;
  uint64_t seed = 1;
  std::vector<int64_t> group_trials =
      GrowthOptions().trials;  ///< numbers of trials of the groups that are compared
};

struct DatabaseFigures {
  std::string engine;  ///< "SQLite 3.40.1, delete" or "PostgreSQL 15.5"
  int64_t records = 0, groups = 0, bytes = 0;
  /// Time of opening the database for reading, the median of the rounds.
  double opening_ms = 0;
  double first_lookup_us = 0;  ///< time per key of the first look-up, of many keys at once
  double lookup_us = 0;  ///< time per key of further look-ups of these keys, the fastest round
  double lookup_alone_us = 0;  ///< time of looking up a single key, the fastest round
  double commit_ms = 0;        ///< time of appending one record durably, the median of the rounds
  double slow_commit_ms = 0;   ///< time of the slowest of these commits
  /// Records merged per second, from a file into a new file or into the server.
  double merged_per_s = 0;
  double first_page_ms =
      /// Time of reading all groups that the lists of `db serve` show, for the first time.
      0;
  double info_ms = 0;     ///< time of Store::info(), the fastest round
  double pruning_s = 0;   ///< time of a db::prune() that deletes nothing
  double filling_mb = 0;  ///< largest resident memory of the process, after filling and look-ups
  std::vector<GroupCosts> growth = {};
};

/// Fills the database if it is empty, then measures it. Fails with Usage if the database has
/// records that were not written by an earlier run of this benchmark.
Result<DatabaseFigures> measure_database(const DatabaseOptions& options, const tuner::Clock& clock);

nlohmann::json as_json(const DatabaseFigures& figures);
std::string as_table(const DatabaseFigures& figures);

}  // namespace tw::bench
