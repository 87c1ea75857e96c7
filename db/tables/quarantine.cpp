// SPDX-License-Identifier: Apache-2.0
#include "db/tables/quarantine.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "db/store_state.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

constexpr int64_t max_quarantined = 10'000;
constexpr size_t max_quarantined_bytes = 4 << 10;

}  // namespace

Status add_quarantined(Connection& connection, std::span<const Quarantined> bad) {
  if (bad.empty()) return {};
  TW_TRY(int64_t room, connection.integer("SELECT count(*) FROM quarantine"));
  room = max_quarantined - room;
  TW_TRY(Statement insert, Statement::prepare(connection,
                                              "INSERT INTO quarantine VALUES(?, ?, ?) "
                                              "ON CONFLICT DO NOTHING"));
  for (const Quarantined& item : bad) {
    if (room-- <= 0) break;
    insert.bind_blob(bytes_of_hex(sha256_hex(item.line)));
    insert.bind(std::string_view(item.reason));
    insert.bind(std::string_view(item.line).substr(0, max_quarantined_bytes));
    TW_RETURN_IF_ERROR(insert.run());
  }
  return {};
}

Result<std::vector<Quarantined>> quarantined(Store& store, int64_t limit) {
  TW_TRY(Statement statement,
         Statement::prepare(store.state().connection,
                            "SELECT line, reason, hash FROM quarantine ORDER BY reason, "
                            "line LIMIT ?"));
  statement.bind(limit > 0 ? limit : max_quarantined);
  std::vector<Quarantined> all;
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    all.push_back({row.text(0), row.text(1), hex_of_bytes(row.blob(2))});
    return true;
  }));
  return all;
}

Result<int64_t> drop_quarantined(Store& store, const std::string& hash) {
  int64_t dropped = 0;
  const Status removed = store.state().write([&]() -> Status {
    const std::string_view condition = hash.empty() ? "" : " WHERE hash = ?";
    TW_TRY(Statement remove,
           Statement::prepare(store.state().connection,
                              fmt::format("DELETE FROM quarantine{}", condition)));
    if (!hash.empty()) remove.bind_blob(bytes_of_hex(hash));
    TW_RETURN_IF_ERROR(remove.run());
    dropped = store.state().connection.changes();
    return {};
  });
  if (!removed) return tl::unexpected(removed.error());
  return dropped;
}

}  // namespace tw::db
