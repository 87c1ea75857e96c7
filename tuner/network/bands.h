// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds calls of a script that can run side by side: branches of an Inception module, the
// projections of queries, keys and values, the two directions of an LSTM.
//
//   x ─┬─ a1 ─ a2 ─┬─ y        x a1 b1 a2 c1 y  →  x [a1 a2 | b1 | c1] y
//      ├─ b1 ──────┤
//      └─ c1 ──────┘
//
// A window of consecutive calls falls apart into chains, which share no data but what they all only
// read. Side by side on t threads the chains of a window take at least the time of the longest
// chain, and 1/t of the sum of all. The bands are the windows, apart from each other, that save the
// most time by this bound. Whether a band is really faster is measured later (step_threads.h): a
// kernel of a chain runs on one thread, while in order it may use all of them.
//
// Pure; thread-safe.

#include "tuner/network/assemble.h"

namespace tw::tuner {

/// The script with Script::bands, whose calls it brings into the order of their chains, the longest
/// chain first. The times are ScriptCall::cost_ns. Other calls keep their places. A loop is in one
/// chain as a whole. Requires: threads >= 2, a script without bands.
Script with_bands(Script script, int threads);

}  // namespace tw::tuner
