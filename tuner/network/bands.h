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
// A window of consecutive calls is split into chains. A call that depends on another call of the
// window is in the same chain, so the chains share only data that they all read and none of them
// writes. If the chains run side by side on t threads, the window takes at least the time of its
// longest chain, and at least 1/t of the sum of its times. For example, chains of 6, 4 and 2 us
// take at least max(6, 12 / 2) = 6 us on two threads, and so save at most 6 us. Each window is
// rated by the most time that it can save by this bound, minus the time for waking threads. The
// bands are those windows that do not overlap and together save the most. A kernel in a chain runs
// on one thread, while a kernel outside of bands may use all threads. So a band can also be slower,
// and runs of the whole model later show if it is faster (step_threads.h).
//
// Pure; thread-safe.

#include "tuner/network/assemble.h"

namespace tw::tuner {

/// Finds the bands of the script, and adds them to it. The calls of a band are sorted by chain, and
/// the chain with the longest time comes first. All other calls keep their places. The time of a
/// call is ScriptCall::cost_ns. All calls of a loop stay in one chain. Requires: threads >= 2, and
/// a script without bands.
Script with_bands(Script script, int threads);

}  // namespace tw::tuner
