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

/// The machine that `tune` would use for the host with this database; null: without one. Measures
/// it anew and stores that if `calibrates`. A calibration that fails is no failure of `doctor`: the
/// finding says why, and which machine is used instead.
std::vector<Finding> machine_findings(const Target& host, db::Store* store, bool calibrates,
                                      const Surroundings& here);

}  // namespace tw::tools
