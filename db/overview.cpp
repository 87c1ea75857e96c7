// SPDX-License-Identifier: Apache-2.0
#include "db/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/text.h"
#include "db/answers.h"
#include "db/fields.h"
#include "db/recall.h"
#include "db/store.h"
#include "db/store_state.h"
#include "db/tables/best.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

std::string shortened(std::string_view column, int64_t characters = most_text_characters) {
  return fmt::format("substr({}, 1, {})", column, characters);
}

// Number of entries that one statement reads. It limits memory, because a server's reply is in
// memory as a whole.
constexpr int64_t entries_at_once = 8'192;

std::string groups_sql(std::string_view condition) {
  return fmt::format(
      "SELECT g.workload_hash, {}, {}, {}, {}, {}, g.threads, g.codegen_abi, g.trials, "
      "g.newest_ms, b.hash, b.measured_ns, b.efficiency FROM groups g LEFT JOIN best b ON "
      "b.group_id = g.id WHERE {} ORDER BY g.last DESC LIMIT ?",
      shortened("g.workload", most_key_characters), shortened("g.op"), shortened("g.target"),
      shortened("g.device"), shortened("g.layouts", most_key_characters), condition);
}

std::string entries_sql(bool with_answers) {
  return fmt::format(
      "SELECT g.last, g.id, g.workload_hash, {}, {}, {}, g.trials, g.newest_ms{} FROM groups g{} "
      "WHERE g.last < ? ORDER BY g.last DESC LIMIT ?",
      shortened("g.layouts", most_key_characters), shortened("g.op"), shortened("g.device"),
      with_answers ? ", b.measured_ns, b.efficiency" : "",
      with_answers ? " LEFT JOIN best b ON b.group_id = g.id" : "");
}

/// Returns an SQL expression for the workload_text() of a group, with key and layouts cut as in
/// summaries.
std::string name_sql() {
  return fmt::format("{} || CASE WHEN g.layouts = '' THEN '' ELSE ' {{' || {} || '}}' END",
                     shortened("g.workload", most_key_characters),
                     shortened("g.layouts", most_key_characters));
}

Result<std::vector<int64_t>> read_ids(Statement& statement) {
  std::vector<int64_t> ids;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    ids.push_back(row.integer(0));
    return true;
  }));
  return ids;
}

/// Returns a SELECT of places by their number of operations. `from` is the comparison with a given
/// number, `order` the order that puts the nearest places first. For example, ">=" and "ASC" select
/// places with at least the given number.
std::string places_sql(const Dialect& d, std::string_view from, std::string_view order) {
  return fmt::format(
      "SELECT g.workload, g.target, g.device, g.layouts FROM groups g JOIN best b ON b.group_id = "
      "g.id WHERE {} AND g.op = ? AND g.threads = ? AND g.codegen_abi = ? AND g.flops {} ? ORDER "
      "BY g.flops {} LIMIT ?",
      d.op_condition, from, order);
}

std::string trials_sql() {
  return fmt::format(
      "SELECT t.hash, {}, {}, {}, t.threads, t.codegen_abi, t.status, t.latency_ns, t.created_ms, "
      "t.seq FROM groups g JOIN trials t ON t.group_id = g.id JOIN sessions s ON s.id = "
      "t.session_id WHERE g.workload_hash = ? AND g.layouts = ? ORDER BY t.seq DESC LIMIT ?",
      shortened("g.target"), shortened("g.device"), shortened("s.session"));
}

GroupSummary group_of_row(const Row& row) {
  GroupSummary group;
  group.workload_hash = hex_of_bytes(row.blob(0));
  group.workload = row.text(1);
  group.op = row.text(2);
  group.target = row.text(3);
  group.device = row.text(4);
  group.layouts = row.text(5);
  group.threads = row.integer(6);
  group.codegen_abi = row.integer(7);
  group.trials = row.integer(8);
  group.newest_ms = row.integer(9);
  group.best = hex_of_bytes(row.blob(10));
  group.latency_ns = row.real(11);
  group.efficiency = row.real(12);
  return group;
}

Result<std::vector<GroupSummary>> read_summaries(Statement& statement) {
  std::vector<GroupSummary> groups;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    groups.push_back(group_of_row(row));
    return true;
  }));
  return groups;
}

