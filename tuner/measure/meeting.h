// SPDX-License-Identifier: Apache-2.0
#pragma once
// Brings all threads of a pool into a running state before something is timed on them. Waking a
// sleeping thread takes the system 50 us or more in a virtual machine. The thread then still waits
// until another process on its core has used up its time slice. Until it runs, the calling thread
// also runs the tasks of the sleeping thread, so a kernel would be timed on fewer threads.

#include <cstdint>

#include "runtime/thread_pool.h"
#include "tuner/processes/clock.h"

namespace tw::tuner {

/// Usual time limit of gather(): a few time slices of the scheduler. A thread that shares its core
/// with one other process waits 3 or 4 ms for its next slice.
inline constexpr int64_t usual_patience_ns = 20'000'000;

/// Returns as soon as `threads` threads of the pool run at the same time, and the calling thread
/// shares its core with none of them or may use no free core; at the latest after `patience_ns`.
/// `clock` is called only by the calling thread.
void gather(runtime::ThreadPool& pool, int threads, const Clock& clock,
            int64_t patience_ns = usual_patience_ns);

}  // namespace tw::tuner
