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

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/calibration.h"
#include "db/claims.h"
#include "db/demand.h"
#include "db/engine/filesystem.h"
#include "db/engine/waiting.h"
#include "db/overview.h"
#include "db/recall.h"
#include "db/record.h"
#include "db/trust.h"

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

/// Options of distilled().
struct DistilRules {
  int64_t codegen_abi = 0;  ///< records of other code generators are left out
  int64_t keep = 2;         ///< best schedules to keep for each combination (distilled())
};

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
  /// nearer device, layer_of() says which of them did.
  Result<std::optional<Record>> best(const Key& key, const Accept& accepts = {});
  /// The answer to the key and what it rests on: sessions, interval, better-looking records that
  /// are not used, of which it reads at most `limit`; 0: all.
  Result<std::optional<Explanation>> explain(const Key& key, int64_t limit = 0);
  /// The best record of each device of another model than the key's, of every layer, at most `most`
  /// of each, by efficiency.
  Result<std::vector<Record>> best_elsewhere(const Key& key, int64_t most,
                                             const Accept& accepts = {});
  /// The targets that have an answer to the key, whose own target is ignored, sorted by text.
  Result<std::vector<std::string>> targets_of(const Key& key);
  /// The best record of every group, by hash.
  Result<std::vector<Record>> best_records();
  /// The records that are worth shipping with a program: the best schedules for each combination of
  /// workload, target, number of threads, layouts, device model and microarchitecture, all from one
  /// device: the one whose best schedule has the highest efficiency. Sorted by operator and
  /// workload; equal for all databases with the same records.
  Result<std::vector<Record>> distilled(const DistilRules& rules);

  /// Visits the matching records of the layers below, the nearest layer first; for_each() does not.
  void for_each_below(const Filter& filter, const std::function<bool(const Record&)>& visit);
  /// The trials of the place that the key names, with its device alone; at most `most`, judged by
  /// all of them (recall.h).
  Result<RecalledTrials> recall(const Key& place, int64_t most);
  /// The same of the layers below, each judged by itself.
  RecalledTrials recall_below(const Key& place, int64_t most);
  /// The schedules that have trials at the place. `host` is the one that asks
  /// (Environment::host); empty: a schedule that one session alone proves wrong is settled, too.
  Result<TriedSchedules> tried(const Key& place, const std::string& host);
  /// The name of the layer that has the record; empty: this database, or none.
  Result<std::string> layer_of(const Record& record);
  /// Every group of trials with its answer, without reading trials.
  /// The group whose trial was stored last comes first; at most `limit`.
  Result<std::vector<GroupSummary>> groups(int64_t limit);
  /// Visits the entries of the same groups in the same order, in one state of the database and
  /// without keeping them in memory. Entries without answers have no latency and no efficiency,
  /// and of a file an index has all of them.
  Status for_each_group(int64_t limit, bool with_answers, const VisitEntry& visit);
  /// The groups that have the workload and the layouts of the group with this id, the one whose
  /// trial was stored last first; at most `limit`. Empty where no group has the id.
  Result<std::vector<GroupSummary>> workload_groups(int64_t id, int64_t limit);
  /// The same for a workload, given by the hash of its key, under these layouts.
  Result<std::vector<GroupSummary>> workload_groups(const std::string& workload_hash,
                                                    const std::string& layouts, int64_t limit);
  /// The ids of the groups in whose workload_text() the part occurs, whatever the case of its
  /// letters from a to z, in order. Reads the workloads of all groups.
  Result<std::vector<int64_t>> groups_named(const std::string& part);
  /// The ids of all groups, sorted by workload_text(). Reads the workloads of all groups.
  Result<std::vector<int64_t>> groups_by_name();
  /// The places at which an operator has an answer for this number of threads, also of layers
  /// below; in order. Of each database at most 2 * `most`: those whose workloads have the next
  /// larger, and the next smaller, number of operations.
  Result<std::vector<Place>> places(const std::string& op, int64_t threads, int64_t codegen_abi,
                                    double flops, int64_t most);
  /// The trials of a workload, given by the hash of its key, under these layouts: those that were
  /// stored last, at most `limit`, the oldest of them first. Each is judged by all of its group.
  /// They are not checked against their hashes.
  Result<std::vector<TrialSummary>> trials(const std::string& workload_hash,
                                           const std::string& layouts, int64_t limit);
  /// The record with this hash, 64 hex digits; nullopt where there is none, or it is damaged.
  Result<std::optional<Record>> find(const std::string& hash);

  /// While it lives, all that this store is asked is answered from one state of the database, and
  /// no question waits for a lock. Nobody can write to a file meanwhile: it is for many questions
  /// one after the other, without other work. Not for verify(), nor for what writes.
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

  /// Keeps a demand in place of that of the same source and place, in one durable transaction.
  /// Errors: check(demand); TryLater as append().
  Status keep_demand(const Demand& demand);
  /// The demands that match, those that were left last first, with what the trials say by now.
  Result<std::vector<Demand>> demands(const DemandFilter& filter);
  /// Forgets the demand with that hash; false where there is none.
  Result<bool> drop_demand(const std::string& hash);

  /// True unless the store was opened for reading.
  bool may_write() const;
  /// True for a server that this store may write to: only there runs tell each other what they have
  /// under way.
  bool is_shared() const;
  /// Claims schedules of a place, given by schedule_key(), for a session on a host, in one durable
  /// transaction, and renews the session's other claims there. Returns for each schedule whether it
  /// was granted: no other session has a claim of it, and the trials of others have not settled it
  /// (TriedSchedules). For example, a schedule is refused that another session timed, and granted
  /// where one session of another host alone has seen it crash. TryLater as append().
  Result<std::vector<bool>> claim(const Key& place, std::span<const std::string> schedules,
                                  const std::string& session, const std::string& host);
  /// True if another session has a claim of the schedule that has not expired.
  Result<bool> is_claimed(const Key& place, const std::string& schedule,
                          const std::string& session);
  /// Ends the claims of a session at a place, if it has any. TryLater as append().
  Status release(const Key& place, const std::string& session);
  /// The number of the row that was stored last; 0: there is none.
  Result<int64_t> last_row();
  /// The records of other sessions at a place that were stored after row `after`.
  Result<News> news(const Key& place, int64_t after, const std::string& session);

  /// Appends sealed calibrations, such as those of another database, as append() does records.
  Result<AppendSummary> append(std::span<const Calibration> calibrations);
  /// Adds a calibration as the newest of its target and device, in one durable transaction: sets
  /// its generation and its hash. Invalid where check() then fails; TryLater as append().
  Status add_calibration(Calibration calibration);
  /// The newest calibration of a device for a target; nullopt where there is none.
  Result<std::optional<Calibration>> newest_calibration(const std::string& target,
                                                        const std::string& device);
  /// Every calibration that agrees with its hash, of each device the newest first.
  Result<std::vector<Calibration>> calibrations();

  Result<StoreInfo> info();
  /// Reads everything: hashes, the derived table, the file's structure.
  Result<VerifyReport> verify();
  /// Derives the table of best trials anew from the trials.
  Status derive_best();

  /// At most `limit` quarantined lines; 0: all.
  Result<std::vector<Quarantined>> quarantined(int64_t limit);
  /// Deletes all quarantined lines, or the one with that hash, and returns their number.
  Result<int64_t> drop_quarantined(const std::string& hash = {});
  /// Records that are stored and not used, for a doubt that is_listed(); at most `limit`, 0: all.
  Result<std::vector<Doubted>> doubted(int64_t limit);

  /// Deletes, or only counts, records that can never be an answer. The answers stay the same. The
  /// file keeps its size and uses the room again.
  Result<PruneReport> prune(const PruneRules& rules, Pruning pruning);
  /// Deletes one record. A merge with a database that has it brings it back.
  Status drop_record(const Record& record);

  /// Facts skipped by this Store because they do not agree with their hash.
  int64_t damaged() const;

  /// The union with the records and calibrations of another database; idempotent. Damaged ones are
  /// left out.
  Result<AppendSummary> merge_from(const std::string& path);
  Result<AppendSummary> merge_from(Store& other);

  /// Reads lines as written by export_jsonl; a bad line is quarantined, and the others are stored.
  /// Where the first 64 lines, or all of fewer, are no facts, the input is something else: fails
  /// with Invalid and stores nothing. `name` is what messages call the input.
  Result<AppendSummary> import_jsonl(std::istream& in, const std::string& name);
  Result<AppendSummary> import_jsonl(const std::string& path);
  /// The same for lines that were written as records: any number of them may be bad.
  Result<AppendSummary> import_spooled(std::istream& in);
  /// The same for the rows that export_csv writes, the names of the columns first.
  Result<AppendSummary> import_csv(std::istream& in, const std::string& name);
  Result<AppendSummary> import_csv(const std::string& path);
  /// The same for the results that export_t4 writes.
  Result<AppendSummary> import_t4(std::istream& in, const std::string& name);
  Result<AppendSummary> import_t4(const std::string& path);
  /// In the order Created, so that equal sets of records give equal bytes; calibrations follow.
  Status export_jsonl(std::ostream& out);
  /// Records only, with a column for each field (csv.h).
  Status export_csv(std::ostream& out);
  /// Records as the autotuning community shares results (t4.h).
  Status export_t4(std::ostream& out);
  /// A consistent copy while others write: ".db" a database, ".jsonl" lines, ".csv" rows, ".json"
  /// T4. The path must be free.
  Status export_to(const std::string& path);

  struct State;

 private:
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Ok for a file that can be read and is no database, so that it may hold JSON lines, and for a
/// pipe, of which nothing is read. Call it before a store is opened, and perhaps created, to import
/// the file.
Status check_importable(const std::string& path);

/// Saves every record and calibration of a damaged file, also one of an older schema version, that
/// agrees with its hash into a new database. The damaged file is only read.
Result<AppendSummary> recover(const std::string& damaged, const std::string& fresh,
                              StoreOptions options = {});

}  // namespace tw::db
