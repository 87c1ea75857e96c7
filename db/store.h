// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Store is an open tuning database: append-only sets of records and of calibrations, in one
// SQLite file that processes on a machine share, or on a PostgreSQL server that a team shares.
// Records for which append() returned Ok survive kills and power loss; docs/database_format.md
// explains how. A Store is not thread-safe: open one in each thread. Do not use a Store in a forked
// child without exec.
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

/// A database below another one, which is only read. It answers a lookup if it has a record of a
/// nearer device (Likeness) than the databases above it.
struct Layer {
  std::string name;  ///< name in messages, such as "team" or "shipped"
  std::string path;  ///< path of a file, or address of a server
};

struct StoreOptions {
  /// Options of waits for the writer gate and for locks. waiting.on_message also gets messages
  /// about damage, and about a server that has become unreachable.
  Waiting waiting = {};
  FilesystemProbe filesystem = filesystem_type;
  bool allow_network_filesystem = false;  ///< safe only if a single machine uses the file
  bool create_directories = false;        ///< create missing parent directories of a new file
  std::string vfs = {};                   ///< a registered SQLite VFS; empty: the default one
  /// Time in ms after which all functions of a store that was opened for reading fail with
  /// TryLater; 0: no limit.
  int64_t read_limit_ms = 0;
  /// Directory of the spool for records that a server cannot take; empty: there is no spool.
  std::string spool_directory = {};
  /// The layers below this database, the nearest first. A layer that cannot be read is left out,
  /// and the reason goes to on_message.
  std::vector<Layer> below = {};
};

struct AppendSummary {
  int64_t inserted = 0;
  int64_t duplicates = 0;
  int64_t quarantined = 0;   ///< lines stored apart with a reason, never returned as records
  int64_t calibrations = 0;  ///< inserted calibrations; the other counts concern records
  AppendSummary& operator+=(const AppendSummary& other);
  friend bool operator==(const AppendSummary&, const AppendSummary&) = default;
};

/// A line that is not a valid record or calibration, and the reason. It is stored apart and never
/// returned as a record.
struct Quarantined {
  std::string line;  ///< the line; the database stores its first 4 KiB
  std::string reason;
  std::string hash = {};  ///< SHA-256 of the whole line in hex; set by the database
};

/// Key of a lookup of the best schedule. A record has to agree with every member except `device`.
struct Key {
  std::string workload;
  std::string target;
  std::string device = {};  ///< preferred device; next best: one of the same model; then any
  int64_t threads = 1;
  int64_t codegen_abi = 1;
  std::string layouts = {};  ///< layouts that are asked for, as in Record::layouts; empty: free
};

/// Returns true if the record may be the answer. If it returns false or an error, the next best
/// record is tried. The message of an error, for example that the schedule cannot be built on this
/// machine, goes to on_message.
using Accept = std::function<Result<bool>(const Record& record)>;

enum class Order {
  Oldest,   ///< in the order in which they were stored
  Newest,   ///< in reverse order of being stored
  Fastest,  ///< smallest latency first
  Created,  ///< by created_ms, then by hash: the same in every database with the same records
};

/// Selects the records that agree with every member which has a value.
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
  /// If true, only records that are believed, judged by all trials of their group (trust.h).
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
  /// Opens a database. `path` is a file, or an address `postgresql://user@host/database`. The
  /// address must not hold a password: libpq finds the password in ~/.pgpass, by PGPASSFILE or in a
  /// service. Opening for writing fails at once if the database cannot be written.
  static Result<Store> open(const std::string& path, OpenMode mode, StoreOptions options = {});
  /// Opens an empty, read-only store in place of a database that does not exist. Lookups then get
  /// the answers of the layers in `options`.
  static Result<Store> open_absent(const std::string& path, StoreOptions options);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// The canonical absolute path, or the address of the server as it was given.
  const std::string& path() const;
  /// The file of the spool, for records that the database cannot take; empty if there is none.
  std::string spool_path() const;

  /// Appends records in one durable transaction: all of them, or none and an error. Records that
  /// fail check() are quarantined. TryLater if another process holds the database for writing too
  /// long.
  Result<AppendSummary> append(std::span<const Record> records);

  /// The best record for the key, measured on the key's device, else on a device of the same model,
  /// else on any other device of the same target; nullopt if there is none. likeness_of() tells
  /// these cases apart. A layer below answers if it has a record of a nearer device; layer_of()
  /// (answers.h) gives the layer.
  Result<std::optional<Record>> best(const Key& key, const Accept& accepts = {});

  /// The record with this hash of 64 hex digits; nullopt if there is none or it is damaged.
  Result<std::optional<Record>> find(const std::string& hash);

  /// While a Reading exists, all reads of its store see one state of the database, and no read
  /// waits for a lock. Nobody can write to a database file meanwhile, so keep a Reading only for a
  /// sequence of reads without other work in between. Do not use it with db::verify() or with
  /// functions that write. It must not outlive the store.
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

  /// Visits every matching record that agrees with its hash, until `visit` returns false.
  Status for_each(const Filter& filter, const std::function<bool(const Record&)>& visit);
  Result<std::vector<Record>> query(const Filter& filter);

  /// True unless the store was opened for reading.
  bool may_write() const;
  /// True if the database is on a server and this store may write to it. Only then do runs share
  /// claims (claims.h).
  bool is_shared() const;

  Result<StoreInfo> info();

  /// Number of records and calibrations that this Store has skipped because they do not agree with
  /// their hashes.
  int64_t damaged() const;

  struct State;
  /// For functions of this folder only: store_state.h defines the type.
  State& state() { return *state_; }

 private:
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tw::db
