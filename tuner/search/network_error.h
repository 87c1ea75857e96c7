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

/// The limit of the root of the sum of squares of the errors of a network's kernels. Independent
/// errors add up as this root does.
inline constexpr double error_of_network = 5e-5;

/// The largest error that each of n kernels may have, relative to the largest element of its
/// result, so that the root of the sum of squares is at most error_of_network. n is the number of
/// operators that have an algorithm with an expected error above 0 (schedules/space/algorithms.h),
/// rounded up to a power of 2 so that networks share predictions. Infinite if there is no such
/// operator. Thread-safe.
double most_error_of_kernels(const graph::Graph& graph, const Target& target);

/// True if the error of the record is at most `most_error`. Always true for the direct algorithm
/// and for outputs narrower than f32, whose error is mostly the rounding when they are stored:
/// their accuracy class is the limit. Thread-safe.
bool is_exact_enough(const dsl::Workload& workload, const db::Record& record, double most_error);

}  // namespace tw::tuner
