// SPDX-License-Identifier: Apache-2.0
#pragma once
// Findings of `doctor` about the processor for which kernels are tuned: its microarchitecture,
// execution ports, caches and main memory, and the origin of these numbers. calibrate() measures
// the numbers.

#include <vector>

#include "base/target.h"
#include "db/store.h"
#include "tools/reports/device_findings.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Measures the processor of this machine and stores the calibration in the database. Fails with
/// Database if `store` is null, and with TryLater if the machine is too busy.
Status calibrate(const Target& host, db::Store* store, const Surroundings& here);

/// Returns findings about the machine description that `tune` would use for the host with this
/// database (null: no database). `calibrated` is the result of calibrate(). If calibrate() failed,
/// a finding has the reason and names the machine description that is used instead.
std::vector<Finding> machine_findings(const Target& host, db::Store* store,
                                      const Status& calibrated);

/// Returns a finding about the time that a cache line takes from one core to another and back. `ns`
/// is the result of tuner::measure_round_trip_ns(). The error TryLater is no failure of `doctor`,
/// because tuning works on a machine that is busy for a moment.
Finding round_trip_finding(const Result<double>& ns);

}  // namespace tw::tools
