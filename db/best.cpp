// SPDX-License-Identifier: Apache-2.0
#include "db/best.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "db/rows.h"

namespace tw::db {
namespace {

constexpr const char* group_condition =
    "workload_hash = ? AND target = ? AND threads = ? AND codegen_abi = ? AND device = ? AND "
    "layouts = ?";

// Reads the group from the first columns of a row.
BestKey read_group(const Row& row) {
  return {hex_of_bytes(row.blob(0)),
          row.text(1),
          row.integer(2),
          row.integer(3),
          row.text(4),
          row.text(5)};
}

constexpr const char* select_groups =
    "SELECT DISTINCT workload_hash, target, threads, codegen_abi, device, layouts FROM trials";

Result<std::vector<BestKey>> read_groups(Statement& statement) {
  std::vector<BestKey> groups;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    groups.push_back(read_group(row));
    return true;
  }));
  // The database's order of texts depends on its collation.
  std::sort(groups.begin(), groups.end());
  return groups;
}

void bind_group(Statement& statement, const BestKey& group) {
  statement.bind_blob(bytes_of_hex(group.workload_hash)).bind(std::string_view(group.target));
  statement.bind(group.threads).bind(group.codegen_abi);
  statement.bind(std::string_view(group.device)).bind(std::string_view(group.layouts));
}

struct BestRow {
  BestKey group;
  int64_t trial;
  double latency_ns;
  double efficiency;
  auto operator<=>(const BestRow&) const = default;
};

Result<std::optional<BestRow>> best_row_of(Connection& connection, const BestKey& group) {
  TW_TRY(const std::vector<RankedTrial> candidates, candidates_of(connection, group));
  const auto best = best_of(candidates);
  if (!best) return std::optional<BestRow>();
  return std::optional<BestRow>(
      {group, candidates[best->index].trial, best->latency_ns, best->efficiency});
}

Result<std::set<BestRow>> stored_best(Connection& connection) {
  TW_TRY(Statement statement,
         Statement::prepare(connection,
                            "SELECT workload_hash, target, threads, codegen_abi, device, "
                            "layouts, trial, latency_ns, efficiency FROM best"));
  std::set<BestRow> rows;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    rows.insert({read_group(row), row.integer(6), row.real(7), row.real(8)});
    return true;
  }));
  return rows;
}

Result<std::set<BestRow>> recomputed_best(Connection& connection) {
  TW_TRY(const std::vector<BestKey> groups, groups_of(connection));
  std::set<BestRow> rows;
  for (const BestKey& group : groups) {
    TW_TRY(std::optional<BestRow> best, best_row_of(connection, group));
    if (best) rows.insert(std::move(*best));
  }
  return rows;
}

}  // namespace

Result<std::vector<BestKey>> groups_of(Connection& connection) {
  TW_TRY(Statement statement, Statement::prepare(connection, select_groups));
  return read_groups(statement);
}

Result<std::vector<BestKey>> groups_of(Connection& connection, const std::string& workload_hash,
                                       const std::string& layouts) {
  TW_TRY(Statement statement,
         Statement::prepare(
             connection, fmt::format("{} WHERE workload_hash = ? AND layouts = ?", select_groups)));
  statement.bind_blob(bytes_of_hex(workload_hash)).bind(std::string_view(layouts));
  return read_groups(statement);
}

BestKey best_key_of(const Record& record) {
  return {record.workload_hash, record.target, record.threads,
          record.codegen_abi,   record.device, record.layouts};
}

Result<std::vector<RankedTrial>> candidates_of(Connection& connection, const BestKey& group) {
  TW_TRY(Statement statement,
         Statement::prepare(
             connection, fmt::format("SELECT seq, hash, schedule_hash, status, latency_ns, flops, "
                                     "peak_gflops, session, host, bytes, peak_gb_per_s, toolchain "
                                     "FROM trials WHERE {}",
                                     group_condition)));
  bind_group(statement, group);
  std::vector<RankedTrial> candidates;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    const auto status = parse_trial_status(row.text(3));
    if (status)
      candidates.push_back({row.integer(0), std::string(row.blob(1)), std::string(row.blob(2)),
                            *status, row.real(4), row.real(5), row.real(6), row.text(7),
                            row.text(8), row.real(9), row.real(10), row.text(11)});
    return true;
  }));
  return candidates;
}

Result<JudgedGroup> judged_group(Connection& connection, const BestKey& key) {
  JudgedGroup group;
  TW_TRY(group.trials, candidates_of(connection, key));
  // The same order in every database with these trials.
  std::ranges::sort(group.trials, {}, &RankedTrial::hash);
  group.judgements = judge(group.trials);
  return group;
}

Status refresh_best(Connection& connection, const BestKey& group) {
  TW_TRY(const std::optional<BestRow> best, best_row_of(connection, group));
  if (!best) {
    TW_TRY(Statement remove, Statement::prepare(connection, fmt::format("DELETE FROM best WHERE {}",
                                                                        group_condition)));
    bind_group(remove, group);
    return remove.run();
  }
  TW_TRY(Statement update,
         Statement::prepare(connection, fmt::format("UPDATE best SET trial = ?, latency_ns = ?, "
                                                    "efficiency = ? WHERE {}",
                                                    group_condition)));
  update.bind(best->trial).bind(best->latency_ns).bind(best->efficiency);
  bind_group(update, group);
  TW_RETURN_IF_ERROR(update.run());
  if (connection.changes() > 0) return {};
  TW_TRY(Statement insert,
         Statement::prepare(connection, "INSERT INTO best VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  bind_group(insert, group);
  insert.bind(best->trial).bind(best->latency_ns).bind(best->efficiency);
  return insert.run();
}

Status refresh_all_best(Connection& connection) {
  TW_RETURN_IF_ERROR(connection.execute("DELETE FROM best"));
  TW_TRY(const std::vector<BestKey> groups, groups_of(connection));
  for (const BestKey& group : groups) TW_RETURN_IF_ERROR(refresh_best(connection, group));
  return {};
}

Result<int64_t> count_wrong_best(Connection& connection) {
  TW_TRY(const std::set<BestRow> stored, stored_best(connection));
  TW_TRY(const std::set<BestRow> computed, recomputed_best(connection));
  int64_t wrong = 0;
  for (const BestRow& row : stored) wrong += !computed.contains(row);
  for (const BestRow& row : computed) wrong += !stored.contains(row);
  return wrong;
}

}  // namespace tw::db
