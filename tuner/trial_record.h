// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns the result of a measurement into a record for the database.

#include <string_view>

#include "base/target.h"
#include "db/record.h"
#include "dsl/workload.h"
#include "tuner/workers/jobs.h"

namespace tw::tuner {

/// Peak GFLOP/s of multiply-adds for the workload on the target. `f32_gflops` is the measured peak
/// for f32. If a stage is f64 the peak is half of it, as a vector holds half as many elements.
/// Narrower floats have the f32 peak on processors. On a GPU whose tensor cores multiply the
/// inputs' type, the peak is that of the tensor cores: the measured one times the ratio of both
/// rates in the machine description.
double peak_for(const dsl::Workload& workload, const Target& target, double f32_gflops);

/// The record of a trial: the kernel that was run, the target and number of threads, and the
/// outcome. `toolchain` is the builder's (BuildReply::toolchain), and `peak_gflops` comes from
/// peak_for(). The caller adds provenance and seals the record.
db::Record trial_record(const dsl::Workload& workload, const Target& target, int threads,
                        std::string_view toolchain, std::string_view schedule,
                        const MeasureReply& reply, double peak_gflops);

}  // namespace tw::tuner