TrialSummary trial_of_row(const Row& row) {
  TrialSummary trial;
  trial.hash = hex_of_bytes(row.blob(0));
  trial.target = row.text(1);
  trial.device = row.text(2);
  trial.session = row.text(3);
  trial.threads = row.integer(4);
  trial.codegen_abi = row.integer(5);
  trial.status = parse_trial_status(row.text(6));
  trial.latency_ns = row.real(7);
  trial.created_ms = row.integer(8);
  return trial;
}

/// The judgement of a trial, and its counted latency (counted_latencies()).
struct Standing {
  Doubt doubt;
  double counted_ns;
};

/// Returns the standings of all trials of a workload and layouts, by row number. Each trial is
/// judged by all trials of its group.
Result<std::map<int64_t, Standing>> standings_of(Connection& connection,
                                                 const std::string& workload_hash,
                                                 const std::string& layouts) {
  std::map<int64_t, Standing> standings;
  TW_TRY(const std::vector<Group> groups, groups_of(connection, workload_hash, layouts));
  for (const Group& of : groups) {
    TW_TRY(const JudgedGroup group, judged_group(connection, of.id));
    const std::vector<double> counted = counted_latencies(group.trials, group.judgements);
    for (size_t i = 0; i < group.trials.size(); ++i)
      standings[group.trials[i].trial] = {group.judgements[i].doubt, counted[i]};
  }
  return standings;
}

bool is_hash(std::string_view text) { return text.size() == 64 && is_hex(text); }

}  // namespace

Result<std::vector<GroupSummary>> groups(Store& store, int64_t limit) {
  TW_TRY(Statement statement, Statement::prepare(store.state().connection, groups_sql("true")));
  statement.bind(limit);
  return read_summaries(statement);
}

Result<std::vector<GroupSummary>> workload_groups(Store& store, int64_t id, int64_t limit) {
  TW_TRY(Statement statement,
         Statement::prepare(
             store.state().connection,
             groups_sql("g.workload_hash = (SELECT workload_hash FROM groups WHERE id = ?) AND "
                        "g.layouts = (SELECT layouts FROM groups WHERE id = ?)")));
  statement.bind(id).bind(id).bind(limit);
  return read_summaries(statement);
}

Result<std::vector<GroupSummary>> workload_groups(Store& store, const std::string& workload_hash,
                                                  const std::string& layouts, int64_t limit) {
  if (!is_hash(workload_hash) || !is_valid_text(layouts)) return std::vector<GroupSummary>();
  TW_TRY(Statement statement,
         Statement::prepare(store.state().connection,
                            groups_sql("g.workload_hash = ? AND g.layouts = ?")));
  statement.bind_blob(bytes_of_hex(workload_hash)).bind(std::string_view(layouts)).bind(limit);
  return read_summaries(statement);
}

Status for_each_group(Store& store, int64_t limit, bool with_answers, const VisitEntry& visit) {
  TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
  TW_TRY(Statement statement,
         Statement::prepare(store.state().connection, entries_sql(with_answers)));
  for (int64_t last = std::numeric_limits<int64_t>::max(); limit > 0;) {
    const int64_t most = std::min(limit, entries_at_once);
    int64_t visited = 0;
    TW_RETURN_IF_ERROR(statement.bind(last).bind(most).each([&](const Row& row) {
      ++visited;
      last = row.integer(0);
      const std::string layouts = row.text(3), op = row.text(4), device = row.text(5);
      GroupEntry entry = {.id = row.integer(1),
                          .workload_hash = row.blob(2),
                          .layouts = layouts,
                          .op = op,
                          .device = device,
                          .trials = row.integer(6),
                          .newest_ms = row.integer(7)};
      if (with_answers) {
        entry.latency_ns = row.real(8);
        entry.efficiency = row.real(9);
      }
      visit(entry);
      return true;
    }));
    if (visited < most) break;
    limit -= visited;
  }
  return {};
}

