// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predicts the kernels of a network. For each workload, the predictor finds the schedule that the
// analytic model prefers, and the time of this schedule. A network has many workloads, but few
// distinct computes: most workloads differ only in their layouts.
//
// An algorithm such as Winograd's computes a convolution in several stages. Lowering a point of
// such an algorithm takes five times as long as lowering a point of the direct algorithm, and few
// points are good. But the layouts of inputs and outputs have little influence on which points are
// good. So good points are searched for once for each compute, with all arrays row-major.
// Predictions for other layouts start from these points and try changes of them.

#include <functional>
#include <limits>
#include <string>

#include "base/result.h"
#include "base/stop.h"
#include "base/target.h"
#include "dsl/workload.h"

namespace tw::tuner {

/// Says how many schedules a prediction compares. A network has about ten schemes for each
/// operator, and a plan uses one of them. So all schemes are predicted roughly, and only the
/// schemes of the plan are predicted in full. A full prediction compares all schedules of the rough
/// prediction and more. So the schedule that it finds is, by the model, never slower than that of
/// the rough prediction.
enum class Precision { Rough, Full };

/// The schedule (tw1 text) that the cost model prefers for a workload, and its predicted times in
/// ns. Nothing is measured.
struct Predicted {
  std::string schedule;
  double analytic_ns = 0;  ///< time by which schedules and schemes are compared
  /// Analytic time with hot caches, if the workload asks for another state of the caches; otherwise
  /// 0.
  double hot_ns = 0;
  double expected_ns = 0;  ///< expected time (cost_model/expected.h)
};
using Predict =
    std::function<Result<Predicted>(const dsl::Workload& workload, Precision precision)>;
/// Makes a function that predicts workloads for the target. Algorithms with an expected error above
/// `most_error` are left out. The function is deterministic: its answer depends only on the
/// workload and the precision. It is thread-safe, and copies of it share the good points of a
/// compute. The function that is made fails with Unsupported if no strategy of the target supports
/// the layouts that the workload asks for, and with Interrupted if `stop` stopped it.
Predict predict_for(const Target& target, int threads, StopToken stop,
                    double most_error = std::numeric_limits<double>::infinity());

}  // namespace tw::tuner
