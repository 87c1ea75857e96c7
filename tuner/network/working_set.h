// SPDX-License-Identifier: Apache-2.0
#pragma once
// The working set of a network: the memory that every inference touches. It decides in which level
// of the caches a kernel finds data that were not just written, and so in which state of the caches
// kernels are predicted and timed (dsl/cache_state.h). Pure functions; thread-safe.

#include <cstdint>
#include <vector>

#include "base/machine.h"
#include "dsl/cache_state.h"
#include "graph/graph.h"

namespace tw::tuner {

/// Bytes of all constants, and of the activations that are alive at the same time where these are
/// the most: an activation is alive from the operator that writes it to the last one that reads it,
/// an input of the graph from the beginning, an output to the end.
int64_t working_set_bytes(const graph::Graph& graph);

/// The state of the caches in which inferences that follow each other run the operators: that of
/// the smallest cache of which the working set fills at most half. Hot where that is the L2 of one
/// core, and on GPUs.
dsl::CacheState state_of(const graph::Graph& graph, const Machine& machine);

/// The state of the caches in which the operators of each loop run: a trip finds in the caches what
/// the trip before left there, which is all that the body reads and writes.
std::vector<dsl::CacheState> states_of_loops(const graph::Graph& graph, const Machine& machine);

}  // namespace tw::tuner
