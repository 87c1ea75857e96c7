// SPDX-License-Identifier: Apache-2.0
#pragma once
// The working set of a network is the memory that every inference touches. Its size decides which
// level of the caches holds data that were not written just before, and so the state of the caches
// for which kernels are predicted and timed (dsl/cache_state.h). Pure functions; thread-safe.

#include <cstdint>
#include <vector>

#include "base/machine.h"
#include "dsl/cache_state.h"
#include "graph/graph.h"

namespace tw::tuner {

/// Bytes of all constants, plus the largest total of activations that are alive at the same time.
/// An activation is alive from the operator that writes it to the last operator that reads it; an
/// input of the graph from the beginning, and an output to the end.
int64_t working_set_bytes(const graph::Graph& graph);

/// The state of the caches in which operators run when inferences follow each other: the state of
/// the smallest cache of which the working set fills at most half. Hot if that is the L2 of one
/// core, and on GPUs.
dsl::CacheState state_of(const graph::Graph& graph, const Machine& machine);

/// The state of the caches in which the operators of each loop run. A trip finds in the caches what
/// the previous trip left there, which is everything that the body reads and writes.
std::vector<dsl::CacheState> states_of_loops(const graph::Graph& graph, const Machine& machine);

}  // namespace tw::tuner
