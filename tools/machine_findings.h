// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `doctor` finds about the processor that kernels are tuned for: the microarchitecture and
// where its numbers come from, the ports, the caches, main memory; and a new calibration of it.

#include <vector>

#include "base/target.h"
#include "db/store.h"
#include "tools/device_findings.h"
#include "tools/surroundings.h"

namespace tw::tools {

/// Measures the host anew and stores that; null: there is no database that keeps it. TryLater where
/// the machine was too busy.
Status calibrate(const Target& host, db::Store* store, const Surroundings& here);

/// The machine that `tune` would use for the host with this database; null: without one. Where the
/// calibration that was asked for failed, the finding says why, and which machine is used instead.
std::vector<Finding> machine_findings(const Target& host, db::Store* store,
                                      const Status& calibrated);

/// The time for a cache line from one core to another and back, as tuner::measure_round_trip_ns()
/// gave it. TryLater is no failure: tuning works on a machine that is busy for a moment.
Finding round_trip_finding(const Result<double>& ns);

}  // namespace tw::tools
