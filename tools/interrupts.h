// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts SIGINT, SIGTERM and SIGHUP, so that a long run can read the counter. The first signal asks
// the run to finish, the second to stop at once. If the process still runs three seconds after the
// second signal, it ends with exit code 130. That is safe: neither the database nor the workers
// depend on an orderly end of the process. A program that was started with SIGHUP ignored, as by
// nohup, goes on ignoring it.

#include <atomic>

namespace tw::tools {

/// Installs the signal handlers and returns the number of signals so far. The counter lives as long
/// as the process.
const std::atomic<int>& watch_interrupts();

/// A counter for work that should ignore the first signal and stop at once at the second. It stays
/// 0 at the first signal and grows by two with each later signal, because code that is interrupted
/// takes 1 as "finish" and 2 as "stop at once". Requires: watch_interrupts() was called.
const std::atomic<int>& later_interrupts();

/// The counter of watch_interrupts(), without installing handlers; 0 until they are installed.
const std::atomic<int>& interrupts_so_far();

}  // namespace tw::tools
