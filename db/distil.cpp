// SPDX-License-Identifier: Apache-2.0
// Selects the few records of a database from which a shipped layer is made.

#include <algorithm>
#include <map>
#include <tuple>

#include "db/answers.h"
#include "db/ranking.h"
#include "db/store.h"
#include "db/store_state.h"
#include "db/tables/best.h"

namespace tw::db {
namespace {

/// The best schedules of a group. `rows` has the number of a row of `trials` for each schedule, the
/// best first.
struct Winners {
  std::vector<int64_t> rows = {};
  double efficiency = 0;  ///< efficiency of the best schedule; 0 if unknown
  double latency_ns = 0;
  std::string device;

  /// True if the best schedule here has a higher efficiency than that of `other`, which was
  /// measured on another device of the same class. If both efficiencies are equal, for example 0
  /// because the peaks are unknown, the lower latency decides, then the order of the texts of the
  /// devices.
  bool is_better_than(const Winners& other) const {
    return std::tuple(-efficiency, latency_ns, std::string_view(device)) <
           std::tuple(-other.efficiency, other.latency_ns, std::string_view(other.device));
  }
};

/// Returns the best `keep` schedules of a group. Disturbed trials are not among them, because they
/// are never answers (Store::best()).
Winners winners_of(std::vector<RankedTrial> group, const std::string& device, int64_t keep) {
  Winners winners{.device = device};
  // The trials are judged once, before schedules are taken, because trials of a taken schedule
  // remain evidence about sessions and machines.
  std::ranges::sort(group, {}, &RankedTrial::hash);
  std::vector<Judgement> judgements = judge(group);
  while (std::ssize(winners.rows) < keep) {
    const auto best = best_of(group, judgements);
    if (!best || group[best->index].status != TrialStatus::Ok) break;
    if (winners.rows.empty()) {
      winners.efficiency = best->efficiency;
      winners.latency_ns = best->latency_ns;
    }
    winners.rows.push_back(group[best->index].trial);
    const std::string taken = group[best->index].schedule_hash;
    for (size_t i = 0; i < group.size(); ++i)
      if (group[i].schedule_hash == taken) judgements[i].doubt = Doubt::NotTimed;
  }
  return winners;
}

/// Returns a text for the class of a device. It has the model and, if the record has it, the
/// microarchitecture, because processors of several generations may have the same model name.
Result<std::string> class_of(Store::State& state, const Winners& winners) {
  TW_TRY(const std::optional<Record> best, state.read(winners.rows.front()));
  std::string name(model_of(winners.device));
  if (best) name += "; " + best->machine.substr(0, best->machine.find(';'));
  return name;
}

auto shipped_order(const Record& r) {
  return std::tie(r.op, r.workload, r.target, r.threads, r.layouts, r.device, r.latency_ns, r.hash);
}

}  // namespace

Result<std::vector<Record>> distilled(Store& store, const DistilRules& rules) {
  TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
  std::map<GroupKey, Winners> by_class;
  TW_RETURN_IF_ERROR(each_group(store.state().connection, [&](const Group& group) -> Status {
    if (group.key.codegen_abi != rules.codegen_abi) return {};
    TW_TRY(std::vector<RankedTrial> trials, candidates_of(store.state().connection, group.id));
    Winners winners = winners_of(std::move(trials), group.key.device, rules.keep);
    if (winners.rows.empty()) return {};
    GroupKey of_class = group.key;
    TW_TRY(of_class.device, class_of(store.state(), winners));
    const auto [known, is_new] = by_class.try_emplace(of_class, winners);
    if (!is_new && winners.is_better_than(known->second)) known->second = std::move(winners);
    return {};
  }));
  std::vector<int64_t> rows;
  for (const auto& [key, winners] : by_class)
    rows.insert(rows.end(), winners.rows.begin(), winners.rows.end());
  TW_TRY(std::vector<StoredRecord> stored, store.state().read(rows));
  std::vector<Record> records = records_of(std::move(stored));
  std::ranges::sort(records, [](const Record& a, const Record& b) {
    return shipped_order(a) < shipped_order(b);
  });
  return records;
}

}  // namespace tw::db
