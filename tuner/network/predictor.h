// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predictions for the kernels of networks: for each of many workloads, which are mostly one compute
// in several layouts, the schedule that the analytic model prefers, and its time.
//
// Points of algorithms other than the direct one have several stages, those of Winograd's take five
// times as long to lower as direct ones, and few of them are good. Those stages depend little on
// the layouts of inputs and outputs, so that good points are looked for once a compute, with all
// arrays row-major. Predictions under other layouts begin with these, and look at changes of them.

#include <functional>
#include <limits>
#include <string>

#include "base/result.h"
#include "base/stop.h"
#include "base/target.h"
#include "dsl/workload.h"

namespace tw::tuner {

/// The number of schedules that a prediction compares. A network has some ten schemes for each
/// operator, of which a plan chooses one, so that all are predicted roughly, and those of the plan
/// in full. The full prediction compares the schedules of the rough one and more, and is never
/// slower.
enum class Precision { Rough, Full };

/// The schedule that the cost model prefers for a workload and its time in ns; nothing is measured.
/// Unsupported where no strategy of the target has the layouts that the workload asks for.
struct Predicted {
  std::string schedule;
  double analytic_ns = 0;  ///< time by which schedules and schemes are compared
  double hot_ns = 0;       ///< time with hot caches, for workloads in another state; 0 for hot ones
  double expected_ns = 0;  ///< time that is to be expected (cost_model/expected.h)
};
using Predict =
    std::function<Result<Predicted>(const dsl::Workload& workload, Precision precision)>;
/// Deterministic: what it predicts depends on the workload and the precision alone. Thread-safe;
/// copies share the points that they found. Algorithms of which larger errors than `most_error` are
/// to be expected are left out.
Predict predict_for(const Target& target, int threads, StopToken stop,
                    double most_error = std::numeric_limits<double>::infinity());

}  // namespace tw::tuner
