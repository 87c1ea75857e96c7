// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts SIGINT, SIGTERM and SIGHUP, so that a long run can read the counter. The first signal asks
// the run to finish, the second to stop at once. If the process still runs three seconds after the
// second signal, it ends with exit code 130, which database and workers survive as they survive a
// kill.

#include <atomic>

namespace tw::tools {

/// Installs the signal handlers and returns the number of signals so far. The counter lives as long
/// as the process.
const std::atomic<int>& watch_interrupts();

/// A counter that grows by two with each signal after the first. It is for work that ignores the
/// first signal and stops at once at the second. Requires: watch_interrupts() was called.
const std::atomic<int>& later_interrupts();

/// The counter of watch_interrupts(), without installing handlers; 0 until they are installed.
const std::atomic<int>& interrupts_so_far();

}  // namespace tw::tools
