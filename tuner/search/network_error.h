// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds the errors of the kernels of a network. A kernel of the accuracy class `fast` may have an
// error of 2e-5, and in a network of a hundred convolutions such errors add up to ten times as
// much.

#include "base/target.h"
#include "db/record.h"
#include "dsl/workload.h"
#include "graph/graph.h"

namespace tw::tuner {

/// Limit of the error of a network. This error is estimated as the square root of the sum of the
/// squares of its kernels' errors, because independent errors add up to about this root.
inline constexpr double error_of_network = 5e-5;

/// Returns the largest error that each kernel of a network may have, relative to the largest
/// element of its result: error_of_network / sqrt(n). n is the number of operators of the class
/// `fast` that have an algorithm with an expected error above 0 (schedules/space/algorithms.h). n
/// is rounded up to a power of 2, so that networks of similar size share predictions: for 100 such
/// operators n is 128, and the result is 4.4e-6. Infinite if there is no such operator.
/// Thread-safe.
double most_error_of_kernels(const graph::Graph& graph, const Target& target);

/// True if the error of the record is at most `most_error`. Always true if the schedule has the
/// direct algorithm, or if an output is narrower than f32: the error of a narrow output is mostly
/// its rounding when it is stored. Thread-safe.
bool is_exact_enough(const dsl::Workload& workload, const db::Record& record, double most_error);

}  // namespace tw::tuner
