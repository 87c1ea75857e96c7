// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Store is an open tuning database: a set of records and a set of calibrations. The database is
// one SQLite file that processes on a machine share, or lies on a PostgreSQL server that a team
// shares. Records for which append() returned Ok survive kills and power loss;
// docs/database_format.md explains how. A Store is not thread-safe: open a Store of its own in each
// thread. After fork(), the child must not use a Store of the parent.
//
//   TW_TRY(Store store, Store::open("team.db", OpenMode::ReadWrite));
//   TW_TRY(AppendSummary summary, store.append(records));           // sealed records
//   TW_TRY(std::optional<Record> best, store.best({.workload = key, .target = target}));
//
// The class stores records and looks them up by key. Other operations are functions in headers of
// their own: answers.h (explanations, other devices), recall.h (trials for a run to start from),
// overview.h (lists), demand.h, claims.h, calibration.h, maintenance.h (verify, prune) and
// transfer.h (merge, import, export).

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/engine/filesystem.h"
#include "db/engine/waiting.h"
#include "db/record.h"

namespace tw::db {

enum class OpenMode {
  ReadOnly,   ///< for reading; the file, or the tables on the server, must exist
  Update,     ///< for writing; the file or tables must exist
  ReadWrite,  ///< for writing; the file or tables are created if absent
};

/// A layer: a database below the user's own that is only read, such as that of a team. A layer
/// answers a lookup if its record is of a nearer device (Likeness) than the records of the
/// databases above it.
struct Layer {
  std::string name;  ///< name in messages, such as "team" or "shipped"
  std::string path;  ///< path of a file, or address of a server
};

struct StoreOptions {
  /// Options of waits for locks of other processes. waiting.on_message also gets messages about
  /// damage, and about a server that has become unreachable.
  Waiting waiting = {};
  FilesystemProbe filesystem = filesystem_type;
  bool allow_network_filesystem = false;  ///< safe only if a single machine uses the file
  bool create_directories = false;        ///< create missing parent directories of a new file
  std::string vfs = {};                   ///< a registered SQLite VFS; empty: the default one
  /// Time limit in ms for a store that was opened for reading. Once this time has passed since
  /// opening, all functions of the store fail with TryLater. 0: no limit.
  int64_t read_limit_ms = 0;
  /// Directory of the spool file for records that a server cannot take; empty: there is no spool.
  std::string spool_directory = {};
  /// The layers below this database, the nearest first. A layer that cannot be read is left out,
  /// and the reason goes to on_message.
  std::vector<Layer> below = {};
};

struct AppendSummary {
  int64_t inserted = 0;
  int64_t duplicates = 0;  ///< records that the database had already
  /// Number of lines that are not valid records or calibrations (Quarantined). The database keeps
  /// at most 10,000 of them.
  int64_t quarantined = 0;
  int64_t calibrations = 0;  ///< inserted calibrations; the counts above concern records
  /// Records and calibrations that merge_from() left out because they do not agree with their
  /// hashes; 0 for other functions.
  int64_t damaged = 0;
  AppendSummary& operator+=(const AppendSummary& other);
  friend bool operator==(const AppendSummary&, const AppendSummary&) = default;
};

/// A line that is not a valid record or calibration, and the reason. The database stores
/// quarantined lines in a table of their own and never returns them as records.
struct Quarantined {
  std::string line;  ///< the line; the database stores its first 4 KiB
  std::string reason;
  std::string hash = {};  ///< SHA-256 of the whole line in hex; set by the database
};

/// Key of a lookup of the best schedule. The answer agrees with every member except `device`, which
/// is only preferred.
struct Key {
  std::string workload;
  std::string target;
  std::string device = {};  ///< preferred device; then devices of its model; then all others
  int64_t threads = 1;
  int64_t codegen_abi = 1;
  std::string layouts = {};  ///< layouts that are asked for, as in Record::layouts; empty: free
};

/// A function that returns true if the record may be the answer of a lookup; an empty function
/// accepts all records. If it returns false or an error, the next best record is tried. The message
/// of an error, for example that the schedule cannot be built on this machine, goes to on_message.
using Accept = std::function<Result<bool>(const Record& record)>;

enum class Order {
  Oldest,  ///< the record that was stored first comes first
  Newest,  ///< the record that was stored last comes first
  /// The record with the smallest latency comes first; records without a latency come last.
  Fastest,
  /// Sorted by created_ms, then by hash, so databases with the same records have the same order.
  Created,
};

/// Selects the records that agree with all members that have a value. Members without a value are
/// ignored.
struct Filter {
  std::optional<std::string> workload = {};
  std::optional<std::string> op = {};
  std::optional<std::string> target = {};
  std::optional<std::string> device = {};
  std::optional<std::string> device_prefix = {};  ///< text with which the device begins
  std::optional<std::string> session = {};
  std::optional<std::string> layouts = {};  ///< an empty text selects free layouts
  std::optional<TrialStatus> status = {};
  std::optional<int64_t> threads = {};
  std::optional<int64_t> codegen_abi = {};
  std::optional<std::string> hash_prefix = {};  ///< at most 64 digits 0 to 9 and a to f
  /// If true, selects only records that are believed when they are judged by all trials of their
  /// group (trust.h).
  bool believed = false;
  Order order = Order::Oldest;
  int64_t limit = 0;  ///< 0: all
};

struct StoreInfo {
  std::string path;
  int64_t schema_version = 0;
  std::string sqlite;  ///< describe_sqlite(); empty for a server
  std::string server;  ///< product and version; empty for a file
  std::string journal_mode;
  int64_t file_bytes = 0;  ///< size of the file, or of the tables on the server
  int64_t records = 0;
  int64_t workloads = 0;
  int64_t best = 0;  ///< groups that have a best record
  int64_t quarantined = 0;
  int64_t calibrations = 0;  ///< number of calibrations
  std::map<std::string, int64_t> by_status;
};

class Transaction;

class Store {
 public:
  /// Opens a database. `path` is the path of a file, or an address of a server such as
  /// `postgresql://user@host/database`. The address must not hold a password: libpq finds passwords
  /// in ~/.pgpass, in the file that PGPASSFILE names, or in a service. Opening for writing fails at
  /// once if the database cannot be written.
  static Result<Store> open(const std::string& path, OpenMode mode, StoreOptions options = {});
  /// Opens an empty, read-only store in place of a database that does not exist, so that lookups
  /// get the answers of the layers in `options`.
  static Result<Store> open_absent(const std::string& path, StoreOptions options);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// The absolute path of the file without symbolic links, or the address of the server as it was
  /// given.
  const std::string& path() const;
  /// The path of the spool file, for records that the database cannot take; empty if there is none.
  std::string spool_path() const;

