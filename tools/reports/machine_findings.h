// SPDX-License-Identifier: Apache-2.0
#pragma once
// Findings of `doctor` about the processor that kernels are tuned for: the microarchitecture and
// the origin of its numbers, the ports, the caches and main memory. calibrate() measures them anew.

#include <vector>

#include "base/target.h"
#include "db/store.h"
#include "tools/reports/device_findings.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Measures the host anew and stores the calibration. Fails with Database if `store` is null, as
/// there is no database to store it in, and with TryLater if the machine was too busy.
Status calibrate(const Target& host, db::Store* store, const Surroundings& here);

/// Findings about the machine that `tune` would use for the host with this database (null: without
/// a database). If the calibration that was asked for failed, a finding has the reason and the
/// machine that is used instead.
std::vector<Finding> machine_findings(const Target& host, db::Store* store,
                                      const Status& calibrated);

/// Finding about the time for a cache line from one core to another and back, from the result of
/// tuner::measure_round_trip_ns(). TryLater is no failure, as tuning works on a machine that is
/// busy for a moment.
Finding round_trip_finding(const Result<double>& ns);

}  // namespace tw::tools
