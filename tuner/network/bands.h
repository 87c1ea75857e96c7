// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds calls of a script that can run side by side: branches of an Inception module, the
// projections of queries, keys and values, the two directions of an LSTM.
//
//   x ─┬─ a1 ─ a2 ─┬─ y        x a1 b1 a2 c1 y  →  x [a1 a2 | b1 | c1] y
//      ├─ b1 ──────┤
//      └─ c1 ──────┘
//
// A window of consecutive calls is split into chains, which share only data that all of them read
// and none writes. Side by side on t threads, a window takes at least the time of its longest
// chain, and at least 1/t of the sum of its times. The bands are those non-overlapping windows that
// save the most time by this bound. Whole calls later show if a band is really faster
// (step_threads.h): a kernel of a chain runs on one thread, while in order it may use all of them.
//
// Pure; thread-safe.

#include "tuner/network/assemble.h"

namespace tw::tuner {

/// Adds bands to the script. The calls of a band are put into the order of their chains, the
/// longest chain first; all other calls keep their places. Times are ScriptCall::cost_ns. A loop
/// belongs to one chain as a whole. Requires: threads >= 2, and a script without bands.
Script with_bands(Script script, int threads);

}  // namespace tw::tuner