Result<std::vector<int64_t>> groups_named(Store& store, const std::string& part) {
  if (!is_valid_text(part)) return std::vector<int64_t>();
  std::string small = part;
  std::ranges::transform(small, small.begin(), to_lower);
  TW_TRY(Statement statement,
         Statement::prepare(store.state().connection,
                            fmt::format("SELECT g.id FROM groups g WHERE {}(lower({}), ?) > 0",
                                        store.state().connection.dialect().position, name_sql())));
  TW_TRY(std::vector<int64_t> ids, read_ids(statement.bind(std::string_view(small))));
  std::ranges::sort(ids);
  return ids;
}

Result<std::vector<int64_t>> groups_by_name(Store& store) {
  TW_TRY(Statement statement,
         Statement::prepare(
             store.state().connection,
             fmt::format("SELECT g.id FROM groups g ORDER BY {}, g.last DESC", name_sql())));
  return read_ids(statement);
}

Result<std::vector<std::string>> targets_of(Store& store, const Key& key) {
  TW_TRY(Statement statement,
         Statement::prepare(store.state().connection,
                            "SELECT DISTINCT g.target FROM groups g JOIN best b ON b.group_id = "
                            "g.id WHERE g.workload_hash = ? AND g.threads = ? AND g.codegen_abi "
                            "= ? AND g.layouts = ?"));
  statement.bind_blob(bytes_of_hex(sha256_hex(key.workload))).bind(key.threads);
  statement.bind(key.codegen_abi).bind(std::string_view(key.layouts));
  std::set<std::string> targets;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    targets.insert(row.text(0));
    return true;
  }));
  store.state().each_layer([&](OpenLayer& layer) -> Status {
    TW_TRY(const std::vector<std::string> lower, targets_of(layer.store, key));
    targets.insert(lower.begin(), lower.end());
    return {};
  });
  return std::vector<std::string>(targets.begin(), targets.end());
}

Result<std::vector<Place>> places(Store& store, const std::string& op, int64_t threads,
                                  int64_t codegen_abi, double flops, int64_t most) {
  std::set<Place> found;
  for (const auto& [from, order] : {std::pair(">=", "ASC"), {"<", "DESC"}}) {
    TW_TRY(Statement statement,
           Statement::prepare(store.state().connection,
                              places_sql(store.state().connection.dialect(), from, order)));
    statement.bind(std::string_view(op)).bind(std::string_view(op)).bind(threads);
    statement.bind(codegen_abi).bind(flops).bind(most);
    TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
      found.insert({row.text(0), row.text(1), row.text(2), row.text(3)});
      return true;
    }));
  }
  store.state().each_layer([&](OpenLayer& layer) -> Status {
    TW_TRY(const std::vector<Place> lower,
           places(layer.store, op, threads, codegen_abi, flops, most));
    found.insert(lower.begin(), lower.end());
    return {};
  });
  return std::vector<Place>(found.begin(), found.end());
}

Result<std::vector<TrialSummary>> trials(Store& store, const std::string& workload_hash,
                                         const std::string& layouts, int64_t limit) {
  std::vector<TrialSummary> trials;
  if (!is_hash(workload_hash)) return trials;
  TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
  TW_TRY(const auto standings, standings_of(store.state().connection, workload_hash, layouts));
  TW_TRY(Statement statement, Statement::prepare(store.state().connection, trials_sql()));
  statement.bind_blob(bytes_of_hex(workload_hash)).bind(std::string_view(layouts)).bind(limit);
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    trials.push_back(trial_of_row(row));
    if (const auto standing = standings.find(row.integer(9)); standing != standings.end()) {
      trials.back().doubt = standing->second.doubt;
      trials.back().counted_ns = standing->second.counted_ns;
    }
    return true;
  }));
  std::ranges::reverse(trials);
  return trials;
}

Result<std::optional<Record>> Store::find(const std::string& hash) {
  if (!is_hash(hash)) return std::optional<Record>();
  TW_TRY(Statement statement,
         Statement::prepare(state_->connection, "SELECT seq FROM trials WHERE hash = ?"));
  statement.bind_blob(bytes_of_hex(hash));
  int64_t seq = 0;
  TW_TRY(const bool found, statement.one([&](const Row& row) { seq = row.integer(0); }));
  if (!found) return std::optional<Record>();
  return state_->read(seq);
}

}  // namespace tw::db
