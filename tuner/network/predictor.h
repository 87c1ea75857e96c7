// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predicts the kernels of networks: for each of many workloads, most of them a few computes in
// several layouts, the schedule that the analytic model prefers, and its time.
//
// Points of other algorithms than the direct one have several stages. Those of Winograd's algorithm
// take five times as long to lower as direct ones, and few of them are good. These stages depend
// little on the layouts of inputs and outputs. So good points are searched for once for each
// compute, with all arrays row-major; predictions for other layouts start from these points and try
// changes of them.

#include <functional>
#include <limits>
#include <string>

#include "base/result.h"
#include "base/stop.h"
#include "base/target.h"
#include "dsl/workload.h"

namespace tw::tuner {

/// The number of schedules that a prediction compares. A network has about ten schemes for each
/// operator, of which a plan uses one. So all schemes are predicted roughly, and only those of the
/// plan in full. A full prediction compares all schedules of the rough one and more, so its
/// schedule is never slower.
enum class Precision { Rough, Full };

/// The schedule that the cost model prefers for a workload, and its times in ns. Nothing is
/// measured. Unsupported if no strategy of the target has the layouts that the workload asks for.
struct Predicted {
  std::string schedule;
  double analytic_ns = 0;  ///< time by which schedules and schemes are compared
  double hot_ns = 0;       ///< time with hot caches if the workload asks for another state; else 0
  double expected_ns = 0;  ///< expected time (cost_model/expected.h)
};
using Predict =
    std::function<Result<Predicted>(const dsl::Workload& workload, Precision precision)>;
/// Makes a Predict for the target. It is deterministic: its answer depends only on the workload and
/// the precision. Thread-safe; copies share the points that they found. Algorithms with an expected
/// error above `most_error` are left out.
Predict predict_for(const Target& target, int threads, StopToken stop,
                    double most_error = std::numeric_limits<double>::infinity());

}  // namespace tw::tuner
