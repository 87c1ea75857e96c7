// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts SIGINT, SIGTERM and SIGHUP, so that a long run can read the counter. The first signal asks
// the run to finish, the second to stop at once. If the process still runs three seconds after the
// second signal, it ends with exit code 130. That is safe: neither the database nor the workers
// depend on an orderly end of the process. A program that was started with SIGHUP ignored, as by
// nohup, goes on ignoring it.

#include <atomic>

namespace tw::tools {

/// Installs the signal handlers and returns the counter of the signals that have arrived. The
/// counter lives as long as the process.
const std::atomic<int>& watch_interrupts();

/// Returns a counter for work that ignores the first signal and stops at once at the second. The
/// counter stays 0 at the first signal and grows by two with each later signal, because interrupted
/// code understands 1 as "finish" and 2 as "stop at once". Requires: watch_interrupts() was called.
const std::atomic<int>& later_interrupts();

/// Returns the counter of watch_interrupts() without installing signal handlers. It is 0 until
/// watch_interrupts() has installed them.
const std::atomic<int>& interrupts_so_far();

}  // namespace tw::tools
