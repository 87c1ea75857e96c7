// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds calls of a script that can run side by side, such as the branches of an Inception module,
// the projections of queries, keys and values, or the two directions of an LSTM. Below, [a1 a2 | b1
// | c1] is a band with three chains of calls.
//
//   x ─┬─ a1 ─ a2 ─┬─ y        x a1 b1 a2 c1 y  →  x [a1 a2 | b1 | c1] y
//      ├─ b1 ──────┤
//      └─ c1 ──────┘
//
// A window of consecutive calls is split into chains. The chains share only data that all of them
// read and none of them writes. If the chains run side by side on t threads, the window takes at
// least the time of its longest chain, and at least 1/t of the sum of its times. For example,
// chains of 6, 4 and 2 us take at least max(6, 12 / 2) = 6 us on two threads, and so save at most 6
// us. The bands are the non-overlapping windows that save the most time by this bound, less the
// time for waking threads. Runs of the whole model later show if a band is really faster
// (step_threads.h), because a kernel of a chain runs on one thread, while a kernel outside of bands
// may use all threads.
//
// Pure; thread-safe.

#include "tuner/network/assemble.h"

namespace tw::tuner {

/// Adds bands to the script. The calls of a band are sorted by chain, and the chain with the
/// longest time comes first. All other calls keep their places. The time of a call is
/// ScriptCall::cost_ns. All calls of a loop stay in one chain. Requires: threads >= 2, and a script
/// without bands.
Script with_bands(Script script, int threads);

}  // namespace tw::tuner
