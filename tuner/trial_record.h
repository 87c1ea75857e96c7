// SPDX-License-Identifier: Apache-2.0
#pragma once
// A measurement as a fact for the database.

#include <string_view>

#include "base/target.h"
#include "db/record.h"
#include "dsl/workload.h"
#include "tuner/workers/jobs.h"

namespace tw::tuner {

/// Peak GFLOP/s of multiply-adds for the workload on the target, given the measured one for f32. It
/// is half of that where a stage is f64, of which a vector holds half as many. Processors compute
/// narrower floats as f32. On a GPU whose tensor cores multiply the inputs' type, the peak is
/// theirs: the measured one times the ratio of both rates in the machine's description.
double peak_for(const dsl::Workload& workload, const Target& target, double f32_gflops);

/// Record of a trial: the kernel that was run, the target and threads that it was run on, and the
/// outcome. `toolchain` is the one that the builder named (BuildReply), and `peak_gflops` is that
/// of peak_for(). The caller adds provenance and seals the record.
db::Record trial_record(const dsl::Workload& workload, const Target& target, int threads,
                        std::string_view toolchain, std::string_view schedule,
                        const MeasureReply& reply, double peak_gflops);

}  // namespace tw::tuner
