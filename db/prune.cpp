// SPDX-License-Identifier: Apache-2.0
// Deletes records: those that can never be an answer (prune()), and a given one (drop_record()).

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "base/text.h"
#include "db/maintenance.h"
#include "db/ranking.h"
#include "db/store.h"
#include "db/store_state.h"
#include "db/tables/best.h"
#include "db/tables/insertion.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

/// A trial of a group that may be deleted.
struct Removable {
  size_t index;
  double latency_ns;  ///< scaled to the peak of the group; infinite if the trial was not timed
  const char* reason;
};

/// Returns the trials that may be deleted: those that were not timed, and believed trials that are
/// clearly slower than the answer. Trials of the answer's schedule and trials that prove a schedule
/// wrong are not among them. They are sorted by latency, because the fastest of them may have to
/// stay (PruneRules::keep).
std::vector<Removable> removable_of(const std::vector<RankedTrial>& group,
                                    const std::vector<Judgement>& judgements, const Ranked& best,
                                    const PruneRules& rules) {
  std::vector<Removable> removable;
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i].schedule_hash == group[best.index].schedule_hash) continue;
    if (proves_wrong(group[i].status)) continue;
    const Judgement& judgement = judgements[i];
    if (judgement.doubt == Doubt::NotTimed)
      removable.push_back({i, std::numeric_limits<double>::infinity(), "not timed"});
    else if (judgement.doubt == Doubt::None &&
             judgement.latency_ns > rules.slower_than * best.latency_ns)
      removable.push_back({i, judgement.latency_ns, "clearly slower"});
  }
  std::sort(removable.begin(), removable.end(), [&](const Removable& a, const Removable& b) {
    return std::tie(a.latency_ns, group[a.index].hash) <
           std::tie(b.latency_ns, group[b.index].hash);
  });
  return removable;
}

/// Returns the trials of an old group that are not of the answer's schedule and prove no schedule
/// wrong. Their latencies are as measured, because only removable_of() sorts by latency.
std::vector<Removable> removable_of_old(const std::vector<RankedTrial>& group, const Ranked& best) {
  std::vector<Removable> removable;
  for (size_t i = 0; i < group.size(); ++i)
    if (group[i].schedule_hash != group[best.index].schedule_hash && !proves_wrong(group[i].status))
      removable.push_back({i, group[i].latency_ns, "of an old group"});
  return removable;
}

/// True if the group has the same answer without the removed trials.
bool answers_the_same(const std::vector<RankedTrial>& group, const Ranked& best,
                      std::span<const Removable> removed) {
  std::set<size_t> gone;
  for (const Removable& trial : removed) gone.insert(trial.index);
  std::vector<RankedTrial> rest;
  for (size_t i = 0; i < group.size(); ++i)
    if (!gone.contains(i)) rest.push_back(group[i]);
  const auto answer = best_of(rest);
  return answer && rest[answer->index].hash == group[best.index].hash;
}

struct Plan {
  std::vector<int64_t> rows;
  std::vector<int64_t> groups;  ///< groups that lose a row
  PruneReport report;

  void remove(int64_t row, const char* reason) {
    rows.push_back(row);
    ++report.pruned;
    ++report.by_reason[reason];
  }
};

void plan_group(const std::vector<RankedTrial>& group, bool is_old, const PruneRules& rules,
                Plan& plan) {
  const std::vector<Judgement> judgements = judge(group);
  const auto best = best_of(group, judgements);
  if (!best) return;
  if (is_old) {
    const std::vector<Removable> old = removable_of_old(group, *best);
    // If the answer would change, the group is pruned as any other group.
    if (answers_the_same(group, *best, old)) {
      for (const Removable& trial : old) plan.remove(group[trial.index].trial, trial.reason);
      return;
    }
  }
  const std::vector<Removable> removable = removable_of(group, judgements, *best, rules);
  const int64_t stay = std::ssize(group) - std::ssize(removable);
  const auto spared =
      static_cast<size_t>(std::clamp<int64_t>(rules.keep - stay, 0, std::ssize(removable)));
  const std::span<const Removable> removed = std::span(removable).subspan(spared);
  if (!answers_the_same(group, *best, removed)) return;
  for (const Removable& trial : removed) plan.remove(group[trial.index].trial, trial.reason);
}

/// Returns the ids of the groups in which every trial was made before `before_ms`. The column
/// `newest_ms`, the time of the trial that was stored last, excludes most other groups at once. It
/// alone is not enough, because a merge may store older trials after newer ones.
Result<std::set<int64_t>> old_groups(Connection& connection, int64_t before_ms) {
  std::set<int64_t> old;
  if (before_ms <= 0) return old;
  TW_TRY(Statement select,
         Statement::prepare(connection,
                            "SELECT g.id FROM groups g WHERE g.newest_ms < ? AND NOT EXISTS "
                            "(SELECT 1 FROM trials t WHERE t.group_id = g.id AND t.created_ms >= "
                            "?)"));
  TW_RETURN_IF_ERROR(select.bind(before_ms).bind(before_ms).each([&](const Row& row) {
    old.insert(row.integer(0));
    return true;
  }));
  return old;
}

