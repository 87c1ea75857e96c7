// SPDX-License-Identifier: Apache-2.0
#include "tools/web/overview.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory_resource>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "db/overview.h"
#include "db/trust.h"
#include "db/workload_text.h"

namespace tw::tools::web {
namespace {

// Limit on the groups that are read for an overview. A workload needs some 50 bytes in an overview,
// and 100 more while the overview is made.
constexpr int64_t most_groups = 250'000;
constexpr size_t first_rows = 50;
constexpr size_t first_places = 1 << 12;  // first size of the hash table OverviewInMaking::places_
// Limit on the groups of one workload that a page reads. A group needs some 700 bytes.
constexpr int64_t most_groups_of_workload = 5'000;
constexpr int64_t least_age_ns = 2'000'000'000;
constexpr int64_t times_the_reading = 10;
// Number of texts for which groups_named() caches its result. A result needs 8 bytes for each group
// that it lists.
constexpr size_t most_texts = 8;
constexpr std::chrono::seconds longest_wait_for_names(2);

std::string name_of(const db::GroupSummary& group) {
  return db::workload_text(db::WorkloadName{group.workload, group.layouts});
}

/// Gives each distinct text an index, beginning with 0.
class Numbers {
 public:
  uint32_t of(std::string_view text) {
    if (last_ < texts_.size() && texts_[last_] == text) return last_;
    const auto known = numbers_.find(text);
    if (known != numbers_.end()) return last_ = known->second;
    last_ = static_cast<uint32_t>(texts_.size());
    texts_.emplace_back(text);
    numbers_.emplace(texts_.back(), last_);
    return last_;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, uint32_t, std::less<>> numbers_;
  std::vector<std::string> texts_;
  uint32_t last_ = 0;  ///< index that was returned last; successive texts are mostly equal
};

/// Returns for each text of `from` its index in `to`. Example: {"b", "a"} and {"a", "b"} give {1,
/// 0}. Requires: `to` has all texts of `from`.
std::vector<uint32_t> renumbered(const std::vector<std::string>& from,
                                 const std::vector<std::string>& to) {
  std::map<std::string_view, uint32_t> places;
  for (size_t i = 0; i < to.size(); ++i) places[to[i]] = static_cast<uint32_t>(i);
  std::vector<uint32_t> numbers;
  for (const std::string& text : from) numbers.push_back(places[text]);
  return numbers;
}

/// Identifies a workload by the first 16 bytes of the hash of its key and by the index that Numbers
/// gives to its layouts.
struct Identity {
  std::array<uint64_t, 2> key = {};
  uint32_t layouts = 0;
  bool operator==(const Identity&) const = default;
};

struct HashOfIdentity {
  size_t operator()(const Identity& identity) const {
    return static_cast<size_t>(identity.key[0] ^ identity.layouts);
  }
};

// The map has a node for each workload. It gets memory from the allocator in few large blocks.
using IdentityPlaces = std::pmr::unordered_map<Identity, size_t, HashOfIdentity>;

/// Makes an overview. The caller passes the groups to add() one by one; the group in which a trial
/// was stored last comes first.
class OverviewInMaking {
 public:
  void add(const db::GroupEntry& group) {
    Identity identity{.layouts = layouts_.of(group.layouts)};
    std::memcpy(identity.key.data(), group.workload_hash.data(),
                std::min(group.workload_hash.size(), sizeof identity.key));
    const auto [place, is_new] = places_.try_emplace(identity, overview_.workloads.size());
    if (is_new) add_row(group);
    WorkloadRow& row = overview_.workloads[place->second];
    const uint32_t model = models_.of(db::model_of(group.device));
    row.class_set = is_new ? set_with(std::nullopt, model) : set_with(row.class_set, model);
    row.trials += group.trials;
    row.newest_ms = std::max(row.newest_ms, group.newest_ms);
    row.efficiency = std::max(row.efficiency, group.efficiency);
    if (group.latency_ns > 0 && (row.latency_ns <= 0 || group.latency_ns < row.latency_ns))
      row.latency_ns = group.latency_ns;
    overview_.trials += group.trials;
  }

  Overview finish() {
    sort_operators();
    sort_classes();
    std::set<std::array<uint64_t, 2>> keys_with_layouts;
    const uint32_t free = layouts_.of("");
    for (const auto& [identity, place] : places_)
      if (identity.layouts == free)
        ++overview_.keys;
      else if (!places_.contains({identity.key, free}))
        keys_with_layouts.insert(identity.key);
    overview_.keys += std::ssize(keys_with_layouts);
    return std::move(overview_);
  }

