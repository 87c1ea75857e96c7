// SPDX-License-Identifier: Apache-2.0
#pragma once
// Findings of `doctor` about the processor for which kernels are tuned: the microarchitecture and
// the source of its numbers, the ports, the caches and main memory. calibrate() measures these
// numbers.

#include <vector>

#include "base/target.h"
#include "db/store.h"
#include "tools/reports/device_findings.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Measures the host and stores the calibration in the database. Fails with Database if `store` is
/// null, and with TryLater if the machine is too busy.
Status calibrate(const Target& host, db::Store* store, const Surroundings& here);

/// Findings about the machine that `tune` would use for the host with this database (null: no
/// database). `calibrated` is the result of calibrate(): if it failed, a finding has the reason and
/// the machine that is used instead.
std::vector<Finding> machine_findings(const Target& host, db::Store* store,
                                      const Status& calibrated);

/// Finding about the time that a cache line takes from one core to another and back. `ns` is the
/// result of tuner::measure_round_trip_ns(). TryLater is no failure, as tuning works on a machine
/// that is busy for a moment.
Finding round_trip_finding(const Result<double>& ns);

}  // namespace tw::tools
