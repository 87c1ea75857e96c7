// SPDX-License-Identifier: Apache-2.0
#include "db/tables/old_rows.h"

#include <fmt/format.h>

#include "base/text.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

// Index of the first field's column. Before it come seq, hash, workload_hash, schedule_hash.
constexpr int first_field = 4;

}  // namespace

std::vector<std::string> columns_added_by(int version, const Dialect& d) {
  if (version == 2)
    return {fmt::format("machine {} NOT NULL DEFAULT ''", d.text),
            fmt::format("configuration {} NOT NULL DEFAULT ''", d.text)};
  return {fmt::format("bytes {} NOT NULL DEFAULT 0", d.real),
          fmt::format("peak_gb_per_s {} NOT NULL DEFAULT 0", d.real)};
}

std::string select_old_trials_sql(std::string_view table, int version) {
  std::string columns = "seq, hash, workload_hash, schedule_hash";
  Record record;
  visit_fields(
      record, [&](const char* name, auto&) { columns += std::string(", ") + name; }, version);
  return fmt::format("SELECT {} FROM {}", columns, table);
}

int64_t old_seq_of(const Row& row) { return row.integer(0); }

Result<Record> old_record_of(const Row& row, int version) {
  Record record;
  record.hash = hex_of_bytes(row.blob(1));
  record.workload_hash = hex_of_bytes(row.blob(2));
  record.schedule_hash = hex_of_bytes(row.blob(3));
  int column = first_field;
  bool readable = true;
  visit_fields(
      record, [&](const char*, auto& member) { readable &= read_column(row, column++, member); },
      version);
  if (!readable) return fail(ErrorCode::Database, "[record] a column holds another kind of value");
  TW_RETURN_IF_ERROR(check(record));
  return record;
}

}  // namespace tw::db