 private:
  void add_row(const db::GroupEntry& group) {
    overview_.workloads.push_back({.group = group.id, .op = operators_.of(group.op)});
  }

  /// Returns the index of the set that has the models of `set` (nullopt: no model) and also
  /// `model`. Adds this set to Overview::class_sets if it is new.
  uint32_t set_with(std::optional<uint32_t> set, uint32_t model) {
    std::vector<std::vector<uint32_t>>& sets = overview_.class_sets;
    if (set && std::ranges::count(sets[*set], model) > 0) return *set;
    const std::pair key(set ? int64_t{*set} : -1, model);
    const auto [known, is_new] = sets_.try_emplace(key, static_cast<uint32_t>(sets.size()));
    if (is_new) {
      std::vector<uint32_t> larger = set ? sets[*set] : std::vector<uint32_t>();
      larger.push_back(model);
      sets.push_back(std::move(larger));
    }
    return known->second;
  }

  void sort_operators() {
    overview_.operators = operators_.texts();
    std::ranges::sort(overview_.operators);
    const std::vector<uint32_t> numbers = renumbered(operators_.texts(), overview_.operators);
    for (WorkloadRow& row : overview_.workloads) row.op = numbers[row.op];
  }

  void sort_classes() {
    std::vector<int64_t> workloads(models_.texts().size());
    for (const WorkloadRow& row : overview_.workloads)
      for (const uint32_t model : overview_.class_sets[row.class_set]) ++workloads[model];
    std::vector<std::pair<int64_t, std::string>> sorted;
    for (size_t i = 0; i < workloads.size(); ++i)
      sorted.emplace_back(-workloads[i], models_.texts()[i]);
    std::ranges::sort(sorted);
    for (auto& [count, model] : sorted) overview_.classes.push_back(std::move(model));
    const std::vector<uint32_t> numbers = renumbered(models_.texts(), overview_.classes);
    for (std::vector<uint32_t>& set : overview_.class_sets)
      for (uint32_t& model : set) model = numbers[model];
  }

