// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tuning database: append-only sets of records and of calibrations, in one SQLite file that
// processes on a machine share, or on a PostgreSQL server that a team shares. What append() has
// acknowledged survives kills and power loss; docs/database_format.md says how. A Store is not
// thread-safe (one a thread) and not to be used in a forked child (exec instead).
//
//   TW_TRY(Store store, Store::open("team.db", OpenMode::ReadWrite));
//   TW_TRY(AppendSummary summary, store.append(records));           // sealed records
//   TW_TRY(std::optional<Record> best, store.best({.workload = key, .target = target}));
//
// The class stores facts and answers by key. Functions over it are in headers of their own:
// answers.h (explanations, other devices), recall.h (what a run begins with), overview.h (lists),
// demand.h, claims.h, calibration.h, maintenance.h (verify, prune) and transfer.h (merge, import,
// export).

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
  ReadOnly,   ///< the file, or the tables on the server, must exist
  Update,     ///< for writing; they must exist
  ReadWrite,  ///< for writing; they are created where absent
};

/// A database below another one. It is only read, and answers where it knows a nearer device than
/// the databases above it.
struct Layer {
  std::string name;  ///< as people are told it: "team", "shipped"
  std::string path;  ///< or the address of a server
};

struct StoreOptions {
  /// Options of waits for the writer gate and for locks. Its on_message also gets messages about
  /// damage and about a server that cannot be reached any more.
  Waiting waiting = {};
  FilesystemProbe filesystem = filesystem_type;
  bool allow_network_filesystem = false;  ///< only where one machine alone uses the file
  bool create_directories = false;        ///< create missing directories of a new file too
  std::string vfs = {};                   ///< a registered SQLite VFS; empty: the default one
  /// Lifetime in ms of a store opened for reading, after which everything fails with TryLater; 0:
  /// no limit.
  int64_t read_limit_ms = 0;
  /// Directory in which records wait while a server cannot be reached; empty: they cannot wait.
  std::string spool_directory = {};
  /// The layers below this database, the nearest first. A layer that cannot be read is left out,
  /// and the reason goes to on_message.
  std::vector<Layer> below = {};
};

struct AppendSummary {
  int64_t inserted = 0;
  int64_t duplicates = 0;
  int64_t quarantined = 0;   ///< kept aside with a reason, never served
  int64_t calibrations = 0;  ///< inserted calibrations; the other counts are of records
  AppendSummary& operator+=(const AppendSummary& other);
  friend bool operator==(const AppendSummary&, const AppendSummary&) = default;
};

/// A line that is not a valid fact, and why. It is stored apart and never served.
struct Quarantined {
  std::string line;  ///< its first 4 KiB, once it is stored
  std::string reason;
  std::string hash = {};  ///< SHA-256 of the whole line in hex, once it is stored
};

/// Key of a lookup of the best schedule. A record has to agree with every member except `device`.
struct Key {
  std::string workload;
  std::string target;
  std::string device = {};  ///< preferred device; then one of its model; then any
  int64_t threads = 1;
  int64_t codegen_abi = 1;
  std::string layouts = {};  ///< asked of inputs and outputs, as records spell them; empty: free
};

/// Returns true if a record may be the answer. On false or an error the next best record is tried.
/// The message of an error, such as that the schedule cannot be built here, goes to on_message.
using Accept = std::function<Result<bool>(const Record& record)>;

enum class Order {
  Oldest,   ///< as they were stored
  Newest,   ///< stored last, first
  Fastest,  ///< smallest latency first
  Created,  ///< by created_ms, then by hash: the same in every database with the same records
};

/// Absent members do not restrict.
struct Filter {
  std::optional<std::string> workload = {};
  std::optional<std::string> op = {};
  std::optional<std::string> target = {};
  std::optional<std::string> device = {};
  std::optional<std::string> device_prefix = {};  ///< the beginning of the device's text
  std::optional<std::string> session = {};
  std::optional<std::string> layouts = {};  ///< empty text: free
  std::optional<TrialStatus> status = {};
  std::optional<int64_t> threads = {};
  std::optional<int64_t> codegen_abi = {};
  /// Only records that are believed (trust.h), by all that their group measured.
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
  int64_t file_bytes = 0;  ///< of the file, or of the tables on the server
  int64_t records = 0;
  int64_t workloads = 0;
  int64_t best = 0;  ///< groups that have a best record
  int64_t quarantined = 0;
  int64_t calibrations = 0;  ///< of machines
  std::map<std::string, int64_t> by_status;
};

class Transaction;

class Store {
 public:
  /// `path` is a file, or `postgresql://user@host/database`, which holds no password: libpq finds
  /// it in ~/.pgpass, by PGPASSFILE or in a service. Opening for writing fails at once where the
  /// database cannot be written.
  static Result<Store> open(const std::string& path, OpenMode mode, StoreOptions options = {});
  /// In place of a database that is not there: empty and only read, above the layers of the
  /// options.
  static Result<Store> open_absent(const std::string& path, StoreOptions options);

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// The canonical absolute path, or the address of the server as it was given.
  const std::string& path() const;
  /// The file in which records wait that the database cannot take; empty where there is none.
  std::string spool_path() const;

  /// One durable transaction: all of the records, or an error and none. Records that fail check()
  /// go to quarantine. TryLater where another process writes for too long.
  Result<AppendSummary> append(std::span<const Record> records);

  /// The best record for the key: on its device, else on one of the same model, else on another of
  /// the same target, else none. likeness_of() says which. Layers below answer where they know a
  /// nearer device, layer_of() (answers.h) says which of them did.
  Result<std::optional<Record>> best(const Key& key, const Accept& accepts = {});

  /// The record with this hash, 64 hex digits; nullopt where there is none, or it is damaged.
  Result<std::optional<Record>> find(const std::string& hash);

  /// While it lives, all that this store is asked is answered from one state of the database, and
  /// no question waits for a lock. Nobody can write to a file meanwhile: it is for many questions
  /// one after the other, without other work. Not for db::verify(), nor for what writes.
  /// It must not outlive the store.
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

  /// Every matching record that agrees with its hash, until `visit` says false.
  Status for_each(const Filter& filter, const std::function<bool(const Record&)>& visit);
  Result<std::vector<Record>> query(const Filter& filter);

  /// True unless the store was opened for reading.
  bool may_write() const;
  /// True for a server that this store may write to: only there runs tell each other what they have
  /// under way.
  bool is_shared() const;

  Result<StoreInfo> info();

  /// Facts skipped by this Store because they do not agree with their hash.
  int64_t damaged() const;

  struct State;
  /// For the functions of this folder, which alone know the type (store_state.h).
  State& state() { return *state_; }

 private:
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tw::db
