// SPDX-License-Identifier: Apache-2.0
#include "db/tables/quarantine.h"

#include "base/hash.h"
#include "base/text.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

constexpr size_t max_quarantined_bytes = 4 << 10;

}  // namespace

Status add_quarantined(Connection& connection, std::span<const Quarantined> bad) {
  if (bad.empty()) return {};
  TW_TRY(int64_t room, connection.integer("SELECT count(*) FROM quarantine"));
  room = most_quarantined - room;
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

}  // namespace tw::db
