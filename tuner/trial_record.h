// SPDX-License-Identifier: Apache-2.0
#pragma once
// A measurement as a fact for the database.

#include <string_view>

#include "base/target.h"
#include "db/record.h"
#include "dsl/workload.h"
#include "tuner/jobs.h"

namespace tw::tuner {

/// What was run, where, and what came of it: `toolchain` is what the builder named
/// (BuildReply). The caller adds provenance and seals it.
db::Record trial_record(const dsl::Workload& workload, const Target& target, int threads,
                        std::string_view toolchain, std::string_view schedule,
                        const MeasureReply& reply, double peak_gflops);

}  // namespace tw::tuner
