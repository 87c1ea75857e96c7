// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shared parts of the verbs below `db`: their flags, and opening the database that the flags name.
// Not thread-safe.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"
#include "tools/places.h"
#include "tools/verb.h"

namespace tw::tools {

/// Format of exported and imported records: JSON lines of this program, CSV, or T4 (a JSON schema
/// that other autotuners use).
enum class Lines { Jsonl, Csv, T4 };

/// The flags of the verbs below `db`. Each verb uses some of them.
struct DbFlags {
  PlaceFlags place;
  std::string file, output;  ///< operands
  std::vector<std::string> files;
  Format format = Format::Table;
  /// Format of records on standard output (export) or standard input (import).
  Lines lines = Lines::Jsonl;
  std::string workload, op, status, session, target, device;
  std::string order = "newest";
  std::string entry;  ///< entry of the quarantine, or demand, named by the beginning of its hash
  std::string sign;  ///< file of the private key that signs a layer; empty: the layer is not signed
  std::string slower_than = "2";
  int64_t limit = 20, threads = 0, top = 0, keep = 64, keep_shipped = 2, older_than = 0;
  bool drop = false, remove = false, repair = false;
};
using DbFlagsPtr = std::shared_ptr<DbFlags>;

/// Opens the database that the operand FILE names. Without this operand, opens the database of
/// --db. Commands that messages of the store suggest name the opened database.
Result<db::Store> open_named(const DbFlags& flags, const Surroundings& here, db::OpenMode mode);

/// Returns the key of the group to which a record belongs: its workload, target, device, threads,
/// layouts and version of the code generator.
db::Key key_of(const db::Record& record);

/// Runs `db quarantine`: lists, shows or drops lines whose import was refused and records that are
/// not believed.
Result<int> quarantine_command(const DbFlags& flags, const Surroundings& here);
/// Runs `db demand`: lists, shows or drops demands, with the time that more tuning is expected to
/// save.
Result<int> demand_command(const DbFlags& flags, const Surroundings& here);
/// Runs `db prune`: counts or, with --delete, deletes records that can never be the answer to a
/// query.
Result<int> prune_command(const DbFlags& flags, const Surroundings& here);
/// Runs `db ship`: writes the best records of databases as a layer, which others can use below
/// their own databases.
Result<int> ship_command(const DbFlags& flags, const Surroundings& here);
/// Runs `db key`: makes a pair of keys for signing layers.
Result<int> key_command(const DbFlags& flags, const Surroundings& here);
/// Runs `db verify --top N`: measures at most N of this machine's best kernels again, and stores
/// the new measurements.
Result<int> measure_again(const DbFlags& flags, const Surroundings& here);

/// Returns the verb `db explain`, which shows the measurements on which an answer of the database
/// is based.
Verb db_explain_verb();
/// Returns the verb `db serve`, which shows the database in a browser.
Verb db_serve_verb();

}  // namespace tw::tools
