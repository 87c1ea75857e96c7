// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures the tuning database: lookups of best records, merging, opening, commits, the first page
// of `db serve`, and what grows with a group. Records are synthetic, of the sizes that tuning
// writes. Not thread-safe.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/databases/database_growth.h"
#include "tuner/processes/clock.h"

namespace tw::bench {

struct DatabaseOptions {
  /// A file or a server, empty or filled by an earlier run; empty: a file in `folder`.
  std::string database;
  std::string folder;           ///< for databases of this run, which stay there
  int64_t records = 1'000'000;  ///< in the database that is asked
  int64_t merged = 100'000;     ///< records of the file that is merged into another database
  int64_t lookups = 1'000;      ///< different keys
  int64_t rounds = 10;
  uint64_t seed = 1;
  std::vector<int64_t> group_trials =
      GrowthOptions().trials;  ///< sizes of groups that are compared
};

struct DatabaseFigures {
  std::string engine;  ///< "SQLite 3.40.1, delete" or "PostgreSQL 15.5"
  int64_t records = 0, groups = 0, bytes = 0;
  double opening_ms = 0;       ///< opening for reading, the median of the rounds
  double first_lookup_us = 0;  ///< one best record of many asked together, each for the first time
  double lookup_us = 0;        ///< the same once they were asked for, the fastest round
  double lookup_alone_us = 0;  ///< one best record asked by itself, the fastest round
  double commit_ms = 0;        ///< appending one record durably, the median of the rounds
  double slow_commit_ms = 0;   ///< the slowest of these
  double merged_per_s = 0;     ///< records a second, from a file into a new file or into the server
  double first_page_ms =
      0;                  ///< all groups that the lists of `db serve` show, read for the first time
  double info_ms = 0;     ///< Store::info(), the fastest round
  double pruning_s = 0;   ///< db::prune() that deletes nothing
  double filling_mb = 0;  ///< largest resident memory of the process, after filling and look-ups
  std::vector<GroupCosts> growth = {};
};

/// Fills the database where it is empty. Usage where it holds records that no such run wrote.
Result<DatabaseFigures> measure_database(const DatabaseOptions& options, const tuner::Clock& clock);

nlohmann::json as_json(const DatabaseFigures& figures);
std::string as_table(const DatabaseFigures& figures);

}  // namespace tw::bench