  /// Appends records in one durable transaction: either all of them, or none and an error. Records
  /// that fail check() are quarantined. Fails with Database if the store was opened for reading,
  /// and with TryLater if another process holds the database for writing too long.
  Result<AppendSummary> append(std::span<const Record> records);

  /// Returns the best record for the key that `accepts` accepts; nullopt if there is none. Records
  /// of the key's device come first, then those of devices of the same model, then those of all
  /// other devices with the same target. likeness_of() tells these cases apart. A layer below
  /// answers if its record is of a nearer device; layer_of() (answers.h) returns the name of this
  /// layer.
  Result<std::optional<Record>> best(const Key& key, const Accept& accepts = {});

  /// Returns the record with this hash of 64 hex digits; nullopt if there is none or it is damaged.
  Result<std::optional<Record>> find(const std::string& hash);

  /// While a Reading exists, all reads of its store see one state of the database, and no read
  /// waits for a lock. During this time no process can write to a database file. So keep a Reading
  /// only for a sequence of reads, without other work in between. While a Reading exists, do not
  /// call db::verify() or functions that write. A Reading must not outlive its store.
  class Reading {
   public:
    Reading(Reading&&) noexcept;
    Reading& operator=(Reading&&) = delete;
    ~Reading();

   private:
    friend class Store;
    explicit Reading(std::unique_ptr<Transaction> transaction);
    std::unique_ptr<Transaction> transaction_;
  };
  Result<Reading> read_together();

  /// Visits the records that match the filter and agree with their hashes, until `visit` returns
  /// false.
  Status for_each(const Filter& filter, const std::function<bool(const Record&)>& visit);
  Result<std::vector<Record>> query(const Filter& filter);

  /// True unless the store was opened for reading.
  bool may_write() const;
  /// True if the database is on a server and this store may write to it. Runs divide schedules
  /// among themselves only if this function returns true (claims.h).
  bool is_shared() const;

  Result<StoreInfo> info();

  /// Number of records and calibrations that this Store has skipped because they do not agree with
  /// their hashes.
  int64_t damaged() const;

  struct State;
  /// The state of the store, for functions of this folder only; store_state.h defines the type.
  State& state() { return *state_; }

 private:
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tw::db
