// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns the result of a measurement into a record for the database.

#include <string_view>

#include "base/target.h"
#include "db/record.h"
#include "dsl/workload.h"
#include "tuner/workers/jobs.h"

namespace tw::tuner {

/// Returns the peak rate of multiply-adds for the types of the workload, in GFLOP/s. `f32_gflops`
/// is the measured peak for f32. If a stage is f64, the peak is half of `f32_gflops`, since a
/// vector holds half as many elements. Narrower floats have the f32 peak on processors. If the
/// tensor cores of a GPU can multiply the inputs, the peak is `f32_gflops` times the ratio of the
/// tensor cores' rate to the rate of f32 multiply-adds, both from the machine description.
double peak_for(const dsl::Workload& workload, const Target& target, double f32_gflops);

/// Returns the record of a trial of `schedule`. The record has the kernel, its target and number of
/// threads, and the outcome in `reply`. `toolchain` is the builder's (BuildReply::toolchain), and
/// `peak_gflops` comes from peak_for(). The caller adds the host, the session and the time, and
/// seals the record.
db::Record trial_record(const dsl::Workload& workload, const Target& target, int threads,
                        std::string_view toolchain, std::string_view schedule,
                        const MeasureReply& reply, double peak_gflops);

}  // namespace tw::tuner