Result<int64_t> count_old_demands(Connection& connection, int64_t before_ms) {
  if (before_ms <= 0) return 0;
  TW_TRY(Statement select,
         Statement::prepare(connection, "SELECT count(*) FROM demands WHERE asked_ms < ?"));
  int64_t count = 0;
  TW_RETURN_IF_ERROR(select.bind(before_ms).one([&](const Row& row) { count = row.integer(0); }));
  return count;
}

Status forget_demands(Connection& connection, int64_t before_ms) {
  for (const char* sql :
       {"DELETE FROM wanted WHERE demand_id IN (SELECT id FROM demands WHERE asked_ms < ?)",
        "DELETE FROM demands WHERE asked_ms < ?"}) {
    TW_TRY(Statement forget, Statement::prepare(connection, sql));
    TW_RETURN_IF_ERROR(forget.bind(before_ms).run());
  }
  return {};
}

Result<Plan> plan_of(Connection& connection, const PruneRules& rules) {
  Plan plan;
  TW_TRY(plan.report.records, connection.integer("SELECT count(*) FROM trials"));
  TW_TRY(plan.report.demands, count_old_demands(connection, rules.before_ms));
  TW_TRY(const std::set<int64_t> old, old_groups(connection, rules.before_ms));
  TW_RETURN_IF_ERROR(each_group(connection, [&](const Group& group) -> Status {
    const bool is_old = old.contains(group.id);
    // Nothing is removed from a group with so few trials, so its trials need not be read.
    if (!is_old && group.key.codegen_abi >= rules.codegen_abi && group.trials <= rules.keep)
      return {};
    TW_TRY(const std::vector<RankedTrial> trials, candidates_of(connection, group.id));
    const int64_t before = plan.report.pruned;
    if (group.key.codegen_abi < rules.codegen_abi)
      for (const RankedTrial& trial : trials) plan.remove(trial.trial, "older code generation");
    else
      plan_group(trials, is_old, rules, plan);
    if (plan.report.pruned > before) plan.groups.push_back(group.id);
    return {};
  }));
  return plan;
}

Status remove_rows(Connection& connection, const Plan& plan) {
  TW_RETURN_IF_ERROR(keep_highest_number(connection));
  TW_TRY(Statement remove, Statement::prepare(connection, "DELETE FROM trials WHERE seq = ?"));
  for (const int64_t row : plan.rows) TW_RETURN_IF_ERROR(remove.bind(row).run());
  for (const int64_t group : plan.groups) TW_RETURN_IF_ERROR(refresh_group(connection, group));
  return recount_statuses(connection);
}

Status carry_out(Connection& connection, const Plan& plan, const PruneRules& rules) {
  if (plan.report.demands > 0) TW_RETURN_IF_ERROR(forget_demands(connection, rules.before_ms));
  return remove_rows(connection, plan);
}

}  // namespace

Result<PruneReport> prune(Store& store, const PruneRules& rules, Pruning pruning) {
  if (pruning == Pruning::DryRun) {
    TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
    TW_TRY(const Plan plan, plan_of(store.state().connection, rules));
    return plan.report;
  }
  PruneReport report;
  TW_RETURN_IF_ERROR(store.state().write([&]() -> Status {
    TW_TRY(const Plan plan, plan_of(store.state().connection, rules));
    report = plan.report;
    return carry_out(store.state().connection, plan, rules);
  }));
  return report;
}

Status drop_record(Store& store, const Record& record) {
  return store.state().write([&]() -> Status {
    TW_RETURN_IF_ERROR(keep_highest_number(store.state().connection));
    TW_TRY(Statement remove,
           Statement::prepare(store.state().connection, "DELETE FROM trials WHERE hash = ?"));
    TW_RETURN_IF_ERROR(remove.bind_blob(bytes_of_hex(record.hash)).run());
    const int64_t removed = store.state().connection.changes();
    TW_TRY(const std::optional<Group> group,
           find_group(store.state().connection, group_key_of(record)));
    if (group) TW_RETURN_IF_ERROR(refresh_group(store.state().connection, group->id));
    TW_TRY(Statement count,
           Statement::prepare(store.state().connection,
                              "UPDATE statuses SET trials = trials - ? WHERE status = ?"));
    return count.bind(removed).bind(to_string(record.status)).run();
  });
}

}  // namespace tw::db