  Overview overview_;
  Numbers layouts_, operators_, models_;
  std::pmr::monotonic_buffer_resource memory_;
  IdentityPlaces places_{first_places, HashOfIdentity(), {}, &memory_};
  /// The indices of the sets that set_with() has made. The key is the index of the smaller set (-1:
  /// the empty set) and the model that was added to it.
  std::map<std::pair<int64_t, uint32_t>, uint32_t> sets_;
};

/// Reads the workload to which the group with the id `group` belongs, with all groups of the
/// workload. nullptr if the group was deleted.
Result<std::shared_ptr<const Workload>> read_workload(db::Store& store, int64_t group) {
  TW_TRY(std::vector<db::GroupSummary> groups,
         db::workload_groups(store, group, most_groups_of_workload));
  if (groups.empty()) return std::shared_ptr<const Workload>();
  return std::make_shared<const Workload>(make_workload(std::move(groups)));
}

}  // namespace

Workload make_workload(std::vector<db::GroupSummary> groups) {
  Workload workload = {.name = name_of(groups.front()),
                       .hash = groups.front().workload_hash,
                       .layouts = groups.front().layouts,
                       .op = groups.front().op,
                       .groups = std::move(groups)};
  for (size_t i = 0; i < workload.groups.size(); ++i) {
    const db::GroupSummary& group = workload.groups[i];
    const std::string model(db::model_of(group.device));
    if (!std::ranges::count(workload.classes, model)) workload.classes.push_back(model);
    workload.trials += group.trials;
    workload.newest_ms = std::max(workload.newest_ms, group.newest_ms);
    workload.efficiency = std::max(workload.efficiency, group.efficiency);
    if (group.latency_ns <= 0 ||
        (workload.latency_ns > 0 && workload.latency_ns <= group.latency_ns))
      continue;
    workload.latency_ns = group.latency_ns;
    workload.fastest = i;
  }
  return workload;
}

std::vector<size_t> newest_rows(const Overview& overview, size_t count) {
  std::vector<size_t> places(overview.workloads.size());
  std::iota(places.begin(), places.end(), size_t{0});
  count = std::min(count, places.size());
  std::ranges::partial_sort(places, places.begin() + static_cast<std::ptrdiff_t>(count),
                            [&](size_t a, size_t b) {
                              return std::tuple(overview.workloads[b].newest_ms, a) <
                                     std::tuple(overview.workloads[a].newest_ms, b);
                            });
  places.resize(count);
  return places;
}

Result<Overview> read_overview(db::Store& store, bool with_answers) {
  OverviewInMaking making;
  int64_t groups = 0;
  TW_RETURN_IF_ERROR(
      db::for_each_group(store, most_groups + 1, with_answers, [&](const db::GroupEntry& group) {
        if (++groups <= most_groups) making.add(group);
      }));
  Overview overview = making.finish();
  overview.has_answers = with_answers;
  overview.is_cut = groups > most_groups;
  for (const size_t place : newest_rows(overview, first_rows)) {
    TW_TRY(auto workload, read_workload(store, overview.workloads[place].group));
    if (workload) overview.first.emplace(place, std::move(workload));
  }
  return overview;
}

template <typename Value>
std::shared_ptr<const Value> Renewed<Value>::fresh(const Clock& clock) {
  const std::scoped_lock lock(mutex_);
  return last_ && clock() < fresh_until_ns_ ? last_ : nullptr;
}

template <typename Value>
Result<std::shared_ptr<const Value>> Renewed<Value>::get(
    const Clock& clock, const std::function<Result<Value>()>& read) {
  if (auto last = fresh(clock)) return last;
  std::unique_lock reading(reading_, std::try_to_lock);
  if (!reading) {
    const std::unique_lock lock(mutex_);
    if (last_) return last_;
  }
  if (!reading) reading.lock();
  if (auto last = fresh(clock)) return last;  // another thread has read the value meanwhile
  const int64_t begun_ns = clock();
  TW_TRY(Value value, read());
  auto shared = std::make_shared<const Value>(std::move(value));
  const int64_t now_ns = clock();
  const std::scoped_lock lock(mutex_);
  last_ = shared;
  fresh_until_ns_ = now_ns + std::max(least_age_ns, times_the_reading * (now_ns - begun_ns));
  return shared;
}

OverviewCache::OverviewCache(Open open, std::function<int64_t()> clock_ns)
    : open_(std::move(open)), clock_ns_(std::move(clock_ns)) {}

Result<std::shared_ptr<const Overview>> OverviewCache::get(bool with_answers) {
  if (!with_answers)
    if (auto more = overviews_[1].fresh(clock_ns_)) return more;
  return overviews_[with_answers ? 1 : 0].get(clock_ns_, [&]() -> Result<Overview> {
    TW_TRY(db::Store store, open_());
    return read_overview(store, with_answers);
  });
}

Result<OverviewCache::Ids> OverviewCache::read_names(
    const std::function<Result<Ids>(db::Store&)>& read) {
  const std::unique_lock alone(names_, longest_wait_for_names);
  if (!alone)
    return fail(ErrorCode::TryLater,
                "[list] the names of all workloads are being read for others; try again");
  TW_TRY(db::Store store, open_());
  return read(store);
}

Result<std::shared_ptr<const OverviewCache::Ids>> OverviewCache::groups_named(
    const std::string& part) {
  std::shared_ptr<Renewed<Ids>> ids;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find(
        named_, part, [](const auto& named) { return std::string_view(named.first); });
    ids = known == named_.end() ? std::make_shared<Renewed<Ids>>() : known->second;
    if (known != named_.end()) named_.erase(known);
    if (named_.size() == most_texts) named_.erase(named_.begin());
    named_.emplace_back(part, ids);
  }
  return ids->get(clock_ns_, [&] {
    return read_names([&](db::Store& store) { return db::groups_named(store, part); });
  });
}

Result<std::shared_ptr<const OverviewCache::Ids>> OverviewCache::groups_by_name() {
  return by_name_.get(clock_ns_, [&] {
    return read_names([](db::Store& store) { return db::groups_by_name(store); });
  });
}

Result<std::vector<std::shared_ptr<const Workload>>> OverviewCache::workloads(
    const Overview& overview, std::span<const size_t> places) {
  std::vector<std::shared_ptr<const Workload>> found;
  std::optional<db::Store> store;
  for (const size_t place : places) {
    if (const auto known = overview.first.find(place); known != overview.first.end()) {
      found.push_back(known->second);
      continue;
    }
    if (!store) {
      TW_TRY(db::Store opened, open_());
      store.emplace(std::move(opened));
    }
    TW_TRY(auto workload, read_workload(*store, overview.workloads[place].group));
    if (workload) found.push_back(std::move(workload));
  }
  return found;
}

}  // namespace tw::tools::web
