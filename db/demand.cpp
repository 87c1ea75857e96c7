// SPDX-License-Identifier: Apache-2.0
// Implements keep_demand(), demands() and drop_demand() (demand.h).

#include "db/demand.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "db/fields.h"
#include "db/recall.h"
#include "db/store.h"
#include "db/store_state.h"
#include "db/tables/demand_tables.h"
#include "db/tables/groups.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

constexpr size_t source_digits = 64;
constexpr size_t most_kernels = 1 << 16;
// Number of demands whose kernels one statement reads.
constexpr size_t demands_at_once = 256;

bool is_hash_of_source(std::string_view text) {
  return text.size() == source_digits && is_hex(text);
}

std::string problem_of_text(std::string_view name, const std::string& text, size_t most_bytes) {
  if (text.size() <= most_bytes && is_valid_text(text)) return {};
  return fmt::format("{} is not UTF-8 text of at most {} bytes", name, most_bytes);
}

bool is_time(double ns) { return std::isfinite(ns) && ns >= 0; }

std::string problem_of_kernel(const WantedKernel& kernel) {
  for (const auto& [name, text] :
       {std::pair("op", &kernel.op), std::pair("layouts", &kernel.layouts)})
    if (std::string problem = problem_of_text(name, *text, max_text_bytes); !problem.empty())
      return problem;
  for (const auto& [name, text] :
       {std::pair("workload", &kernel.workload), std::pair("schedule", &kernel.schedule)})
    if (std::string problem = problem_of_text(name, *text, max_line_bytes); !problem.empty())
      return problem;
  if (kernel.workload.empty()) return "a kernel has no workload";
  if (!std::isfinite(kernel.runs) || kernel.runs <= 0) return "runs is no positive number";
  if (!is_time(kernel.latency_ns)) return "latency_ns of a kernel is no time";
  return kernel.most_error >= 0 ? "" : "most_error is no number from 0 on";
}

std::string problem_of_demand(const Demand& demand) {
  if (!is_hash_of_source(demand.source)) return "source is not 64 hex digits";
  for (const auto& [name, text] :
       {std::pair("name", &demand.name), std::pair("target", &demand.target),
        std::pair("device", &demand.device)})
    if (std::string problem = problem_of_text(name, *text, max_text_bytes); !problem.empty())
      return problem;
  if (demand.threads < 1) return "threads is no positive number";
  if (!is_time(demand.latency_ns)) return "latency_ns is no time";
  if (demand.kernels.size() > most_kernels)
    return fmt::format("it has more than {} kernels", most_kernels);
  for (const WantedKernel& kernel : demand.kernels)
    if (std::string problem = problem_of_kernel(kernel); !problem.empty()) return problem;
  return {};
}

/// Returns 32 bytes that identify the source, target, device, threads and codegen_abi of a demand.
std::string digest_of(const Demand& demand) {
  std::string text;
  append_field(text, "source", demand.source);
  append_field(text, "target", demand.target);
  append_field(text, "device", demand.device);
  append_field(text, "threads", std::to_string(demand.threads));
  append_field(text, "codegen_abi", std::to_string(demand.codegen_abi));
  return bytes_of_hex(sha256_hex(text));
}

GroupKey place_of(const Demand& demand, const WantedKernel& kernel) {
  return {sha256_hex(kernel.workload), demand.target, demand.threads,
          demand.codegen_abi,          demand.device, kernel.layouts};
}

/// Writes the row of the demand and returns the id of the row.
Result<int64_t> put_demand(Connection& connection, const Demand& demand) {
  TW_TRY(Statement put,
         Statement::prepare(
             connection,
             "INSERT INTO demands(digest, source, name, target, device, threads, codegen_abi, "
             "first_ns, latency_ns, first_ms, asked_ms, asked) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, "
             "?, ?, 1) ON CONFLICT(digest) DO UPDATE SET name = excluded.name, latency_ns = "
             "excluded.latency_ns, asked_ms = excluded.asked_ms, asked = demands.asked + 1 "
             "RETURNING id"));
  put.bind_blob(digest_of(demand)).bind_blob(bytes_of_hex(demand.source));
  put.bind(std::string_view(demand.name)).bind(std::string_view(demand.target));
  put.bind(std::string_view(demand.device)).bind(demand.threads).bind(demand.codegen_abi);
  put.bind(demand.latency_ns).bind(demand.latency_ns).bind(demand.asked_ms).bind(demand.asked_ms);
  int64_t id = 0;
  TW_RETURN_IF_ERROR(put.one([&](const Row& row) { id = row.integer(0); }));
  return id;
}

