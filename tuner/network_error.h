// SPDX-License-Identifier: Apache-2.0
#pragma once
// How exact the kernels of a network have to be. A kernel of the class `fast` may have an error of
// 2e-5, and in a network of a hundred convolutions such errors add up to ten times as much.

#include "base/target.h"
#include "graph/graph.h"

namespace tw::tuner {

/// The error that those of all kernels together may have, as the root of the sum of their squares,
/// by which independent errors add up. What the output shows of it depends on the network: the
/// standing ones show it one to two times.
inline constexpr double error_of_network = 5e-5;

/// The largest error of a kernel, relative to its largest element, by which the operators that have
/// another algorithm than the direct one (schedules/algorithms.h) may have errors that add up to
/// error_of_network. Infinite where there are none. Their number counts as the next power of 2, so
/// that networks share predictions. Thread-safe.
double most_error_of_kernels(const graph::Graph& graph, const Target& target);

}  // namespace tw::tuner
