// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lists of workloads: the numbers of all workloads are in memory, where they are filtered, sorted
// and paged, and the texts of those that a page shows come from the database. An Overview is a
// plain value, shared between the readers. Thread-safe to share.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/overview.h"
#include "db/store.h"

namespace tw::tools::web {

/// A workload under some layouts, and its groups on all devices.
struct Workload {
  std::string name = {};  ///< the key, and layouts in braces
  std::string hash = {};  ///< of the key
  std::string layouts = {}, op = {};
  std::vector<db::GroupSummary> groups = {};  ///< the one that was stored last first
  std::vector<std::string> classes = {};      ///< models of the devices that measured it
  int64_t trials = 0;
  int64_t newest_ms = 0;
  double latency_ns = 0;  ///< measured latency of its fastest answer; 0: it has none
  size_t fastest = 0;     ///< group of the fastest answer, into `groups`
  double efficiency = 0;  ///< of its most efficient answer; 0: unknown
};

/// Requires: groups of one workload under the same layouts, at least one.
Workload make_workload(std::vector<db::GroupSummary> groups);

/// The numbers of a workload.
struct WorkloadRow {
  int64_t group = 0;       ///< id of its group that was stored last
  uint32_t op = 0;         ///< into Overview::operators
  uint32_t class_set = 0;  ///< into Overview::class_sets
  int64_t trials = 0;
  int64_t newest_ms = 0;
  double latency_ns = 0;  ///< as in Workload; 0 where the overview was read without answers
  double efficiency = 0;  ///< likewise
};

struct Overview {
  std::vector<WorkloadRow> workloads;  ///< the one that was stored last first
  std::vector<std::string> operators;  ///< by name
  std::vector<std::string> classes;    ///< models of devices; those of the most workloads first
  /// The sets of devices' models that measured a workload, into `classes`.
  std::vector<std::vector<uint32_t>> class_sets;
  int64_t keys = 0;  ///< different keys of workloads, whatever the layouts
  int64_t trials = 0;
  bool has_answers = false;  ///< its rows have latencies and efficiencies
  bool is_cut = false;       ///< the database has more groups
  /// The workloads of the first page as it is without parameters, by their places in `workloads`.
  std::map<size_t, std::shared_ptr<const Workload>> first;
};

/// Reads all groups of a database, or the last of very many.
Result<Overview> read_overview(db::Store& store, bool with_answers);

/// The places in Overview::workloads of the workloads whose newest trials were made last, the
/// newest first; at most `count`.
std::vector<size_t> newest_rows(const Overview& overview, size_t count);

/// A value that is read when it is asked for and the last one is old: older than two seconds, and
/// than ten times as long as reading it took. While one thread reads it, the others get the last
/// one. Thread-safe.
template <typename Value>
class Renewed {
 public:
  using Clock = std::function<int64_t()>;  ///< monotonic, in nanoseconds
  Result<std::shared_ptr<const Value>> get(const Clock& clock,
                                           const std::function<Result<Value>()>& read);
  /// The last value if it is not old, else nullptr.
  std::shared_ptr<const Value> fresh(const Clock& clock);

 private:
  std::mutex reading_;  ///< held while the value is read
  std::mutex mutex_;    ///< guards the members below
  std::shared_ptr<const Value> last_;
  int64_t fresh_until_ns_ = 0;
};

/// Reads the database for lists. Readers, however many, take at most a tenth of its time for the
/// overview, and one thread at a time reads the names of all workloads. Thread-safe.
class OverviewCache {
 public:
  using Open = std::function<Result<db::Store>()>;
  using Ids = std::vector<int64_t>;  ///< of groups
  OverviewCache(Open open, std::function<int64_t()> clock_ns);

  /// Lists that sort by latency or efficiency ask for one with answers.
  Result<std::shared_ptr<const Overview>> get(bool with_answers = false);
  /// The groups in whose workload's name the part occurs, in order. TryLater where another thread
  /// reads names for long.
  Result<std::shared_ptr<const Ids>> groups_named(const std::string& part);
  /// All groups, sorted by the names of their workloads. TryLater likewise.
  Result<std::shared_ptr<const Ids>> groups_by_name();
  /// The workloads at these places of the overview, without those that are gone by now.
  Result<std::vector<std::shared_ptr<const Workload>>> workloads(const Overview& overview,
                                                                 std::span<const size_t> places);

 private:
  /// Calls `read` with a store, alone among those that read names.
  Result<Ids> read_names(const std::function<Result<Ids>(db::Store&)>& read);

  Open open_;
  std::function<int64_t()> clock_ns_;
  std::array<Renewed<Overview>, 2> overviews_;  ///< without and with answers
  Renewed<Ids> by_name_;
  std::timed_mutex names_;  ///< held while names are read
  std::mutex mutex_;        ///< guards `named_`
  /// The texts that were asked for last, the last one at the end.
  std::vector<std::pair<std::string, std::shared_ptr<Renewed<Ids>>>> named_;
};

}  // namespace tw::tools::web
