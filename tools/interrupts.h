// SPDX-License-Identifier: Apache-2.0
#pragma once
// SIGINT, SIGTERM and SIGHUP as a counter that a long run looks at. The first one asks it to
// finish; the second to stop at once, and if it has not within three seconds, the process ends with
// exit code 130. The database and the workers survive that as they survive a kill.

#include <atomic>

namespace tw::tools {

/// Installs the handlers, once; the counter lives as long as the process.
const std::atomic<int>& watch_interrupts();

/// The interrupts after the first one, each of which counts as two: for work that the first one
/// shall not stop, and the second one at once. Requires: watch_interrupts() was called.
const std::atomic<int>& later_interrupts();

/// The same count as that of watch_interrupts(), whether watched or not yet.
const std::atomic<int>& interrupts_so_far();

}  // namespace tw::tools
