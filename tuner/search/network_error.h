// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bound of the errors of a network's kernels. A kernel of the class `fast` may have an error of
// 2e-5, and in a network of a hundred convolutions such errors add up to ten times as much.

#include "base/target.h"
#include "db/record.h"
#include "dsl/workload.h"
#include "graph/graph.h"

namespace tw::tuner {

/// The bound of the root of the sum of the squares of the kernels' errors in a network. Independent
/// errors add up in this way.
inline constexpr double error_of_network = 5e-5;

/// The largest error that each of n kernels may have, relative to its largest element, so that the
/// root of the sum of the squares is at most error_of_network. n is the number of operators that
/// have an algorithm whose expected error is above 0 (schedules/space/algorithms.h), rounded up to
/// a power of 2, so that networks share predictions. Infinite where there are none. Thread-safe.
double most_error_of_kernels(const graph::Graph& graph, const Target& target);

/// True if a record of the workload has no larger error than `most_error`. True of the direct
/// algorithm, and where an output is narrower than f32: it is rounded far more when it is stored.
/// The accuracy class is the bound of these. Thread-safe.
bool is_exact_enough(const dsl::Workload& workload, const db::Record& record, double most_error);

}  // namespace tw::tuner
