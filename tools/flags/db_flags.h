// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shared parts of the verbs of `db`: their flags, and the database that these name. Not
// thread-safe.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/store.h"
#include "tools/places.h"
#include "tools/verb.h"

namespace tw::tools {

/// Each verb of `db` uses some of these.
/// Format of records as text.
enum class Lines { Jsonl, Csv, T4 };

struct DbFlags {
  PlaceFlags place;
  std::string file, output;  ///< operands
  std::vector<std::string> files;
  Format format = Format::Table;
  Lines lines = Lines::Jsonl;  ///< of an export to standard output, an import from input
  std::string workload, op, status, session, target, device;
  std::string order = "newest";
  std::string entry;  ///< of the quarantine, the beginning of its hash
  std::string sign;   ///< file of the private key that a layer is signed by; empty: it is not
  std::string slower_than = "2";
  int64_t limit = 20, threads = 0, top = 0, keep = 64, keep_shipped = 2, older_than = 0;
  bool drop = false, remove = false, repair = false;
};
using DbFlagsPtr = std::shared_ptr<DbFlags>;

/// Opens the database of the operand FILE, else that of --db. Messages of the store suggest
/// commands with this operand.
Result<db::Store> open_named(const DbFlags& flags, const Surroundings& here, db::OpenMode mode);

/// The key of the group that a record belongs to.
db::Key key_of(const db::Record& record);

/// `db quarantine`: lines that were not believed, and records that are not used.
Result<int> quarantine_command(const DbFlags& flags, const Surroundings& here);
/// `db demand`: kernels that are wanted, and what better ones would save.
Result<int> demand_command(const DbFlags& flags, const Surroundings& here);
/// `db prune`: deletes what can never be an answer.
Result<int> prune_command(const DbFlags& flags, const Surroundings& here);
/// `db ship`: writes the best records of databases, as a layer for others.
Result<int> ship_command(const DbFlags& flags, const Surroundings& here);
/// `db key`: makes a key by which layers are signed.
Result<int> key_command(const DbFlags& flags, const Surroundings& here);
/// `db verify --top N`: measures the best kernels of this machine again, and stores that.
Result<int> measure_again(const DbFlags& flags, const Surroundings& here);

/// `db explain`: shows the measurements that an answer of the database rests on.
Verb db_explain_verb();
/// `db serve`: shows the database in a browser.
Verb db_serve_verb();

}  // namespace tw::tools