Status put_kernels(Connection& connection, int64_t id, const Demand& demand) {
  TW_TRY(Statement drop, Statement::prepare(connection, "DELETE FROM wanted WHERE demand_id = ?"));
  TW_RETURN_IF_ERROR(drop.bind(id).run());
  TW_TRY(Statement put,
         Statement::prepare(
             connection,
             "INSERT INTO wanted(demand_id, place, op, workload, layouts, schedule_key, schedule, "
             "runs, latency_ns, most_error, measured) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON "
             "CONFLICT(demand_id, place) DO UPDATE SET runs = wanted.runs + excluded.runs, "
             "most_error = CASE WHEN excluded.most_error < wanted.most_error THEN "
             "excluded.most_error ELSE wanted.most_error END"));
  for (const WantedKernel& kernel : demand.kernels) {
    put.bind(id).bind_blob(group_digest(place_of(demand, kernel)));
    put.bind(std::string_view(kernel.op)).bind(std::string_view(kernel.workload));
    put.bind(std::string_view(kernel.layouts)).bind_blob(schedule_key(kernel.schedule));
    put.bind(std::string_view(kernel.schedule)).bind(kernel.runs).bind(kernel.latency_ns);
    put.bind(kernel.most_error).bind(static_cast<int64_t>(kernel.is_measured));
    TW_RETURN_IF_ERROR(put.run());
  }
  return {};
}

std::string select_demands_sql(const DemandFilter& filter, const Dialect& dialect) {
  std::string sql =
      "SELECT id, digest, source, name, target, device, threads, codegen_abi, first_ns, "
      "latency_ns, "
      "first_ms, asked_ms, asked FROM demands WHERE true";
  if (filter.target) sql += " AND target = ?";
  if (filter.device) sql += " AND device = ?";
  if (filter.codegen_abi) sql += " AND codegen_abi = ?";
  if (filter.hash) sql += " AND digest = ?";
  if (filter.part_of_name) sql += fmt::format(" AND {}(lower(name), ?) > 0", dialect.position);
  sql += " ORDER BY asked_ms DESC, digest";
  return filter.limit > 0 ? fmt::format("{} LIMIT {}", sql, filter.limit) : sql;
}

Demand demand_of_row(const Row& row) {
  Demand demand;
  demand.hash = hex_of_bytes(row.blob(1));
  demand.source = hex_of_bytes(row.blob(2));
  demand.name = row.text(3);
  demand.target = row.text(4);
  demand.device = row.text(5);
  demand.threads = row.integer(6);
  demand.codegen_abi = row.integer(7);
  demand.first_ns = row.real(8);
  demand.latency_ns = row.real(9);
  demand.first_ms = row.integer(10);
  demand.asked_ms = row.integer(11);
  demand.asked = row.integer(12);
  return demand;
}

WantedKernel kernel_of_row(const Row& row) {
  WantedKernel kernel;
  kernel.op = row.text(0);
  kernel.workload = row.text(1);
  kernel.layouts = row.text(2);
  kernel.schedule = row.text(3);
  kernel.runs = row.real(4);
  kernel.latency_ns = row.real(5);
  kernel.most_error = row.real(6);
  kernel.is_measured = row.integer(7) != 0;
  kernel.trials = row.integer(8);
  kernel.best_ns = row.real(9);
  kernel.used_ns = row.real(10);
  return kernel;
}

/// Reads the kernels of the demands whose row numbers are `ids`, with the members that are computed
/// from the trials, and adds them to `demands`. `places` maps the row number of each demand to its
/// index in `demands`.
Status add_kernels(Connection& connection, std::span<const int64_t> ids,
                   const std::map<int64_t, size_t>& places, std::vector<Demand>& demands) {
  TW_TRY(
      Statement select,
      Statement::prepare(
          connection,
          fmt::format(
              "SELECT w.op, w.workload, w.layouts, w.schedule, w.runs, w.latency_ns, "
              "w.most_error, w.measured, coalesce(g.trials, 0), coalesce(b.measured_ns, 0), CASE "
              "WHEN a.schedule = w.schedule_key THEN b.measured_ns ELSE coalesce((SELECT "
              "min(t.latency_ns) FROM trials t WHERE t.group_id = g.id AND t.schedule = "
              "w.schedule_key AND t.status = 'ok'), 0) END, w.demand_id FROM wanted w LEFT JOIN "
              "groups g ON g.digest = w.place LEFT JOIN best b ON b.group_id = g.id LEFT JOIN "
              "trials a ON a.seq = b.trial WHERE w.demand_id IN ({}) ORDER BY w.place",
              fmt::join(ids, ", "))));
  return select.each([&](const Row& row) {
    demands[places.at(row.integer(11))].kernels.push_back(kernel_of_row(row));
    return true;
  });
}

}  // namespace

