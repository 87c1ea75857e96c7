// SPDX-License-Identifier: Apache-2.0
#pragma once
// The data for the lists of workloads on the site. The numbers of all workloads (WorkloadRow) are
// kept in memory. So filtering, sorting and paging need no query, except by name. Only the texts of
// the workloads that a page shows are read from the database. An Overview is a plain value that
// threads may share.

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

/// A workload with certain layouts, and its groups of records on all devices. A group has the
/// records of one workload, target, device, number of threads, layouts and code generator. Its
/// answer is the best record that is believed.
struct Workload {
  std::string name = {};  ///< the key, and layouts in braces
  std::string hash = {};  ///< hash of the key
  std::string layouts = {}, op = {};
  /// The group in which a trial was stored last comes first.
  std::vector<db::GroupSummary> groups = {};
  std::vector<std::string> classes = {};  ///< models of the devices that measured the workload
  int64_t trials = 0;
  int64_t newest_ms = 0;
  double latency_ns = 0;  ///< measured latency of the fastest answer; 0: no group has an answer
  size_t fastest = 0;     ///< index in `groups` of the group with the fastest answer
  double efficiency = 0;  ///< efficiency of the most efficient answer; 0: unknown
};

/// Makes a Workload from its groups of records. Requires: at least one group, all of one workload
/// with the same layouts.
Workload make_workload(std::vector<db::GroupSummary> groups);

/// The numbers of a workload that are kept in memory. A workload with other layouts is another row.
struct WorkloadRow {
  int64_t group = 0;       ///< id of the group in which a trial was stored last
  uint32_t op = 0;         ///< index in Overview::operators
  uint32_t class_set = 0;  ///< index in Overview::class_sets
  int64_t trials = 0;
  int64_t newest_ms = 0;
  double latency_ns = 0;  ///< as in Workload; 0 if the overview was read without answers
  double efficiency = 0;  ///< as `latency_ns`
};

struct Overview {
  /// The workload of which a trial was stored last comes first.
  std::vector<WorkloadRow> workloads;
  std::vector<std::string> operators;  ///< sorted by name
  std::vector<std::string> classes;    ///< models of devices, those with the most workloads first
  /// The different sets of device models that measured a workload. Each set lists indices into
  /// `classes`. Example: {{0}, {0, 2}} if some workloads were measured on model 0 and others on the
  /// models 0 and 2.
  std::vector<std::vector<uint32_t>> class_sets;
  int64_t keys = 0;  ///< number of different keys, without regard to layouts
  int64_t trials = 0;
  bool has_answers = false;  ///< the rows have latencies and efficiencies
  bool is_cut = false;       ///< the database has more groups than were read
  /// The workloads that the first page shows if the request has no parameters. The key is the index
  /// in Overview::workloads.
  std::map<size_t, std::shared_ptr<const Workload>> first;
};

/// Reads the groups of a database: all, or only the latest ones if there are very many
/// (Overview::is_cut). If `with_answers` is true, rows have latencies and efficiencies.
Result<Overview> read_overview(db::Store& store, bool with_answers);

/// Returns indices in Overview::workloads: those of the `count` workloads with the newest trials,
/// the newest first. If there are fewer workloads, returns the indices of all.
std::vector<size_t> newest_rows(const Overview& overview, size_t count);

/// A cached value that is read again when it is requested and is old. A value becomes old after two
/// seconds, or after ten times the time that reading it took, whichever is longer. While one thread
/// reads the value again, other threads get the previous value. Only the first value has to be
/// waited for. Thread-safe.
template <typename Value>
class Renewed {
 public:
  using Clock = std::function<int64_t()>;  ///< monotonic, in nanoseconds
  Result<std::shared_ptr<const Value>> get(const Clock& clock,
                                           const std::function<Result<Value>()>& read);
  /// Returns the cached value; nullptr if it is old or was never read.
  std::shared_ptr<const Value> fresh(const Clock& clock);

 private:
  std::mutex reading_;  ///< held while the value is read
  std::mutex mutex_;    ///< guards the members below
  std::shared_ptr<const Value> last_;
  int64_t fresh_until_ns_ = 0;
};

/// Reads the database for the lists and caches the results. At any rate of requests, at most a
/// tenth of the time is spent on reading an overview (Renewed). Only one thread at a time reads the
/// names of all workloads. Thread-safe.
class OverviewCache {
 public:
  using Open = std::function<Result<db::Store>()>;
  using Ids = std::vector<int64_t>;  ///< ids of groups
  OverviewCache(Open open, std::function<int64_t()> clock_ns);

  /// Returns the overview. Lists that are sorted by latency or efficiency need an overview with
  /// answers. An overview with answers may be returned even if it was not asked for.
  Result<std::shared_ptr<const Overview>> get(bool with_answers = false);
  /// Returns, in ascending order, the ids of the groups whose workload has `part` in its name.
  /// Fails with TryLater if another thread reads names for longer than two seconds.
  Result<std::shared_ptr<const Ids>> groups_named(const std::string& part);
  /// Returns the ids of all groups, sorted by the names of their workloads. Fails with TryLater as
  /// groups_named() does.
  Result<std::shared_ptr<const Ids>> groups_by_name();
  /// Returns the workloads at the indices `places` of Overview::workloads. Workloads that were
  /// deleted since the overview was read are left out.
  Result<std::vector<std::shared_ptr<const Workload>>> workloads(const Overview& overview,
                                                                 std::span<const size_t> places);

 private:
  /// Opens a store and calls `read` with it, while no other thread reads names. Fails with TryLater
  /// if another thread reads names for longer than two seconds.
  Result<Ids> read_names(const std::function<Result<Ids>(db::Store&)>& read);

  Open open_;
  std::function<int64_t()> clock_ns_;
  /// The overview without answers (index 0), and the overview with answers (index 1).
  std::array<Renewed<Overview>, 2> overviews_;
  Renewed<Ids> by_name_;
  std::timed_mutex names_;  ///< held while names are read
  std::mutex mutex_;        ///< guards `named_`
  /// The latest arguments of groups_named() with their results. The most recent argument comes
  /// last.
  std::vector<std::pair<std::string, std::shared_ptr<Renewed<Ids>>>> named_;
};

}  // namespace tw::tools::web
