// SPDX-License-Identifier: Apache-2.0
#pragma once
// All groups of a database in memory, as the lists show them: filtered, sorted and paged without
// asking the database again. A plain value, shared between the readers. Thread-safe to share.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/overview.h"
#include "db/store.h"

namespace tw::tools::web {

/// A workload under some layouts, and its groups on all devices.
struct WorkloadRow {
  std::string name;  ///< the key, and layouts in braces
  std::string hash;  ///< of the key
  std::string layouts, op;
  std::vector<size_t> groups = {};  ///< into Overview::groups; the one that was stored last first
  std::vector<std::string> classes = {};  ///< models of the devices that measured it
  int64_t trials = 0;
  int64_t newest_ms = 0;
  double latency_ns = 0;  ///< measured latency of its fastest answer; 0: it has none
  size_t fastest = 0;     ///< group of the fastest answer, into Overview::groups
  double efficiency = 0;  ///< of its most efficient answer; 0: unknown
};

struct Overview {
  std::vector<db::GroupSummary> groups;
  std::vector<WorkloadRow> workloads;  ///< the one that was stored last first
  std::vector<std::string> operators;  ///< by name
  std::vector<std::string> classes;    ///< models of devices; those of the most workloads first
  int64_t trials = 0;
  bool is_cut = false;  ///< the database has more groups
};

Overview make_overview(std::vector<db::GroupSummary> groups, bool is_cut = false);

/// The workload with this hash under some layouts; nullptr where there is none.
const WorkloadRow* find_workload(const Overview& overview, std::string_view hash,
                                 std::string_view layouts);

/// Reads the overview when it is asked for and the last one is old: older than two seconds, and
/// than ten times as long as reading it took. So readers, however many, take at most a tenth of the
/// time of the database. While one thread reads it, the others get the last one. Thread-safe.
class OverviewCache {
 public:
  using Open = std::function<Result<db::Store>()>;
  OverviewCache(Open open, std::function<int64_t()> clock_ns);
  Result<std::shared_ptr<const Overview>> get();

 private:
  Result<std::shared_ptr<const Overview>> read();

  Open open_;
  std::function<int64_t()> clock_ns_;
  std::mutex reading_;  ///< held while the database is read
  std::mutex mutex_;    ///< guards the members below
  std::shared_ptr<const Overview> last_;
  int64_t fresh_until_ns_ = 0;
};

}  // namespace tw::tools::web
