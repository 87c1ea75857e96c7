// SPDX-License-Identifier: Apache-2.0
#include "db/maintenance.h"

#include <fmt/format.h>

#include "base/text.h"
#include "db/calibration.h"
#include "db/store_state.h"
#include "db/tables/best.h"
#include "db/tables/quarantine.h"
#include "db/tables/rows.h"

namespace tw::db {

Result<VerifyReport> verify(Store& store) {
  VerifyReport report;
  TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
  TW_TRY(report.integrity, store.state().connection.integrity());
  const int64_t damaged_before = store.state().damaged;
  const Status read = store.for_each({}, [&](const Record&) {
    ++report.records;
    return true;
  });
  if (!read) report.integrity.push_back(read.error().message);
  const Status machines = for_each_calibration(store, [&](const Calibration&) -> Status {
    ++report.calibrations;
    return {};
  });
  if (!machines) report.integrity.push_back(machines.error().message);
  report.damaged = store.state().damaged - damaged_before;
  const Result<int64_t> aside = store.state().connection.integer("SELECT count(*) FROM quarantine");
  if (aside)
    report.quarantined = *aside;
  else
    report.integrity.push_back(aside.error().message);
  const Result<int64_t> wrong = count_wrong_rows(store.state().connection);
  if (wrong)
    report.wrong_best = *wrong;
  else
    report.integrity.push_back(wrong.error().message);
  return report;
}

Status derive_best(Store& store) {
  return store.state().write([&] { return refresh_all(store.state().connection); });
}

Result<std::vector<Quarantined>> quarantined(Store& store, int64_t limit) {
  TW_TRY(Statement statement,
         Statement::prepare(store.state().connection,
                            "SELECT line, reason, hash FROM quarantine ORDER BY reason, "
                            "line LIMIT ?"));
  statement.bind(limit > 0 ? limit : most_quarantined);
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
