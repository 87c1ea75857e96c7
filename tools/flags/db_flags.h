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

/// Format of exported and imported records: our JSON lines, CSV, or T4 (a JSON schema that other
/// autotuners use).
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
  std::string entry;  ///< entry of the quarantine, named by the beginning of its hash
  std::string sign;  ///< file of the private key that signs a layer; empty: the layer is not signed
  std::string slower_than = "2";
  int64_t limit = 20, threads = 0, top = 0, keep = 64, keep_shipped = 2, older_than = 0;
  bool drop = false, remove = false, repair = false;
};
using DbFlagsPtr = std::shared_ptr<DbFlags>;

/// Opens the database that the operand FILE names, or that of --db if there is no operand. If a
/// message of the store suggests a command, that command names the same database.
Result<db::Store> open_named(const DbFlags& flags, const Surroundings& here, db::OpenMode mode);

/// The key of the group of a record: the workload, target, device, threads, layouts and code
/// generator version with which a lookup finds the record.
db::Key key_of(const db::Record& record);

/// `db quarantine`: lists lines whose import was refused and records that are not used.
Result<int> quarantine_command(const DbFlags& flags, const Surroundings& here);
/// `db demand`: lists the kernels that networks and operators use, and the time that more tuning is
/// expected to save.
Result<int> demand_command(const DbFlags& flags, const Surroundings& here);
/// `db prune`: deletes records that can never be the answer to a query.
Result<int> prune_command(const DbFlags& flags, const Surroundings& here);
/// `db ship`: writes the best records of databases as a layer, which others can use below their own
/// databases.
Result<int> ship_command(const DbFlags& flags, const Surroundings& here);
/// `db key`: makes a pair of keys for signing layers.
Result<int> key_command(const DbFlags& flags, const Surroundings& here);
/// `db verify --top N`: measures the best kernels of this machine again, and stores the new
/// measurements.
Result<int> measure_again(const DbFlags& flags, const Surroundings& here);

/// `db explain`: shows the measurements on which an answer of the database is based.
Verb db_explain_verb();
/// `db serve`: shows the database in a browser.
Verb db_serve_verb();

}  // namespace tw::tools
