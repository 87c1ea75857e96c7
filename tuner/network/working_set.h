// SPDX-License-Identifier: Apache-2.0
#pragma once
// The working set of a network is the memory that every inference touches. If it fits into a cache,
// an inference finds the data there that the previous inference left. So the size of the working
// set decides for which state of the caches (dsl/cache_state.h) kernels are predicted and timed.
// Pure functions; thread-safe.

#include <cstdint>
#include <vector>

#include "base/machine.h"
#include "dsl/cache_state.h"
#include "graph/graph.h"

namespace tw::tuner {

/// Returns the bytes of all constants, plus the largest total of activations that are alive at the
/// same time. An activation is alive from the operator that writes it to the last operator that
/// reads it, or as long as the loop runs whose body it enters or leaves. An input of the graph is
/// alive from the beginning, and an output to the end.
int64_t working_set_bytes(const graph::Graph& graph);

/// Returns the state of the caches in which operators run if inferences follow each other. It is
/// Hot on GPUs, and if the working set fills at most half of the L2 of one core. Otherwise it is
/// NetworkL3 if the working set fills at most half of L3, else NetworkMemory. For example, a
/// working set of 19 MiB on a processor with 32 MiB of L3 gives NetworkMemory.
dsl::CacheState state_of(const graph::Graph& graph, const Machine& machine);

/// Returns for each loop of the graph the state of the caches in which its operators run. A trip
/// finds the data in the caches that the previous trip left. So the rule of state_of() is applied
/// to the bytes that the body of the loop reads and writes.
std::vector<dsl::CacheState> states_of_loops(const graph::Graph& graph, const Machine& machine);

}  // namespace tw::tuner
