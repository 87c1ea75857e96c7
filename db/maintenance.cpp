// SPDX-License-Identifier: Apache-2.0
#include "db/maintenance.h"

#include "db/calibration.h"
#include "db/store_state.h"
#include "db/tables/best.h"

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
  const Result<std::vector<Calibration>> machines = calibrations(store);
  if (machines)
    report.calibrations = static_cast<int64_t>(machines->size());
  else
    report.integrity.push_back(machines.error().message);
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

}  // namespace tw::db
