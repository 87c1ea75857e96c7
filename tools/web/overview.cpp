// SPDX-License-Identifier: Apache-2.0
#include "tools/web/overview.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "db/trust.h"
#include "db/workload_text.h"

namespace tw::tools::web {
namespace {

// A group is some 500 bytes here; a database has one for each workload, device and number of
// threads.
constexpr int64_t most_groups = 100'000;
constexpr int64_t least_age_ns = 2'000'000'000;
constexpr int64_t times_the_reading = 10;

std::string name_of(const db::GroupSummary& group) {
  db::Record record;
  record.workload = group.workload;
  record.layouts = group.layouts;
  return db::workload_text(record);
}

void add_group(WorkloadRow& row, const db::GroupSummary& group, size_t index) {
  const std::string model(db::model_of(group.device));
  row.groups.push_back(index);
  if (!std::ranges::count(row.classes, model)) row.classes.push_back(model);
  row.trials += group.trials;
  row.newest_ms = std::max(row.newest_ms, group.newest_ms);
  row.efficiency = std::max(row.efficiency, group.efficiency);
  if (group.latency_ns <= 0 || (row.latency_ns > 0 && row.latency_ns <= group.latency_ns)) return;
  row.latency_ns = group.latency_ns;
  row.fastest = index;
}

std::vector<std::string> common_classes(const std::vector<WorkloadRow>& workloads) {
  std::map<std::string, int64_t> counts;
  for (const WorkloadRow& row : workloads)
    for (const std::string& model : row.classes) ++counts[model];
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [model, count] : counts) sorted.emplace_back(-count, model);
  std::ranges::sort(sorted);
  std::vector<std::string> classes;
  for (auto& [count, model] : sorted) classes.push_back(std::move(model));
  return classes;
}

}  // namespace

Overview make_overview(std::vector<db::GroupSummary> groups, bool is_cut) {
  Overview overview;
  std::map<std::pair<std::string, std::string>, size_t> known;
  std::set<std::string> operators;
  for (size_t i = 0; i < groups.size(); ++i) {
    const db::GroupSummary& group = groups[i];
    const auto [place, is_new] =
        known.try_emplace({group.workload_hash, group.layouts}, overview.workloads.size());
    if (is_new)
      overview.workloads.push_back({.name = name_of(group),
                                    .hash = group.workload_hash,
                                    .layouts = group.layouts,
                                    .op = group.op});
    add_group(overview.workloads[place->second], group, i);
    operators.insert(group.op);
    overview.trials += group.trials;
  }
  overview.operators.assign(operators.begin(), operators.end());
  overview.classes = common_classes(overview.workloads);
  overview.groups = std::move(groups);
  overview.is_cut = is_cut;
  return overview;
}

const WorkloadRow* find_workload(const Overview& overview, std::string_view hash,
                                 std::string_view layouts) {
  for (const WorkloadRow& row : overview.workloads)
    if (row.hash == hash && row.layouts == layouts) return &row;
  return nullptr;
}

OverviewCache::OverviewCache(Open open, std::function<int64_t()> clock_ns)
    : open_(std::move(open)), clock_ns_(std::move(clock_ns)) {}

Result<std::shared_ptr<const Overview>> OverviewCache::get() {
  {
    const std::scoped_lock lock(mutex_);
    if (last_ && clock_ns_() < fresh_until_ns_) return last_;
  }
  std::unique_lock reading(reading_, std::try_to_lock);
  if (!reading) {
    const std::unique_lock lock(mutex_);
    if (last_) return last_;
  }
  if (!reading) reading.lock();
  {
    const std::scoped_lock lock(mutex_);
    if (last_ && clock_ns_() < fresh_until_ns_) return last_;  // another thread was faster
  }
  return read();
}

Result<std::shared_ptr<const Overview>> OverviewCache::read() {
  const int64_t begun_ns = clock_ns_();
  TW_TRY(db::Store store, open_());
  TW_TRY(std::vector<db::GroupSummary> groups, store.groups(most_groups + 1));
  const bool is_cut = std::ssize(groups) > most_groups;
  if (is_cut) groups.pop_back();
  auto overview = std::make_shared<const Overview>(make_overview(std::move(groups), is_cut));
  const int64_t now_ns = clock_ns_();
  const std::scoped_lock lock(mutex_);
  last_ = overview;
  fresh_until_ns_ = now_ns + std::max(least_age_ns, times_the_reading * (now_ns - begun_ns));
  return overview;
}

}  // namespace tw::tools::web