std::vector<std::pair<std::string, std::string>> demand_objects(const Dialect& d) {
  return {
      {"demands",
       fmt::format("CREATE TABLE demands(id {0}, digest {1} NOT NULL UNIQUE, source {1} NOT NULL, "
                   "name {2} NOT NULL, target {2} NOT NULL, device {2} NOT NULL, threads {3} NOT "
                   "NULL, codegen_abi {3} NOT NULL, first_ns {4} NOT NULL, latency_ns {4} NOT "
                   "NULL, first_ms {3} NOT NULL, asked_ms {3} NOT NULL, asked {3} NOT NULL){5}",
                   d.row_number, d.blob, d.text, d.integer, d.real, d.table_end)},
      {"wanted",
       fmt::format("CREATE TABLE wanted(demand_id {0} NOT NULL, place {1} NOT NULL, op {2} NOT "
                   "NULL, workload {2} NOT NULL, layouts {2} NOT NULL, schedule_key {1} NOT NULL, "
                   "schedule {2} NOT NULL, runs {3} NOT NULL, latency_ns {3} NOT NULL, most_error "
                   "{3} NOT NULL, measured {0} NOT NULL, PRIMARY KEY(demand_id, place)){4}",
                   d.integer, d.blob, d.text, d.real, d.table_end)},
  };
}

Status check(const Demand& demand) {
  const std::string problem = problem_of_demand(demand);
  if (problem.empty()) return {};
  return fail(ErrorCode::Invalid, fmt::format("[demand] it cannot be kept: {}", problem));
}

Status keep_demand(Store& store, const Demand& demand) {
  TW_RETURN_IF_ERROR(check(demand));
  return store.state().write([&]() -> Status {
    TW_TRY(const int64_t id, put_demand(store.state().connection, demand));
    return put_kernels(store.state().connection, id, demand);
  });
}

Result<std::vector<Demand>> demands(Store& store, const DemandFilter& filter) {
  const bool can_match = (!filter.hash || is_hash_of_source(*filter.hash)) &&
                         (!filter.part_of_name || is_valid_text(*filter.part_of_name));
  if (!can_match) return std::vector<Demand>();
  TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
  TW_TRY(Statement select,
         Statement::prepare(store.state().connection,
                            select_demands_sql(filter, store.state().connection.dialect())));
  for (const auto* text : {&filter.target, &filter.device})
    if (*text) select.bind(std::string_view(**text));
  if (filter.codegen_abi) select.bind(*filter.codegen_abi);
  if (filter.hash) select.bind_blob(bytes_of_hex(*filter.hash));
  std::string part = filter.part_of_name.value_or("");
  std::ranges::transform(part, part.begin(), to_lower);
  if (filter.part_of_name) select.bind(std::string_view(part));
  std::vector<Demand> demands;
  std::map<int64_t, size_t> places;
  TW_RETURN_IF_ERROR(select.each([&](const Row& row) {
    places.emplace(row.integer(0), demands.size());
    demands.push_back(demand_of_row(row));
    return true;
  }));
  std::vector<int64_t> ids;
  for (const auto& [id, place] : places) ids.push_back(id);
  for (size_t first = 0; first < ids.size(); first += demands_at_once)
    TW_RETURN_IF_ERROR(
        add_kernels(store.state().connection,
                    std::span(ids).subspan(first, std::min(demands_at_once, ids.size() - first)),
                    places, demands));
  return demands;
}

Result<bool> drop_demand(Store& store, const std::string& hash) {
  if (!is_hash_of_source(hash)) return false;
  bool is_dropped = false;
  const Status written = store.state().write([&]() -> Status {
    TW_TRY(Statement kernels,
           Statement::prepare(
               store.state().connection,
               "DELETE FROM wanted WHERE demand_id IN (SELECT id FROM demands WHERE digest = ?)"));
    TW_RETURN_IF_ERROR(kernels.bind_blob(bytes_of_hex(hash)).run());
    TW_TRY(Statement drop,
           Statement::prepare(store.state().connection, "DELETE FROM demands WHERE digest = ?"));
    TW_RETURN_IF_ERROR(drop.bind_blob(bytes_of_hex(hash)).run());
    is_dropped = store.state().connection.changes() > 0;
    return {};
  });
  if (!written) return tl::unexpected(written.error());
  return is_dropped;
}

}  // namespace tw::db
